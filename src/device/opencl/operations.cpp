// Dispatches operations of the library to their OpenCL kernels.
#include <functional>

#include "base/format_text.hpp"
#include "device/opencl/call.hpp"

namespace ht::inline v1::opencl {
namespace {

Result<void> dispatch(const Call& call, std::plus<> /*op*/, const Operands& operands) {
  return run_binary(call, "add", operands);
}
Result<void> dispatch(const Call& call, std::minus<> /*op*/, const Operands& operands) {
  return run_binary(call, "subtract", operands);
}
Result<void> dispatch(const Call& call, std::multiplies<> /*op*/, const Operands& operands) {
  return run_binary(call, "multiply", operands);
}
Result<void> dispatch(const Call& call, std::divides<> /*op*/, const Operands& operands) {
  return run_binary(call, "divide", operands);
}
Result<void> dispatch(const Call& call, operation::Copy /*op*/, const Operands& operands) {
  return run_copy(call, operands);
}
Result<void> dispatch(const Call& call, operation::Sum /*op*/, const Operands& operands) {
  return run_reduction(call, false, operands);
}
Result<void> dispatch(const Call& call, operation::Max /*op*/, const Operands& operands) {
  return run_reduction(call, true, operands);
}
Result<void> dispatch(const Call& call, operation::Matmul /*op*/, const Operands& operands) {
  return run_matmul(call, operands);
}
Result<void> dispatch(const Call& call, operation::Linear /*op*/, const Operands& operands) {
  return run_linear(call, operands);
}
Result<void> dispatch(const Call& call, operation::Softmax /*op*/, const Operands& operands) {
  return run_rows(call, "softmax", operands);
}
Result<void> dispatch(const Call& call, operation::LogSoftmax /*op*/, const Operands& operands) {
  return run_rows(call, "log_softmax", operands);
}
Result<void> dispatch(const Call& call, operation::Argmax /*op*/, const Operands& operands) {
  return run_rows(call, "argmax", operands);
}
Result<void> dispatch(const Call& call, operation::RmsNorm op, const Operands& operands) {
  return run_norm(call, false, op.epsilon, operands);
}
Result<void> dispatch(const Call& call, operation::LayerNorm op, const Operands& operands) {
  return run_norm(call, true, op.epsilon, operands);
}
Result<void> dispatch(const Call& call, operation::Silu /*op*/, const Operands& operands) {
  return run_activation(call, "silu", operands);
}
Result<void> dispatch(const Call& call, operation::Gelu op, const Operands& operands) {
  return run_activation(call, op.is_tanh ? "gelu_tanh" : "gelu", operands);
}
Result<void> dispatch(const Call& call, operation::Swiglu /*op*/, const Operands& operands) {
  return run_activation(call, "swiglu", operands);
}
Result<void> dispatch(const Call& call, operation::Rope op, const Operands& operands) {
  return run_rope(call, op.is_interleaved, operands);
}
Result<void> dispatch(const Call& call, operation::Embedding /*op*/, const Operands& operands) {
  return run_embedding(call, operands);
}
Result<void> dispatch(const Call& call, const operation::Conv2d& op, const Operands& operands) {
  return run_conv2d(call, op, operands);
}

}  // namespace
}  // namespace ht::inline v1::opencl

namespace ht::inline v1::detail::opencl {

Result<void> run(const Target& target, const Operation& operation, const View& out,
                 std::span<const View> inputs, const ComputeOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    auto* const device = HT_TRY(ht::opencl::find_device(target));
    cl_command_queue queue = HT_TRY(queue_of(*device, options));
    const ht::opencl::Call call{*device, queue};
    ht::opencl::Operands operands;
    std::array<Bytes, 3> touched;
    HT_TRY(check_dtype(device->facts(), out.dtype));
    operands.out = HT_TRY(operand_of(out, *device));
    for (const auto& input : inputs) {
      HT_TRY(check_dtype(device->facts(), input.dtype));
      auto& operand = operands.in[operands.inputs];
      operand = HT_TRY(operand_of(input, *device));
      touched[operands.inputs++] = operand.memory->shared;
    }
    if (operands.out.elements == 0) return {};
    return guarded(touched, [&] {
      return std::visit([&](const auto& each) { return ht::opencl::dispatch(call, each, operands); },
                        operation);
    });
  });
}

}  // namespace ht::inline v1::detail::opencl
