#include "integrity/carried_seal.hpp"

#include <algorithm>
#include <htensor/base/checked.hpp>
#include <htensor/base/fault.hpp>
#include <htensor/base/utf8.hpp>
#include <htensor/hash/crc64.hpp>

#include "base/format_text.hpp"
#include "integrity/regions.hpp"

namespace ht::inline v1 {
namespace {

SealRegions regions_of(const Seal& seal) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(seal.files.size());
  for (const auto& file : seal.files) sizes.push_back(file.bytes);
  return {sizes, seal.tensors};
}

// The most bytes that are read between two polls of the stop token.
constexpr std::uint64_t step_bytes = std::uint64_t{1} << 20;

// Hashes a range of the edited file.
Result<Digest> digest_of_edited(Hasher& hasher, const ReplacedHeader& edit, std::uint64_t offset,
                                std::uint64_t bytes, const WorkOptions& work) {
  const std::uint64_t end = offset + bytes;
  while (offset < end) {
    if (work.stop.stop_requested()) {
      return fail(
          Error(ErrorCode::cancelled, "work_is_not_stopped",
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

// The digests of the chunks before the first tensor, end to end.
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

// Every byte of the header is before the first tensor of its file.
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

// The digests of chunks from one number to another.
Bytes digests_of(const Seal& seal, std::uint64_t from, std::uint64_t to) {
  const std::size_t size = digest_bytes(seal.algorithm);
  return Bytes(seal.chunks)
      .subspan(static_cast<std::size_t>(from) * size, static_cast<std::size_t>(to - from) * size);
}

Result<Digest> digest_of_file(const Seal& seal, const SealRegions& regions, const ReplacedHeader& edit,
                              const WorkOptions& work) {
  if (seal.algorithm != HashAlgorithm::crc64nvme) {
    auto hasher = HT_TRY(Hasher::make(seal.algorithm));
    return digest_of_edited(hasher, edit, 0, seal.files[edit.file].bytes, work);
  }
  std::uint64_t sum = 0;
  for (auto number = regions.first_chunk(edit.file); number < regions.first_chunk(edit.file + 1); ++number) {
    const Digest chunk(seal.algorithm, digests_of(seal, number, number + 1));
    sum = crc64nvme_combine(sum, chunk.crc64nvme(), regions.chunk(number).range.bytes);
  }
  return Digest(sum);
}

}  // namespace

Result<Seal> carried_seal(Seal seal, const ReplacedHeader& edit, const WorkOptions& work) {
  return without_bad_alloc([&]() -> Result<Seal> {
    HT_TRY(check_tensors(seal, edit, edit.old_header_bytes));
    const SealRegions before = regions_of(seal);
    const std::uint64_t first = before.first_chunk(edit.file);
    const std::uint64_t data = first + before[before.of_file(edit.file).first].chunks();
    seal.files[edit.file].bytes += edit.moved_by();
    for (auto& tensor : seal.tensors) {
      if (tensor.file == edit.file) tensor.offset += edit.moved_by();
    }
    const SealRegions after = regions_of(seal);
    const auto header = HT_TRY(header_digests(seal, after, edit, work));
    const Bytes kept_before = digests_of(seal, 0, first);
    const Bytes kept_after = digests_of(seal, data, before.chunks());
    std::vector<std::byte> chunks(kept_before.begin(), kept_before.end());
    chunks.insert(chunks.end(), header.begin(), header.end());
    chunks.insert(chunks.end(), kept_after.begin(), kept_after.end());
    seal.chunks = std::move(chunks);
    seal.files[edit.file].digest = HT_TRY(digest_of_file(seal, after, edit, work));
    return std::move(seal);
  });
}

Result<bool> is_carried_seal(const Seal& seal, const ReplacedHeader& edit, const WorkOptions& work) {
  return without_bad_alloc([&]() -> Result<bool> {
    if (seal.files[edit.file].bytes != edit.source.source().size() + edit.moved_by()) return false;
    if (!check_tensors(seal, edit, edit.header.size())) return false;
    const SealRegions regions = regions_of(seal);
    const std::uint64_t first = regions.first_chunk(edit.file);
    const auto wanted = HT_TRY(header_digests(seal, regions, edit, work));
    const auto count = wanted.size() / digest_bytes(seal.algorithm);
    return std::ranges::equal(wanted, digests_of(seal, first, first + count));
  });
}

}  // namespace ht::inline v1
