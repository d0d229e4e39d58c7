// For any first bytes: `unknown_format_error` has a message and a hint, and an error of `parse` has a message
// and a rule.
#include "format/sniff.hpp"

#include <algorithm>
#include <cstdlib>
#include <htensor/format/format.hpp>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ht::Bytes all = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> file(all.begin(), all.end());
  const auto sniffed = std::min<std::size_t>(file.size(), ht::sniffed_bytes);
  for (const std::uint64_t claimed : {std::uint64_t{0}, std::uint64_t{1} << 40}) {
    const std::uint64_t file_bytes =
        sniffed < ht::sniffed_bytes ? file.size() : std::max<std::uint64_t>(file.size(), claimed);
    const auto error = ht::unknown_format_error(ht::Bytes(file).first(sniffed), file_bytes);
    if (error.code() != ht::ErrorCode::bad_magic || error.message().empty() || error.hint().empty())
      std::abort();
    const auto parsed = ht::parse(file, file_bytes, {.stem = "fuzz"});
    if (!parsed && (parsed.error().message().empty() || parsed.error().rule().empty())) std::abort();
  }
  return 0;
}
