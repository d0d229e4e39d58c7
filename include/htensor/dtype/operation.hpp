// Operations of a device: empty types, or structs with the parameters of the operation.
//
// A device whose memory the host cannot read has a static function `run` for each operation that it offers:
//
//   template <class Out, class A, class B>
//   static ht::Result<void> run(std::plus<>, const ht::ComputeOptions&, const Out& out, const A& a, const B&
//   b);
//
// The functions of htensor/compute check shapes, allocate the result and call `run`, so that `a + b`,
// `ht::softmax(x)` and the others have one name and one signature on every device. A call of an operation
// without `run` does not compile.
//
// Inputs may have any strides. `out` is contiguous and does not overlap the inputs. In the elementwise
// operations (`std::plus<>`, `std::minus<>`, `std::multiplies<>`, `std::divides<>`) and `Copy`, `out` may
// have any strides and may be one of the inputs. Extents are checked before the call.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/base/workers.hpp>

namespace ht::inline v1 {

namespace operation {

/// out = x.
struct Copy {};
/// out[] = Σ x. The dtype of `out` is `SumOf` the dtype of x (htensor/compute/reduce.hpp).
struct Sum {};
/// out[] = the largest element of x, or NaN if x contains NaN. x is not empty.
struct Max {};
/// out = a · b, with the shapes of `ht::matmul`.
struct Matmul {};
/// out[…, i] = Σ x[…, j] · w[i, j], plus bias[i] if there is a third input.
struct Linear {};
struct Softmax {};
struct LogSoftmax {};
/// Inputs x and weight.
struct RmsNorm {
  double epsilon = 0;
};
/// Inputs x, weight and optionally bias.
struct LayerNorm {
  double epsilon = 0;
};
struct Silu {};
struct Gelu {
  bool is_tanh = false;
};
/// Inputs gate and x.
struct Swiglu {};
/// Inputs x[tokens, heads, head size], cosines[tokens, pairs] and sines[tokens, pairs].
struct Rope {
  bool is_interleaved = true;
};
/// `out` is I64. Rows are not empty.
struct Argmax {};
/// Inputs table[rows, columns] and ids[n], I64 and all in [0, rows).
struct Embedding {};
/// Inputs x, weight and optionally bias. Pairs are {vertical, horizontal}.
struct Conv2d {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
};

}  // namespace operation

/// The device has a `run` for the operation on tensors of these types.
template <class Dev, class Op, class Out, class... In>
concept HasOperation =
    requires(const Op& op, const ComputeOptions& options, const Out& out, const In&... in) {
      { Dev::run(op, options, out, in...) } -> std::same_as<Result<void>>;
    };

}  // namespace ht::inline v1
