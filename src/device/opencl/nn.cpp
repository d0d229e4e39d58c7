// Operations of `slice::Nn` on OpenCL devices: softmax and argmax of rows, norms, activations, rotary
// embedding, and lookup of embeddings.
#include "device/opencl/call.hpp"

namespace ht::inline v1::opencl {

Result<void> run_rows(const Call& call, const char* kernel, const Operands& operands) {
  const Operand& x = operands.in[0];
  const auto dense = HT_TRY(make_dense(call, x));
  const auto to = HT_TRY(place_in_one_buffer(operands.out));
  auto kernel_object = HT_TRY(Kernel::make(call, nn_text(x.dtype, x.dtype, x.dtype), kernel));
  return kernel_object.run_groups(x.rows(), dense.place.buffer, dense.place.at, to.buffer, to.at,
                                  unsigned_of(x.extents.back()));
}

Result<void> run_norm(const Call& call, bool has_mean, double epsilon, const Operands& operands) {
  const Operand& x = operands.in[0];
  const auto dense = HT_TRY(make_dense(call, x));
  const auto weight = HT_TRY(make_dense(call, operands.in[1]));
  const bool has_bias = operands.inputs == 3;
  const auto bias =
      has_bias ? HT_TRY(make_dense(call, operands.in[2])) : Dense{.owner = {}, .place = weight.place};
  const auto to = HT_TRY(place_in_one_buffer(operands.out));
  const DTypeTag bias_dtype = has_bias ? operands.in[2].dtype : x.dtype;
  auto kernel = HT_TRY(Kernel::make(call, nn_text(x.dtype, operands.in[1].dtype, bias_dtype), "norm"));
  const auto run = [&](auto number) {
    return kernel.run_groups(x.rows(), dense.place.buffer, dense.place.at, weight.place.buffer,
                             weight.place.at, bias.place.buffer, bias.place.at, to.buffer, to.at,
                             unsigned_of(x.extents.back()), number, cl_int{has_mean ? 1 : 0},
                             cl_int{has_bias ? 1 : 0});
  };
  return x.dtype == F64::tag ? run(cl_double{epsilon}) : run(static_cast<cl_float>(epsilon));
}

Result<void> run_activation(const Call& call, const char* kernel, const Operands& operands) {
  const Operand& out = operands.out;
  Storage owner;
  Storage other_owner;
  const auto x = HT_TRY(make_contiguous(call, operands.in[0], owner));
  const auto other = operands.inputs == 2 ? HT_TRY(make_contiguous(call, operands.in[1], other_owner)) : x;
  auto kernel_object = HT_TRY(Kernel::make(call, nn_text(out.dtype, out.dtype, out.dtype), kernel));
  return combine_contiguous(kernel_object, x, other, out);
}

Result<void> run_rope(const Call& call, bool is_interleaved, const Operands& operands) {
  const Operand& x = operands.in[0];
  const auto dense = HT_TRY(make_dense(call, x));
  const auto to = HT_TRY(place_in_one_buffer(operands.out));
  // Without pairs, the tables have no memory and are not read.
  const auto pairs = operands.in[1].extents.back();
  const auto cosines = pairs == 0 ? to : HT_TRY(place_in_one_buffer(operands.in[1]));
  const auto sines = pairs == 0 ? to : HT_TRY(place_in_one_buffer(operands.in[2]));
  auto kernel = HT_TRY(Kernel::make(call, nn_text(x.dtype, x.dtype, x.dtype), "rope"));
  return kernel.run_items(x.elements, dense.place.buffer, dense.place.at, cosines.buffer, cosines.at,
                          sines.buffer, sines.at, to.buffer, to.at, unsigned_of(x.elements),
                          unsigned_of(x.extents[6]), unsigned_of(x.extents[7]), unsigned_of(pairs),
                          cl_int{is_interleaved ? 1 : 0});
}

Result<void> run_embedding(const Call& call, const Operands& operands) {
  const Operand& table = operands.in[0];
  const auto from = HT_TRY(place_in_one_buffer(table));
  const auto ids = HT_TRY(place_in_one_buffer(operands.in[1]));
  const auto to = HT_TRY(place_in_one_buffer(operands.out));
  auto kernel =
      HT_TRY(Kernel::make(call, nn_text(operands.out.dtype, table.dtype, operands.out.dtype), "embedding"));
  return kernel.run_items(operands.out.elements, from.buffer, from.at, table.strides[6], table.strides[7],
                          ids.buffer, ids.at, to.buffer, to.at, unsigned_of(operands.out.elements),
                          unsigned_of(operands.out.extents[7]));
}

}  // namespace ht::inline v1::opencl
