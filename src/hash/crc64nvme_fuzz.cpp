// All kernels compute the checksum of the table kernel when the input is split into pieces of any size.
#include <array>
#include <cstdlib>
#include <htensor/hash/digest.hpp>

#include "hash/crc64nvme_kernels.hpp"

using namespace ht;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The first bytes select the sizes of the pieces, in rotation.
  constexpr std::size_t sizes = 8;
  if (size < sizes) return 0;
  const Bytes head(reinterpret_cast<const std::byte*>(data), sizes);
  const Bytes input(reinterpret_cast<const std::byte*>(data) + sizes, size - sizes);
  const std::uint64_t expected = ~crc64::by_table(input.data(), input.size(), ~std::uint64_t{0});
  for (const auto& kernel : crc64::supported_kernels()) {
    std::uint64_t in_pieces = ~std::uint64_t{0};
    std::uint64_t combined = 0;
    std::size_t turn = 0;
    for (std::size_t at = 0; at < input.size();) {
      const std::size_t piece_bytes = 1 + 8 * std::to_integer<std::size_t>(head[turn++ % sizes]);
      const Bytes piece = input.subspan(at, std::min(piece_bytes, input.size() - at));
      in_pieces = kernel.function(piece.data(), piece.size(), in_pieces);
      const std::uint64_t alone = ~kernel.function(piece.data(), piece.size(), ~std::uint64_t{0});
      combined = crc64nvme_combine(combined, alone, piece.size());
      at += piece.size();
    }
    if (~in_pieces != expected || combined != expected) std::abort();
  }
  return 0;
}
