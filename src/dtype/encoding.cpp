#include <htensor/dtype/encoding.hpp>

#include <algorithm>
#include <array>
#include <htensor/dtype/packed.hpp>

namespace ht::inline v1 {
namespace {

constexpr Encoding block(int number, std::string_view name, std::uint32_t elements, std::uint32_t bytes) {
  return {static_cast<EncodingTag>(number), name, elements, bytes};
}

// Numbers 4, 5, 31 to 33 and 36 to 38 are retired: their block layouts were specific to one machine.
constexpr std::array encodings{
    block(2, "Q4_0", 32, 18),      block(3, "Q4_1", 32, 20),      block(6, "Q5_0", 32, 22),
    block(7, "Q5_1", 32, 24),      block(8, "Q8_0", 32, 34),      block(9, "Q8_1", 32, 36),
    block(10, "Q2_K", 256, 84),    block(11, "Q3_K", 256, 110),   block(12, "Q4_K", 256, 144),
    block(13, "Q5_K", 256, 176),   block(14, "Q6_K", 256, 210),   block(15, "Q8_K", 256, 292),
    block(16, "IQ2_XXS", 256, 66), block(17, "IQ2_XS", 256, 74),  block(18, "IQ3_XXS", 256, 98),
    block(19, "IQ1_S", 256, 50),   block(20, "IQ4_NL", 32, 18),   block(21, "IQ3_S", 256, 110),
    block(22, "IQ2_S", 256, 82),   block(23, "IQ4_XS", 256, 136), block(29, "IQ1_M", 256, 56),
    block(34, "TQ1_0", 256, 54),   block(35, "TQ2_0", 256, 66),   block(39, "MXFP4", 32, 17),
    block(40, "NVFP4", 64, 36),    block(41, "Q1_0", 128, 18),    block(42, "Q2_0", 64, 18),
};

template <class Matches>
std::optional<Encoding> find_where(Matches matches) noexcept {
  const auto found = std::ranges::find_if(encodings, matches);
  if (found == encodings.end()) return std::nullopt;
  return *found;
}

}  // namespace

std::optional<Encoding> find_encoding(EncodingTag tag) noexcept {
  return find_where([tag](const Encoding& encoding) { return encoding.tag == tag; });
}

std::optional<Encoding> find_encoding(std::string_view name) noexcept {
  return find_where([name](const Encoding& encoding) { return encoding.name == name; });
}

std::optional<std::uint64_t> block_bytes(std::span<const std::int64_t> dims,
                                         const Encoding& encoding) noexcept {
  const auto elements = element_count(dims);
  const std::int64_t row = dims.empty() ? 1 : dims.back();
  if (!elements || row % encoding.block_elements != 0) return std::nullopt;
  const auto blocks = static_cast<std::uint64_t>(*elements) / encoding.block_elements;
  const auto bytes = checked::multiply(blocks, encoding.block_bytes);
  if (!bytes || !checked::narrow<std::int64_t>(*bytes)) return std::nullopt;
  return bytes;
}

}  // namespace ht::inline v1
