#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <htensor/compute/matmul.hpp>
#include <limits>
#include <random>
#include <vector>

#include "base/fault_registry.hpp"
#include "compute/gemm/gemm.hpp"
#include "compute/gemm/gemm_blas.hpp"
#include "tensor/test_random.hpp"
#include "tensor/test_tools.hpp"
#include "testing/blocked_signal.hpp"
#include "values/targets_test.hpp"

namespace ht::matmul_test {
namespace {

using compute::gemm;
using compute::GemmOptions;
using compute::Matrix;
using tests::between;
using tests::fails;
using tests::must;

// F32 is checked in double, F64 in long double.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class D>
Tensor<D, Rank<2>> random_matrix(std::int64_t rows, std::int64_t columns, unsigned seed = 1) {
  auto matrix = must(Tensor<D, Rank<2>>::zeros(Rank<2>(rows, columns)));
  std::mt19937 random(seed);
  auto* const elements = matrix.data();
  for (std::int64_t i = 0; i < rows * columns; ++i)
    elements[i] = static_cast<typename D::Element>(static_cast<double>(random()) / 0x1p31 - 1);
  return matrix;
}

// Returns `count` elements of a dimension that are `step` apart, in either direction.
template <int Dimension, class T>
auto stepped(const T& tensor, std::int64_t count, std::int64_t step) {
  const std::int64_t span = (count - 1) * std::abs(step);
  if (count == 0) return must(tensor.template slice<Dimension>(0, 0));
  const std::int64_t begin = step > 0 ? 1 : 1 + span;
  return must(tensor.template slice<Dimension>(
      begin, begin + count * step + (step > 0 ? 1 - step : -1 - step), step));
}

// Returns a view with random strides: transposed or not, with a positive or negative step in each dimension.
template <class D>
Tensor<D, Rank<2>> random_view(std::int64_t rows, std::int64_t columns) {
  const bool is_transposed = between(0, 1) == 1;
  const auto random_step = [] {
    const std::int64_t step = between(-2, 3);
    return step == 0 ? 1 : step;
  };
  const std::int64_t steps[2] = {random_step(), random_step()};
  const std::int64_t down = is_transposed ? columns : rows;
  const std::int64_t across = is_transposed ? rows : columns;
  const auto whole = random_matrix<D>(down * std::abs(steps[0]) + 2, across * std::abs(steps[1]) + 2,
                                      static_cast<unsigned>(between(0, 1000)));
  const auto view = stepped<1>(stepped<0>(whole, down, steps[0]), across, steps[1]);
  return is_transposed ? view.transpose() : view;
}

template <class T>
Matrix<const T> matrix_of(const Tensor<std::conditional_t<std::is_same_v<T, float>, F32, F64>, Rank<2>>& t) {
  return {t.data(), t.extent(0), t.extent(1), t.strides()[0], t.strides()[1]};
}

// Whether each element of c is within k · eps · Σ|a·b| of `before` + a·b, computed in the wider type.
template <class T>
::testing::AssertionResult is_product(const Matrix<const T>& a, const Matrix<const T>& b,
                                      const Matrix<const T>& c, T before = 0) {
  const auto at = [](const Matrix<const T>& matrix, std::int64_t i, std::int64_t j) {
    return static_cast<Wide<T>>(matrix.data[i * matrix.row_stride + j * matrix.column_stride]);
  };
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      Wide<T> sum = before;
      Wide<T> magnitude = std::abs(before);
      for (std::int64_t k = 0; k < a.columns; ++k) {
        const Wide<T> product = at(a, i, k) * at(b, k, j);
        sum += product;
        magnitude += std::abs(product);
      }
      const auto terms = static_cast<Wide<T>>(a.columns + (before != 0 ? 1 : 0));
      const Wide<T> bound = terms * std::numeric_limits<T>::epsilon() * magnitude;
      if (!(std::abs(at(c, i, j) - sum) <= bound)) {
        return ::testing::AssertionFailure() << "element " << i << ", " << j << " is " << at(c, i, j)
                                             << " and not " << sum << " ± " << bound;
      }
    }
  }
  return ::testing::AssertionSuccess();
}

