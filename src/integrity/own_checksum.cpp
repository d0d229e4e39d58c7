#include "integrity/own_checksum.hpp"

#include <algorithm>
#include <htensor/base/fault.hpp>
#include <htensor/hash/crc64.hpp>
#include <htensor/integrity/seal.hpp>

#include "format/ht/ht.hpp"
#include "integrity/measure.hpp"

namespace ht::inline v1 {
namespace {

// A sum over all processors.
Result<std::uint64_t> crc_of(const io::Mapped& file, std::uint64_t offset, std::uint64_t bytes,
                             const WorkOptions& work) {
  std::vector<io::FileRange> ranges;
  for (std::uint64_t done = 0; done < bytes; done += Seal::chunk_bytes) {
    ranges.push_back({0, offset + done, std::min(Seal::chunk_bytes, bytes - done)});
  }
  const io::Mapped* const files[] = {&file};
  const auto digests = HT_TRY(measure({.files = files}, ranges, work));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    sum = crc64nvme_combine(sum, digests[i].crc64nvme(), ranges[i].bytes);
  }
  return sum;
}

}  // namespace

Result<std::optional<OwnChecksum>> own_checksum(const io::File& file) {
  if (file.stat().bytes < format_ht::header_bytes) return std::nullopt;
  std::array<std::byte, format_ht::header_bytes> header{};
  HT_TRY(file.read(0, header));
  if (!format_ht::looks_like(header, file.stat().bytes)) return std::nullopt;
  auto decoded = format_ht::decode(header);
  if (!decoded) return fail(std::move(decoded).error().at_path(file.path().native()));
  if (!decoded->payload_crc) return std::nullopt;
  return OwnChecksum{decoded->data_offset, decoded->data_bytes, *decoded->payload_crc};
}

Result<Verification> verify_own(const io::Mapped& file, const OwnChecksum& own,
                                const VerifyOptions& options) {
  Verification found;
  const auto bad = [&](Verdict verdict, FilePart part, std::uint64_t offset, std::uint64_t bytes) {
    found.verdict = verdict;
    found.bad.push_back({.file = file.path(),
                         .part = part,
                         .tensor = part == FilePart::tensor ? file.path().stem().string() : std::string(),
                         .offset = offset,
                         .bytes = bytes});
  };
  const std::uint64_t there = file.bytes().size();
  const std::uint64_t end = own.offset + own.bytes;
  if (there < end) {
    bad(Verdict::truncated, FilePart::tensor, std::max(there, own.offset), end - std::max(there, own.offset));
    return found;
  }
  found.checked_bytes = own.offset;
  // What lies between header and data is written as zero.
  const std::uint64_t gap = own.offset - format_ht::header_bytes;
  const Bytes between = HT_TRY(file.range(format_ht::header_bytes, gap));
  const bool is_zero = HT_TRY(guarded(between, [&] {
    return std::ranges::all_of(between, [](std::byte byte) { return byte == std::byte{0}; });
  }));
  if (!is_zero) bad(Verdict::damaged, FilePart::gap, format_ht::header_bytes, gap);
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
