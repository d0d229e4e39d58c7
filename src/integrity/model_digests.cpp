#include "integrity/model_digests.hpp"

#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <htensor/hash/crc64.hpp>

#include "base/format_text.hpp"
#include "integrity/measure.hpp"
#include "integrity/regions.hpp"

namespace ht::inline v1 {
namespace {

// Repeats of a pattern: twice as many follow from so many.
std::uint64_t crc_of_repeated(Bytes pattern, std::uint64_t times) {
  std::uint64_t sum = 0;
  std::uint64_t doubled = crc64nvme(pattern);
  for (std::uint64_t bytes = pattern.size(); times != 0; times >>= 1, bytes *= 2) {
    if ((times & 1) != 0) sum = crc64nvme_combine(sum, doubled, bytes);
    doubled = crc64nvme_combine(doubled, doubled, bytes);
  }
  return sum;
}

class ModelMeasuring {
 public:
  ModelMeasuring(const ModelToMeasure& model, const WorkOptions& work) : model_(model), work_(work) {
    seal_.algorithm = model.algorithm;
    for (const auto* const file : model.files) sizes_.push_back(file->source().size());
  }

  Result<FileAndTensorDigests> without_chunks(bool tensors) {
    if (tensors) HT_TRY(list_tensors());
    if (model_.algorithm == HashAlgorithm::crc64nvme) {
      HT_TRY(by_sums());
    } else {
      HT_TRY(one_by_one({}));
    }
    FileAndTensorDigests found{std::move(files_), {}};
    found.tensors.reserve(seal_.tensors.size());
    for (const auto& tensor : seal_.tensors) found.tensors.push_back(tensor.digest);
    return found;
  }

  Result<Seal> seal(std::vector<std::string> names) {
    HT_TRY(list_tensors());
    if (model_.algorithm == HashAlgorithm::crc64nvme) {
      HT_TRY(by_sums());
    } else {
      HT_TRY(one_by_one(chunk_ranges(SealRegions(sizes_, seal_.tensors))));
    }
    seal_.files.reserve(sizes_.size());
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      seal_.files.push_back({std::move(names[i]), sizes_[i], files_[i]});
    }
    return std::move(seal_);
  }

 private:
  Result<void> list_tensors() {
    const Catalog& catalog = model_.catalog;
    const auto nothing = HT_TRY(digest(model_.algorithm, {}));
    seal_.tensors.reserve(catalog.size());
    for (std::size_t i = 0; i < catalog.size(); ++i) {
      if (work_.stop.stop_requested()) {
        return fail(Error(ErrorCode::cancelled, "work_is_not_stopped",
                          format_text("stopped: {} of {} tensors listed", i, catalog.size())));
      }
      const Entry entry = catalog[i];
      SealedTensor tensor{.name = std::string(entry.name),
                          .file = entry.file,
                          .offset = entry.offset,
                          .bytes = entry.bytes,
                          .digest = nothing};
      if (entry.is_splat()) {
        tensor.file = std::nullopt;
        tensor.offset = 0;
        HT_TRY(check_splat_size(entry));
        tensor.digest = HT_TRY(digest_of_splat(model_.algorithm, entry.splat, entry.bytes, work_.stop));
      }
      seal_.tensors.push_back(std::move(tensor));
    }
    return {};
  }

  [[nodiscard]] Result<void> check_splat_size(const Entry& entry) const {
    if (model_.algorithm == HashAlgorithm::crc64nvme || entry.bytes <= model_.max_splat_bytes) return {};
    return fail(Error(ErrorCode::budget_too_small, "splat_bytes_within_limit",
                      format_text("tensor '{}' is a splat of {} bytes, and {} hashes at most {} bytes of one",
                                  to_utf8(entry.name), entry.bytes, to_string(model_.algorithm),
                                  model_.max_splat_bytes))
                    .at_tensor(entry.name)
                    .with_hint("raise the limit with --max-splat, or use --algorithm crc64nvme, which does "
                               "not walk the bytes"));
  }

  [[nodiscard]] static std::vector<io::FileRange> chunk_ranges(const SealRegions& regions) {
    std::vector<io::FileRange> ranges;
    ranges.reserve(static_cast<std::size_t>(regions.chunks()));
    for (std::size_t i = 0; i < regions.all().size(); ++i) {
      for (std::uint64_t nth = 0; nth < regions[i].chunks(); ++nth) {
        ranges.push_back(regions.chunk(i, nth).range);
      }
    }
    return ranges;
  }

  void keep_chunks(std::span<const Digest> digests) {
    seal_.chunks.reserve(digests.size() * digest_bytes(model_.algorithm));
    for (const auto& digest : digests) {
      seal_.chunks.insert(seal_.chunks.end(), digest.bytes().begin(), digest.bytes().end());
    }
  }

