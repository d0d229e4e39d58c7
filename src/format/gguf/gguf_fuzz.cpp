#include "format/fuzz_format.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ht::testing::check_format("gguf", data, size);
  return 0;
}
