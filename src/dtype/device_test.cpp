#include <gtest/gtest.h>

#include <htensor/dtype/device.hpp>
#include <htensor/dtype/scalar.hpp>
#include <set>
#include <string>
#include <string_view>

// User code, which is outside of the library's namespace.
namespace users {

struct Color {
  struct Family {};
  using Element = std::uint32_t;
  static constexpr std::string_view name = "COLOR";
  static constexpr int bits = 32;
  static constexpr ht::DTypeTag tag = ht::user_tag(0);
};

// A second user dtype, which the code below declares as stored on a library device.
struct Pixel : Color {
  static constexpr std::string_view name = "PIXEL";
  static constexpr ht::DTypeTag tag = ht::user_tag(1);
};

struct Accelerator {
  static constexpr std::string_view name = "Accelerator";
  static constexpr bool is_host_accessible = false;
  template <class D>
  static constexpr bool stores = ht::contains<D, ht::DTypeList<ht::BF16, ht::F8_E4M3, Color>>;
};

struct NoName {
  static constexpr bool is_host_accessible = true;
};

struct HasState {
  static constexpr std::string_view name = "HasState";
  static constexpr bool is_host_accessible = true;
  int state = 0;
};

}  // namespace users

// One specialization covers both kinds of OpenCL devices.
template <class Kind>
inline constexpr bool ht::stores<ht::OpenCl<Kind>, users::Pixel> = true;

