#include "c/boundary/boundary.hpp"

#include <htensor/base/work.hpp>

#include <array>
#include <exception>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>

// An error and its texts share one block of memory.
struct ht_error {  // NOLINT(readability-identifier-naming)
  ht_status code = HT_OK;
  int cause = 0;
  std::int64_t offset = -1;
  const char* rule = "";
  const char* message = "";
  const char* hint = "";
  const char* path = "";
  const char* tensor = "";
  const char* text = "";
};

namespace ht::c {
namespace {

// Static errors, indexed by code, for use when memory for an ht_error cannot be allocated.
constinit std::array<ht_error, error_code_count + 1> errors_without_texts = [] {
  std::array<ht_error, error_code_count + 1> errors{};
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i].code = static_cast<ht_status>(i);
  return errors;
}();

bool is_without_texts(const ht_error* error) noexcept {
  return std::less_equal<>()(errors_without_texts.data(), error) &&
         std::less<>()(error, errors_without_texts.data() + errors_without_texts.size());
}

// The fields of an ht_error, and the size of the block for the error and its texts.
struct ErrorParts {
  explicit ErrorParts(const Error& error)
      : code(static_cast<ht_status>(error.code())),
        cause(error.cause().value()),
        offset(error.offset() ? static_cast<std::int64_t>(*error.offset()) : -1),
        line(to_string(error)),
        texts{error.rule(), error.message(), error.hint(), error.path(), error.tensor(), line} {
    for (const auto text : texts) bytes += text.size() + 1;
  }
  ErrorParts(const ErrorParts&) = delete;
  ErrorParts& operator=(const ErrorParts&) = delete;

  ht_error* place_at(void* memory) const noexcept {
    auto* const error = ::new (memory) ht_error{.code = code, .cause = cause, .offset = offset};
    char* at = static_cast<char*>(memory) + sizeof(ht_error);
    const std::array members{&error->rule, &error->message, &error->hint,
                             &error->path, &error->tensor,  &error->text};
    for (std::size_t i = 0; i < members.size(); ++i) {
      *members[i] = at;
      at = std::ranges::copy(texts[i], at).out;
      *at++ = '\0';
    }
    return error;
  }

  ht_status code;
  int cause;
  std::int64_t offset;
  std::string line;
  std::array<std::string_view, 6> texts;
  std::size_t bytes = sizeof(ht_error);
};

// Returns an `internal` error with the message, or without it if memory for the message cannot be allocated.
Error internal_error(const char* message) noexcept {
  try {
    return {ErrorCode::internal, "", message};
  } catch (const std::exception&) {
    return Error(ErrorCode::internal);
  }
}

}  // namespace

ht_status report(const Error& error, ht_error** out) noexcept {
  const auto code = static_cast<ht_status>(error.code());
  if (out == nullptr) return code;
  try {
    const ErrorParts parts(error);
    *out = parts.place_at(::operator new(parts.bytes));
  } catch (const std::exception&) {
    *out = &errors_without_texts.at(static_cast<std::size_t>(code));
  }
  return code;
}

ht_status report_exception(ht_error** out) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return report(Error(ErrorCode::out_of_memory), out);
  } catch (const std::length_error&) {  // more than a container could ever hold
    return report(Error(ErrorCode::out_of_memory), out);
  } catch (const std::exception& exception) {
    return report(internal_error(exception.what()), out);
  } catch (...) {
    return report(Error(ErrorCode::internal), out);
  }
}

Result<void> require(bool is_given, std::string_view name) {
  if (is_given) return {};
  return fail(Error(ErrorCode::bad_state, "required_pointer_is_not_null",
                    "argument '" + std::string(name) + "' is NULL")
                  .with_hint("pass a valid pointer"));
}

Result<void> check_choice(int number, int max, std::string_view name) {
  if (number >= 0 && number <= max) return {};
  return fail(Error(ErrorCode::bad_state, "enumeration_value_is_known",
                    "'" + std::string(name) + "' has the unknown value " + std::to_string(number))
                  .with_hint("use a value of its enumeration, or a newer library"));
}

