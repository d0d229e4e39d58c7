#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <htensor/dtype/relations.hpp>
#include <htensor/dtype/scalar.hpp>
#include <limits>
#include <map>
#include <set>
#include <vector>

namespace ht::relations_test {
namespace {

// Represents every value of every real dtype exactly, so that plain arithmetic is the oracle.
using Exact = long double;
static_assert(std::numeric_limits<Exact>::digits >= 64);

struct Value {
  Exact real = 0;
  Exact imaginary = 0;
};

bool is_minus_zero(Exact x) { return x == 0 && std::signbit(x); }

// A dtype as a set of values. `values` lists all of them, or the edge cases of large sets; `has` tests
// membership.
struct Oracle {
  std::vector<Value> values;
  std::function<bool(Exact)> has;
  bool is_complex = false;

  [[nodiscard]] bool has_all_of(const Oracle& other) const {
    return std::ranges::all_of(other.values, [this](const Value& value) {
      return has(value.real) && (value.imaginary == 0 || (is_complex && has(value.imaginary)));
    });
  }
};

std::vector<Value> real_values(const std::vector<Exact>& numbers) {
  std::vector<Value> values;
  for (const Exact number : numbers) values.push_back({number});
  return values;
}

Oracle listed(const std::vector<Exact>& numbers) {
  std::set<std::pair<Exact, bool>> all;
  for (const Exact number : numbers) all.emplace(number, is_minus_zero(number));
  return {real_values(numbers), [all](Exact x) { return all.contains(std::pair(x, is_minus_zero(x))); }};
}

Oracle integers(int lowest, int highest) {
  std::vector<Exact> numbers;
  for (int i = lowest; i <= highest; ++i) numbers.push_back(i);
  return listed(numbers);
}

// small_float_test compares the value of each code with the specification of its format.
template <class Element>
Oracle decoded(unsigned codes) {
  std::vector<Exact> numbers;
  for (unsigned code = 0; code < codes; ++code) {
    const auto value = static_cast<double>(Element::from_bits(static_cast<typename Element::Bits>(code)));
    if (std::isfinite(value)) numbers.push_back(value);
  }
  return listed(numbers);
}

template <class T>
Oracle wide_integers() {
  const Exact lowest = std::numeric_limits<T>::min();
  const Exact highest = std::numeric_limits<T>::max();
  const auto has = [=](Exact x) {
    return x >= lowest && x <= highest && x == std::floor(x) && !is_minus_zero(x);
  };
  std::vector<Exact> edges;
  for (const Exact edge : {lowest, lowest + 1, Exact{-1}, Exact{0}, Exact{1}, Exact{0x1p24} + 1,
                           Exact{0x1p53} + 1, highest - 1, highest}) {
    if (has(edge)) edges.push_back(edge);
  }
  return {real_values(edges), has};
}

template <class T>
Oracle wide_floats() {
  using Limits = std::numeric_limits<T>;
  // 2 - epsilon has every bit of the significand set, including the lowest.
  const std::vector<T> edges{T{0},
                             -T{0},
                             T{1},
                             T{-1},
                             Limits::max(),
                             Limits::lowest(),
                             Limits::min(),
                             -Limits::min(),
                             Limits::denorm_min(),
                             -Limits::denorm_min(),
                             T{2} - Limits::epsilon(),
                             T{1} + Limits::epsilon(),
                             std::nextafter(Limits::max(), T{0})};
  return {real_values({edges.begin(), edges.end()}), [](Exact x) {
            // The conversion of a value beyond the largest one is undefined.
            return std::fabs(x) <= Limits::max() && static_cast<Exact>(static_cast<T>(x)) == x;
          }};
}

Oracle complex_numbers() {
  Oracle oracle = wide_floats<float>();
  oracle.values.push_back({1, 1});
  oracle.is_complex = true;
  return oracle;
}

const std::map<std::string_view, Oracle>& oracles() {
  static const std::map<std::string_view, Oracle> all{
      {"BOOL", integers(0, 1)},
      {"I4", integers(-8, 7)},
      {"U4", integers(0, 15)},
      {"I8", integers(-128, 127)},
      {"U8", integers(0, 255)},
      {"I16", integers(-32768, 32767)},
      {"U16", integers(0, 65535)},
      {"I32", wide_integers<std::int32_t>()},
      {"U32", wide_integers<std::uint32_t>()},
      {"I64", wide_integers<std::int64_t>()},
      {"U64", wide_integers<std::uint64_t>()},
      {"F16", decoded<F16::Element>(65536)},
      {"BF16", decoded<BF16::Element>(65536)},
      {"F32", wide_floats<float>()},
      {"F64", wide_floats<double>()},
      {"C64", complex_numbers()},
      {"F4", decoded<F4::Element>(16)},
      {"F6_E2M3", decoded<F6_E2M3::Element>(64)},
      {"F6_E3M2", decoded<F6_E3M2::Element>(64)},
      {"F8_E4M3", decoded<F8_E4M3::Element>(256)},
      {"F8_E5M2", decoded<F8_E5M2::Element>(256)},
      {"F8_E8M0", decoded<F8_E8M0::Element>(256)},
      {"F8_E4M3FNUZ", decoded<F8_E4M3FNUZ::Element>(256)},
      {"F8_E5M2FNUZ", decoded<F8_E5M2FNUZ::Element>(256)},
  };
  return all;
}

// Tables of the concepts over all pairs, computed at compile time, so that tests are loops at run time.
constexpr std::size_t count = 24;
static_assert(AllDTypes::size == count);
template <class T>
using Table = std::array<std::array<T, count>, count>;

template <class... Ds>
consteval std::array<std::string_view, count> names_of(DTypeList<Ds...>) {
  return {Ds::name...};
}
template <class A, class... Bs>
consteval std::array<bool, count> lossless_row() {
  return {LosslessTo<A, Bs>...};
}
template <class... Ds>
consteval Table<bool> lossless_table(DTypeList<Ds...>) {
  return {lossless_row<Ds, Ds...>()...};
}
template <class A, class... Bs>
consteval std::array<bool, count> upcastable_row() {
  return {UpcastableTo<A, Bs>...};
}
template <class... Ds>
consteval Table<bool> upcastable_table(DTypeList<Ds...>) {
  return {upcastable_row<Ds, Ds...>()...};
}

constexpr auto names = names_of(AllDTypes{});
constexpr auto lossless = lossless_table(AllDTypes{});
constexpr auto upcastable = upcastable_table(AllDTypes{});

template <class D>
constexpr auto place_of = static_cast<std::size_t>(std::ranges::find(names, D::name) - names.begin());

// The position of the common dtype in the list, or `count` if there is none.
template <class... Ds>
consteval std::size_t common_place() {
  if constexpr (HaveCommon<Ds...>) {
    return place_of<Common<Ds...>>;
  } else {
    return count;
  }
}
template <class A, class... Bs>
consteval std::array<std::size_t, count> common_row() {
  return {common_place<A, Bs>()...};
}
template <class... Ds>
consteval Table<std::size_t> common_table(DTypeList<Ds...>) {
  return {common_row<Ds, Ds...>()...};
}

// The documented result of Common: the first dtype in the list that holds all of the given dtypes.
std::size_t first_holding(std::initializer_list<std::size_t> given) {
  for (std::size_t place = 0; place < count; ++place) {
    if (std::ranges::all_of(given, [place](std::size_t d) { return lossless[d][place]; })) return place;
  }
  return count;
}

TEST(LosslessTo, holds_if_every_value_is_representable) {
  ASSERT_EQ(oracles().size(), count);
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      const bool expected = oracles().at(names[b]).has_all_of(oracles().at(names[a]));
      EXPECT_EQ(lossless[a][b], expected) << names[a] << " to " << names[b];
    }
  }
}

