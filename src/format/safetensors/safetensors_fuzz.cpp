#include <cstdlib>

#include "format/fuzz_format.hpp"
#include "format/safetensors/safetensors_header.hpp"
#include "format/safetensors/test_file.hpp"

// `read_plain_header` agrees with the JSON parser on every text that it reads.
static void check_readers_agree(std::string_view text) {
  const auto plain = ht::format_safetensors::read_plain_header(text, {});
  if (!plain) return;
  const auto by_json = ht::format_safetensors::read_json_header(ht::bytes_of(text), {}, {});
  if (!by_json || !ht::testing::same_members(*plain, *by_json)) std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t length_bytes = 8;
  if (size > length_bytes) {
    check_readers_agree({reinterpret_cast<const char*>(data) + length_bytes, size - length_bytes});
  }
  ht::testing::check_format("safetensors", data, size);
  return 0;
}
