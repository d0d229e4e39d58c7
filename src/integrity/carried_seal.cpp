#include "integrity/carried_seal.hpp"
#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "integrity/regions.hpp"

#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <htensor/base/fault.hpp>
#include <htensor/hash/digest.hpp>

namespace ht::inline v1 {
namespace {

// Maximum number of bytes read between two polls of the stop token.
constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

// Hashes a range of the edited file.
Result<Digest> digest_of_edited(Hasher& hasher, const ReplacedHeader& edit, std::uint64_t offset,
                                std::uint64_t bytes, const WorkOptions& work) {
  const std::uint64_t end = offset + bytes;
  while (offset < end) {
    if (work.stop.stop_requested()) {
      return fail(
          Error(ErrorCode::cancelled, "work_is_completed",
                format_text("stopped: {} of {} bytes hashed for the seal", bytes - (end - offset), bytes))
              .at_path(edit.source.source().path().native()));
    }
    const bool in_header = offset < edit.header.size();
    const std::uint64_t count =
        std::min(step_bytes, (in_header ? std::min<std::uint64_t>(end, edit.header.size()) : end) - offset);
    if (in_header) {
      hasher.update(edit.header.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count)));
    } else {
      HT_TRY(edit.source.visit(offset - edit.moved_by(), count, [&](Bytes piece) -> Result<void> {
        hasher.update(piece);
        return {};
      }));
    }
    offset += count;
  }
  return hasher.finish();
}

// Computes the digests of the chunks before the first tensor, concatenated.
Result<std::vector<std::byte>> header_digests(const Seal& seal, const SealRegions& regions,
                                              const ReplacedHeader& edit, const WorkOptions& work) {
  auto hasher = HT_TRY(Hasher::make(seal.algorithm));
  const std::size_t first = regions.of_file(edit.file).first;
  std::vector<std::byte> digests;
  for (std::uint64_t nth = 0; nth < regions[first].chunks(); ++nth) {
    const auto range = regions.chunk(first, nth).range;
    const auto digest = HT_TRY(digest_of_edited(hasher, edit, range.offset, range.bytes, work));
    digests.insert(digests.end(), digest.bytes().begin(), digest.bytes().end());
  }
  return digests;
}

// Returns the digests that the seal has for the chunks before the first tensor.
Bytes sealed_header_digests(const Seal& seal, const SealRegions& regions, std::uint32_t file) {
  const auto& region = regions[regions.of_file(file).first];
  const std::size_t size = digest_bytes(seal.algorithm);
  return Bytes(seal.chunks)
      .subspan(static_cast<std::size_t>(region.first_chunk) * size,
               static_cast<std::size_t>(region.chunks()) * size);
}

// Fails if the seal has a tensor inside the header.
Result<void> check_tensors(const Seal& seal, const ReplacedHeader& edit, std::uint64_t header_bytes) {
  for (const auto& tensor : seal.tensors) {
    if (tensor.file != edit.file || tensor.offset >= header_bytes) continue;
    return fail(
        Error(ErrorCode::bad_seal, "sealed_tensors_follow_the_header",
              format_text("places tensor '{}' at byte {}, inside the header of {} bytes",
                          to_utf8(tensor.name), tensor.offset, header_bytes))
            .at_tensor(tensor.name)
            .with_hint("replace the seal with `htensor seal --force` if the file is known to be good"));
  }
  return {};
}

Result<Digest> digest_of_file(const Seal& seal, const SealRegions& regions, const ReplacedHeader& edit,
                              const WorkOptions& work) {
  if (seal.algorithm != HashAlgorithm::crc64nvme) {
    auto hasher = HT_TRY(Hasher::make(seal.algorithm));
    return digest_of_edited(hasher, edit, 0, seal.files[edit.file].bytes, work);
  }
  std::uint64_t sum = 0;
  regions.each_chunk([&](const SealChunk& chunk) {
    if (chunk.range.file == edit.file)
      sum = crc64nvme_combine(sum, sealed_digest(seal, chunk.number).crc64nvme(), chunk.range.bytes);
  });
  return Digest(sum);
}

}  // namespace

Result<Seal> carried_seal(Seal seal, const ReplacedHeader& edit, const WorkOptions& work) {
  return without_bad_alloc([&]() -> Result<Seal> {
    HT_TRY(check_tensors(seal, edit, edit.old_header_bytes));
    const Bytes old_digests = sealed_header_digests(seal, SealRegions(seal), edit.file);
    seal.files[edit.file].bytes += edit.moved_by();
    for (auto& tensor : seal.tensors) {
      if (tensor.file == edit.file) tensor.offset += edit.moved_by();
    }
    const SealRegions after(seal);
    const auto new_digests = HT_TRY(header_digests(seal, after, edit, work));
    const auto begin = seal.chunks.begin() + (old_digests.data() - seal.chunks.data());
    const auto data = seal.chunks.erase(begin, begin + static_cast<std::ptrdiff_t>(old_digests.size()));
    seal.chunks.insert(data, new_digests.begin(), new_digests.end());
    seal.files[edit.file].digest = HT_TRY(digest_of_file(seal, after, edit, work));
    return std::move(seal);
  });
}

Result<bool> is_carried_seal(const Seal& seal, const ReplacedHeader& edit, const WorkOptions& work) {
  return without_bad_alloc([&]() -> Result<bool> {
    if (seal.files[edit.file].bytes != edit.source.source().size() + edit.moved_by()) return false;
    if (!check_tensors(seal, edit, edit.header.size())) return false;
    const SealRegions regions(seal);
    const auto expected = HT_TRY(header_digests(seal, regions, edit, work));
    return std::ranges::equal(expected, sealed_header_digests(seal, regions, edit.file));
  });
}

}  // namespace ht::inline v1