template <class D>
void expect_products_within_bound() {
  using T = typename D::Element;
  const std::int64_t m = between(0, 64);
  const std::int64_t k = between(0, 64);
  const std::int64_t n = between(0, 64);
  const auto a = random_view<D>(m, k);
  const auto b = random_view<D>(k, n);
  const auto c = must(matmul(a, b));
  RC_ASSERT(c.shape() == Rank<2>(m, n));
  RC_ASSERT(is_product<T>(matrix_of<T>(a), matrix_of<T>(b), matrix_of<T>(c)));
}

RC_GTEST_PROP(Matmul, f32_is_within_the_error_bound_for_any_strides, ()) {
  expect_products_within_bound<F32>();
}
RC_GTEST_PROP(Matmul, f64_is_within_the_error_bound_for_any_strides, ()) {
  expect_products_within_bound<F64>();
}

template <class D>
void expect_gemm_within_bound(GemmOptions options) {
  using T = typename D::Element;
  const std::int64_t m = between(1, 40);
  const std::int64_t k = between(0, 40);
  const std::int64_t n = between(1, 40);
  const auto a = random_view<D>(m, k);
  const auto b = random_view<D>(k, n);
  options.adds = between(0, 1) == 1;
  // Rows of c have gaps between them, which must not be written.
  const T before = options.adds ? T{3} : std::numeric_limits<T>::quiet_NaN();
  const std::int64_t stride = n + between(0, 3);
  std::vector<T> c(static_cast<std::size_t>(m * stride), before);
  must(gemm(matrix_of<T>(a), matrix_of<T>(b), Matrix<T>{c.data(), m, n, stride, 1}, options));
  RC_ASSERT(is_product<T>(matrix_of<T>(a), matrix_of<T>(b), Matrix<const T>{c.data(), m, n, stride, 1},
                          options.adds ? before : T{0}));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = n; j < stride; ++j)
      RC_ASSERT(tests::code_of(c[static_cast<std::size_t>(i * stride + j)]) == tests::code_of(before));
  }
}

RC_GTEST_PROP(Gemm, is_within_the_error_bound_with_blas, ()) {
  const GemmOptions small{.max_extent = between(1, 20), .panel_elements = between(1, 600)};
  expect_gemm_within_bound<F32>(small);
  expect_gemm_within_bound<F64>(small);
}

RC_GTEST_PROP(Gemm, is_within_the_error_bound_without_blas, ()) {
  expect_gemm_within_bound<F32>({.uses_blas = false});
  expect_gemm_within_bound<F64>({.uses_blas = false});
}

template <class D>
void expect_same_product_for_any_threads(std::string_view target) {
  using T = typename D::Element;
  // The product has several blocks in each dimension, and a partial tile at each end.
  const auto a = random_matrix<D>(131, 261, 5);
  const auto b = random_matrix<D>(261, 263, 6);
  std::vector<T> reference;
  for (const std::size_t threads : {1UL, 2UL, 5UL}) {
    Workers workers(threads);
    std::vector<T> c(131 * 263);
    must(gemm(matrix_of<T>(a), matrix_of<T>(b), Matrix<T>{c.data(), 131, 263, 263, 1},
              {.workers = &workers, .uses_blas = false}));
    if (reference.empty()) {
      reference = c;
      // The oracle is slow, so only the first row and the rows of the last tiles are checked.
      const Matrix<const T> whole{c.data(), 131, 263, 263, 1};
      for (const auto& [first, rows] : {std::pair{0, 1}, std::pair{126, 5}}) {
        EXPECT_TRUE(is_product<T>(matrix_of<T>(a).block(first, 0, rows, 261), matrix_of<T>(b),
                                  whole.block(first, 0, rows, 263)))
            << target;
      }
    }
    EXPECT_EQ(c, reference) << target << ", threads: " << threads;
  }
}

TEST(Gemm, kernel_result_does_not_depend_on_threads) {
  testing::for_each_target([](const char* target) {
    expect_same_product_for_any_threads<F32>(target);
    expect_same_product_for_any_threads<F64>(target);
  });
}

