#include <htensor/integrity/verify.hpp>

#include <algorithm>
#include <htensor/base/utf8.hpp>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

ErrorCode code_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::truncated: return ErrorCode::truncated;
    case Verdict::grown: return ErrorCode::trailing_bytes;
    case Verdict::missing: return ErrorCode::missing_shard;
    default: return ErrorCode::checksum_mismatch;
  }
}

std::string_view summary_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::grown: return "has bytes after its sealed end:";
    case Verdict::truncated: return "is shorter than its seal says: bytes missing";
    case Verdict::missing: return "does not exist: bytes missing";
    case Verdict::replaced: return "differs from its seal in every byte range: checksum mismatch";
    default: return "checksum mismatch";
  }
}

// "the header, bytes 0–79".
std::string range_text(const BadRange& range) {
  return format_text("{}, bytes {}–{}",
                     range.part == FilePart::tensor ? format_text("tensor '{}'", to_utf8(range.tensor))
                                                    : format_text("the {}", to_string(range.part)),
                     range.offset, range.offset + range.bytes - 1);
}

}  // namespace

std::string_view to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::intact: return "intact";
    case Verdict::headers_match: return "headers_match";
    case Verdict::damaged: return "damaged";
    case Verdict::grown: return "grown";
    case Verdict::truncated: return "truncated";
    case Verdict::replaced: return "replaced";
    case Verdict::missing: return "missing";
  }
  return "unknown";
}

std::string_view to_string(FilePart part) noexcept {
  switch (part) {
    case FilePart::header: return "header";
    case FilePart::tensor: return "tensor";
    case FilePart::gap: return "gap";
    case FilePart::tail: return "tail";
  }
  return "unknown";
}

Result<void> Verification::result() const {
  if (ok()) return {};
  if (bad.empty()) return fail(code_of(verdict), "bytes_are_as_sealed", "differs from its seal");
  constexpr std::size_t max_ranges = 10;
  std::string message(summary_of(verdict));
  for (std::size_t i = 0; i < std::min(bad.size(), max_ranges); ++i) {
    message += format_text("{} {}", i == 0 ? " in" : ",", range_text(bad[i]));
    if (bad[i].file != bad.front().file) message += format_text(" of '{}'", to_utf8(bad[i].file.string()));
  }
  if (bad.size() > max_ranges) message += format_text(" and {} more ranges", bad.size() - max_ranges);
  const auto& first = bad.front();
  return fail(Error(code_of(verdict), "bytes_are_as_sealed", std::move(message))
                  .at_path(first.file.native())
                  .at_tensor(first.tensor)
                  .at_offset(first.offset)
                  .with_hint("download the file again; `htensor verify` lists all bad ranges"));
}

}  // namespace ht::inline v1
