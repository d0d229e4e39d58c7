#include "load/load_verifier.hpp"
#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "integrity/compare_chunks.hpp"
#include "integrity/found_seal.hpp"
#include "integrity/hash_ranges.hpp"

#include <algorithm>
#include <htensor/hash/digest.hpp>
#include <utility>

namespace ht::inline v1 {
namespace {

using SealedTensors = std::map<std::string_view, const Seal::Tensor*>;

std::string mismatch_text(std::string_view part, std::uint64_t offset, std::uint64_t bytes) {
  return format_text("checksum mismatch in {}, {}", part, byte_range_text(offset, bytes));
}

Error differs_from_seal(const std::filesystem::path& path, const std::string& tensor,
                        const io::FileRange& range) {
  const auto part = tensor.empty() ? "a gap" : format_text("tensor '{}'", to_utf8(tensor));
  return Error(ErrorCode::checksum_mismatch, "loaded_bytes_match_the_seal",
               mismatch_text(part, range.offset, range.bytes))
      .at_path(path.native())
      .at_tensor(tensor)
      .at_offset(range.offset)
      .with_hint("download the file again; `htensor verify` lists all bad ranges");
}

// Fails unless the seal lists every tensor of the model with the same file, offset and size. `numbers` maps
// each file of the catalog to its number in the seal.
Result<void> check_tensors_are_listed(const SealedTensors& sealed, const Catalog& catalog,
                                      std::span<const std::uint32_t> numbers,
                                      const std::filesystem::path& seal) {
  for (const Entry& entry : catalog) {
    const auto it = sealed.find(entry.name);
    if (it != sealed.end()) {
      const Seal::Tensor& tensor = *it->second;
      const bool same = entry.is_splat()
                            ? !tensor.file
                            : tensor.file == numbers[entry.file] && tensor.offset == entry.offset;
      if (same && tensor.bytes == entry.bytes) continue;
    }
    return fail(
        Error(ErrorCode::bad_seal, "seal_lists_the_models_tensors",
              format_text("seal does not list tensor '{}' with its file, offset and size in the model",
                          to_utf8(entry.name)))
            .at_path(seal.native())
            .at_tensor(entry.name)
            .with_hint("run `htensor verify` to compare the files with the seal"));
  }
  return {};
}

}  // namespace

Result<LoadVerifier> LoadVerifier::make(const ModelState& model, std::span<const std::size_t> tensors) {
  const auto files = model.mapped->files();
  LoadVerifier verifier;
  auto found = find_seal(model, *model.port);
  if (!found) {
    if (found.error().code() != ErrorCode::not_sealed || files.size() != 1) return fail(found.error());
    const auto own = HT_TRY(own_checksum(files[0]->source(), model.formats));
    if (!own) return fail(found.error());
    // An empty tensor has no bytes that `take` or `check_mapped` could verify.
    const auto quick = HT_TRY(compare_with_own_checksum(*files[0], *own, {.quick = own->bytes != 0}));
    HT_TRY(quick.result());
    verifier.own_ = OwnChecksumState{.path = model.paths[0], .expected = *own};
    return verifier;
  }
  auto& seal = found->seal;
  auto hasher = HT_TRY(Hasher::make(seal.algorithm));
  SealState sealed{.regions = SealRegions(seal), .current = {std::move(hasher)}};
  for (const auto& path : model.paths) sealed.numbers.push_back(HT_TRY(found->number_of(path)));
  for (const auto& tensor : seal.tensors) sealed.tensors.emplace(tensor.name, &tensor);
  HT_TRY(check_tensors_are_listed(sealed.tensors, *model.catalog, sealed.numbers, found->location.seal));
  // Files of the seal that are not in `files`, such as the index, stay null and are skipped.
  std::vector<io::MappedFile*> in_seal(seal.files.size());
  sealed.paths = std::move(found->paths);
  for (std::size_t i = 0; i < files.size(); ++i) {
    in_seal[sealed.numbers[i]] = files[i];
    if (files[i] != nullptr) sealed.paths[sealed.numbers[i]] = files[i]->source().path();
  }
  const auto quick = HT_TRY(compare(seal, in_seal, sealed.paths, {.quick = true}, MissingFiles::skipped));
  HT_TRY(quick.result());
  for (const std::size_t tensor : tensors) sealed.requested.emplace_back((*model.catalog)[tensor].name);
  std::ranges::sort(sealed.requested);
  sealed.seal = std::move(seal);
  verifier.sealed_ = std::move(sealed);
  return verifier;
}

Result<void> LoadVerifier::take(const io::FileRange& range, Bytes bytes) {
  if (own_) {
    // The data may be loaded more than once.
    if (range.offset == own_->expected.offset) own_->sum = own_->done = 0;
    if (range.offset != own_->expected.offset + own_->done) return {};
    own_->sum = crc64nvme(bytes, own_->sum);
    own_->done += bytes.size();
    if (own_->done != own_->expected.bytes) return {};
    HT_TRY(compare_own_checksum());
    checked_bytes_ += own_->done;
    return {};
  }
  auto& [hasher, chunk, done] = sealed_->current;
  const std::uint32_t file = sealed_->numbers[range.file];
  std::uint64_t offset = range.offset;
  const bool continues = chunk && chunk->range.file == file && chunk->range.offset + done == offset;
  if (!continues && chunk) {
    static_cast<void>(hasher.finish());
    chunk.reset();
  }
  while (!bytes.empty()) {
    if (!chunk) {
      chunk = sealed_->regions.chunk_at(file, offset);
      done = 0;
      if (chunk->range.offset != offset) {
        // A part of a chunk cannot be compared.
        const std::uint64_t skipped = io::end_of(chunk->range) - offset;
        chunk.reset();
        if (skipped >= bytes.size()) return {};
        bytes = bytes.subspan(static_cast<std::size_t>(skipped));
        offset += skipped;
        continue;
      }
    }
    const Bytes in_chunk = bytes.first(
        static_cast<std::size_t>(std::min<std::uint64_t>(chunk->range.bytes - done, bytes.size())));
    hasher.update(in_chunk);
    done += in_chunk.size();
    offset += in_chunk.size();
    bytes = bytes.subspan(in_chunk.size());
    if (done == chunk->range.bytes) {
      const SealChunk whole = *std::exchange(chunk, std::nullopt);
      HT_TRY(compare_chunk(whole, hasher.finish()));
    }
  }
  return {};
}

Result<void> LoadVerifier::check_mapped(io::MappedFiles files, std::span<const io::FileRange> ranges,
                                        const WorkOptions& work, const WaitFor& wait_for) {
  if (own_) {
    if (wait_for) HT_TRY(wait_for(own_->expected.bytes));
    const auto found = HT_TRY(compare_with_own_checksum(*files[0], own_->expected, {.work = work}));
    HT_TRY(found.result());
    checked_bytes_ += own_->expected.bytes;
    return {};
  }
  std::vector<SealChunk> chunks;
  std::vector<io::FileRange> places;  // in the caller's files
  std::vector<std::uint64_t> ends;    // in the concatenated ranges
  for (const auto& range : ranges) {
    for (std::uint64_t offset = range.offset; offset < io::end_of(range);) {
      chunks.push_back(sealed_->regions.chunk_at(sealed_->numbers[range.file], offset));
      places.push_back({range.file, offset, chunks.back().range.bytes});
      offset += chunks.back().range.bytes;
      ends.push_back((ends.empty() ? 0 : ends.back()) + chunks.back().range.bytes);
    }
  }
  HashJob job{.files = files, .algorithm = sealed_->seal.algorithm, .wait_for = {}};
  if (wait_for) job.wait_for = [&](std::size_t number) { return wait_for(ends[number]); };
  const auto digests = HT_TRY(hash_ranges(job, places, work));
  for (std::size_t i = 0; i < chunks.size(); ++i) HT_TRY(compare_chunk(chunks[i], digests[i]));
  return {};
}

Result<void> LoadVerifier::check_tensor(std::string_view name, Bytes bytes, const std::stop_token& stop) {
  if (own_) {
    own_->sum = HT_TRY(digest_in_memory(HashAlgorithm::crc64nvme, bytes, {.stop = stop, .on_progress = {}}))
                    .crc64nvme();
    return compare_own_checksum();
  }
  const Seal::Tensor& tensor = *sealed_->tensors.at(name);
  if (HT_TRY(digest_in_memory(sealed_->seal.algorithm, bytes, {.stop = stop, .on_progress = {}})) ==
      tensor.digest)
    return {};
  const io::FileRange range{tensor.file.value_or(0), tensor.offset, tensor.bytes};
  return fail(differs_from_seal(sealed_->paths[range.file], tensor.name, range));
}

Result<void> LoadVerifier::compare_own_checksum() {
  const auto& [header_bytes, offset, bytes, crc] = own_->expected;
  if (own_->sum == crc) return {};
  const auto name = own_->path.stem().string();
  return fail(Error(ErrorCode::checksum_mismatch, "payload_matches_its_checksum",
                    mismatch_text(format_text("tensor '{}'", to_utf8(name)), offset, bytes))
                  .at_path(own_->path.native())
                  .at_tensor(name)
                  .at_offset(offset)
                  .with_hint("download the file again"));
}

Result<void> LoadVerifier::compare_chunk(const SealChunk& chunk, const Digest& found) {
  if (found == sealed_digest(sealed_->seal, chunk.number)) {
    checked_bytes_ += chunk.range.bytes;
    return {};
  }
  // The error names a requested tensor if possible.
  const auto& tensors = sealed_->seal.tensors;
  const auto requested = std::ranges::find_if(tensors, [&](const Seal::Tensor& tensor) {
    return tensor.file == chunk.range.file && tensor.offset <= chunk.range.offset &&
           chunk.range.offset - tensor.offset < tensor.bytes &&
           std::ranges::binary_search(sealed_->requested, tensor.name);
  });
  const auto first = sealed_->regions[chunk.region].tensor;
  const auto name = requested != tensors.end() ? requested->name
                    : first                    ? tensors[*first].name
                                               : std::string();
  return fail(differs_from_seal(sealed_->paths[chunk.range.file], name, chunk.range));
}

void FetchProgress::add(std::uint64_t bytes) noexcept {
  bytes_ += bytes;
  bytes_.notify_all();
}

void FetchProgress::end() noexcept {
  bytes_ |= ended_bit;
  bytes_.notify_all();
}

bool FetchProgress::wait_for(std::uint64_t bytes) const noexcept {
  for (std::uint64_t state = bytes_;; state = bytes_) {
    if ((state & ~ended_bit) >= bytes) return true;
    if ((state & ended_bit) != 0) return false;
    bytes_.wait(state);
  }
}

}  // namespace ht::inline v1