  [[nodiscard]] Result<std::vector<Digest>> measured(std::span<const io::FileRange> ranges) const {
    if (model_.measured) return model_.measured(ranges);
    return measure({.files = model_.files, .algorithm = model_.algorithm}, ranges, work_);
  }

  // Each byte once: all else follows from the sums of the chunks.
  Result<void> by_sums() {
    const SealRegions regions(sizes_, seal_.tensors);
    const auto ranges = chunk_ranges(regions);
    const auto digests = HT_TRY(measured(ranges));
    keep_chunks(digests);
    // The sum from the beginning of the file to the beginning of each chunk.
    std::vector<std::uint64_t> before;
    before.reserve(ranges.size());
    files_.assign(sizes_.size(), Digest(0));
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      auto& file = files_[ranges[i].file];
      before.push_back(file.crc64nvme());
      file = Digest(crc64nvme_combine(file.crc64nvme(), digests[i].crc64nvme(), ranges[i].bytes));
    }
    for (auto& tensor : seal_.tensors) {
      if (!tensor.file || tensor.bytes == 0) continue;
      const std::uint64_t end = tensor.offset + tensor.bytes;
      const auto first = regions.chunk_at(*tensor.file, tensor.offset).number;
      const std::uint64_t whole =
          end == sizes_[*tensor.file]
              ? files_[*tensor.file].crc64nvme()
              : before[static_cast<std::size_t>(regions.chunk_at(*tensor.file, end).number)];
      // Sums are linear: what is before is taken off again.
      tensor.digest = Digest(crc64nvme_combine(before[static_cast<std::size_t>(first)], whole, tensor.bytes));
    }
    return {};
  }

  // Digests that cannot be joined: whole files, tensors and chunks, each for itself.
  Result<void> one_by_one(std::vector<io::FileRange> chunks) {
    std::vector<io::FileRange> ranges;
    ranges.reserve(sizes_.size() + seal_.tensors.size() + chunks.size());
    for (std::uint32_t i = 0; i < sizes_.size(); ++i) ranges.push_back({i, 0, sizes_[i]});
    std::vector<std::size_t> tensors;
    for (std::size_t i = 0; i < seal_.tensors.size(); ++i) {
      const auto& tensor = seal_.tensors[i];
      if (!tensor.file || tensor.bytes == 0) continue;
      tensors.push_back(i);
      ranges.push_back({*tensor.file, tensor.offset, tensor.bytes});
    }
    ranges.insert(ranges.end(), chunks.begin(), chunks.end());
    const auto digests = HT_TRY(measured(ranges));
    const std::span all(digests);
    files_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(sizes_.size()));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      seal_.tensors[tensors[i]].digest = all[sizes_.size() + i];
    }
    keep_chunks(all.subspan(sizes_.size() + tensors.size()));
    return {};
  }

  const ModelToMeasure& model_;
  const WorkOptions& work_;
  std::vector<std::uint64_t> sizes_;
  std::vector<Digest> files_;
  Seal seal_;
};

}  // namespace

Result<FileAndTensorDigests> measure_model(const ModelToMeasure& model, bool tensors,
                                           const WorkOptions& work) {
  return without_bad_alloc([&] { return ModelMeasuring(model, work).without_chunks(tensors); });
}

Result<Seal> make_seal(const ModelToMeasure& model, std::vector<std::string> names, const WorkOptions& work) {
  return without_bad_alloc([&] { return ModelMeasuring(model, work).seal(std::move(names)); });
}

Result<Digest> digest_of_splat(HashAlgorithm algorithm, Bytes pattern, std::uint64_t bytes,
                               const std::stop_token& stop) {
  const std::uint64_t times = bytes / pattern.size();
  const Bytes rest = pattern.first(static_cast<std::size_t>(bytes % pattern.size()));
  if (algorithm == HashAlgorithm::crc64nvme) {
    return Digest(crc64nvme(rest, crc_of_repeated(pattern, times)));
  }
  auto hasher = HT_TRY(Hasher::make(algorithm));
  // Whole patterns, and at least one of them.
  std::vector<std::byte> piece;
  while (piece.empty() || piece.size() + pattern.size() <= 65536)
    piece.insert(piece.end(), pattern.begin(), pattern.end());
  const std::uint64_t whole = bytes - rest.size();
  for (std::uint64_t done = 0; done < whole;) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), whole - done));
    if (stop.stop_requested()) {
      return fail(Error(ErrorCode::cancelled, "work_is_not_stopped",
                        format_text("stopped: {} of {} bytes of a splat hashed", done, bytes)));
    }
    hasher.update(Bytes(piece).first(count));
    done += count;
  }
  hasher.update(rest);
  return hasher.finish();
}

}  // namespace ht::inline v1
