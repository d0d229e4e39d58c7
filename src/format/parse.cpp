#include <htensor/format/parse.hpp>

#include <algorithm>

#include "format/sniff.hpp"

namespace ht::inline v1 {

std::optional<Bytes> Seen::range(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (const auto found = part(prefix_, offset, bytes)) return found;
  for (const auto& seen : parts_) {
    if (offset < seen.offset) continue;
    if (const auto found = part(seen.bytes, offset - seen.offset, bytes)) return found;
  }
  return std::nullopt;
}

Result<Parsed> parse(const Seen& seen, std::uint64_t file_bytes, const ParseOptions& options) {
  return without_bad_alloc([&]() -> Result<Parsed> {
    const std::uint64_t wanted = std::min<std::uint64_t>(sniffed_bytes, file_bytes);
    if (seen.prefix().size() < wanted) return Need{0, wanted};
    const Bytes beginning = seen.prefix().first(static_cast<std::size_t>(wanted));
    for (const auto list : {options.formats, formats()}) {
      for (const auto& format : list) {
        if (format.looks_like(beginning, file_bytes)) return format.parse(seen, file_bytes, options);
      }
    }
    return fail(no_weights(beginning, file_bytes));
  });
}

}  // namespace ht::inline v1
