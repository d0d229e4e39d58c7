// A dtype that a user could define, outside of the library's namespace.
#pragma once

#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/scalar.hpp>
#include <string_view>

namespace user {

// An 8-bit float that the library lacks: three bits of exponent, four of mantissa.
struct F8_E3M4 {
  struct Family {};
  using Element = ht::SmallFloat<F8_E3M4>;
  static constexpr std::string_view name = "F8_E3M4";
  static constexpr int bits = 8;
  static constexpr ht::DTypeTag tag = ht::user_tag(0);
  static constexpr ht::FloatLayout layout{3, 4, 3, ht::FloatLayout::Specials::ieee};
  static constexpr ht::NumberFacts number = ht::number_facts(layout);
};

}  // namespace user
