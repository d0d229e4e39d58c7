#include <htensor/integrity/verify.hpp>

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

}  // namespace

std::string_view to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::intact: return "intact";
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
  if (bad.empty()) return fail(code_of(verdict), "bytes_are_as_sealed", "is not as it was sealed");
  const auto& first = bad.front();
  const std::string what = first.part == FilePart::tensor
                               ? format_text("in tensor '{}'", first.tensor)
                               : format_text("in what is its {}", to_string(first.part));
  const std::string more = bad.size() > 1 ? format_text(", and {} more", bad.size() - 1) : "";
  return fail(Error(code_of(verdict), "bytes_are_as_sealed",
                    format_text("is {}: {} bytes from byte {} on, {}, are not as they were sealed{}",
                                to_string(verdict), first.bytes, first.offset, what, more))
                  .at_path(first.file.native())
                  .at_tensor(first.tensor)
                  .at_offset(first.offset)
                  .with_hint("fetch the file again; `htensor verify` lists all that is bad"));
}

}  // namespace ht::inline v1