Result<void> check_position(std::size_t index, std::size_t size, std::string_view noun) {
  if (index < size) return {};
  return fail(Error(ErrorCode::out_of_bounds, "index_is_within_the_list",
                    "index " + std::to_string(index) + " is outside the list of " + std::to_string(size) +
                        " " + std::string(noun)));
}

Result<std::string_view> text_of(const char* data, std::size_t size, std::string_view name) {
  HT_TRY(require(data != nullptr, name));
  return text_of(ht_string{data, size});
}

Result<void> check_size(std::size_t size, std::size_t first, std::string_view name) {
  if (size >= first) return {};
  return fail(Error(ErrorCode::bad_state, "struct_states_its_size",
                    "'" + std::string(name) + "' states a size of " + std::to_string(size) +
                        " bytes but the minimum is " + std::to_string(first))
                  .with_hint("set its field 'size' to the sizeof of the struct"));
}

Result<void> check_later_fields(const void* given, std::size_t size, std::size_t known,
                                std::string_view name) {
  const auto* const bytes = static_cast<const unsigned char*>(given);
  for (std::size_t i = known; i < size; ++i) {
    if (bytes[i] == 0) continue;
    return fail(Error(ErrorCode::bad_state, "fields_of_later_versions_are_zero",
                      "'" + std::string(name) + "' sets a field at byte " + std::to_string(i) +
                          " that this version of the library does not have")
                    .with_hint("use a newer library, or leave the field 0"));
  }
  return {};
}

ht_string Memory::text(std::string_view text) {
  auto* const copy = array<char>(text.size() + 1);
  std::ranges::copy(text, copy);
  return {copy, text.size()};
}

const ht_error* Memory::error(const Error& error) {
  const ErrorParts parts(error);
  return parts.place_at(resource_.allocate(parts.bytes, alignof(ht_error)));
}

}  // namespace ht::c

using ht::ErrorCode;

// Names and descriptions of codes are string literals, which end with NUL.

const char* ht_status_name(ht_status status) {
  if (status == HT_OK) return "ok";
  if (status < 0 || static_cast<std::size_t>(status) > ht::error_code_count) return "unknown";
  return to_string(static_cast<ErrorCode>(status)).data();
}

ht_status ht_error_code(const ht_error* error) { return error == nullptr ? HT_OK : error->code; }
const char* ht_error_rule(const ht_error* error) { return error == nullptr ? "" : error->rule; }
const char* ht_error_message(const ht_error* error) {
  if (error == nullptr) return "";
  return *error->message != '\0' ? error->message : describe(static_cast<ErrorCode>(error->code)).data();
}
const char* ht_error_hint(const ht_error* error) { return error == nullptr ? "" : error->hint; }
const char* ht_error_path(const ht_error* error) { return error == nullptr ? "" : error->path; }
const char* ht_error_tensor(const ht_error* error) { return error == nullptr ? "" : error->tensor; }
int64_t ht_error_offset(const ht_error* error) { return error == nullptr ? -1 : error->offset; }
int ht_error_errno(const ht_error* error) { return error == nullptr ? 0 : error->cause; }
const char* ht_error_text(const ht_error* error) {
  if (error == nullptr) return "ok";
  return *error->text != '\0' ? error->text : ht_error_message(error);
}
void ht_error_free(ht_error* error) {
  if (error == nullptr || ht::c::is_without_texts(error)) return;
  ::operator delete(error);
}

void ht_result_free(const void* result) {
  if (result == nullptr) return;
  ht::c::ResultPrefix prefix;
  std::memcpy(&prefix, static_cast<const std::byte*>(result) - sizeof prefix, sizeof prefix);
  delete prefix.memory;
}

#define HT_TEXT_(x) #x
#define HT_TEXT(x) HT_TEXT_(x)
const char* ht_version(void) {
  return HT_TEXT(HT_VERSION_MAJOR) "." HT_TEXT(HT_VERSION_MINOR) "." HT_TEXT(HT_VERSION_PATCH);
}

const char* ht_cpu_features(void) { return ht::cpu_features().data(); }