namespace {

template <class Dev, class... Ds>
std::set<std::string_view> stored_by(ht::DTypeList<Ds...>) {
  std::set<std::string_view> names;
  ((ht::Compatible<Dev, Ds> ? void(names.insert(Ds::name)) : void()), ...);
  return names;
}

template <class... Ds>
std::set<std::string_view> names_of(ht::DTypeList<Ds...>) {
  return {Ds::name...};
}

// Accepts an OpenCL device of any kind.
template <class Kind>
constexpr std::string_view device_name_of(ht::OpenCl<Kind>) {
  return ht::OpenCl<Kind>::name;
}

template <class D, class Dev>
  requires ht::Compatible<Dev, D>
struct Constrained {};

template <class D, class Dev>
concept IsWellFormed = requires { typename Constrained<D, Dev>; };

TEST(Host, stores_every_dtype) {
  EXPECT_EQ(stored_by<ht::Host>(ht::AllDTypes{}), names_of(ht::AllDTypes{}));
  EXPECT_TRUE((ht::Compatible<ht::Host, users::Color>)) << "a user-defined dtype";
  EXPECT_TRUE(ht::Host::is_host_accessible);
}

TEST(OpenCl, gpu_stores_all_but_double_precision) {
  auto expected = names_of(ht::AllDTypes{});
  EXPECT_EQ(expected.erase("F64"), 1U);
  EXPECT_EQ(stored_by<ht::OpenCl<ht::Gpu>>(ht::AllDTypes{}), expected);
}

TEST(OpenCl, cpu_stores_all) {
  EXPECT_EQ(stored_by<ht::OpenCl<ht::Cpu>>(ht::AllDTypes{}), names_of(ht::AllDTypes{}));
}

TEST(OpenCl, one_template_serves_both_kinds) {
  EXPECT_EQ(device_name_of(ht::OpenCl<ht::Gpu>{}), "OpenCl<Gpu>");
  EXPECT_EQ(device_name_of(ht::OpenCl<ht::Cpu>{}), "OpenCl<Cpu>");
  EXPECT_EQ(ht::OpenCl<ht::Gpu>::name, "OpenCl<Gpu>");
  EXPECT_FALSE((std::same_as<ht::OpenCl<ht::Gpu>, ht::OpenCl<ht::Cpu>>));
  EXPECT_FALSE((ht::OpenCl<ht::Gpu>::is_host_accessible || ht::OpenCl<ht::Cpu>::is_host_accessible));
}

TEST(OpenCl, is_named_after_its_kind_and_index) {
  EXPECT_EQ((ht::OpenCl<ht::Cpu, 3>::name), "OpenCl<Cpu, 3>");
  EXPECT_FALSE((std::same_as<ht::OpenCl<ht::Gpu>, ht::OpenCl<ht::Gpu, 1>>));
  EXPECT_TRUE((std::same_as<ht::OpenCl<ht::Gpu>, ht::OpenCl<ht::Gpu, 0>>));
}

TEST(OpenCl, calculates_with_fewer_dtypes_than_it_stores) {
  using Card = ht::OpenCl<ht::Gpu>;
  using Processor = ht::OpenCl<ht::Cpu>;
  EXPECT_TRUE(
      (ht::Computes<Card, ht::slice::Core, ht::BF16> && ht::Computes<Card, ht::slice::Core, const ht::I8>));
  EXPECT_FALSE(
      (ht::Computes<Card, ht::slice::Core, ht::C64> || ht::Computes<Card, ht::slice::Core, ht::F64>));
  EXPECT_TRUE((ht::Computes<Card, ht::slice::Linear, ht::F32> &&
               ht::Computes<Processor, ht::slice::Linear, ht::F64>));
  EXPECT_FALSE((ht::Computes<Processor, ht::slice::Linear, ht::F16> ||
                ht::Computes<Card, ht::slice::Linear, ht::F64>));
  EXPECT_TRUE((ht::Computes<Card, ht::slice::Nn, ht::F32> && ht::Computes<Card, ht::slice::Conv, ht::F32>));
  EXPECT_FALSE((ht::Computes<Card, ht::slice::Nn, ht::F16> || ht::Computes<Card, ht::slice::Conv, ht::F64>));
}

TEST(Compatible, decides_whether_a_type_is_well_formed) {
  EXPECT_TRUE((IsWellFormed<ht::F32, ht::OpenCl<ht::Gpu>>));
  EXPECT_FALSE((IsWellFormed<ht::F64, ht::OpenCl<ht::Gpu>>));
  EXPECT_TRUE((IsWellFormed<ht::F64, ht::OpenCl<ht::Cpu>>));
}

TEST(Compatible, ignores_const_of_the_dtype) {
  EXPECT_TRUE((ht::Compatible<ht::OpenCl<ht::Gpu>, const ht::F32>));
  EXPECT_FALSE((ht::Compatible<ht::OpenCl<ht::Gpu>, const ht::F64>));
  EXPECT_TRUE((ht::Compatible<ht::Host, const users::Color>));
}

TEST(Compatible, requires_a_device_and_a_dtype) {
  EXPECT_FALSE((ht::Compatible<ht::Host, float>));
  EXPECT_FALSE((ht::Compatible<ht::Host, ht::F32*>));
  EXPECT_FALSE((ht::Compatible<int, ht::F32>));
  EXPECT_FALSE((ht::Compatible<ht::F32, ht::F32>));
}

TEST(IsDevice, is_an_empty_type_with_a_name) {
  EXPECT_TRUE(
      (ht::IsDevice<ht::Host> && ht::IsDevice<ht::OpenCl<ht::Gpu>> && ht::IsDevice<ht::OpenCl<ht::Cpu>>));
  EXPECT_TRUE(ht::IsDevice<users::Accelerator>);
  EXPECT_FALSE(ht::IsDevice<ht::Gpu>) << "a kind is not a device";
  EXPECT_FALSE(ht::IsDevice<users::NoName>);
  EXPECT_FALSE(ht::IsDevice<users::HasState>);
  EXPECT_FALSE(ht::IsDevice<int>);
}

TEST(UsersDevice, stores_the_declared_dtypes) {
  using Names = std::set<std::string_view>;
  EXPECT_EQ(stored_by<users::Accelerator>(ht::AllDTypes{}), (Names{"BF16", "F8_E4M3"}));
  EXPECT_TRUE((ht::Compatible<users::Accelerator, users::Color>));
  EXPECT_FALSE((ht::Compatible<users::Accelerator, users::Pixel>));
}

TEST(UsersDType, is_stored_on_a_library_device_if_declared) {
  EXPECT_FALSE((ht::Compatible<ht::OpenCl<ht::Gpu>, users::Color> ||
                ht::Compatible<ht::OpenCl<ht::Cpu>, users::Color>));
  EXPECT_TRUE((ht::Compatible<ht::OpenCl<ht::Gpu>, users::Pixel> &&
               ht::Compatible<ht::OpenCl<ht::Cpu>, users::Pixel>));
  EXPECT_TRUE((ht::Compatible<ht::OpenCl<ht::Gpu>, const users::Pixel>));
}

TEST(Contains, is_true_for_listed_dtypes_only) {
  using List = ht::DTypeList<ht::F16, ht::F32>;
  EXPECT_TRUE((ht::contains<ht::F16, List> && ht::contains<ht::F32, List>));
  EXPECT_FALSE((ht::contains<ht::F64, List> || ht::contains<ht::F32, ht::DTypeList<>>));
  EXPECT_FALSE((ht::contains<ht::F32, ht::F32>)) << "F32 is not a list";
}

}  // namespace
