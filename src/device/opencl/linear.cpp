// Operations of `slice::Linear` and `slice::Conv` on OpenCL devices.
#include "device/opencl/call.hpp"

namespace ht::inline v1::opencl {
namespace {

std::size_t round_up_to_tiles(std::int64_t length) {
  return (static_cast<std::size_t>(length) + tile_size - 1) / tile_size * tile_size;
}

// Converts a vector to a matrix of one column. For b of rank 1, and for the result of its product.
void make_column(Operand& vector) {
  vector.extents[6] = vector.extents[7];
  vector.strides[6] = vector.strides[7];
  vector.extents[7] = 1;
  vector.strides[7] = 0;
}

// The bias as a kernel argument. Without a bias, `place` is any buffer; the kernel does not read it.
struct Bias {
  Storage owner;
  Place place;
  cl_int is_given = 0;
};

Result<Bias> bias_of(const Call& call, const Operands& operands, const Place& other) {
  if (operands.inputs < 3) return Bias{.owner = {}, .place = other};
  auto dense = HT_TRY(make_dense(call, operands.in[2]));
  return Bias{std::move(dense.owner), dense.place, 1};
}

}  // namespace

Result<void> run_matmul(const Call& call, const Operands& operands) {
  Operand a = operands.in[0];
  Operand b = operands.in[1];
  Operand out = operands.out;
  // A sum without terms is zero, and the memory is already zero.
  if (a.elements == 0) return {};
  if (b.rank == 1) {
    make_column(b);
    make_column(out);
  }
  const auto pa = HT_TRY(place_in_one_buffer(a));
  const auto pb = HT_TRY(place_in_one_buffer(b));
  const auto po = HT_TRY(place_in_one_buffer(out));
  std::size_t batches = 1;
  for (std::size_t i = 0; i < 6; ++i) batches *= static_cast<std::size_t>(out.extents[i]);
  auto kernel = HT_TRY(Kernel::make(call, linear_text(out.dtype, b.dtype), "matmul"));
  return kernel.run({round_up_to_tiles(out.extents[7]), round_up_to_tiles(out.extents[6]), batches},
                    {tile_size, tile_size, 1}, pa.buffer, pa.at, a.strides[6], a.strides[7], long8(a.strides),
                    pb.buffer, pb.at, b.strides[6], b.strides[7], long8(b.strides), po.buffer, po.at,
                    long8(out.extents), out.extents[6], a.extents[7], out.extents[7], po.buffer, po.at,
                    cl_int{0});
}

Result<void> run_linear(const Call& call, const Operands& operands) {
  const Operand& weights = operands.in[1];
  const auto [rows, columns] = std::pair(weights.extents[6], weights.extents[7]);
  const auto batch = operands.out.elements / rows;
  const auto po = HT_TRY(place_in_one_buffer(operands.out));
  const auto bias = HT_TRY(bias_of(call, operands, po));
  const std::string text = linear_text(operands.out.dtype, weights.dtype);
  // Without columns the kernel reads nothing; the buffers may be empty.
  const bool is_empty = columns == 0;
  const auto x = is_empty ? Dense{.owner = {}, .place = po} : HT_TRY(make_dense(call, operands.in[0]));
  const auto pw = is_empty ? po : HT_TRY(place_in_one_buffer(weights));
  if (batch <= max_vectors) {
    auto kernel = HT_TRY(Kernel::make(call, text, "linear_vectors"));
    constexpr std::size_t group = 8;
    const auto items = (static_cast<std::size_t>(rows) + group - 1) / group * group;
    return kernel.run({items, static_cast<std::size_t>(batch), 1}, {group, 1, 1}, x.place.buffer, x.place.at,
                      pw.buffer, pw.at, weights.strides[6], weights.strides[7], po.buffer, po.at, rows,
                      columns, bias.place.buffer, bias.place.at, bias.is_given);
  }
  auto kernel = HT_TRY(Kernel::make(call, text, "matmul"));
  const Dims none{};
  const Dims one{1, 1, 1, 1, 1, 1, 1, 1};
  return kernel.run({round_up_to_tiles(rows), round_up_to_tiles(batch), 1}, {tile_size, tile_size, 1},
                    x.place.buffer, x.place.at, columns, cl_long{1}, long8(none), pw.buffer, pw.at,
                    weights.strides[7], weights.strides[6], long8(none), po.buffer, po.at, long8(one), batch,
                    columns, rows, bias.place.buffer, bias.place.at, bias.is_given);
}

Result<void> run_conv2d(const Call& call, const operation::Conv2d& conv, const Operands& operands) {
  const Operand& x = operands.in[0];
  const Operand& weight = operands.in[1];
  const auto po = HT_TRY(place_in_one_buffer(operands.out));
  const auto bias = HT_TRY(bias_of(call, operands, po));
  const bool is_empty = x.elements == 0 || weight.elements == 0;
  const auto px = is_empty ? Dense{.owner = {}, .place = po} : HT_TRY(make_dense(call, x));
  const auto pw = is_empty ? Dense{.owner = {}, .place = po} : HT_TRY(make_dense(call, weight));
  const DTypeTag bias_dtype = operands.inputs < 3 ? operands.out.dtype : operands.in[2].dtype;
  auto kernel = HT_TRY(Kernel::make(call, conv_text(operands.out.dtype, weight.dtype, bias_dtype), "conv2d"));
  return kernel.run_items(operands.out.elements, px.place.buffer, px.place.at, pw.place.buffer, pw.place.at,
                          bias.place.buffer, bias.place.at, bias.is_given, po.buffer, po.at,
                          unsigned_of(operands.out.elements), long8(x.extents), long8(weight.extents),
                          long8(operands.out.extents),
                          Long8{conv.stride[0], conv.stride[1], conv.padding[0], conv.padding[1],
                                conv.dilation[0], conv.dilation[1], conv.groups, is_empty ? 1 : 0});
}

}  // namespace ht::inline v1::opencl
