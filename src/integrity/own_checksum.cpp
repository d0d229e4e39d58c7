#include "integrity/own_checksum.hpp"

#include <algorithm>
#include <htensor/base/fault.hpp>
#include <htensor/hash/crc64.hpp>
#include <htensor/integrity/seal.hpp>

#include "base/format_text.hpp"
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

// The most bytes that are read between two polls of the stop token.
constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

// Whether a range that the format leaves as zeros is all zeros. A header may place the data anywhere, so the
// range may have any length.
Result<bool> is_zero(const io::Mapped& file, std::uint64_t offset, std::uint64_t bytes,
                     const std::stop_token& stop) {
  for (std::uint64_t done = 0; done < bytes;) {
    if (stop.stop_requested()) {
      return fail(Error(ErrorCode::cancelled, "work_is_not_stopped",
                        format_text("stopped: {} of {} bytes before the data checked", done, bytes))
                      .at_path(file.path().native()));
    }
    const std::uint64_t count = std::min(step_bytes, bytes - done);
    const Bytes piece = HT_TRY(file.range(offset + done, count));
    const bool zero = HT_TRY(guarded(piece, [&] {
      return std::ranges::all_of(piece, [](std::byte byte) { return byte == std::byte{0}; });
    }));
    if (!zero) return false;
    done += count;
  }
  return true;
}

}  // namespace

Result<std::optional<OwnChecksum>> own_checksum(const io::File& file) {
  if (file.stat().bytes < format_ht::header_bytes) return std::nullopt;
  std::array<std::byte, format_ht::header_bytes> header{};
  HT_TRY(file.read(0, header));
  if (!format_ht::looks_like(header, file.stat().bytes)) return std::nullopt;
  auto decoded = format_ht::decode_any(header);
  if (!decoded) return fail(std::move(decoded).error().at_path(file.path().native()));
  if (!decoded->payload_crc) return std::nullopt;
  return OwnChecksum{decoded->data_offset, decoded->data_bytes, *decoded->payload_crc};
}

Result<Verification> verify_own(const io::Mapped& file, const OwnChecksum& own,
                                const VerifyOptions& options) {
  Verification found{.verdict = options.quick ? Verdict::headers_match : Verdict::intact,
                     .checked_bytes = 0,
                     .bad = {},
                     .algorithm = HashAlgorithm::crc64nvme,
                     .seal = {}};
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
  const std::uint64_t gap = own.offset - format_ht::header_bytes;
  if (!HT_TRY(is_zero(file, format_ht::header_bytes, gap, options.work.stop)))
    bad(Verdict::damaged, FilePart::gap, format_ht::header_bytes, gap);
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
