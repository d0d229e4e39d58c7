#include <algorithm>
#include <array>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <string_view>

#include "values/targets.hpp"

namespace ht::inline v1 {

namespace {

// Returns the best instruction set for which Highway compiled kernels and that this processor has; empty for
// the baseline.
std::string_view target_name() noexcept {
  const std::int64_t targets = supported_targets() & ~HWY_STATIC_TARGET;
  if ((targets & HWY_AVX3) != 0) return "avx512";
  if ((targets & HWY_AVX2) != 0) return "avx2";
  if ((targets & HWY_SSE4) != 0) return "sse4";
  if ((targets & HWY_SSSE3) != 0) return "ssse3";
  return {};
}

struct Text {
  std::array<char, 64> characters{};
  std::size_t size = 0;

  Text() noexcept {
    add(target_name());
    const auto kernel = crc64nvme_kernel();
    if (kernel != "table") add(kernel);
  }

  void add(std::string_view word) noexcept {
    if (word.empty()) return;
    if (size != 0) characters[size++] = ' ';
    std::ranges::copy(word, characters.begin() + static_cast<std::ptrdiff_t>(size));
    size += word.size();
  }
};

}  // namespace

std::string_view cpu_features() noexcept {
  static const Text text;
  return {text.characters.data(), text.size};
}

}  // namespace ht::inline v1
