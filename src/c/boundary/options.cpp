#include "c/boundary/options.hpp"

#include <chrono>
#include <htensor/dtype/relations.hpp>
#include <new>
#include <string>
#include <vector>

#include "c/boundary/boundary.hpp"

namespace ht::c {
namespace {

Result<std::vector<std::string>> patterns(const char* const* texts, std::size_t count,
                                          std::string_view name) {
  HT_TRY(require(count == 0 || texts != nullptr, name));
  std::vector<std::string> copies;
  copies.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    HT_TRY(require(texts[i] != nullptr, name));
    copies.emplace_back(texts[i]);
  }
  return copies;
}

}  // namespace

Result<OpenOptions> open_options(const ht_open_options* given) {
  const auto read = HT_TRY(read_struct(given, "options"));
  HT_TRY(check_choice(read.faults, HT_FAULTS_ZERO_FILL, "faults"));
  OpenOptions options;
  options.faults = static_cast<FaultPolicy>(read.faults);
  options.allow_incomplete = read.allow_incomplete != 0;
  options.catalog_only = read.catalog_only != 0;
  options.max_header_bytes = read.max_header_bytes;
  return options;
}

Result<NameFilter> name_filter(const ht_filter* given) {
  if (given == nullptr) return NameFilter();
  const auto read = HT_TRY(read_struct(given, "filter"));
  auto include = HT_TRY(patterns(read.include, read.include_count, "include"));
  auto exclude = HT_TRY(patterns(read.exclude, read.exclude_count, "exclude"));
  NameFilter filter(std::move(include), std::move(exclude));
  HT_TRY(filter.check());
  return filter;
}

Result<Rounding> rounding(ht_rounding mode, int saturate, std::uint64_t seed) {
  HT_TRY(check_choice(mode, HT_ROUND_STOCHASTIC, "rounding"));
  Rounding rounding{.saturate = saturate != 0, .seed = seed};
  if (mode != HT_ROUND_NONE) rounding.mode = static_cast<Rounding::Mode>(mode - 1);
  return rounding;
}

ElementType element_type(DTypeTag dtype, EncodingTag encoding) noexcept {
  if (encoding != EncodingTag::dense) {
    const auto found = find_encoding(encoding);
    return found ? detail::element_type_of(*found) : ElementType{};
  }
  if (const auto found = find_dtype(dtype))
    return {.dtype = found->tag, .name = found->name, .bits = found->bits};
  return {};
}

ElementType element_type(ht_type type) noexcept {
  const auto number = static_cast<unsigned>(type);
  if (number > 511) return {};
  if (number >= 256) return element_type(DTypeTag::invalid, static_cast<EncodingTag>(number - 256));
  return element_type(static_cast<DTypeTag>(number), EncodingTag::dense);
}

Result<ElementType> known_type(ht_type type, std::string_view name) {
  const auto found = element_type(type);
  if (found.is_known()) return found;
  return fail(
      Error(ErrorCode::bad_dtype, "type_is_known",
            "'" + std::string(name) + "' is the unknown type " + std::to_string(static_cast<unsigned>(type)))
          .with_hint("use a value of ht_type"));
}

Result<DTypeTag> known_dtype(ht_type type, std::string_view name) {
  const auto found = HT_TRY(known_type(type, name));
  if (found.is_dense()) return found.dtype;
  return fail(Error(ErrorCode::bad_dtype, "type_to_read_is_a_dtype",
                    "'" + std::string(name) + "' is the block encoding " + std::string(found.name))
                  .with_hint("use a dense dtype, such as HT_F32"));
}

Result<WorkOptions> Work::start(const ht_work* given) {
  given_ = HT_TRY(read_struct(given, "work"));
  WorkOptions options;
  if (given_.cancel != nullptr) options.stop = given_.cancel->stop.get_token();
  if (given_.progress == nullptr) return options;
  // The call has its own stop source, because its callback cancels this call only. A request to the caller's
  // `cancel` object is forwarded to it.
  stop_.emplace();
  if (given_.cancel != nullptr) forwarder_.emplace(options.stop, StopForwarder{&*stop_});
  options.stop = stop_->get_token();
  options.on_progress = [this](const Progress& progress) {
    const ht_progress report{.size = sizeof(ht_progress),
                             .done_bytes = progress.done_bytes,
                             .total_bytes = progress.total_bytes,
                             .seconds = std::chrono::duration<double>(progress.elapsed).count()};
    if (given_.progress(given_.context, &report) != 0) stop_->request_stop();
  };
  return options;
}

}  // namespace ht::c

// Names of types are string literals, which end with NUL.

const char* ht_type_name(ht_type type) {
  const auto name = ht::c::element_type(type).name;
  return name.empty() ? "" : name.data();
}

ht_type ht_type_from_name(const char* name) {
  if (name == nullptr) return HT_TYPE_UNKNOWN;
  if (const auto dtype = ht::find_dtype(std::string_view(name)))
    return ht::c::c_type(dtype->tag, ht::EncodingTag::dense);
  if (const auto encoding = ht::find_encoding(std::string_view(name)))
    return ht::c::c_type(ht::DTypeTag::invalid, encoding->tag);
  return HT_TYPE_UNKNOWN;
}

ht_cancel* ht_cancel_create(void) {
  try {
    return new ht_cancel();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void ht_cancel_request(ht_cancel* cancel) {
  if (cancel != nullptr) cancel->stop.request_stop();
}

void ht_cancel_free(ht_cancel* cancel) { delete cancel; }
