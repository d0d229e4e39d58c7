#include "integrity/compare_chunks.hpp"

#include <algorithm>
#include <array>
#include <htensor/hash/digest.hpp>
#include <map>

#include "base/format_text.hpp"
#include "format/sniff.hpp"
#include "integrity/hash_ranges.hpp"
#include "integrity/regions.hpp"

namespace ht::inline v1 {
namespace {

class SealComparison {
 public:
  SealComparison(const Seal& seal, io::MappedFiles files, std::span<const std::filesystem::path> paths,
                 MissingFiles missing, std::optional<std::uint32_t> requested)
      : seal_(seal), files_(files), paths_(paths), missing_(missing), requested_(requested), regions_(seal) {
    found_.algorithm = seal.algorithm;
  }

  Result<Verification> run(const VerifyOptions& options) {
    if (options.quick) found_.verdict = Verification::Verdict::headers_match;
    const auto chunks = chunks_to_compare(options.quick);
    std::vector<io::FileRange> ranges;
    ranges.reserve(chunks.size());
    for (const auto& chunk : chunks) ranges.push_back(chunk.range);
    const auto digests =
        HT_TRY(hash_ranges({.files = files_, .algorithm = seal_.algorithm}, ranges, options.work));
    found_.checked_bytes = io::sum_of(ranges);
    std::vector<Tally> tallies(files_.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      auto& tally = tallies[chunks[i].range.file];
      ++tally.compared;
      if (digests[i] == sealed_digest(seal_, chunks[i].number)) continue;
      ++tally.bad;
      add_bad(chunks[i].region, chunks[i].range);
    }
    for (std::uint32_t file = 0; file < files_.size(); ++file) check_file(file, tallies[file], options.quick);
    finish_rows();
    return std::move(found_);
  }

 private:
  struct Tally {
    std::uint64_t compared = 0;
    std::uint64_t bad = 0;
  };
  struct Row {
    std::optional<std::size_t> tensor;
    Verification::Part part = Verification::Part::tensor;
    io::FileRange range;
  };

  [[nodiscard]] std::uint64_t actual_bytes(std::uint32_t file) const {
    return files_[file] != nullptr ? files_[file]->source().size() : 0;
  }

  // Returns the chunks that are within their files; if `quick`, only chunks outside tensors, because some
  // formats store headers anywhere in the file.
  [[nodiscard]] std::vector<SealChunk> chunks_to_compare(bool quick) const {
    std::vector<SealChunk> chunks;
    if (!quick) chunks.reserve(static_cast<std::size_t>(regions_.chunks()));
    for (std::size_t i = 0; i < regions_.all().size(); ++i) {
      const auto& region = regions_[i];
      if (quick && region.tensor) continue;
      for (std::uint64_t nth = 0; nth < region.chunks(); ++nth) {
        const auto chunk = regions_.chunk(i, nth);
        if (io::end_of(chunk.range) <= actual_bytes(region.range.file)) chunks.push_back(chunk);
      }
    }
    return chunks;
  }

  [[nodiscard]] Verification::Part part_of(const SealRegion& region) const {
    if (region.tensor) return Verification::Part::tensor;
    if (region.range.offset == 0) return Verification::Part::header;
    return io::end_of(region.range) == seal_.files[region.range.file].bytes ? Verification::Part::tail
                                                                            : Verification::Part::gap;
  }

  void add_bad(std::size_t number, const io::FileRange& range) {
    const auto& region = regions_[number];
    raise(Verification::Verdict::damaged, range.file);
    if (!rows_.empty() && rows_.back().tensor == region.tensor && rows_.back().part == part_of(region) &&
        rows_.back().range.file == range.file && io::end_of(rows_.back().range) == range.offset) {
      rows_.back().range.bytes += range.bytes;
    } else {
      rows_.push_back({.tensor = region.tensor, .part = part_of(region), .range = range});
    }
  }

  void raise(Verification::Verdict verdict, std::uint32_t file) {
    if (verdict <= found_.verdict) return;
    found_.verdict = verdict;
    found_.file = paths_[file];
  }

