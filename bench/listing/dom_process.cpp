// Reads the header of a safetensors file, parses it with simdjson's DOM and prints the number of members: the
// minimum work of a process that lists the file.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "bench/catalog/task.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ifstream file(argv[1], std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof(length));
  std::string text(static_cast<std::size_t>(length) + ht::bench::json_padding, ' ');
  file.read(text.data(), static_cast<std::streamsize>(length));
  if (!file) return 2;
  const auto members = ht::bench::parse_by_simdjson({text.data(), text.size() - ht::bench::json_padding});
  std::printf("%zu\n", members);
  return members == 0 ? 1 : 0;
}
