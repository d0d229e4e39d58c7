#include "integrity/own_checksum.hpp"

#include <algorithm>
#include <array>
#include <htensor/hash/crc64.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/integrity/verify.hpp>

#include "base/format_text.hpp"
#include "format/sniff.hpp"
#include "integrity/measure.hpp"

namespace ht::inline v1 {
namespace {

// A sum over all processors.
Result<std::uint64_t> crc_of(io::MappedFile& file, std::uint64_t offset, std::uint64_t bytes,
                             const WorkOptions& work) {
  std::vector<io::FileRange> ranges;
  for (std::uint64_t done = 0; done < bytes; done += Seal::chunk_bytes) {
    ranges.push_back({0, offset + done, std::min(Seal::chunk_bytes, bytes - done)});
  }
  io::MappedFile* const files[] = {&file};
  const auto digests = HT_TRY(measure({.files = files}, ranges, work));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    sum = crc64nvme_combine(sum, digests[i].crc64nvme(), ranges[i].bytes);
  }
  return sum;
}

// The most bytes that are read between two polls of the stop token.
constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

// Whether a range that the format leaves as zeros is all zeros. A header may place the data anywhere, so the
// range may have any length.
Result<bool> is_zero(io::MappedFile& file, std::uint64_t offset, std::uint64_t bytes,
                     const std::stop_token& stop) {
  for (std::uint64_t done = 0; done < bytes;) {
    if (stop.stop_requested()) {
      return fail(Error(ErrorCode::cancelled, "work_is_not_stopped",
                        format_text("stopped: {} of {} bytes before the data checked", done, bytes))
                      .at_path(file.source().path().native()));
    }
    const std::uint64_t count = std::min(step_bytes, bytes - done);
    bool zero = false;
    HT_TRY(file.visit(offset + done, count, [&](Bytes piece) -> Result<void> {
      zero = std::ranges::all_of(piece, [](std::byte byte) { return byte == std::byte{0}; });
      return {};
    }));
    if (!zero) return false;
    done += count;
  }
  return true;
}

}  // namespace

Result<std::optional<OwnChecksum>> own_checksum(const io::Source& file, std::span<const Format> more) {
  std::array<std::byte, sniffed_bytes> buffer{};
  const auto prefix = MutableBytes(buffer).first(
      static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), sniffed_bytes)));
  HT_TRY(file.read(0, prefix));
  for (const auto list : {more, formats()}) {
    for (const auto& format : list) {
      if (format.own_checksum == nullptr || !format.looks_like(prefix, file.size())) continue;
      auto own = format.own_checksum(prefix);
      if (!own) return fail(std::move(own).error().at_path(file.path().native()));
      return own;
    }
  }
  return std::nullopt;
}

Result<Verification> verify_own(io::MappedFile& file, const OwnChecksum& own, const VerifyOptions& options) {
  Verification found{.verdict = options.quick ? Verdict::headers_match : Verdict::intact,
                     .checked_bytes = 0,
                     .bad = {},
                     .algorithm = HashAlgorithm::crc64nvme,
                     .seal = {}};
  const auto bad = [&](Verdict verdict, FilePart part, std::uint64_t offset, std::uint64_t bytes) {
    found.verdict = verdict;
    found.bad.push_back(
        {.file = file.source().path(),
         .part = part,
         .tensor = part == FilePart::tensor ? file.source().path().stem().string() : std::string(),
         .offset = offset,
         .bytes = bytes});
  };
  const std::uint64_t there = file.source().size();
  const std::uint64_t end = own.offset + own.bytes;
  if (there < end) {
    bad(Verdict::truncated, FilePart::tensor, std::max(there, own.offset), end - std::max(there, own.offset));
    return found;
  }
  found.checked_bytes = own.offset;
  const std::uint64_t gap = own.offset - own.header_bytes;
  if (!HT_TRY(is_zero(file, own.header_bytes, gap, options.work.stop)))
    bad(Verdict::damaged, FilePart::gap, own.header_bytes, gap);
  if (!options.quick) {
    found.checked_bytes += own.bytes;
    if (HT_TRY(crc_of(file, own.offset, own.bytes, options.work)) != own.crc) {
      bad(Verdict::damaged, FilePart::tensor, own.offset, own.bytes);
    }
  }
  if (there > end) bad(Verdict::grown, FilePart::tail, end, there - end);
  return found;
}

}  // namespace ht::inline v1
