#include "integrity/seal_size.hpp"

#include <htensor/base/checked.hpp>
#include <vector>

#include "base/format_text.hpp"
#include "integrity/regions.hpp"

namespace ht::inline v1 {
namespace {

constexpr std::uint64_t file_record_bytes = 16;    // without its digest
constexpr std::uint64_t tensor_record_bytes = 24;  // likewise

bool is_within_limit(HashAlgorithm algorithm, const SealCounts& counts) {
  return counts.seal_bytes(algorithm).value_or(UINT64_MAX) <= Seal::max_bytes;
}

}  // namespace

SealCounts SealCounts::of(const Seal& seal) noexcept {
  SealCounts counts{.files = seal.files.size(),
                    .tensors = seal.tensors.size(),
                    .chunks = seal.chunks.size() / digest_bytes(seal.algorithm)};
  for (const auto& file : seal.files) counts.name_bytes += file.name.size();
  for (const auto& tensor : seal.tensors) counts.name_bytes += tensor.name.size();
  return counts;
}

std::optional<std::uint64_t> SealCounts::seal_bytes(HashAlgorithm algorithm) const noexcept {
  const std::uint64_t digest = digest_bytes(algorithm);
  std::optional<std::uint64_t> sum = header_bytes + digest;
  const auto add = [&](std::uint64_t count, std::uint64_t bytes) {
    const auto product = checked::multiply(count, bytes);
    sum = sum && product ? checked::add(*sum, *product) : std::nullopt;
  };
  add(files, file_record_bytes + digest);
  add(tensors, tensor_record_bytes + digest);
  add(chunks, digest);
  add(name_bytes, 1);
  return sum;
}

Result<void> check_seal_size(HashAlgorithm algorithm, const SealCounts& counts) {
  if (is_within_limit(algorithm, counts)) return {};
  const bool is_smaller_enough = is_within_limit(HashAlgorithm::crc64nvme, counts);
  return fail(Error(ErrorCode::header_too_large, "seal_size_within_limit",
                    format_text("the seal would have {} bytes, with digests of {} chunks and {} tensors, but "
                                "the limit is {} bytes",
                                counts.seal_bytes(algorithm).value_or(UINT64_MAX), counts.chunks,
                                counts.tensors, Seal::max_bytes))
                  .with_hint(is_smaller_enough
                                 ? "use --algorithm crc64nvme, whose digests have 8 bytes"
                                 : "divide the model into several folders and seal each of them"));
}

Result<void> check_seal_size(HashAlgorithm algorithm, const Catalog& catalog,
                             std::span<const std::uint64_t> file_bytes, std::span<const std::string> names) {
  SealCounts counts{.files = file_bytes.size(), .tensors = catalog.size()};
  std::vector<SealedTensor> tensors;
  tensors.reserve(catalog.size());
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    const Entry entry = catalog[i];
    counts.name_bytes += entry.name.size();
    if (entry.is_splat()) continue;
    tensors.push_back(
        {.name = {}, .file = entry.file, .offset = entry.offset, .bytes = entry.bytes, .digest = Digest(0)});
  }
  for (const auto& name : names) counts.name_bytes += name.size();
  counts.chunks = SealRegions(file_bytes, tensors).chunks();
  return check_seal_size(algorithm, counts);
}

}  // namespace ht::inline v1
