// A user dtype whose element is wider than `bits` would access memory outside of the tensor.
#include <htensor/htensor.hpp>

struct Wide {
  using Family = Wide;
  using Element = std::uint32_t;
  static constexpr std::string_view name = "WIDE";
#ifdef HT_FAIL
  static constexpr int bits = 24;
#else
  static constexpr int bits = 32;
#endif
  static constexpr ht::DTypeTag tag = ht::user_tag(0);
};

#ifdef HT_FAIL
using Matrix = ht::Tensor<Wide, ht::Rank<2>>;  // expect: HasElements
#else
using Matrix = ht::Tensor<Wide, ht::Rank<2>>;
#endif

#ifndef HT_FAIL
std::int64_t rows(const Matrix& matrix) { return matrix.extent(0); }
#endif
