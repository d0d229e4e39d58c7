#include "integrity/seal_check.hpp"

#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <map>
#include <utility>

#include "base/format_text.hpp"
#include "integrity/compare.hpp"
#include "integrity/measure.hpp"

namespace ht::inline v1 {

struct SealCheck::Sealed {
  Seal seal;
  SealRegions regions;
  std::vector<std::uint32_t> numbers;  // which of the seal's files each file is
  std::vector<std::string> wanted;     // in order
  std::vector<std::filesystem::path> paths;
  std::map<std::string_view, std::size_t> tensors;  // by name

  // The tensor that an error names for a chunk: one that was asked for, if possible.
  [[nodiscard]] std::string name_of(const SealChunk& chunk) const {
    const auto has = [&](const SealedTensor& tensor) {
      return tensor.file == chunk.range.file && tensor.offset <= chunk.range.offset &&
             chunk.range.offset - tensor.offset < tensor.bytes &&
             std::ranges::binary_search(wanted, tensor.name);
    };
    const auto asked = std::ranges::find_if(seal.tensors, has);
    if (asked != seal.tensors.end()) return asked->name;
    const auto first = regions[chunk.region].tensor;
    return first ? seal.tensors[*first].name : std::string();
  }
};

SealCheck::SealCheck(std::shared_ptr<const Sealed> sealed, Hasher hasher) noexcept
    : sealed_(std::move(sealed)), hasher_(std::move(hasher)) {}

Result<SealCheck> SealCheck::make(Seal seal, Files files) {
  std::vector<io::MappedFile*> in_seal(seal.files.size());
  std::vector<std::filesystem::path> paths(seal.files.size());
  for (std::size_t i = 0; i < seal.files.size(); ++i) paths[i] = seal.files[i].name;
  for (std::size_t i = 0; i < files.files.size(); ++i) {
    in_seal[files.numbers[i]] = files.files[i];
    if (files.files[i] != nullptr) paths[files.numbers[i]] = files.files[i]->source().path();
  }
  // Files that nothing is loaded from are not opened.
  const auto quick = HT_TRY(compare_there(seal, in_seal, paths, {.quick = true}));
  HT_TRY(quick.result());
  std::vector<std::uint64_t> sizes;
  sizes.reserve(seal.files.size());
  for (const auto& file : seal.files) sizes.push_back(file.bytes);
  std::ranges::sort(files.wanted);
  auto hasher = HT_TRY(Hasher::make(seal.algorithm));
  SealRegions regions(sizes, seal.tensors);
  auto sealed = std::make_shared<Sealed>(Sealed{std::move(seal),
                                                std::move(regions),
                                                std::move(files.numbers),
                                                std::move(files.wanted),
                                                std::move(paths),
                                                {}});
  for (std::size_t i = 0; i < sealed->seal.tensors.size(); ++i) {
    sealed->tensors.emplace(sealed->seal.tensors[i].name, i);
  }
  return SealCheck(std::move(sealed), std::move(hasher));
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
        // A part of a chunk cannot be compared.
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

Result<void> SealCheck::check_mapped(io::MappedFiles files, std::span<const io::FileRange> ranges,
                                     const WorkOptions& work, const WaitFor& wait_for) {
  std::vector<SealChunk> chunks;
  std::vector<io::FileRange> places;  // in the files as they are given
  std::vector<std::uint64_t> ends;    // in the ranges, laid end to end
  for (const auto& range : ranges) {
    for (std::uint64_t offset = range.offset; offset < io::end_of(range);) {
      chunks.push_back(sealed_->regions.chunk_at(sealed_->numbers[range.file], offset));
      places.push_back({range.file, offset, chunks.back().range.bytes});
      offset += chunks.back().range.bytes;
      ends.push_back((ends.empty() ? 0 : ends.back()) + chunks.back().range.bytes);
    }
  }
  Measured what{.files = files, .algorithm = sealed_->seal.algorithm, .wait_for = {}};
  if (wait_for) what.wait_for = [&](std::size_t number) { return wait_for(ends[number]); };
  const auto digests = HT_TRY(measure(what, places, work));
  for (std::size_t i = 0; i < chunks.size(); ++i) HT_TRY(compare(chunks[i], digests[i]));
  return {};
}

Result<void> SealCheck::check_tensor(std::string_view name, Bytes bytes, const std::stop_token& stop) {
  const auto& seal = sealed_->seal;
  const auto found = sealed_->tensors.find(name);
  if (found != sealed_->tensors.end()) {
    const SealedTensor& tensor = seal.tensors[found->second];
    if (HT_TRY(digest_in_memory(seal.algorithm, bytes, stop)) == tensor.digest) return {};
    return fail(mismatch(tensor.name, {tensor.file.value_or(0), tensor.offset, tensor.bytes}));
  }
  return fail(mismatch(std::string(name), {}));
}

Result<void> SealCheck::compare(const SealChunk& chunk, const Digest& found) {
  const auto& seal = sealed_->seal;
  const std::size_t size = digest_bytes(seal.algorithm);
  const Digest wanted(seal.algorithm,
                      Bytes(seal.chunks).subspan(static_cast<std::size_t>(chunk.number) * size, size));
  if (found != wanted) return fail(mismatch(sealed_->name_of(chunk), chunk.range));
  checked_bytes_ += chunk.range.bytes;
  return {};
}

Error SealCheck::mismatch(const std::string& tensor, const io::FileRange& range) const {
  return Error(ErrorCode::checksum_mismatch, "loaded_bytes_are_as_sealed",
               format_text("checksum mismatch in {}, bytes {}–{}",
                           tensor.empty() ? "a gap" : format_text("tensor '{}'", to_utf8(tensor)),
                           range.offset, range.offset + std::max<std::uint64_t>(range.bytes, 1) - 1))
      .at_path(sealed_->paths[range.file].native())
      .at_tensor(tensor)
      .at_offset(range.offset)
      .with_hint("download the file again; `htensor verify` lists all bad ranges");
}

}  // namespace ht::inline v1
