#include "values/cast_elements.hpp"

#include <gtest/gtest.h>

#include <htensor/dtype/visit.hpp>
#include <htensor/values/cast.hpp>
#include <vector>

#include "tensor/test_tools.hpp"
#include "testing/library_types.hpp"

namespace ht {
namespace {

using tests::must;

TEST(CastElements, knows_what_the_compiler_knows) {
  EXPECT_TRUE(is_lossless(BF16::tag, F32::tag));
  EXPECT_TRUE(is_lossless(F32::tag, F32::tag));
  EXPECT_TRUE(is_lossless(I16::tag, F32::tag));
  EXPECT_FALSE(is_lossless(I32::tag, F32::tag));
  EXPECT_FALSE(is_lossless(F32::tag, BF16::tag));
  EXPECT_TRUE(is_lossless(user_tag(0), user_tag(0)));
  EXPECT_FALSE(is_lossless(user_tag(0), F32::tag));
  EXPECT_FALSE(is_lossless(F32::tag, user_tag(0)));
}

// Every bit pattern of narrow dtypes, the low ones of others.
template <class D>
Tensor<D, Rank<1>> patterns() {
  auto tensor = must(Tensor<D, Rank<1>>::zeros(Rank<1>(256)));
  const MutableBytes bytes = must(tensor.storage().writable_bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 37 / sizeof(double) + i);
  return tensor;
}

// Through bytes, so that every NaN is equal to itself.
template <class D>
std::vector<std::byte> bytes_of_elements(const Tensor<D, Rank<1>>& tensor) {
  const Bytes bytes = must(tensor.bytes());
  return {bytes.begin(), bytes.end()};
}

TEST(CastElements, agrees_with_the_typed_cast_for_all_lossless_pairs) {
  int pairs = 0;
  for (const auto& from : library_dtypes()) {
    for (const auto& to : library_dtypes()) {
      ASSERT_TRUE(visit_dtype(from.tag, [&]<class From>(From) {
        ASSERT_TRUE(visit_dtype(to.tag, [&]<class To>(To) {
          ASSERT_EQ(is_lossless(from.tag, to.tag), (LosslessTo<From, To>));
          if constexpr (LosslessTo<From, To> && !std::same_as<From, Bool>) {
            const auto source = patterns<From>();
            const auto expected = must(cast<To>(source));
            auto found = must(Tensor<To, Rank<1>>::zeros(Rank<1>(256)));
            cast_elements(from.tag, must(source.bytes()), to.tag, must(found.storage().writable_bytes()),
                          256);
            EXPECT_EQ(bytes_of_elements(found), bytes_of_elements(expected)) << from.name << to.name;
            ++pairs;
          }
        }));
      }));
    }
  }
  EXPECT_GT(pairs, 100);
}

}  // namespace
}  // namespace ht
