#include <htensor/base/result.hpp>

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

constexpr std::size_t max_text_size = 2000;

// Truncates the text at a character boundary. Names come from files and may have megabytes.
std::string shortened(std::string_view text) {
  if (text.size() <= max_text_size) return std::string(text);
  std::size_t end = max_text_size;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

constexpr std::array<CodeFacts, error_code_count> code_facts{{
    {ErrorCode::open_failed, "open_failed", "the file cannot be opened"},
    {ErrorCode::read_failed, "read_failed", "the file cannot be read"},
    {ErrorCode::map_failed, "map_failed", "the file cannot be mapped"},
    {ErrorCode::unmap_failed, "unmap_failed", "the mapping cannot be removed"},
    {ErrorCode::write_failed, "write_failed", "the file cannot be written"},
    {ErrorCode::no_space, "no_space", "no space left on the disk"},
    {ErrorCode::already_exists, "already_exists", "the target already exists"},
    {ErrorCode::not_regular_file, "not_regular_file", "the path is not a regular file"},
    {ErrorCode::changed_underfoot, "changed_underfoot", "the file changed while in use"},
    {ErrorCode::truncated, "truncated", "the file is truncated"},
    {ErrorCode::bad_magic, "bad_magic", "the file format is unknown"},
    {ErrorCode::bad_version, "bad_version", "the format version is not supported"},
    {ErrorCode::bad_header, "bad_header", "the header is malformed"},
    {ErrorCode::header_too_large, "header_too_large", "the header exceeds the limit"},
    {ErrorCode::bad_utf8, "bad_utf8", "a string is not valid UTF-8"},
    {ErrorCode::duplicate_key, "duplicate_key", "a key occurs twice"},
    {ErrorCode::duplicate_tensor, "duplicate_tensor", "a tensor name occurs twice"},
    {ErrorCode::bad_name, "bad_name", "the name is not allowed"},
    {ErrorCode::bad_dtype, "bad_dtype", "the dtype is unknown"},
    {ErrorCode::unsupported_encoding, "unsupported_encoding", "the encoding does not support this operation"},
    {ErrorCode::bad_shape, "bad_shape", "the shape is invalid"},
    {ErrorCode::size_overflow, "size_overflow", "a size is too large"},
    {ErrorCode::size_mismatch, "size_mismatch", "two sizes contradict each other"},
    {ErrorCode::bad_offset, "bad_offset", "an offset is outside the data"},
    {ErrorCode::overlap, "overlap", "two tensors overlap"},
    {ErrorCode::gap, "gap", "gap between two tensors"},
    {ErrorCode::misaligned, "misaligned", "the data is misaligned"},
    {ErrorCode::trailing_bytes, "trailing_bytes", "bytes follow the data"},
    {ErrorCode::missing_shard, "missing_shard", "a file of the model is missing"},
    {ErrorCode::stale_index, "stale_index", "the index and its files disagree"},
    {ErrorCode::path_escapes, "path_escapes", "a path leads out of its folder"},
    {ErrorCode::not_found, "not_found", "the name does not exist"},
    {ErrorCode::dtype_mismatch, "dtype_mismatch", "the dtype differs from the requested one"},
    {ErrorCode::shape_mismatch, "shape_mismatch", "the shapes differ"},
    {ErrorCode::out_of_bounds, "out_of_bounds", "an index or range is out of bounds"},
    {ErrorCode::checksum_mismatch, "checksum_mismatch", "checksum mismatch"},
    {ErrorCode::not_sealed, "not_sealed", "the model is not sealed"},
    {ErrorCode::bad_seal, "bad_seal", "the seal is damaged or belongs to another file"},
    {ErrorCode::would_lose, "would_lose", "the conversion would lose data or metadata"},
    {ErrorCode::in_use, "in_use", "the resource is still in use"},
    {ErrorCode::stale_handle, "stale_handle", "the handle is stale"},
    {ErrorCode::bad_state, "bad_state", "an argument is invalid, or the state does not allow the operation"},
    {ErrorCode::budget_too_small, "budget_too_small", "the memory budget is too small"},
    {ErrorCode::out_of_memory, "out_of_memory", "out of memory"},
    {ErrorCode::unsupported_platform, "unsupported_platform", "the platform does not support this operation"},
    {ErrorCode::unsupported_strategy, "unsupported_strategy",
     "the loading strategy does not support this operation"},
    {ErrorCode::device_unavailable, "device_unavailable", "the device or its driver is missing"},
    {ErrorCode::network_failed, "network_failed", "the network or its server failed"},
    {ErrorCode::access_denied, "access_denied", "the server denies access"},
    {ErrorCode::cancelled, "cancelled", "stopped on request"},
    {ErrorCode::internal, "internal", "internal error; please report it"},
}};

consteval bool facts_are_in_code_order() {
  for (std::size_t i = 0; i < code_facts.size(); ++i) {
    if (code_facts[i].code != static_cast<ErrorCode>(i + 1)) return false;
  }
  return true;
}
static_assert(facts_are_in_code_order());

const CodeFacts& facts_of(ErrorCode code) noexcept {
  const auto value = static_cast<std::size_t>(code);
  const bool is_known = value >= 1 && value <= error_code_count;
  return code_facts[(is_known ? value : error_code_count) - 1];
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

void Error::delete_details() noexcept { delete details_; }

std::string_view to_string(ErrorCode code) noexcept { return facts_of(code).name; }

std::string_view describe(ErrorCode code) noexcept { return facts_of(code).sentence; }

template <class Change>
void Error::change(Change change) noexcept {
  try {
    if (details_ == nullptr) details_ = new Details{};
    change(*details_);
  } catch (const std::bad_alloc&) {
    // Out of memory: the Error still has its code.
    return;
  }
}

Error::Error(ErrorCode code, std::string_view rule, std::string message, SourceLine where) noexcept
    : code_(code) {
  change([&](Details& details) {
    details.rule = rule;
    details.message = message.size() > max_text_size ? shortened(message) : std::move(message);
    details.where = where;
  });
}

Error::Error(const Error& other) noexcept : code_(other.code_) {
  if (other.details_ != nullptr) change([&](Details& details) { details = *other.details_; });
}

Error& Error::operator=(const Error& other) noexcept {
  if (this != &other) *this = Error(other);
  return *this;
}

Error& Error::operator=(Error&& other) noexcept {
  code_ = other.code_;
  delete std::exchange(details_, std::exchange(other.details_, nullptr));
  return *this;
}

std::string_view Error::rule() const noexcept {
  return details_ != nullptr && !details_->rule.empty() ? details_->rule : to_string(code_);
}

std::string_view Error::message() const noexcept {
  return details_ != nullptr && !details_->message.empty() ? std::string_view(details_->message)
                                                           : describe(code_);
}

std::string_view Error::hint() const noexcept {
  return details_ != nullptr ? std::string_view(details_->hint) : std::string_view();
}

std::string_view Error::path() const noexcept {
  return details_ != nullptr ? std::string_view(details_->path) : std::string_view();
}

std::string_view Error::tensor() const noexcept {
  return details_ != nullptr ? std::string_view(details_->tensor) : std::string_view();
}

std::optional<std::uint64_t> Error::offset() const noexcept {
  return details_ != nullptr ? details_->offset : std::nullopt;
}

std::error_code Error::cause() const noexcept {
  return details_ != nullptr ? details_->cause : std::error_code();
}

SourceLine Error::where() const noexcept { return details_ != nullptr ? details_->where : SourceLine(); }

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

Error&& Error::with_cause(std::error_code cause) && noexcept {
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