TEST(Gemm, reads_a_broadcast_operand) {
  const float one_row[] = {1, 2, 3};
  for (const bool uses_blas : {true, false}) {
    std::vector<float> c(4);
    const Matrix<const float> a{one_row, 2, 3, 0, 1};
    must(gemm(a, a.transposed(), Matrix<float>{c.data(), 2, 2, 2, 1}, {.uses_blas = uses_blas}));
    EXPECT_EQ(c, std::vector<float>(4, 14.0F));
  }
}

TEST(Gemm, finds_no_functions_in_a_library_that_does_not_exist) {
  EXPECT_FALSE(compute::Blas("libhtensor-does-not-exist.so.1").is_loaded());
  // libm exists but has no BLAS functions.
  EXPECT_FALSE(compute::Blas("libhtensor-does-not-exist.so.1", "libm.so.6").is_loaded());
}

TEST(Matmul, multiplies_matrices_by_vectors_from_both_sides) {
  const auto a = must(Tensor<F32, Rank<2>>::of(Rank<2>(2, 3), {1, 2, 3, 4, 5, 6}));
  const auto three = must(Tensor<F32, Rank<1>>::of(Rank<1>(3), {1, 10, 100}));
  const auto two = must(
      Tensor<const F32, Rank<1>>(must(Tensor<F32, Rank<1>>::of(Rank<1>(2), {1, 10}))).slice<0>(1, -1, -1));
  const Tensor<F32, Rank<1>> right = must(matmul(a, three));
  EXPECT_EQ(right.shape(), Rank<1>(2));
  EXPECT_EQ(right(0), 321.0F);
  EXPECT_EQ(right(1), 654.0F);
  const Tensor<F32, Rank<1>> left = must(matmul(two, a));
  EXPECT_EQ(left.shape(), Rank<1>(3));
  EXPECT_EQ(left(0), 14.0F);
  EXPECT_EQ(left(2), 36.0F);
  EXPECT_EQ(must(matmul(a.transpose(), two))(1), 25.0F);
}

TEST(Matmul, multiplies_batches) {
  using Batch = Tensor<F64, Rank<4>>;
  auto a = must(Batch::zeros(Rank<4>(2, 3, 4, 5)));
  auto b = must(Tensor<F64, Rank<4>>::zeros(Rank<4>(3, 2, 6, 5)));
  double next = 0;
  for (auto&& element : a) element = std::fmod(next += 0.37, 3);
  for (auto&& element : b) element = std::fmod(next += 0.41, 3);
  // A view of b with swapped batch dimensions, the second one in reverse, and transposed matrices.
  const auto view = must(b.transpose<0, 1>().transpose<2, 3>().slice<1>(2, -1, -1));
  const auto c = must(matmul(a, view));
  ASSERT_EQ(c.shape(), Rank<4>(2, 3, 4, 6));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      const auto single =
          must(matmul(must(must(a.select<0>(i)).select<0>(j)), must(must(view.select<0>(i)).select<0>(j))));
      const auto of_batch = must(must(c.select<0>(i)).select<0>(j));
      for (int row = 0; row < 4; ++row) {
        for (int column = 0; column < 6; ++column)
          EXPECT_DOUBLE_EQ(of_batch(row, column), single(row, column));
      }
    }
  }
}

TEST(Matmul, product_of_empty_operands_is_zero_or_empty) {
  const auto matrix = [](std::int64_t rows, std::int64_t columns) {
    return random_matrix<F32>(rows, columns);
  };
  const auto zeros = must(matmul(matrix(2, 0), matrix(0, 3)));
  EXPECT_EQ(zeros.shape(), Rank<2>(2, 3));
  for (const auto element : zeros) EXPECT_EQ(element, 0.0F);
  EXPECT_EQ(must(matmul(matrix(0, 4), matrix(4, 3))).shape(), Rank<2>(0, 3));
  EXPECT_EQ(must(matmul(matrix(3, 4), matrix(4, 0))).shape(), Rank<2>(3, 0));
  const auto batches = must(Tensor<F32, Rank<3>>::zeros(Rank<3>(0, 2, 2)));
  EXPECT_EQ(must(matmul(batches, batches)).shape(), Rank<3>(0, 2, 2));
  const auto empty = must(Tensor<F32, Rank<3>>::zeros(Rank<3>(2, 2, 0)));
  EXPECT_EQ(must(matmul(empty, empty.transpose())).shape(), Rank<3>(2, 2, 2));
}

