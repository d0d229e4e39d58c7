// One call of an operation on an OpenCL device: its operands in the form of kernel arguments, and kernels
// that run to completion.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <htensor/device/transfer.hpp>
#include <optional>
#include <string>
#include <utility>

#include "device/opencl/kernels.hpp"
#include "device/opencl/memory.hpp"

namespace ht::inline v1::opencl {

using Dims = std::array<std::int64_t, 8>;
using Long8 = std::array<cl_long, 8>;

struct Call {
  Device& device;
  cl_command_queue queue;
};

/// A tensor as kernel arguments: its memory, the index of its first element, and its extents and strides,
/// padded to eight dimensions. The index and the strides are in elements.
struct Operand {
  const Memory* memory = nullptr;
  DTypeTag dtype{};
  std::int64_t first = 0;
  std::int64_t elements = 1;
  std::int64_t buffer_elements = 0;  // in a full buffer
  std::int64_t element_bytes = 0;
  std::size_t rank = 0;
  Dims extents{1, 1, 1, 1, 1, 1, 1, 1};
  Dims strides{};
  bool is_contiguous = false;

  [[nodiscard]] layout::Extents dims() const noexcept { return layout::Extents(extents).subspan(8 - rank); }
  /// The number of rows; a row is the last dimension.
  [[nodiscard]] std::int64_t rows() const noexcept {
    return extents.back() == 0 ? 0 : elements / extents.back();
  }
};

[[nodiscard]] Result<Operand> operand_of(const detail::opencl::View& view, const Device& device);

/// The location of one element: its buffer and its index in the buffer.
struct Place {
  cl_mem buffer = nullptr;
  std::int64_t at = 0;
};

[[nodiscard]] Place place_of(const Operand& operand, std::int64_t element);

/// The number of elements, `stride` apart and starting with `element`, that are in one buffer.
[[nodiscard]] std::int64_t left_in_buffer(const Operand& operand, std::int64_t element, std::int64_t stride);

/// The place of the first element if one buffer contains all elements, else nullopt.
[[nodiscard]] Result<std::optional<Place>> place_if_in_one_buffer(const Operand& operand);
/// The same, but fails with `size_overflow`.
[[nodiscard]] Result<Place> place_in_one_buffer(const Operand& operand);

/// Copies a view to contiguous new memory, kept alive by `owner`. Returns a contiguous view unchanged.
[[nodiscard]] Result<Operand> make_contiguous(const Call& call, const Operand& x, Storage& owner);

/// Contiguous elements in one buffer. `owner` keeps a copy alive.
struct Dense {
  Storage owner;
  Place place;
};
[[nodiscard]] Result<Dense> make_dense(const Call& call, const Operand& x);

[[nodiscard]] inline Long8 long8(const Dims& dims) {
  Long8 result{};
  std::ranges::copy(dims, result.begin());
  return result;
}
[[nodiscard]] inline cl_ulong unsigned_of(std::int64_t number) { return static_cast<cl_ulong>(number); }

class Kernel {
 public:
  static Result<Kernel> make(const Call& call, const std::string& text, const char* name);
  Kernel(Kernel&& other) noexcept : call_(other.call_), kernel_(std::exchange(other.kernel_, nullptr)) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  Kernel& operator=(Kernel&&) = delete;
  ~Kernel();

  /// Runs the kernel and waits for its end.
  template <class... Arguments>
  Result<void> run(std::array<std::size_t, 3> global, std::array<std::size_t, 3> local,
                   const Arguments&... arguments) {
    cl_uint index = 0;
    cl_int status = CL_SUCCESS;
    ((status = status == CL_SUCCESS ? set(index++, arguments) : status), ...);
    HT_TRY(check(status, "set an argument of a kernel"));
    return run_and_wait(global, local);
  }
  /// The same with at least this many work-items in one dimension.
  template <class... Arguments>
  Result<void> run_items(std::int64_t items, const Arguments&... arguments) {
    const auto groups = (static_cast<std::size_t>(items) + group_size - 1) / group_size;
    return run({groups * group_size, 1, 1}, {group_size, 1, 1}, arguments...);
  }
  /// The same with one work-group per row.
  template <class... Arguments>
  Result<void> run_groups(std::int64_t rows, const Arguments&... arguments) {
    return run({static_cast<std::size_t>(rows) * group_size, 1, 1}, {group_size, 1, 1}, arguments...);
  }

 private:
  template <class Argument>
  cl_int set(cl_uint index, const Argument& argument) {
    // The argument is a handle, and the size of the handle is intended.
    constexpr auto size = sizeof(Argument);  // NOLINT(bugprone-sizeof-expression)
    return call_.device.library().set_argument(kernel_, index, size, static_cast<const void*>(&argument));
  }
  Result<void> run_and_wait(std::array<std::size_t, 3> global, std::array<std::size_t, 3> local);

  Kernel(const Call& call, cl_kernel kernel) noexcept : call_(call), kernel_(kernel) {}

  Call call_;
  cl_kernel kernel_;
};

/// The operands of an operation. The result is not empty, and all inputs are on the device.
struct Operands {
  Operand out;
  std::array<Operand, 3> in;
  std::size_t inputs = 0;
};

/// Runs a kernel of two contiguous operands buffer by buffer. Its arguments are the places of a, b and `out`,
/// and the number of elements.
[[nodiscard]] Result<void> combine_contiguous(Kernel& kernel, const Operand& a, const Operand& b,
                                              const Operand& out);

// The operations of `slice::Core` are implemented in core.cpp, those of `slice::Linear` and `slice::Conv` in
// linear.cpp, those of `slice::Nn` in nn.cpp.
[[nodiscard]] Result<void> run_binary(const Call& call, const char* kernel, const Operands& operands);
[[nodiscard]] Result<void> run_copy(const Call& call, const Operands& operands);
[[nodiscard]] Result<void> run_reduction(const Call& call, bool is_max, const Operands& operands);
[[nodiscard]] Result<void> run_matmul(const Call& call, const Operands& operands);
[[nodiscard]] Result<void> run_linear(const Call& call, const Operands& operands);
/// `softmax`, `log_softmax` or `argmax` of rows.
[[nodiscard]] Result<void> run_rows(const Call& call, const char* kernel, const Operands& operands);
[[nodiscard]] Result<void> run_norm(const Call& call, bool has_mean, double epsilon,
                                    const Operands& operands);
/// `silu`, `gelu`, `gelu_tanh` or `swiglu`.
[[nodiscard]] Result<void> run_activation(const Call& call, const char* kernel, const Operands& operands);
[[nodiscard]] Result<void> run_rope(const Call& call, bool is_interleaved, const Operands& operands);
[[nodiscard]] Result<void> run_embedding(const Call& call, const Operands& operands);
[[nodiscard]] Result<void> run_conv2d(const Call& call, const operation::Conv2d& conv,
                                      const Operands& operands);

}  // namespace ht::inline v1::opencl
