// Compares kernels with references in a wider type, on every target of this machine.
#include "compute/nn/row_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "values/targets_test.hpp"

namespace ht::nn::row_kernels_test {
namespace {

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

/// Returns the error of a result, in units of the last place that the exact value has in T.
template <class T>
double ulps(T actual, long double exact) {
  if (std::isnan(exact)) return std::isnan(actual) ? 0 : 1e9;
  const auto rounded = static_cast<T>(exact);
  if (std::isinf(rounded) || std::isinf(actual)) return actual == rounded ? 0 : 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const int lowest = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
  const long double unit = std::ldexp(1.0L, std::max(exponent - std::numeric_limits<T>::digits, lowest));
  return static_cast<double>(std::fabs(static_cast<long double>(actual) - exact) / unit);
}

/// Divides the range from `first` to `last` into `count` equal intervals and returns one pseudo-random number
/// of each.
template <class T>
std::vector<T> sample(double first, double last, int count) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i) {
    const double jitter = static_cast<double>(static_cast<unsigned>(i) * 2654435761U % 1000003U) / 1000003.0;
    values.push_back(static_cast<T>(first + (last - first) * (i + jitter) / count));
  }
  return values;
}

template <class T>
std::vector<T> edges() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values;
  for (const T x : {T{0}, Limits::denorm_min(), Limits::min(), Limits::epsilon(), T{1}, T{40}, T{88}, T{89},
                    T{104}, T{709}, T{710}, T{745}, T{746}, Limits::max(), infinity<T>}) {
    for (const T near : {std::nextafter(x, T{0}), x, std::nextafter(x, infinity<T>)}) {
      values.push_back(near);
      values.push_back(-near);
    }
  }
  values.push_back(Limits::quiet_NaN());
  return values;
}

template <class T>
std::vector<T> arguments(double first, double last, int count) {
  auto values = sample<T>(first, last, count);
  const auto more = edges<T>();
  values.insert(values.end(), more.begin(), more.end());
  return values;
}

// The same bits, or two NaNs: compilers do not preserve the sign and the payload of a NaN.
template <class T>
bool is_same(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0 || (std::isnan(a) && std::isnan(b));
}

/// Returns the largest error. Fails if targets give different bits.
template <class T, class Run, class Reference>
double worst_error(const std::vector<T>& x, Run run, Reference reference, double ignored_below = 0) {
  std::vector<T> first;
  double worst = 0;
  ht::testing::for_each_target([&](const char* target) {
    std::vector<T> out(x.size());
    run(row_kernels<T>(), x.data(), out.data(), static_cast<std::int64_t>(x.size()));
    if (first.empty()) first = out;
    const auto differ = std::ranges::mismatch(first, out, is_same<T>);
    const auto index = static_cast<std::size_t>(differ.in1 - first.begin());
    EXPECT_EQ(index, x.size()) << target << ": " << x[index] << " gives " << *differ.in2 << " and not "
                               << *differ.in1;
  });
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto exact = reference(static_cast<long double>(x[i]));
    if (std::fabs(exact) < ignored_below) {
      EXPECT_LE(std::fabs(first[i]), ignored_below) << x[i];
      continue;
    }
    const double error = ulps(first[i], exact);
    if (error > worst) worst = error;
    if (error > 1e8) ADD_FAILURE() << x[i] << " gives " << first[i] << " and not " << exact;
  }
  return worst;
}

const auto run_exp = [](const auto& kernels, const auto* x, auto* out, std::int64_t count) {
  static_cast<void>(kernels.exp_and_sum(x, 0, out, count));
};
const auto run_silu = [](const auto& kernels, const auto* x, auto* out, std::int64_t count) {
  kernels.silu(x, out, count);
};
const auto run_gelu_erf = [](const auto& kernels, const auto* x, auto* out, std::int64_t count) {
  kernels.gelu_erf(x, out, count);
};
const auto run_gelu_tanh = [](const auto& kernels, const auto* x, auto* out, std::int64_t count) {
  kernels.gelu_tanh(x, out, count);
};

long double exact_silu(long double x) {
  if (x == -infinity<long double>) return -0.0L;
  return x / (1 + std::exp(-x));
}
long double exact_gelu(long double x) {
  if (x == -infinity<long double>) return -0.0L;
  return x / 2 * std::erfc(-x / std::sqrt(2.0L));
}
long double exact_gelu_tanh(long double x) {
  const long double v = 2 * std::sqrt(2 / std::acos(-1.0L)) * (x + 0.044715L * x * x * x);
  return std::isinf(v) && v < 0 ? -0.0L : x / (1 + std::exp(-v));
}

TEST(RowKernels, exp_is_within_1_1_ulp_on_every_target) {
  const auto exact = [](long double x) { return std::exp(x); };
  const double error_f32 = worst_error(arguments<float>(-110, 95, 60000), run_exp, exact);
  const double error_f32_near_zero = worst_error(sample<float>(-1, 1, 20000), run_exp, exact);
  const double error_f64 = worst_error(arguments<double>(-750, 715, 60000), run_exp, exact);
  const double error_f64_near_zero = worst_error(sample<double>(-1, 1, 20000), run_exp, exact);
  RecordProperty("ulps_f32", std::to_string(std::max(error_f32, error_f32_near_zero)));
  RecordProperty("ulps_f64", std::to_string(std::max(error_f64, error_f64_near_zero)));
  EXPECT_LE(error_f32, 1.1);
  EXPECT_LE(error_f32_near_zero, 1.1);
  EXPECT_LE(error_f64, 1.1);
  EXPECT_LE(error_f64_near_zero, 1.1);
}