  void check_file(std::uint32_t file, const Tally& tally, bool quick) {
    const std::uint64_t sealed_bytes = seal_.files[file].bytes;
    const std::uint64_t size = actual_bytes(file);
    if (files_[file] == nullptr) {
      if (missing_ == MissingFiles::skipped && file != requested_) return;
      raise(Verification::Verdict::missing, file);
      add_missing(file, 0);
      return;
    }
    // If no chunk matches, the file was replaced. One chunk is enough only if the size differs too; else the
    // chunk may be damaged.
    const bool is_replaced =
        !quick && tally.bad == tally.compared && tally.compared >= (size != sealed_bytes ? 1 : 2);
    if (is_replaced) raise(Verification::Verdict::replaced, file);
    if (size < sealed_bytes) {
      raise(Verification::Verdict::truncated, file);
      add_missing(file, size);
    } else if (size > sealed_bytes) {
      raise(Verification::Verdict::grown, file);
      rows_.push_back({.tensor = std::nullopt,
                       .part = Verification::Part::tail,
                       .range = {file, sealed_bytes, size - sealed_bytes}});
    }
  }

  // Reports all sealed ranges from `offset` on as missing.
  void add_missing(std::uint32_t file, std::uint64_t offset) {
    const auto [first, end] = regions_.of_file(file);
    // A file of 0 bytes has no region, but has to be named.
    if (first == end)
      rows_.push_back({.tensor = {}, .part = Verification::Part::header, .range = {file, 0, 0}});
    for (std::size_t i = first; i < end; ++i) {
      const auto& region = regions_[i];
      if (io::end_of(region.range) <= offset) continue;
      const std::uint64_t begin = std::max(region.range.offset, offset);
      add_bad(i, {file, begin, io::end_of(region.range) - begin});
    }
  }

  void finish_rows() {
    add_sharing_tensors();
    std::ranges::sort(rows_, {}, [](const Row& row) {
      return std::tuple(row.range.file, row.range.offset, row.tensor.value_or(0), row.part);
    });
    found_.bad.reserve(rows_.size());
    for (const auto& row : rows_) {
      found_.bad.push_back({.file = paths_[row.range.file],
                            .part = row.part,
                            .tensor = row.tensor ? seal_.tensors[*row.tensor].name : std::string(),
                            .offset = row.range.offset,
                            .bytes = row.range.bytes});
    }
  }

  // Adds tensors that share bad bytes with another tensor, each from its first to its last bad byte.
  void add_sharing_tensors() {
    struct Extent {
      std::uint64_t from = UINT64_MAX;
      std::uint64_t to = 0;
    };
    std::vector<Extent> reported(seal_.tensors.size());
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> bad;  // begin to end
    for (const auto& row : rows_) {
      const std::uint64_t end = io::end_of(row.range);
      bad.emplace(std::pair(row.range.file, row.range.offset), end);
      if (!row.tensor) continue;
      auto& [from, to] = reported[*row.tensor];
      from = std::min(from, row.range.offset);
      to = std::max(to, end);
    }
    for (std::size_t i = 0; i < seal_.tensors.size(); ++i) {
      const auto& tensor = seal_.tensors[i];
      if (!tensor.file || tensor.bytes == 0) continue;
      const std::uint64_t end = tensor.offset + tensor.bytes;
      auto first = bad.lower_bound({*tensor.file, tensor.offset});
      if (first != bad.begin()) {
        const auto before = std::prev(first);
        if (before->first.first == *tensor.file && before->second > tensor.offset) first = before;
      }
      const auto after = bad.lower_bound({*tensor.file, end});
      if (first == after) continue;
      const std::uint64_t from = std::max(first->first.second, tensor.offset);
      const std::uint64_t to = std::min(std::prev(after)->second, end);
      if (reported[i].from <= from && to <= reported[i].to) continue;
      rows_.push_back(
          {.tensor = i, .part = Verification::Part::tensor, .range = {*tensor.file, from, to - from}});
    }
  }

