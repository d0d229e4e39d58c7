#include <htensor/compute/nn.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "compute/nn/nn_test.hpp"
#include "tensor/test_random.hpp"

namespace ht::nn_test {
namespace {

using tests::between;
using tests::fails;
using tests::must;
using tests::random_tensor;
using tests::row_of;
using tests::same_bits;
using tests::strided_like;
using tests::unit_roundoff;

template <class D>
using Matrix = Tensor<D, Rank<2>>;
template <class D>
using Vector = Tensor<D, Rank<1>>;

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class D>
Matrix<D> any_matrix(std::int64_t max_columns = 70) {
  const auto spread = static_cast<double>(between(1, 20));
  return random_tensor<D>(Rank<2>(between(1, 4), between(1, max_columns)),
                          static_cast<unsigned>(between(0, 1000)), spread);
}

template <class D>
class Nn : public ::testing::Test {};
using Floats = ::testing::Types<F32, F64>;
TYPED_TEST_SUITE(Nn, Floats);

TYPED_TEST(Nn, softmax_is_within_its_bound) {
  using D = TypeParam;
  for (const std::int64_t n : {1, 2, 7, 33, 1000}) {
    const auto x = random_tensor<D>(Rank<2>(3, n), 1, 6);
    const auto y = must(softmax(x));
    const auto logarithms = must(log_softmax(x));
    for (std::int64_t i = 0; i < 3; ++i) {
      const auto row = row_of<D>(x, i);
      const long double largest = *std::max_element(row.begin(), row.end());
      long double sum = 0;
      for (const auto value : row) sum += std::exp(value - largest);
      for (std::int64_t j = 0; j < n; ++j) {
        const auto distance = row[static_cast<std::size_t>(j)] - largest;
        const auto exact = std::exp(distance) / sum;
        const auto bound =
            (8 + std::fabs(distance) + std::log(static_cast<long double>(n))) * unit_roundoff<D> * exact;
        ASSERT_LE(std::fabs(y(i, j) - exact), bound) << n;
        const auto logarithm = distance - std::log(sum);
        ASSERT_LE(std::fabs(logarithms(i, j) - logarithm),
                  (2 * std::fabs(logarithm) + 8 + std::log(static_cast<long double>(n))) * unit_roundoff<D>);
      }
    }
  }
}

TYPED_TEST(Nn, softmax_accepts_strided_views_and_empty_tensors) {
  using D = TypeParam;
  const auto x = random_tensor<D>(Rank<2>(5, 19), 2);
  EXPECT_TRUE(same_bits(must(softmax(strided_like(x))), must(softmax(x))));
  EXPECT_TRUE(same_bits(must(log_softmax(strided_like(x))), must(log_softmax(x))));
  EXPECT_EQ(must(softmax(random_tensor<D>(Rank<2>(0, 4), 1))).shape(), Rank<2>(0, 4));
  EXPECT_EQ(must(softmax(random_tensor<D>(Rank<2>(4, 0), 1))).shape(), Rank<2>(4, 0));
  const auto known = must(Tensor<D, Shape<2, 3>>::zeros());
  EXPECT_TRUE((std::same_as<decltype(must(softmax(known))), Tensor<D, Shape<2, 3>>>));
}

TEST(Softmax, a_row_of_minus_infinity_becomes_zero) {
  const auto x = must(Matrix<F32>::of(Rank<2>(3, 2), {-infinity, -infinity, -infinity, 5, 1, 1}));
  const auto y = must(softmax(x));
  EXPECT_EQ(y(0, 0), 0.0F);
  EXPECT_EQ(y(0, 1), 0.0F);
  EXPECT_EQ(y(1, 0), 0.0F);
  EXPECT_EQ(y(1, 1), 1.0F);
  EXPECT_EQ(y(2, 0), 0.5F);
  EXPECT_EQ(must(log_softmax(x))(0, 1), -infinity);
  EXPECT_EQ(must(log_softmax(x))(1, 0), -infinity);
}

TEST(Softmax, a_row_with_plus_infinity_or_nan_becomes_nan) {
  const float nan = std::nanf("");
  for (const auto& row :
       {std::vector<float>{1, infinity}, {1, nan}, {nan, 1}, {-infinity, nan}, {nan, -infinity}}) {
    const auto x = must(Vector<F32>::of(Rank<1>(2), row));
    for (const float value : must(softmax(x))) EXPECT_TRUE(std::isnan(value)) << row[0] << ' ' << row[1];
  }
}

template <class D>
void check_softmax_rows() {
  const auto x = any_matrix<D>(600);
  const auto y = must(softmax(x));
  for (std::int64_t i = 0; i < x.extent(0); ++i) {
    const auto row = row_of<D>(y, i);
    const auto sum = std::accumulate(row.begin(), row.end(), 0.0L);
    RC_ASSERT(std::fabs(sum - 1) <= 100 * unit_roundoff<D>);
    RC_ASSERT(std::all_of(row.begin(), row.end(), [](long double p) { return p >= 0 && p <= 1; }));
  }
  // With integers, adding 1000 is exact, so the result must be the same.
  auto whole = must(x.copy());
  for (auto&& element : whole) element = std::round(element);
  const auto shifted = must(whole.copy());
  for (auto&& element : shifted) element += static_cast<typename D::Element>(1000);
  RC_ASSERT(same_bits(must(softmax(whole)), must(softmax(shifted))));
}

RC_GTEST_PROP(SoftmaxProperty, rows_of_f32_sum_to_one_and_ignore_a_shift, ()) { check_softmax_rows<F32>(); }
RC_GTEST_PROP(SoftmaxProperty, rows_of_f64_sum_to_one_and_ignore_a_shift, ()) { check_softmax_rows<F64>(); }

TYPED_TEST(Nn, norms_are_within_their_bounds) {
  using D = TypeParam;
  constexpr double epsilon = 1e-5;
  for (const std::int64_t n : {1, 5, 64, 2000}) {
    auto x = random_tensor<D>(Rank<2>(2, n), 3, 2);
    // The mean is large compared with the deviations.
    for (std::int64_t j = 0; j < n; ++j) x(1, j) += 100;
    const auto weight = random_tensor<D>(Rank<1>(n), 4);
    const auto bias = random_tensor<D>(Rank<1>(n), 5);
    const auto rms = must(rms_norm(x, weight, epsilon));
    const auto with_bias = must(layer_norm(x, weight, bias, epsilon));
    const auto no_bias = must(layer_norm(x, weight, epsilon));
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto row = row_of<D>(x, i);
      const auto count = static_cast<long double>(n);
      long double squares = 0;
      long double largest = 0;
      for (const auto value : row) {
        squares += value * value;
        largest = std::max(largest, std::fabs(value));
      }
      const auto mean = std::accumulate(row.begin(), row.end(), 0.0L) / count;
      long double deviations = 0;
      for (const auto value : row) deviations += (value - mean) * (value - mean);
      const auto sigma = std::sqrt(deviations / count + epsilon);
      for (std::int64_t j = 0; j < n; ++j) {
        const auto value = row[static_cast<std::size_t>(j)];
        const auto w = static_cast<long double>(weight(j));
        const auto exact = value / std::sqrt(squares / count + epsilon) * w;
        const double coefficient = std::same_as<D, F32> ? 1.01 : 16 + static_cast<double>(n) / 512;
        ASSERT_LE(std::fabs(rms(i, j) - exact), coefficient * unit_roundoff<D> * std::fabs(exact));
        const auto plain = (value - mean) / sigma * w;
        const auto slack = (64 + count / 128) * 0x1p-53L * (largest / sigma) * std::fabs(w);
        ASSERT_LE(std::fabs(no_bias(i, j) - plain), unit_roundoff<D> * std::fabs(plain) + slack);
        const auto whole = plain + static_cast<long double>(bias(j));
        ASSERT_LE(std::fabs(with_bias(i, j) - whole), unit_roundoff<D> * std::fabs(whole) + slack);
      }
    }
  }
}

TYPED_TEST(Nn, norms_accept_weights_of_any_storage) {
  using D = TypeParam;
  const auto x = random_tensor<D>(Rank<2>(3, 64), 6);
  const auto stored = must(cast_lossy<BF16>(random_tensor<D>(Rank<1>(64), 7)));
  const auto plain = must(cast<D>(stored));
  EXPECT_TRUE(same_bits(must(rms_norm(x, stored, 1e-6)), must(rms_norm(x, plain, 1e-6))));
  EXPECT_TRUE(same_bits(must(rms_norm(x, as<D>(stored), 1e-6)), must(rms_norm(x, plain, 1e-6))));
  const auto blocks = must(cast_lossy<Q8_0>(random_tensor<F32>(Rank<1>(64), 8)));
  const auto decoded = must(cast<D>(blocks));
  EXPECT_TRUE(same_bits(must(rms_norm(x, blocks, 1e-6)), must(rms_norm(x, decoded, 1e-6))));
  EXPECT_TRUE(
      same_bits(must(layer_norm(x, stored, as<D>(blocks), 1e-6)), must(layer_norm(x, plain, decoded, 1e-6))));
  const auto every_second = must(random_tensor<D>(Rank<1>(128), 9).template slice<0>(0, 128, 2));
  EXPECT_TRUE(same_bits(must(rms_norm(x, every_second, 1e-6)),
                        must(rms_norm(strided_like(x), must(every_second.copy()), 1e-6))));
}

TEST(Norms, weight_size_matches_the_row) {
  const auto x = random_tensor<F32>(Rank<2>(2, 8), 1);
  const auto seven = random_tensor<F32>(Rank<1>(7), 1);
  const auto eight = random_tensor<F32>(Rank<1>(8), 1);
  constexpr auto rule = "weight_size_matches_the_row";
  EXPECT_TRUE(fails(rms_norm(x, seven, 1e-5), ErrorCode::shape_mismatch, rule));
  EXPECT_TRUE(fails(layer_norm(x, seven, 1e-5), ErrorCode::shape_mismatch, rule));
  EXPECT_TRUE(fails(layer_norm(x, eight, seven, 1e-5), ErrorCode::shape_mismatch, rule));
  const auto failed = rms_norm(x, seven, 1e-5);
  EXPECT_EQ(failed.error().message(), "weight of shape [7] does not match rows of shape [2, 8]");
}

template <class D>
void check_scale_invariance() {
  const auto x = any_matrix<D>();
  const auto weight = random_tensor<D>(Rank<1>(x.extent(1)), 11);
  const auto scaled = must(x.copy());
  for (auto&& element : scaled) element *= 8;
  RC_ASSERT(same_bits(must(rms_norm(x, weight, 0)), must(rms_norm(scaled, weight, 0))));
  // A power of two scales exactly; layer_norm ignores it, too.
  RC_ASSERT(same_bits(must(layer_norm(x, weight, 0)), must(layer_norm(scaled, weight, 0))) ||
            x.extent(1) == 1);
}

RC_GTEST_PROP(NormProperty, norms_of_f32_ignore_a_scale, ()) { check_scale_invariance<F32>(); }
RC_GTEST_PROP(NormProperty, norms_of_f64_ignore_a_scale, ()) { check_scale_invariance<F64>(); }

TYPED_TEST(Nn, activations_accept_any_shape_and_strides) {
  using D = TypeParam;
  const auto x = random_tensor<D>(Rank<2>(7, 33), 12, 3);
  const auto up = random_tensor<D>(Rank<2>(7, 33), 13);
  const auto view = strided_like(x);
  EXPECT_TRUE(same_bits(must(silu(view)), must(silu(x))));
  for (const auto form : {GeluForm::exact, GeluForm::tanh})
    EXPECT_TRUE(same_bits(must(gelu(view, form)), must(gelu(x, form))));
  const auto gated = must(swiglu(x, up));
  EXPECT_TRUE(same_bits(must(swiglu(view, up)), gated));
  EXPECT_TRUE(same_bits(must(swiglu(x, strided_like(up))), gated));
  const auto activated = must(silu(x));
  for (std::int64_t i = 0; i < 7; ++i) EXPECT_EQ(gated(i, 32), activated(i, 32) * up(i, 32));
  const auto one = must(Tensor<D, Rank<0>>::of({}, {1}));
  EXPECT_NEAR(static_cast<double>(must(silu(one))()), 0.73105857863000490, unit_roundoff<D>);
  EXPECT_NEAR(static_cast<double>(must(gelu(one))()), 0.84134474606854293, 2 * unit_roundoff<D>);
  EXPECT_NEAR(static_cast<double>(must(gelu(one, GeluForm::tanh))()), 0.84119199060827677,
              2 * unit_roundoff<D>);
  EXPECT_EQ(must(gelu(random_tensor<D>(Rank<2>(3, 0), 1))).elements(), 0);
}

TEST(Swiglu, refuses_shapes_that_differ) {
  EXPECT_TRUE(fails(swiglu(random_tensor<F32>(Rank<1>(3), 1), random_tensor<F32>(Rank<1>(4), 1)),
                    ErrorCode::shape_mismatch, "shapes_are_equal"));
}

TYPED_TEST(Nn, large_inputs_equal_their_separate_rows) {
  using D = TypeParam;
  // Large enough for several threads, and rows that do not divide the parts evenly.
  const auto x = random_tensor<D>(Rank<2>(40, 5001), 14, 3);
  const auto weight = random_tensor<D>(Rank<1>(5001), 15);
  const auto y = must(softmax(x));
  const auto normed = must(rms_norm(x, weight, 1e-5));
  const auto activated = must(silu(x));
  for (const std::int64_t i : {0, 17, 39}) {
    const auto row = must(x.template slice<0>(i, i + 1));
    EXPECT_TRUE(same_bits(must(softmax(row)), must(y.template slice<0>(i, i + 1))));
    EXPECT_TRUE(same_bits(must(rms_norm(row, weight, 1e-5)), must(normed.template slice<0>(i, i + 1))));
    EXPECT_TRUE(same_bits(must(silu(row)), must(activated.template slice<0>(i, i + 1))));
  }
}

TEST(Argmax, finds_the_first_largest_element_of_each_row) {
  const float nan = std::nanf("");
  const auto x = must(
      Matrix<F32>::of(Rank<2>(4, 3), {1, 3, 3, -infinity, -infinity, -infinity, 2, nan, nan, -1, -2, -0.5F}));
  const auto best = must(argmax(x));
  EXPECT_TRUE((std::same_as<decltype(must(argmax(x))), Tensor<I64, Rank<1>>>));
  EXPECT_EQ(best(0), 1);
  EXPECT_EQ(best(1), 0);
  EXPECT_EQ(best(2), 1);
  EXPECT_EQ(best(3), 2);
  const auto doubles = random_tensor<F64>(Rank<2>(4, 30), 5);
  EXPECT_TRUE(same_bits(must(argmax(strided_like(doubles))), must(argmax(doubles))));
  const auto one = must(Vector<F64>::of(Rank<1>(3), {1, 5, 2}));
  EXPECT_EQ(must(argmax(one))(), 1);
  EXPECT_EQ(must(argmax(random_tensor<F32>(Rank<2>(0, 0), 1))).elements(), 0);
}

TEST(Argmax, rows_have_elements) {
  EXPECT_TRUE(
      fails(argmax(random_tensor<F32>(Rank<2>(3, 0), 1)), ErrorCode::bad_shape, "rows_have_elements"));
}

template <class T>
concept HasSoftmax = requires(const T& tensor) { softmax(tensor); };
template <class X, class W>
concept HasRmsNorm = requires(const X& x, const W& w) { rms_norm(x, w, 1e-5); };

// A device without slices, whose memory this process reads.
struct NoSlices {
  static constexpr std::string_view name = "NoSlices";
  static constexpr bool is_host_accessible = true;
  template <class D>
  static constexpr bool stores = true;
};

// A device that lists the slice and allocates its memory itself.
struct Arena {
  using Slices = SliceList<slice::Nn>;
  static constexpr std::string_view name = "Arena";
  static constexpr bool is_host_accessible = true;
  template <class D>
  static constexpr bool stores = true;
  static inline int allocations = 0;
  static Result<Storage> allocate(std::uint64_t bytes) {
    ++allocations;
    return Storage::owned(bytes);
  }
};

TEST(NnConcepts, results_are_on_the_device_of_the_input) {
  const auto x = must(Tensor<F32, Rank<2>, Arena>::of(Rank<2>(1, 2), {1, 1}));
  const int before = Arena::allocations;
  const Tensor<F32, Rank<2>, Arena> y = must(softmax(x));
  EXPECT_EQ(Arena::allocations, before + 1);
  EXPECT_EQ(y(0, 1), 0.5F);
  const auto weight = must(Tensor<BF16, Rank<1>>::of(Rank<1>(2), {BF16::Element(2.0F), BF16::Element(4.0F)}));
  const Tensor<F32, Rank<2>, Arena> normed = must(rms_norm(x, weight, 0));
  EXPECT_EQ(normed(0, 1), 4.0F);
}

TEST(NnConcepts, is_available_for_f32_and_f64_on_devices_that_list_the_slice) {
  static_assert(HasSoftmax<Matrix<F32>> && HasSoftmax<Matrix<const F64>>);
  static_assert(!HasSoftmax<Matrix<I32>> && !HasSoftmax<Matrix<BF16>> && !HasSoftmax<Tensor<F32, Rank<0>>>);
  static_assert(!HasSoftmax<Tensor<F32, Rank<2>, NoSlices>>);
  static_assert(HasRmsNorm<Matrix<F32>, Vector<BF16>> && HasRmsNorm<Matrix<F64>, BlockTensor<Q4_K, Rank<1>>>);
  static_assert(!HasRmsNorm<Matrix<F32>, Vector<F64>> && !HasRmsNorm<Matrix<F32>, Matrix<F32>>);
  EXPECT_FALSE((HasRmsNorm<Tensor<F32, Shape<2, 8>>, Tensor<F32, Shape<7>>>));
}

}  // namespace
}  // namespace ht::nn_test
