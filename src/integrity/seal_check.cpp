#include "integrity/seal_check.hpp"

#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <utility>

#include "base/format_text.hpp"
#include "integrity/compare.hpp"
#include "integrity/measure.hpp"

namespace ht::inline v1 {

struct SealCheck::Sealed {
  Seal seal;
  SealRegions regions;
  std::vector<std::uint32_t> numbers;  // which of the seal's files each file is
  std::vector<std::filesystem::path> paths;
};

namespace {

std::optional<std::uint32_t> number_of(const Seal& seal, std::string_view name) {
  const auto found = std::ranges::find(seal.files, name, &SealedFile::name);
  if (found == seal.files.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - seal.files.begin());
}

}  // namespace

SealCheck::SealCheck(std::shared_ptr<const Sealed> sealed, Hasher hasher) noexcept
    : sealed_(std::move(sealed)), hasher_(std::move(hasher)) {}

Result<SealCheck> SealCheck::make(Seal seal, std::span<const io::Mapped* const> files,
                                  std::span<const std::string> names) {
  std::vector<std::uint32_t> numbers;
  std::vector<const io::Mapped*> in_seal(seal.files.size());
  std::vector<std::filesystem::path> paths(seal.files.size());
  for (std::size_t i = 0; i < seal.files.size(); ++i) paths[i] = seal.files[i].name;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto number = number_of(seal, names[i]);
    if (!number) {
      return fail(Error(ErrorCode::not_sealed, "file_is_of_the_seal",
                        format_text("the seal has no file '{}'", to_utf8(names[i])))
                      .with_hint("seal the model anew if you know that it is good"));
    }
    numbers.push_back(*number);
    in_seal[*number] = files[i];
    if (files[i] != nullptr) paths[*number] = files[i]->path();
  }
  // Those that nobody loads from are left alone.
  const auto quick = HT_TRY(compare_there(seal, in_seal, paths, {.quick = true}));
  HT_TRY(quick.result());
  std::vector<std::uint64_t> sizes;
  for (const auto& file : seal.files) sizes.push_back(file.bytes);
  auto hasher = HT_TRY(Hasher::make(seal.algorithm));
  SealRegions regions(sizes, seal.tensors);
  return SealCheck(std::make_shared<const Sealed>(
                       Sealed{std::move(seal), std::move(regions), std::move(numbers), std::move(paths)}),
                   std::move(hasher));
}

Result<void> SealCheck::take(const io::FileRange& range, Bytes bytes) {
  const std::uint32_t file = sealed_->numbers[range.file];
  std::uint64_t offset = range.offset;
  const bool goes_on = chunk_ && chunk_->range.file == file && chunk_->range.offset + done_ == offset;
  if (!goes_on && chunk_) {
    static_cast<void>(hasher_.finish());
    chunk_.reset();
  }
  while (!bytes.empty()) {
    if (!chunk_) {
      chunk_ = sealed_->regions.chunk_at(file, offset);
      done_ = 0;
      if (chunk_->range.offset != offset) {
        // The rest of a chunk tells nothing.
        const std::uint64_t skipped = io::end_of(chunk_->range) - offset;
        chunk_.reset();
        if (skipped >= bytes.size()) return {};
        bytes = bytes.subspan(static_cast<std::size_t>(skipped));
        offset += skipped;
        continue;
      }
    }
    const Bytes mine = bytes.first(
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk_->range.bytes - done_, bytes.size())));
    hasher_.update(mine);
    done_ += mine.size();
    offset += mine.size();
    bytes = bytes.subspan(mine.size());
    if (done_ == chunk_->range.bytes) {
      const SealChunk whole = *std::exchange(chunk_, std::nullopt);
      HT_TRY(compare(whole, hasher_.finish()));
    }
  }
  return {};
}

Result<void> SealCheck::check_mapped(std::span<const io::Mapped* const> files,
                                     std::span<const io::FileRange> ranges, const WorkOptions& work) {
  std::vector<SealChunk> chunks;
  std::vector<io::FileRange> places;  // in the files as they are given
  for (const auto& range : ranges) {
    for (std::uint64_t offset = range.offset; offset < io::end_of(range);) {
      chunks.push_back(sealed_->regions.chunk_at(sealed_->numbers[range.file], offset));
      places.push_back({range.file, offset, chunks.back().range.bytes});
      offset += chunks.back().range.bytes;
    }
  }
  const auto digests = HT_TRY(measure({.files = files, .algorithm = sealed_->seal.algorithm}, places, work));
  for (std::size_t i = 0; i < chunks.size(); ++i) HT_TRY(compare(chunks[i], digests[i]));
  return {};
}

Result<void> SealCheck::compare(const SealChunk& chunk, const Digest& found) {
  const auto& [seal, regions, numbers, paths] = *sealed_;
  const std::size_t size = digest_bytes(seal.algorithm);
  const Digest wanted(seal.algorithm,
                      Bytes(seal.chunks).subspan(static_cast<std::size_t>(chunk.number) * size, size));
  if (found == wanted) {
    checked_bytes_ += chunk.range.bytes;
    return {};
  }
  const auto tensor = regions[chunk.region].tensor;
  const std::string name = tensor ? seal.tensors[*tensor].name : std::string();
  return fail(Error(ErrorCode::checksum_mismatch, "loaded_bytes_are_as_sealed",
                    format_text("is damaged: {} bytes from byte {} on{} are not as they were sealed",
                                chunk.range.bytes, chunk.range.offset,
                                tensor ? format_text(", in tensor '{}',", name) : ""))
                  .at_path(paths[chunk.range.file].native())
                  .at_tensor(name)
                  .at_offset(chunk.range.offset)
                  .with_hint("fetch the file again; `htensor verify` lists all that is bad"));
}

}  // namespace ht::inline v1