  const Seal& seal_;
  io::MappedFiles files_;
  std::span<const std::filesystem::path> paths_;
  MissingFiles missing_;
  std::optional<std::uint32_t> requested_;
  SealRegions regions_;
  std::vector<Row> rows_;
  Verification found_;
};

// Computes the CRC on all processors.
Result<std::uint64_t> crc_of(io::MappedFile& file, std::uint64_t offset, std::uint64_t bytes,
                             const WorkOptions& work) {
  std::vector<io::FileRange> ranges;
  for (std::uint64_t done = 0; done < bytes; done += Seal::chunk_bytes) {
    ranges.push_back({0, offset + done, std::min(Seal::chunk_bytes, bytes - done)});
  }
  io::MappedFile* const files[] = {&file};
  const auto digests = HT_TRY(hash_ranges({.files = files}, ranges, work));
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    sum = crc64nvme_combine(sum, digests[i].crc64nvme(), ranges[i].bytes);
  }
  return sum;
}

// Maximum number of bytes read between two polls of the stop token.
constexpr std::uint64_t zero_check_bytes = std::uint64_t{1} << 20;

// Returns whether a range that the format requires to be zero is all zeros. A header may place the data
// anywhere, so the range can have any length.
Result<bool> is_zero(io::MappedFile& file, std::uint64_t offset, std::uint64_t bytes,
                     const std::stop_token& stop) {
  for (std::uint64_t done = 0; done < bytes;) {
    if (stop.stop_requested()) {
      return fail(Error(ErrorCode::cancelled, "work_is_completed",
                        format_text("stopped: {} of {} bytes checked between header and data", done, bytes))
                      .at_path(file.source().path().native()));
    }
    const std::uint64_t count = std::min(zero_check_bytes, bytes - done);
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

Result<Verification> compare(const Seal& seal, io::MappedFiles files,
                             std::span<const std::filesystem::path> paths, const VerifyOptions& options,
                             MissingFiles missing, std::optional<std::uint32_t> requested) {
  return without_bad_alloc(
      [&] { return SealComparison(seal, files, paths, missing, requested).run(options); });
}

Result<std::optional<Format::OwnChecksum>> own_checksum(const io::Source& file,
                                                        std::span<const Format> more) {
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

Result<Verification> compare_with_own_checksum(io::MappedFile& file, const Format::OwnChecksum& own,
                                               const VerifyOptions& options) {
  Verification found;
  if (options.quick) found.verdict = Verification::Verdict::headers_match;
  const auto bad = [&](Verification::Verdict verdict, Verification::Part part, std::uint64_t offset,
                       std::uint64_t bytes) {
    found.verdict = verdict;
    found.file = file.source().path();
    found.bad.push_back(
        {.file = file.source().path(),
         .part = part,
         .tensor = part == Verification::Part::tensor ? file.source().path().stem().string() : std::string(),
         .offset = offset,
         .bytes = bytes});
  };
  const std::uint64_t size = file.source().size();
  const std::uint64_t end = own.offset + own.bytes;
  if (size < end) {
    bad(Verification::Verdict::truncated, Verification::Part::tensor, std::max(size, own.offset),
        end - std::max(size, own.offset));
    return found;
  }
  found.checked_bytes = own.offset;
  const std::uint64_t gap = own.offset - own.header_bytes;
  if (!HT_TRY(is_zero(file, own.header_bytes, gap, options.work.stop)))
    bad(Verification::Verdict::damaged, Verification::Part::gap, own.header_bytes, gap);
  if (!options.quick) {
    found.checked_bytes += own.bytes;
    if (HT_TRY(crc_of(file, own.offset, own.bytes, options.work)) != own.crc) {
      bad(Verification::Verdict::damaged, Verification::Part::tensor, own.offset, own.bytes);
    }
  }
  if (size > end) bad(Verification::Verdict::grown, Verification::Part::tail, end, size - end);
  return found;
}

std::string byte_range_text(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return format_text("0 bytes at byte {}", offset);
  return format_text("bytes {}–{}", offset, offset + bytes - 1);
}

}  // namespace ht::inline v1