TEST(LosslessTo, matches_the_examples) {
  EXPECT_TRUE((LosslessTo<U8, F16> && LosslessTo<BF16, F32> && LosslessTo<I32, F64>));
  EXPECT_FALSE((LosslessTo<I64, F64>));
  EXPECT_FALSE((LosslessTo<F8_E4M3, F8_E4M3FNUZ>));
  EXPECT_FALSE((LosslessTo<F8_E5M2, F8_E5M2FNUZ>)) << "F8_E5M2FNUZ has no -0";
  EXPECT_FALSE((LosslessTo<F32, int>));
  EXPECT_FALSE((LosslessTo<const F32, F32>));
}

TEST(LosslessTo, is_a_partial_order) {
  for (std::size_t a = 0; a < count; ++a) {
    EXPECT_TRUE(lossless[a][a]) << names[a];
    for (std::size_t b = 0; b < count; ++b) {
      EXPECT_FALSE(a != b && lossless[a][b] && lossless[b][a]) << names[a] << " " << names[b];
      for (std::size_t c = 0; c < count; ++c) {
        EXPECT_FALSE(lossless[a][b] && lossless[b][c] && !lossless[a][c])
            << names[a] << " " << names[b] << " " << names[c];
      }
    }
  }
}

TEST(LosslessTo, follows_the_order_of_the_list) {
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < a; ++b) EXPECT_FALSE(lossless[a][b]) << names[a] << " to " << names[b];
  }
}

TEST(UpcastableTo, is_lossless_within_a_family) {
  const auto family_of = [](std::string_view name) -> std::string_view {
    if (name == "BOOL" || name == "BF16" || name == "C64") return name;
    if (name == "F16" || name == "F32" || name == "F64") return "Float";
    return name.starts_with("F") ? "MiniFloat" : name.substr(0, 1);
  };
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      EXPECT_EQ(upcastable[a][b], lossless[a][b] && family_of(names[a]) == family_of(names[b]))
          << names[a] << " to " << names[b];
    }
  }
}