TEST(Matmul, keeps_nans_and_infinities) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto a = must(Tensor<F32, Rank<2>>::of(Rank<2>(3, 2), {1, infinity, std::nanf(""), 1, 0, 0}));
  const auto b = must(Tensor<F32, Rank<2>>::of(Rank<2>(2, 2), {1, 2, 3, 4}));
  const auto c = must(matmul(a, b));
  EXPECT_EQ(c(0, 0), infinity);
  EXPECT_TRUE(std::isnan(c(1, 1)));
  EXPECT_EQ(c(2, 1), 0.0F);
}

TEST(Matmul, inner_extents_are_equal) {
  const auto result = matmul(random_matrix<F32>(2, 3), random_matrix<F32>(4, 5));
  EXPECT_TRUE(fails(result, ErrorCode::shape_mismatch, "inner_extents_are_equal"));
  EXPECT_EQ(result.error().message(), "product of shapes [2, 3] and [4, 5]: 3 columns but 4 rows");
  const auto vector = must(Tensor<F32, Rank<1>>::zeros(Rank<1>(3)));
  EXPECT_TRUE(
      fails(matmul(vector, random_matrix<F32>(2, 3)), ErrorCode::shape_mismatch, "inner_extents_are_equal"));
  EXPECT_TRUE(
      fails(matmul(random_matrix<F32>(3, 2), vector), ErrorCode::shape_mismatch, "inner_extents_are_equal"));
}

TEST(Matmul, batch_extents_are_equal) {
  const auto two = must(Tensor<F32, Rank<3>>::zeros(Rank<3>(2, 3, 3)));
  const auto one = must(Tensor<F32, Rank<3>>::zeros(Rank<3>(1, 3, 3)));
  EXPECT_TRUE(fails(matmul(two, one), ErrorCode::shape_mismatch, "batch_extents_are_equal"));
}

TEST(Matmul, refuses_a_product_whose_size_overflows) {
  const auto long_vector = must(
      Tensor<F32, Rank<2>>::strided(must(Storage::owned(64)), Rank<2>(std::int64_t{1} << 40, 1), {0, 1}));
  EXPECT_EQ(matmul(long_vector, long_vector.transpose()).error().code(), ErrorCode::size_overflow);
}

TEST(Matmul, keeps_static_extents_in_the_result) {
  const auto a = must(Tensor<F32, Shape<2, dynamic>>::zeros(Shape<2, dynamic>(3)));
  const auto b = must(Tensor<const F32, Shape<3, 4>>::over(must(Storage::owned(48)), {}));
  EXPECT_TRUE((std::same_as<decltype(must(matmul(a, b))), Tensor<F32, Shape<2, 4>>>));
  const auto v = must(Tensor<F32, Shape<3>>::zeros());
  EXPECT_TRUE((std::same_as<decltype(must(matmul(a, v))), Tensor<F32, Shape<2>>>));
  EXPECT_TRUE((std::same_as<decltype(must(matmul(v, b))), Tensor<F32, Shape<4>>>));
  const auto batch = must(Tensor<F32, Shape<dynamic, 2, 3>>::zeros(Shape<dynamic, 2, 3>(5)));
  const auto other = must(Tensor<F32, Shape<5, 3, dynamic>>::zeros(Shape<5, 3, dynamic>(7)));
  EXPECT_TRUE((std::same_as<decltype(must(matmul(batch, other))), Tensor<F32, Shape<5, 2, dynamic>>>));
}

template <class A, class B>
concept HasProduct = requires(const A& a, const B& b) { matmul(a, b); };
template <class D, std::int64_t... Es>
using Fixed = Tensor<D, Shape<Es...>>;

