// For any bytes, `parse_seal` returns a seal, `bad_seal` or `out_of_memory`. A parsed seal is encoded as the
// same bytes.
#include <algorithm>
#include <cstdlib>
#include <htensor/hash/digest.hpp>
#include <htensor/integrity/seal.hpp>
#include <vector>

using namespace ht;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  // The second pass sets a valid algorithm, length and digest, so that the checks after them are reached.
  for (const bool forged : {false, true}) {
    if (forged) {
      if (bytes.size() < 72) return 0;
      bytes[10] = std::byte{1};
      store_le(MutableBytes(bytes).subspan(48), static_cast<std::uint64_t>(bytes.size()));
      store_be(MutableBytes(bytes).last(8), crc64nvme(Bytes(bytes).first(bytes.size() - 8)));
    }
    const auto seal = parse_seal(bytes);
    if (!seal) {
      const auto code = seal.error().code();
      if (code != ErrorCode::bad_seal && code != ErrorCode::out_of_memory) std::abort();
      continue;
    }
    const auto encoded = encode_seal(*seal);
    if (!encoded || !std::ranges::equal(*encoded, bytes)) std::abort();
  }
  return 0;
}
