#include <htensor/dtype/encoding.hpp>

#include <algorithm>
#include <array>
#include <htensor/dtype/packed.hpp>

namespace ht::inline v1 {
namespace {

template <class... Es>
constexpr std::array<Encoding, sizeof...(Es)> encodings_of(EncodingList<Es...>) {
  return {Encoding{Es::tag, Es::name, Es::block_elements, Es::block_bytes}...};
}

// ggml has removed the numbers 4, 5, 31 to 33 and 36 to 38. 0, 1, 24 to 28 and 30 are its dense dtypes.
constexpr auto encodings = encodings_of(AllEncodings{});

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
