// Dispatches operations of the library to their OpenCL kernels.
#include <functional>

#include "base/format_text.hpp"
#include "device/opencl/call.hpp"

namespace ht::inline v1::opencl {
namespace {

Result<void> start(const Call& call, std::plus<> /*op*/, const Operands& with) {
  return run_binary(call, "add", with);
}
Result<void> start(const Call& call, std::minus<> /*op*/, const Operands& with) {
  return run_binary(call, "subtract", with);
}
Result<void> start(const Call& call, std::multiplies<> /*op*/, const Operands& with) {
  return run_binary(call, "multiply", with);
}
Result<void> start(const Call& call, std::divides<> /*op*/, const Operands& with) {
  return run_binary(call, "divide", with);
}
Result<void> start(const Call& call, operation::Copy /*op*/, const Operands& with) {
  return run_copy(call, with);
}
Result<void> start(const Call& call, operation::Sum /*op*/, const Operands& with) {
  return run_reduction(call, false, with);
}
Result<void> start(const Call& call, operation::Max /*op*/, const Operands& with) {
  return run_reduction(call, true, with);
}
Result<void> start(const Call& call, operation::Matmul /*op*/, const Operands& with) {
  return run_matmul(call, with);
}
Result<void> start(const Call& call, operation::Linear /*op*/, const Operands& with) {
  return run_linear(call, with);
}
Result<void> start(const Call& call, operation::Softmax /*op*/, const Operands& with) {
  return run_rows(call, "softmax", with);
}
Result<void> start(const Call& call, operation::LogSoftmax /*op*/, const Operands& with) {
  return run_rows(call, "log_softmax", with);
}
Result<void> start(const Call& call, operation::Argmax /*op*/, const Operands& with) {
  return run_rows(call, "argmax", with);
}
Result<void> start(const Call& call, operation::RmsNorm op, const Operands& with) {
  return run_norm(call, false, op.epsilon, with);
}
Result<void> start(const Call& call, operation::LayerNorm op, const Operands& with) {
  return run_norm(call, true, op.epsilon, with);
}
Result<void> start(const Call& call, operation::Silu /*op*/, const Operands& with) {
  return run_activation(call, "silu", with);
}
Result<void> start(const Call& call, operation::Gelu op, const Operands& with) {
  return run_activation(call, op.is_tanh ? "gelu_tanh" : "gelu", with);
}
Result<void> start(const Call& call, operation::Swiglu /*op*/, const Operands& with) {
  return run_activation(call, "swiglu", with);
}
Result<void> start(const Call& call, operation::Rope op, const Operands& with) {
  return run_rope(call, op.is_interleaved, with);
}
Result<void> start(const Call& call, operation::Embedding /*op*/, const Operands& with) {
  return run_embedding(call, with);
}
Result<void> start(const Call& call, const operation::Conv2d& op, const Operands& with) {
  return run_conv2d(call, op, with);
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
    ht::opencl::Operands with;
    std::array<Bytes, 3> touched;
    HT_TRY(check_dtype(device->facts(), out.dtype));
    with.out = HT_TRY(operand_of(out, *device));
    for (const auto& input : inputs) {
      HT_TRY(check_dtype(device->facts(), input.dtype));
      auto& operand = with.in[with.inputs];
      operand = HT_TRY(operand_of(input, *device));
      touched[with.inputs++] = operand.memory->shared;
    }
    if (with.out.elements == 0) return {};
    return guarded(touched, [&] {
      return std::visit([&](const auto& each) { return ht::opencl::start(call, each, with); }, operation);
    });
  });
}

}  // namespace ht::inline v1::detail::opencl
