#include "device/opencl/call.hpp"

#include <htensor/dtype/relations.hpp>
#include <limits>

#include "base/format_text.hpp"

namespace ht::inline v1::opencl {

Result<Operand> operand_of(const detail::opencl::View& view, const Device& device) {
  Operand operand;
  operand.memory = HT_TRY(memory_of(*view.storage, device));
  operand.dtype = view.dtype;
  const auto dtype = find_dtype(view.dtype);
  operand.element_bytes = dtype ? dtype->bits / 8 : 1;
  operand.rank = view.rank;
  for (std::size_t i = 0; i < view.rank; ++i) {
    operand.extents[8 - view.rank + i] = view.extents[i];
    operand.strides[8 - view.rank + i] = view.strides[i];
    operand.elements *= view.extents[i];
  }
  const auto offset = view.address - placement::first_address(*view.storage);
  operand.first = static_cast<std::int64_t>(offset) / operand.element_bytes;
  operand.buffer_elements = static_cast<std::int64_t>(operand.memory->buffer_bytes) / operand.element_bytes;
  operand.is_contiguous =
      layout::is_row_major(operand.dims(), layout::Extents(operand.strides).subspan(8 - view.rank));
  return operand;
}

Place place_of(const Operand& operand, std::int64_t element) {
  return {operand.memory->buffers[static_cast<std::size_t>(element / operand.buffer_elements)],
          element % operand.buffer_elements};
}

std::int64_t left_in_buffer(const Operand& operand, std::int64_t element, std::int64_t stride) {
  const auto at = element % operand.buffer_elements;
  if (stride == 0) return std::numeric_limits<std::int64_t>::max();
  return stride > 0 ? (operand.buffer_elements - 1 - at) / stride + 1 : at / -stride + 1;
}

Result<std::optional<Place>> place_if_in_one_buffer(const Operand& operand) {
  const auto offsets = HT_TRY(layout::offset_range(operand.extents, operand.strides));
  const auto low = (operand.first + offsets.lowest) / operand.buffer_elements;
  if (low != (operand.first + offsets.highest) / operand.buffer_elements) return std::optional<Place>();
  return std::optional(place_of(operand, operand.first));
}

Result<Place> place_in_one_buffer(const Operand& operand) {
  const auto place = HT_TRY(place_if_in_one_buffer(operand));
  if (place) return *place;
  return fail(Error(ErrorCode::size_overflow, "operand_fits_one_buffer",
                    format_text("tensor of shape {} spans several device buffers of at most {} bytes",
                                layout::to_text(operand.dims()), operand.memory->buffer_bytes))
                  .with_hint("split the tensor into parts"));
}

Result<Operand> make_contiguous(const Call& call, const Operand& x, Storage& owner) {
  if (x.is_contiguous) return x;
  const auto bytes =
      checked::multiply(static_cast<std::uint64_t>(x.elements), static_cast<std::uint64_t>(x.element_bytes));
  if (!bytes) {
    return fail(
        Error(ErrorCode::size_overflow, "copy_size_fits_64_bits",
              format_text("a copy of a tensor of shape {} exceeds 2^64-1 bytes", layout::to_text(x.dims())))
            .with_hint("reduce or split the tensor before it is broadcast"));
  }
  owner = HT_TRY(
      allocate_memory(call.device, call.device.facts().name, *bytes, x.memory->buffer_bytes, call.queue));
  Operand out = x;
  out.memory = HT_TRY(memory_of(owner, call.device));
  out.first = 0;
  layout::fill_row_major_strides(out.extents, out.strides);
  out.is_contiguous = true;
  HT_TRY(run_copy(call, {.out = out, .in = {x}, .inputs = 1}));
  return out;
}

Result<Dense> make_dense(const Call& call, const Operand& x) {
  Dense result;
  const auto dense = HT_TRY(make_contiguous(call, x, result.owner));
  result.place = HT_TRY(place_in_one_buffer(dense));
  return result;
}

Result<Kernel> Kernel::make(const Call& call, const std::string& text, const char* name) {
  cl_program program = HT_TRY(call.device.program(text));
  cl_int status = CL_SUCCESS;
  cl_kernel kernel = call.device.library().create_kernel(program, name, &status);
  HT_TRY(check(status, "create a kernel"));
  return Kernel(call, kernel);
}

Kernel::~Kernel() {
  if (kernel_ != nullptr) call_.device.library().release_kernel(kernel_);
}

Result<void> Kernel::run_and_wait(std::array<std::size_t, 3> global, std::array<std::size_t, 3> local) {
  const auto& cl = call_.device.library();
  cl_event done = nullptr;
  HT_TRY(
      check(cl.run_kernel(call_.queue, kernel_, 3, nullptr, global.data(), local.data(), 0, nullptr, &done),
            "run a kernel"));
  return finish(cl, done, "run a kernel");
}

}  // namespace ht::inline v1::opencl