TEST(Matmul, is_available_for_one_dtype_and_compatible_shapes) {
  static_assert(HasProduct<Fixed<F32, 2, 3>, Fixed<const F32, 3, 4>>);
  static_assert(!HasProduct<Fixed<F32, 2, 3>, Fixed<F64, 3, 4>>);
  static_assert(!HasProduct<Fixed<I32, 2, 3>, Fixed<I32, 3, 4>>);
  static_assert(!HasProduct<Fixed<BF16, 2, 3>, Fixed<BF16, 3, 4>>);
  static_assert(!HasProduct<Fixed<F32, 2, 3>, Fixed<F32, 4, 3>>);
  static_assert(!HasProduct<Fixed<F32, 3>, Fixed<F32, 3>>);
  static_assert(!HasProduct<Fixed<F32>, Fixed<F32, 3>>);
  static_assert(!HasProduct<Fixed<F32, 2, 3>, Fixed<F32, 1, 3, 4>>);
  static_assert(!HasProduct<Fixed<F32, 2, 2, 3>, Fixed<F32, 1, 3, 4>>);
  EXPECT_TRUE((HasProduct<Fixed<F32, 1, 2, 3>, Fixed<F32, 1, 3, 4>>));
}

// A mapping whose last page cannot be read, with a fault handler as for a mapped file.
class UnreadablePage : public fault::Backing {
 public:
  static constexpr std::size_t page = 4096;

  explicit UnreadablePage(std::size_t pages) : bytes_(pages * page) {
    // An access beyond the end of the file raises SIGBUS.
    EXPECT_EQ(::ftruncate(file_, static_cast<off_t>(bytes_ - page)), 0);
    memory_ = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file_, 0);
    registration_ = must(fault::Registration::add(bytes(), *this, FaultPolicy::guarded));
    struct sigaction action{};
    action.sa_sigaction = &UnreadablePage::on_fault;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, &before_);
  }
  ~UnreadablePage() override {
    registration_.remove([] { return true; });
    ::munmap(memory_, bytes_);
    ::close(file_);
    ::sigaction(SIGBUS, &before_, nullptr);
  }
  [[nodiscard]] Bytes bytes() const { return {static_cast<const std::byte*>(memory_), bytes_}; }
  [[nodiscard]] Error describe(std::uint64_t offset) const override {
    return Error(ErrorCode::changed_underfoot).at_offset(offset);
  }
  [[nodiscard]] bool restore(std::uint64_t offset) noexcept override {
    return ::mmap(static_cast<std::byte*>(memory_) + offset, bytes_ - offset, PROT_READ,
                  MAP_SHARED | MAP_FIXED, file_, static_cast<off_t>(offset)) != MAP_FAILED;
  }

 private:
  static void on_fault(int, siginfo_t* info, void*) {
    fault::Incident incident(info->si_addr);
    const auto pages = incident.claim(page);
    if (!pages) ::_exit(1);
    auto* const first = static_cast<std::byte*>(info->si_addr) -
                        (reinterpret_cast<std::uintptr_t>(info->si_addr) - pages->begin);
    const void* const zeros =
        ::mmap(first, pages->end - pages->begin, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (zeros == MAP_FAILED) ::_exit(1);
  }

  std::size_t bytes_;
  int file_ = ::memfd_create("matrix", 0);
  void* memory_ = nullptr;
  fault::Registration registration_;
  struct sigaction before_{};
};

TEST(Matmul, reports_a_page_that_cannot_be_read) {
  // Threads that BLAS starts inherit the signal mask.
  const testing::BlockedSigbus blocked;
  const UnreadablePage memory(64);
  const auto storage = must(Storage::borrowed_read_only(memory.bytes()));
  const auto a = must(Tensor<const F32, Rank<2>>::over(storage, Rank<2>(256, 256)));
  for (const auto& b : {a, a.transpose(), must(a.slice<1>(255, -1, -1))}) {
    const auto result = matmul(b, random_matrix<F32>(256, 256));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::changed_underfoot);
  }
}

}  // namespace
}  // namespace ht::matmul_test