TEST(RowKernels, silu_is_within_3_ulp_on_every_target) {
  EXPECT_LE(worst_error(arguments<float>(-70, 70, 40000), run_silu, exact_silu, 0x1p-100), 3);
  EXPECT_LE(worst_error(sample<float>(-2, 2, 20000), run_silu, exact_silu), 3);
  EXPECT_LE(worst_error(arguments<double>(-690, 690, 40000), run_silu, exact_silu, 0x1p-1000), 3);
  EXPECT_LE(worst_error(sample<double>(-2, 2, 20000), run_silu, exact_silu), 3);
}

// One rounding more than silu.
TEST(RowKernels, swiglu_is_within_3_5_ulp_on_every_target) {
  const auto run = [](const auto& kernels, const auto* x, auto* out, std::int64_t count) {
    kernels.swiglu(x, x, out, count);
  };
  const auto exact = [](long double x) { return exact_silu(x) * x; };
  EXPECT_LE(worst_error(sample<float>(-60, 60, 40000), run, exact, 0x1p-100), 3.5);
  EXPECT_LE(worst_error(sample<double>(-680, 680, 40000), run, exact, 0x1p-1000), 3.5);
}

TEST(RowKernels, gelu_is_within_8_ulp_on_every_target) {
  EXPECT_LE(worst_error(arguments<float>(-12, 12, 40000), run_gelu_erf, exact_gelu, 0x1p-100), 0.501);
  EXPECT_LE(worst_error(arguments<double>(-37, 10, 60000), run_gelu_erf, exact_gelu, 0x1p-1000), 8);
  EXPECT_LE(worst_error(sample<double>(-2, 2, 40000), run_gelu_erf, exact_gelu), 8);
}

TEST(RowKernels, gelu_tanh_is_within_its_bound_on_every_target) {
  EXPECT_LE(worst_error(arguments<float>(-10, 12, 40000), run_gelu_tanh, exact_gelu_tanh, 0x1p-100), 0.501);
  EXPECT_LE(worst_error(sample<double>(-2, 10, 40000), run_gelu_tanh, exact_gelu_tanh), 8);
  // The rounding error of the exponent grows with the exponent.
  for (double x = 2; x < 20; x += 1) {
    const double bound = 8 + 4 * (x + 1) + 0.5 * (x + 1) * (x + 1) * (x + 1);
    EXPECT_LE(worst_error(sample<double>(-x - 1, -x, 2000), run_gelu_tanh, exact_gelu_tanh, 0x1p-1000),
              bound);
  }
}

template <class T>
void expect_sums_within_bound() {
  for (const int count : {0, 1, 15, 16, 17, 511, 512, 513, 5000}) {
    const auto x = sample<T>(-3, 7, std::max(count, 1));
    long double exact = 0;
    long double magnitudes = 0;
    long double squares = 0;
    for (int i = 0; i < count; ++i) {
      const auto value = static_cast<long double>(x[static_cast<std::size_t>(i)]);
      exact += value;
      magnitudes += std::fabs(value);
      squares += (value - 0.25L) * (value - 0.25L);
    }
    const long double relative_bound = (36 + count / 512.0L) * 0x1p-53L;
    double first_sum = 0;
    double first_squares = 0;
    bool is_first = true;
    ht::testing::for_each_target([&](const char* target) {
      const double sum = row_kernels<T>().sum(x.data(), count);
      const double sum_of_squares = row_kernels<T>().sum_of_squares(x.data(), 0.25, count);
      if (is_first) {
        first_sum = sum;
        first_squares = sum_of_squares;
        is_first = false;
      }
      EXPECT_EQ(sum, first_sum) << target;
      EXPECT_EQ(sum_of_squares, first_squares) << target;
    });
    EXPECT_LE(std::fabs(first_sum - exact), relative_bound * magnitudes) << count;
    EXPECT_LE(std::fabs(first_squares - squares), 2 * relative_bound * squares) << count;
  }
}

TEST(RowKernels, sums_are_within_their_bound_and_equal_on_every_target) {
  expect_sums_within_bound<float>();
  expect_sums_within_bound<double>();
}

template <class T>
void expect_other_kernels_equal() {
  const std::int64_t count = 70;
  const auto x = sample<T>(-3, 7, 70);
  const auto y = sample<T>(-1, 1, 70);
  std::vector<T> first;
  ht::testing::for_each_target([&](const char* target) {
    const auto& kernels = row_kernels<T>();
    std::vector<T> all(5 * 70 + 1);
    kernels.divide(x.data(), T{3}, all.data(), count);
    kernels.normalize(x.data(), 0.3, 1.7, y.data(), x.data(), all.data() + 70, count);
    kernels.swiglu(x.data(), y.data(), all.data() + 140, count);
    kernels.rotate_pairs(x.data(), y.data(), y.data(), all.data() + 210, count);
    kernels.rotate_halves(x.data(), y.data(), y.data(), all.data() + 280, count / 2);
    all.back() = kernels.largest(x.data(), count);
    if (first.empty()) first = all;
    EXPECT_EQ(first, all) << target;
  });
  EXPECT_EQ(first.back(), *std::max_element(x.begin(), x.end()));
  EXPECT_EQ(first[69], x[69] / 3);
}

TEST(RowKernels, other_kernels_are_equal_on_every_target) {
  expect_other_kernels_equal<float>();
  expect_other_kernels_equal<double>();
}

}  // namespace
}  // namespace ht::nn::row_kernels_test