TEST(Common, matches_the_examples) {
  EXPECT_TRUE((std::same_as<Common<F16, BF16>, F32>));
  EXPECT_TRUE((std::same_as<Common<U8, I8>, I16>));
  EXPECT_TRUE((std::same_as<Common<U8, F16>, F16>));
  EXPECT_TRUE((std::same_as<Common<I32, F32>, F64>));
  EXPECT_TRUE((std::same_as<Common<F8_E8M0, F8_E4M3>, BF16>));
  EXPECT_FALSE((HaveCommon<I64, F64>));
  EXPECT_FALSE((HaveCommon<I64, U64>));
  EXPECT_FALSE((HaveCommon<>));
  EXPECT_FALSE((HaveCommon<F32, int>));
}

TEST(Common, is_the_first_dtype_that_holds_both) {
  constexpr auto common = common_table(AllDTypes{});
  for (std::size_t a = 0; a < count; ++a) {
    EXPECT_EQ(common[a][a], a) << names[a];
    for (std::size_t b = 0; b < count; ++b) {
      EXPECT_EQ(common[a][b], first_holding({a, b})) << names[a] << " " << names[b];
      if (lossless[a][b]) {
        EXPECT_EQ(common[a][b], b) << names[a] << " " << names[b];
      }
    }
  }
}

// Dtypes whose pairwise promotion would depend on the order. Triples of all 24 dtypes would need gigabytes of
// compiler memory; the run-time loop of `is_the_dtype_that_holds_the_others` covers them.
using OrderSensitiveDTypes =
    DTypeList<U4, F6_E3M2, U8, I8, F8_E4M3, F8_E5M2FNUZ, F8_E8M0, I16, F16, BF16, F32, I64>;

struct Triple {
  std::size_t a, b, c, common;
};

template <class A, class B, class... Cs>
void add_triples(std::vector<Triple>& all) {
  (all.push_back({place_of<A>, place_of<B>, place_of<Cs>, common_place<A, B, Cs>()}), ...);
}
template <class A, class... Ds>
void add_triples_of_pairs(std::vector<Triple>& all) {
  (add_triples<A, Ds, Ds...>(all), ...);
}
template <class... Ds>
std::vector<Triple> all_triples(DTypeList<Ds...>) {
  std::vector<Triple> all;
  (add_triples_of_pairs<Ds, Ds...>(all), ...);
  return all;
}

TEST(Common, does_not_depend_on_the_order_of_three_dtypes) {
  const auto triples = all_triples(OrderSensitiveDTypes{});
  constexpr std::size_t dtypes = OrderSensitiveDTypes::size;
  ASSERT_EQ(triples.size(), dtypes * dtypes * dtypes);
  // `first_holding` ignores the order of its arguments, so equality proves that Common does too.
  for (const auto& [a, b, c, common] : triples) {
    EXPECT_EQ(common, first_holding({a, b, c})) << names[a] << " " << names[b] << " " << names[c];
  }
}

TEST(Common, is_the_dtype_that_holds_the_others) {
  // Common examines its arguments before the list. An argument that holds the other two must therefore be the
  // first dtype in the list that holds all three.
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      for (std::size_t c = 0; c < count; ++c) {
        for (const std::size_t given : {a, b, c}) {
          if (lossless[a][given] && lossless[b][given] && lossless[c][given]) {
            ASSERT_EQ(given, first_holding({a, b, c})) << names[a] << " " << names[b] << " " << names[c];
          }
        }
      }
    }
  }
}

template <template <class> class Holds, class... Ds>
std::set<std::string_view> names_of_matching(DTypeList<Ds...>) {
  std::set<std::string_view> found;
  ((Holds<Ds>::value ? void(found.insert(Ds::name)) : void()), ...);
  return found;
}
template <class D>
using Floating = std::bool_constant<IsFloating<D>>;
template <class D>
using Integral = std::bool_constant<IsIntegral<D>>;
template <class D>
using Arithmetic = std::bool_constant<IsArithmetic<D>>;

TEST(Concepts, select_the_expected_dtypes) {
  const std::set<std::string_view> integral{"I4", "U4", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64"};
  const std::set<std::string_view> floating{"F4",      "F6_E2M3", "F6_E3M2",     "F8_E4M3",
                                            "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
                                            "F16",     "BF16",    "F32",         "F64"};
  EXPECT_EQ(names_of_matching<Integral>(AllDTypes{}), integral);
  EXPECT_EQ(names_of_matching<Floating>(AllDTypes{}), floating);
  std::set<std::string_view> all_but_bool(names.begin(), names.end());
  all_but_bool.erase("BOOL");
  EXPECT_EQ(names_of_matching<Arithmetic>(AllDTypes{}), all_but_bool);
}

TEST(Concepts, accept_only_dtypes) {
  EXPECT_TRUE(IsDType<F32>);
  EXPECT_TRUE(IsDType<Bool>);
  EXPECT_FALSE(IsDType<int>);
  EXPECT_FALSE(IsDType<float>);
  EXPECT_FALSE(IsDType<const F32>);
  EXPECT_FALSE(IsDType<F32&>);
  EXPECT_FALSE(IsDType<family::Float>);
  EXPECT_FALSE(IsDType<F16::Element>);
}

}  // namespace
}  // namespace ht::relations_test
