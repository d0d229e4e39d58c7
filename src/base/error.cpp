#include <htensor/base/error.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace ht::inline v1 {
namespace {

struct CodeFacts {
  ErrorCode code;
  std::string_view name;
  std::string_view sentence;
};

constexpr std::size_t longest_text = 2000;

// A file chooses its names, and one of megabytes in an error helps nobody. Cut where a character begins.
std::string shortened(std::string_view text) {
  if (text.size() <= longest_text) return std::string(text);
  std::size_t end = longest_text;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

constexpr std::array<CodeFacts, error_code_count> code_facts{{
    {ErrorCode::open_failed, "open_failed", "The file could not be opened."},
    {ErrorCode::read_failed, "read_failed", "Bytes of the file could not be read."},
    {ErrorCode::map_failed, "map_failed", "The file could not be mapped into memory."},
    {ErrorCode::unmap_failed, "unmap_failed", "A mapping could not be given back; it still stands."},
    {ErrorCode::write_failed, "write_failed", "The file could not be written and brought to the disk."},
    {ErrorCode::no_space, "no_space", "There is no room left to write the file."},
    {ErrorCode::already_exists, "already_exists", "The target is already there and was not to be replaced."},
    {ErrorCode::not_regular_file, "not_regular_file", "The path names something that is no regular file."},
    {ErrorCode::changed_underfoot, "changed_underfoot",
     "The file was changed by somebody while it was in use."},
    {ErrorCode::truncated, "truncated", "The file ends before its contents do."},
    {ErrorCode::bad_magic, "bad_magic", "The file is of no format that is known here."},
    {ErrorCode::bad_version, "bad_version", "The file's format version is not one that is known here."},
    {ErrorCode::bad_header, "bad_header", "A field of the file's header breaks the format's rules."},
    {ErrorCode::header_too_large, "header_too_large", "The file's header is larger than the limit allows."},
    {ErrorCode::bad_utf8, "bad_utf8", "A text in the file is not valid UTF-8."},
    {ErrorCode::duplicate_key, "duplicate_key", "A key stands in the file more than once."},
    {ErrorCode::duplicate_tensor, "duplicate_tensor", "Two tensors have the same name."},
    {ErrorCode::bad_name, "bad_name", "A tensor's name is not allowed by the format."},
    {ErrorCode::bad_dtype, "bad_dtype", "The element type is not one that is known here."},
    {ErrorCode::unsupported_encoding, "unsupported_encoding",
     "The block encoding is known but cannot be used for this."},
    {ErrorCode::bad_shape, "bad_shape", "A shape breaks the rules."},
    {ErrorCode::size_overflow, "size_overflow", "A size is too large to be counted."},
    {ErrorCode::size_mismatch, "size_mismatch", "Two statements about a size contradict each other."},
    {ErrorCode::bad_offset, "bad_offset", "An offset points where no data can be."},
    {ErrorCode::overlap, "overlap", "Two tensors claim the same bytes."},
    {ErrorCode::gap, "gap", "Bytes between tensors belong to none."},
    {ErrorCode::misaligned, "misaligned", "Data does not start at a multiple of what it needs."},
    {ErrorCode::trailing_bytes, "trailing_bytes", "The file goes on after its contents end."},
    {ErrorCode::missing_shard, "missing_shard", "A file that belongs to the model is not there."},
    {ErrorCode::stale_index, "stale_index", "The index and the files that it lists disagree."},
    {ErrorCode::path_escapes, "path_escapes", "A path in the file leads out of its folder."},
    {ErrorCode::not_found, "not_found", "There is nothing of that name."},
    {ErrorCode::dtype_mismatch, "dtype_mismatch",
     "The tensor's element type is not the one that was asked for."},
    {ErrorCode::shape_mismatch, "shape_mismatch", "Shapes that have to agree do not."},
    {ErrorCode::out_of_bounds, "out_of_bounds", "An index or a range lies outside."},
    {ErrorCode::checksum_mismatch, "checksum_mismatch",
     "Bytes are not the ones that were written: the checksum differs."},
    {ErrorCode::not_sealed, "not_sealed", "There is no seal to check against."},
    {ErrorCode::bad_seal, "bad_seal", "The seal itself is damaged or belongs to another file."},
    {ErrorCode::would_lose, "would_lose", "The step would lose something and was not told that it may."},
    {ErrorCode::in_use, "in_use", "Somebody still holds what was to be given up."},
    {ErrorCode::stale_handle, "stale_handle", "The handle belongs to something that is gone."},
    {ErrorCode::bad_state, "bad_state", "The step is not allowed in this state."},
    {ErrorCode::budget_too_small, "budget_too_small",
     "The memory budget does not hold even the smallest step."},
    {ErrorCode::out_of_memory, "out_of_memory", "Memory could not be had."},
    {ErrorCode::unsupported_platform, "unsupported_platform", "This platform lacks what the step needs."},
    {ErrorCode::unsupported_strategy, "unsupported_strategy",
     "The loading strategy that was asked for cannot be used here."},
    {ErrorCode::device_unavailable, "device_unavailable",
     "The device, or the library that drives it, is not there."},
    {ErrorCode::cancelled, "cancelled", "The step was stopped on request."},
    {ErrorCode::internal, "internal", "The library contradicts itself; please report it."},
}};

consteval bool each_code_has_its_row() {
  for (std::size_t i = 0; i < code_facts.size(); ++i) {
    if (code_facts[i].code != static_cast<ErrorCode>(i)) return false;
  }
  return true;
}
static_assert(each_code_has_its_row());

const CodeFacts& facts_of(ErrorCode code) noexcept {
  const auto index = static_cast<std::size_t>(code);
  return code_facts[index < code_facts.size() ? index : error_code_count - 1];
}

}  // namespace

struct Error::Details {
  std::string_view rule;
  std::string message;
  std::string hint;
  std::string path;
  std::string tensor;
  std::optional<std::uint64_t> offset;
  std::error_code cause;
  SourceLine where;
};

void Error::DeleteDetails::operator()(Details* details) const noexcept { delete details; }

std::string_view to_string(ErrorCode code) noexcept { return facts_of(code).name; }

std::string_view describe(ErrorCode code) noexcept { return facts_of(code).sentence; }

std::optional<ErrorCode> error_code_named(std::string_view name) noexcept {
  const auto* found = std::ranges::find(code_facts, name, &CodeFacts::name);
  if (found == code_facts.end()) return std::nullopt;
  return found->code;
}

template <class Change>
void Error::change(Change change) noexcept {
  try {
    if (!details_) details_.reset(new Details{});
    change(*details_);
  } catch (const std::bad_alloc&) {
    // The code is what matters, and it is there.
    return;
  }
}

Error::Error(ErrorCode code, std::string_view rule, std::string message, SourceLine where) noexcept
    : code_(code) {
  change([&](Details& details) {
    details.rule = rule;
    details.message = message.size() > longest_text ? shortened(message) : std::move(message);
    details.where = where;
  });
}

Error::Error(const Error& other) noexcept : code_(other.code_) {
  if (other.details_) change([&](Details& details) { details = *other.details_; });
}

Error& Error::operator=(const Error& other) noexcept {
  if (this != &other) *this = Error(other);
  return *this;
}

std::string_view Error::rule() const noexcept {
  return details_ && !details_->rule.empty() ? details_->rule : to_string(code_);
}

std::string_view Error::message() const noexcept {
  return details_ && !details_->message.empty() ? std::string_view(details_->message) : describe(code_);
}

std::string_view Error::hint() const noexcept {
  return details_ ? std::string_view(details_->hint) : std::string_view();
}

std::string_view Error::path() const noexcept {
  return details_ ? std::string_view(details_->path) : std::string_view();
}

std::string_view Error::tensor() const noexcept {
  return details_ ? std::string_view(details_->tensor) : std::string_view();
}

std::optional<std::uint64_t> Error::offset() const noexcept {
  return details_ ? details_->offset : std::nullopt;
}

std::error_code Error::cause() const noexcept { return details_ ? details_->cause : std::error_code(); }

SourceLine Error::where() const noexcept { return details_ ? details_->where : SourceLine(); }

Error&& Error::with_hint(std::string_view hint) && noexcept {
  change([&](Details& details) { details.hint = hint; });
  return std::move(*this);
}

Error&& Error::at_path(std::string_view path) && noexcept {
  change([&](Details& details) { details.path = path; });
  return std::move(*this);
}

Error&& Error::at_tensor(std::string_view tensor) && noexcept {
  change([&](Details& details) { details.tensor = shortened(tensor); });
  return std::move(*this);
}

Error&& Error::at_offset(std::uint64_t offset) && noexcept {
  change([&](Details& details) { details.offset = offset; });
  return std::move(*this);
}

Error&& Error::because(std::error_code cause) && noexcept {
  change([&](Details& details) { details.cause = cause; });
  return std::move(*this);
}

std::string to_string(const Error& error) {
  std::string line;
  if (!error.path().empty()) line.append(error.path()).append(": ");
  line.append(error.message()).append(" [").append(to_string(error.code())).append("]");
  return line;
}

}  // namespace ht::inline v1
