// What it takes to be a dtype, and the families that dtypes belong to.
#pragma once

#include <concepts>
#include <htensor/dtype/facts.hpp>
#include <string_view>
#include <type_traits>

namespace ht::inline v1 {

/// What every dtype has: a name, a width in bits, a family, the byte that stands for it in files, and
/// the C++ type of one element. The bytes of an Element are its stored bytes where the width is a
/// whole number of bytes; narrower elements are packed (see packed.hpp).
template <class T>
concept IsDType = std::is_empty_v<T> && std::same_as<T, std::remove_cv_t<T>> && requires {
  { T::name } -> std::convertible_to<std::string_view>;
  { T::bits } -> std::convertible_to<int>;
  { T::tag } -> std::convertible_to<DTypeTag>;
  typename T::Family;
  typename T::Element;
};

/// A dtype whose elements are numbers, told by `NumberFacts`.
template <class T>
concept IsNumber = IsDType<T> && requires {
  { T::number } -> std::convertible_to<const NumberFacts&>;
};

/// A dtype that has a rank by width within its family. `Bool` has none.
template <class T>
concept Precision = IsNumber<T> && requires {
  { T::width_rank } -> std::convertible_to<int>;
};

/// The families. A user's dtype may join one or bring its own.
namespace family {
struct Float {};
struct BFloat {};
struct Int {};
struct UInt {};
struct Bool {};
struct Complex {};
struct MiniFloat {};
}  // namespace family

}  // namespace ht::inline v1
