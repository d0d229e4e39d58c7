// Every operation returns the documented shape, for random shapes and empty extents.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <concepts>
#include <cstdint>
#include <htensor/compute/conv.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/embedding.hpp>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/matmul.hpp>
#include <htensor/compute/nn.hpp>
#include <vector>

#include "tensor/test_random.hpp"
#include "tensor/test_tools.hpp"

namespace ht::result_shapes_test {
namespace {

using tests::between;
using tests::fails;
using tests::must;

// An extent; one in five is 0.
std::int64_t extent() { return between(0, 4) == 0 ? 0 : between(1, 9); }

template <class D, class S>
Tensor<D, S> zeros(S shape) {
  return must(Tensor<D, S>::zeros(shape));
}

// A tensor of this shape, contiguous or a transposed view. Elements are 0.
template <class D>
Tensor<D, Rank<2>> matrix(std::int64_t rows, std::int64_t columns) {
  if (between(0, 1) == 0) return zeros<D>(Rank<2>(rows, columns));
  return zeros<D>(Rank<2>(columns, rows)).transpose();
}

// Whether a result has this shape, is contiguous and fits in its storage.
template <class D, class S>
bool is_dense(const Result<Tensor<D, S>>& result, S shape) {
  return result && result->shape() == shape && result->is_contiguous() &&
         placement::dense_bytes(shape.extents(), D::bits).value() <= result->storage().bytes().size();
}

template <class D>
void expect_the_shape_of_x() {
  const auto x = zeros<D>(Rank<3>(extent(), extent(), extent())).template transpose<0, 1>();
  const auto shape = x.shape();
  const auto weight = zeros<BF16>(Rank<1>(x.extent(2)));
  RC_ASSERT(is_dense(silu(x), shape));
  RC_ASSERT(is_dense(gelu(x), shape));
  RC_ASSERT(is_dense(gelu(x, GeluForm::tanh), shape));
  RC_ASSERT(is_dense(swiglu(x, x), shape));
  RC_ASSERT(is_dense(softmax(x), shape));
  RC_ASSERT(is_dense(log_softmax(x), shape));
  RC_ASSERT(is_dense(rms_norm(x, weight, 1e-5), shape));
  RC_ASSERT(is_dense(layer_norm(x, weight, 1e-5), shape));
  RC_ASSERT(is_dense(layer_norm(x, weight, weight, 1e-5), shape));
  RC_ASSERT(is_dense(x + x, shape));
  if (x.extent(2) % 2 == 0) RC_ASSERT(is_dense(rope(x), shape));
  if (x.extent(2) % 2 == 1) RC_ASSERT(fails(rope(x), ErrorCode::bad_shape, "rotated_elements_are_pairs"));
}

RC_GTEST_PROP(ResultShape, elementwise_and_row_operations_keep_the_shape_of_x, ()) {
  expect_the_shape_of_x<F32>();
  expect_the_shape_of_x<F64>();
}

RC_GTEST_PROP(ResultShape, elementwise_and_row_operations_keep_any_rank, ()) {
  const auto scalar = zeros<F32>(Rank<0>());
  RC_ASSERT(is_dense(silu(scalar), Rank<0>()));
  RC_ASSERT(is_dense(gelu(scalar), Rank<0>()));
  const Rank<1> line(extent());
  RC_ASSERT(is_dense(softmax(zeros<F32>(line)), line));
  const Rank<5> five(extent(), extent(), extent(), extent(), extent());
  RC_ASSERT(is_dense(softmax(zeros<F32>(five)), five));
  RC_ASSERT(is_dense(swiglu(zeros<F64>(five), zeros<F64>(five)), five));
}

RC_GTEST_PROP(ResultShape, argmax_drops_the_last_extent, ()) {
  const auto x = zeros<F32>(Rank<3>(extent(), extent(), extent()));
  const auto largest = argmax(x);
  if (x.extent(2) == 0 && x.extent(0) * x.extent(1) > 0) {
    RC_ASSERT(!largest && largest.error().code() == ErrorCode::bad_shape);
  } else {
    RC_ASSERT(is_dense(largest, Rank<2>(x.extent(0), x.extent(1))));
  }
}

RC_GTEST_PROP(ResultShape, embedding_has_ids_by_columns, ()) {
  const std::int64_t rows = extent();
  const auto table = matrix<BF16>(rows, extent());
  const std::vector<std::int32_t> ids(rows == 0 ? 0 : static_cast<std::size_t>(extent()),
                                      static_cast<std::int32_t>(rows - 1));
  const Rank<2> shape(ids.size(), table.extent(1));
  RC_ASSERT(is_dense(embedding(table, ids), shape));
  RC_ASSERT(is_dense(embedding<F64>(table, ids), shape));
  const auto blocks = must(cast_lossy<Q8_0>(zeros<F32>(Rank<2>(rows, 64))));
  RC_ASSERT(is_dense(embedding(blocks, ids), Rank<2>(ids.size(), 64)));
}

RC_GTEST_PROP(ResultShape, linear_replaces_the_last_extent_of_x_by_the_rows_of_the_weights, ()) {
  const std::int64_t columns = extent();
  const auto weights = matrix<BF16>(extent(), columns);
  const std::int64_t rows = weights.extent(0);
  const auto x = zeros<F32>(Rank<3>(extent(), extent(), columns));
  const Rank<3> shape(x.extent(0), x.extent(1), rows);
  RC_ASSERT(is_dense(linear(x, weights), shape));
  RC_ASSERT(is_dense(linear(x, weights, zeros<F32>(Rank<1>(rows))), shape));
  RC_ASSERT(is_dense(linear(zeros<F64>(Rank<1>(columns)), weights), Rank<1>(rows)));
  const auto blocks = must(cast_lossy<Q4_0>(zeros<F32>(Rank<2>(rows, 32))));
  const std::int64_t batch = extent();
  RC_ASSERT(is_dense(linear(zeros<F32>(Rank<2>(batch, 32)), blocks, {.int8_activations = true}),
                     Rank<2>(batch, rows)));
  RC_ASSERT(is_dense(matmul(as<F32>(weights), matrix<F32>(columns, batch)), Rank<2>(rows, batch)));
}

RC_GTEST_PROP(ResultShape, matmul_has_rows_by_columns, ()) {
  const std::int64_t m = extent();
  const std::int64_t k = extent();
  const std::int64_t n = extent();
  const std::int64_t batch = extent();
  const auto a = matrix<F32>(m, k);
  const auto b = matrix<F32>(k, n);
  RC_ASSERT(is_dense(matmul(a, b), Rank<2>(m, n)));
  RC_ASSERT(is_dense(matmul(a, zeros<F32>(Rank<1>(k))), Rank<1>(m)));
  RC_ASSERT(is_dense(matmul(zeros<F32>(Rank<1>(k)), b), Rank<1>(n)));
  const auto left = zeros<F64>(Rank<3>(batch, m, k));
  const auto right = zeros<F64>(Rank<3>(batch, n, k)).transpose();
  RC_ASSERT(is_dense(matmul(left, right), Rank<3>(batch, m, n)));
}

RC_GTEST_PROP(ResultShape, conv2d_counts_the_positions_of_the_kernel, ()) {
  const std::int64_t groups = between(1, 3);
  const std::int64_t group_channels = extent();
  const Conv2dOptions conv{.stride = {between(1, 3), between(1, 3)},
                           .padding = {between(0, 3), between(0, 3)},
                           .dilation = {between(1, 3), between(1, 3)},
                           .groups = groups};
  const auto x = zeros<F32>(Rank<4>(extent(), group_channels * groups, extent(), extent()));
  const auto w = zeros<F32>(Rank<4>(extent() * groups, group_channels, between(1, 3), between(1, 3)));
  const auto positions = [&](std::size_t i) {
    const int dimension = static_cast<int>(i) + 2;
    const std::int64_t last_position =
        x.extent(dimension) + 2 * conv.padding[i] - conv.dilation[i] * (w.extent(dimension) - 1) - 1;
    return last_position < 0 ? 0 : last_position / conv.stride[i] + 1;
  };
  const auto result = conv2d(x, w, conv);
  const auto biased = conv2d(x, w, zeros<F32>(Rank<1>(w.extent(0))), conv);
  if (positions(0) == 0 || positions(1) == 0) {
    RC_ASSERT(fails(result, ErrorCode::bad_shape, "kernel_is_inside_the_padded_input"));
    RC_ASSERT(fails(biased, ErrorCode::bad_shape, "kernel_is_inside_the_padded_input"));
    return;
  }
  const std::vector<std::int64_t> expected{x.extent(0), w.extent(0), positions(0), positions(1)};
  for (const auto* const each : {&result, &biased}) {
    RC_ASSERT(each->has_value());
    const auto extents = (*each)->shape().extents();
    RC_ASSERT(std::vector<std::int64_t>(extents.begin(), extents.end()) == expected);
    RC_ASSERT((*each)->is_contiguous());
  }
}

RC_GTEST_PROP(ResultShape, reductions_return_a_number, ()) {
  const auto x = matrix<F16>(extent(), extent());
  static_assert(std::same_as<decltype(must(sum(x))), float>);
  static_assert(std::same_as<decltype(must(max(x))), float>);
  RC_ASSERT(must(sum(x)) == 0.F);
  if (x.elements() > 0) {
    RC_ASSERT(must(max(x)) == 0.F);
  } else {
    RC_ASSERT(fails(max(x), ErrorCode::bad_shape, "max_operand_has_elements"));
  }
}

RC_GTEST_PROP(ResultShape, copy_into_keeps_the_shape_of_the_target, ()) {
  const auto x = matrix<I16>(extent(), extent());
  const auto into = matrix<I16>(x.extent(0), x.extent(1));
  for (auto&& element : x) element = 3;
  must(copy_into(into, x));
  for (const auto element : into) RC_ASSERT(element == 3);
  const auto wider = matrix<I16>(x.extent(0), x.extent(1) + 1);
  RC_ASSERT(fails(copy_into(wider, x), ErrorCode::shape_mismatch, "shapes_are_equal"));
  for (const auto element : wider) RC_ASSERT(element == 0);
}

}  // namespace
}  // namespace ht::result_shapes_test
