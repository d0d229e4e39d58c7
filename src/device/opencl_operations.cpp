// Operations on OpenCL devices: views are turned into arguments of kernels, kernels are run to their end.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <htensor/device/opencl.hpp>
#include <htensor/dtype/visit.hpp>
#include <limits>
#include <optional>
#include <utility>

#include "base/format_text.hpp"
#include "device/opencl_kernels.hpp"
#include "device/opencl_memory.hpp"

namespace ht::inline v1::detail::opencl {
namespace {

using ht::opencl::check;
using ht::opencl::Device;
using ht::opencl::finish;
using ht::opencl::group_size;
using ht::opencl::Memory;
using ht::opencl::memory_of;
using ht::opencl::reduction_lanes;
using Dims = std::array<std::int64_t, 8>;
using Long8 = std::array<cl_long, 8>;

struct Call {
  Device& device;
  cl_command_queue queue;
};

Result<Call> start(const Target& target, const OpenClOptions& options) {
  auto* const device = HT_TRY(ht::opencl::find_device(target));
  cl_command_queue queue = HT_TRY(queue_of(*device, options));
  return Call{*device, queue};
}

// A tensor as kernels see it: its memory, the place of its first element and its last eight dimensions, all
// in elements.
struct Operand {
  const Memory* memory = nullptr;
  std::int64_t first = 0;
  std::int64_t elements = 1;
  std::int64_t in_buffer = 0;  // elements of a whole buffer
  std::int64_t element_bytes = 0;
  std::size_t rank = 0;
  Dims extents{1, 1, 1, 1, 1, 1, 1, 1};
  Dims strides{};
  bool is_contiguous = false;

  [[nodiscard]] layout::Extents dims() const noexcept { return layout::Extents(extents).subspan(8 - rank); }
};

Result<Operand> operand(const View& view, const Device& device) {
  Operand made;
  made.memory = HT_TRY(memory_of(*view.storage, device));
  const auto dtype = find_dtype(view.dtype);
  made.element_bytes = dtype ? dtype->bits / 8 : 1;
  made.rank = view.rank;
  for (std::size_t i = 0; i < view.rank; ++i) {
    made.extents[8 - view.rank + i] = view.extents[i];
    made.strides[8 - view.rank + i] = view.strides[i];
    made.elements *= view.extents[i];
  }
  const auto offset = view.address - placement::first_address(*view.storage);
  made.first = static_cast<std::int64_t>(offset) / made.element_bytes;
  made.in_buffer = static_cast<std::int64_t>(made.memory->buffer_bytes) / made.element_bytes;
  made.is_contiguous =
      layout::is_row_major(made.dims(), layout::Extents(made.strides).subspan(8 - view.rank));
  return made;
}

// Where one element lies: its buffer and its place there.
struct Place {
  cl_mem buffer = nullptr;
  std::int64_t at = 0;
};

Place place_of(const Operand& operand, std::int64_t element) {
  return {operand.memory->buffers[static_cast<std::size_t>(element / operand.in_buffer)],
          element % operand.in_buffer};
}

// How many elements, one `stride` after the other, are in the buffer of the first one.
std::int64_t left_in_buffer(const Operand& operand, std::int64_t element, std::int64_t stride) {
  const auto at = element % operand.in_buffer;
  if (stride == 0) return std::numeric_limits<std::int64_t>::max();
  return stride > 0 ? (operand.in_buffer - 1 - at) / stride + 1 : at / -stride + 1;
}

// The buffer that has all elements of the view, or none.
Result<std::optional<Place>> only_buffer(const Operand& operand) {
  const auto reach = HT_TRY(layout::reach(operand.extents, operand.strides));
  const auto low = (operand.first + reach.lowest) / operand.in_buffer;
  if (low != (operand.first + reach.highest) / operand.in_buffer) return std::optional<Place>();
  return std::optional(place_of(operand, operand.first));
}

Result<Place> one_buffer(const Operand& operand) {
  const auto place = HT_TRY(only_buffer(operand));
  if (place) return *place;
  return fail(Error(ErrorCode::size_overflow, "operand_is_in_one_buffer",
                    format_text("tensor of shape {} exceeds the largest buffer of the device, {} bytes",
                                layout::to_text(operand.dims()), operand.memory->buffer_bytes))
                  .with_hint("split the tensor into parts"));
}

class Kernel {
 public:
  static Result<Kernel> make(const Call& call, const std::string& text, const std::string& name) {
    cl_program program = HT_TRY(call.device.program(text));
    cl_int status = CL_SUCCESS;
    cl_kernel made = call.device.library().create_kernel(program, name.c_str(), &status);
    HT_TRY(check(status, "create a kernel"));
    return Kernel(call, made);
  }
  Kernel(Kernel&& other) noexcept : call_(other.call_), kernel_(std::exchange(other.kernel_, nullptr)) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  Kernel& operator=(Kernel&&) = delete;
  ~Kernel() {
    if (kernel_ != nullptr) call_.device.library().release_kernel(kernel_);
  }

  /// Runs it to its end.
  template <class... Arguments>
  Result<void> run(std::array<std::size_t, 2> global, std::array<std::size_t, 2> local,
                   const Arguments&... arguments) {
    const auto& cl = call_.device.library();
    cl_uint index = 0;
    cl_int status = CL_SUCCESS;
    ((status = status == CL_SUCCESS ? set(index++, arguments) : status), ...);
    HT_TRY(check(status, "set an argument of a kernel"));
    cl_event done = nullptr;
    HT_TRY(
        check(cl.run_kernel(call_.queue, kernel_, 2, nullptr, global.data(), local.data(), 0, nullptr, &done),
              "run a kernel"));
    return finish(cl, done, "run a kernel");
  }
  /// The same with at least this many work-items in a row.
  template <class... Arguments>
  Result<void> run_row(std::int64_t items, const Arguments&... arguments) {
    const auto groups = (static_cast<std::size_t>(items) + group_size - 1) / group_size;
    return run({groups * group_size, 1}, {group_size, 1}, arguments...);
  }

 private:
  template <class Argument>
  cl_int set(cl_uint index, const Argument& argument) {
    // A buffer is a handle, and its own size is meant.
    constexpr auto size = sizeof(Argument);  // NOLINT(bugprone-sizeof-expression)
    return call_.device.library().set_argument(kernel_, index, size, static_cast<const void*>(&argument));
  }

  Kernel(const Call& call, cl_kernel kernel) noexcept : call_(call), kernel_(kernel) {}

  Call call_;
  cl_kernel kernel_;
};

Long8 long8(const Dims& dims) {
  Long8 made{};
  std::ranges::copy(dims, made.begin());
  return made;
}

cl_ulong unsigned_of(std::int64_t number) { return static_cast<cl_ulong>(number); }

std::string name_of(Binary operation) {
  switch (operation) {
    case Binary::add: return "add";
    case Binary::subtract: return "subtract";
    case Binary::multiply: return "multiply";
    case Binary::divide: return "divide";
  }
  return "add";
}

// Elements that follow each other, buffer by buffer.
Result<void> combine_contiguous(Kernel& kernel, const Operand& a, const Operand& b, const Operand& out) {
  for (std::int64_t done = 0; done < out.elements;) {
    auto part = out.elements - done;
    for (const auto* each : {&a, &b, &out})
      part = std::min(part, left_in_buffer(*each, each->first + done, 1));
    const auto pa = place_of(a, a.first + done);
    const auto pb = place_of(b, b.first + done);
    const auto po = place_of(out, out.first + done);
    HT_TRY(kernel.run_row(part, pa.buffer, pa.at, pb.buffer, pb.at, po.buffer, po.at, unsigned_of(part)));
    done += part;
  }
  return {};
}

// Runs of equal strides, each split where a buffer ends: for views that lie in several buffers.
template <class RunPart>
Result<void> for_each_part(const Operand& a, const Operand& b, const Operand& out, const RunPart& run_part) {
  Result<void> result;
  std::int64_t to = out.first;
  const auto visit = [&](const Run<2>& run) {
    for (std::int64_t done = 0; done < run.count && result;) {
      const auto of_a = a.first + run.offsets[0] + done * run.strides[0];
      const auto of_b = b.first + run.offsets[1] + done * run.strides[1];
      const auto part = std::min({run.count - done, left_in_buffer(a, of_a, run.strides[0]),
                                  left_in_buffer(b, of_b, run.strides[1]), left_in_buffer(out, to, 1)});
      result = run_part(place_of(a, of_a), run.strides[0], place_of(b, of_b), run.strides[1],
                        place_of(out, to), part);
      done += part;
      to += part;
    }
  };
  for_each_run(a.extents, visit, a.strides, b.strides);
  return result;
}

Dims in_last(std::int64_t number) { return {1, 1, 1, 1, 1, 1, 1, number}; }

Result<void> combine_strided(Kernel& kernel, const Operand& a, const Operand& b, const Operand& out) {
  const auto pa = HT_TRY(only_buffer(a));
  const auto pb = HT_TRY(only_buffer(b));
  const auto po = HT_TRY(only_buffer(out));
  if (pa && pb && po) {
    return kernel.run_row(out.elements, pa->buffer, pa->at, pb->buffer, pb->at, po->buffer, po->at,
                          unsigned_of(out.elements), static_cast<cl_int>(out.rank), long8(out.extents),
                          long8(a.strides), long8(b.strides));
  }
  return for_each_part(
      a, b, out, [&](Place of_a, std::int64_t sa, Place of_b, std::int64_t sb, Place to, std::int64_t part) {
        return kernel.run_row(part, of_a.buffer, of_a.at, of_b.buffer, of_b.at, to.buffer, to.at,
                              unsigned_of(part), cl_int{1}, long8(in_last(part)), long8(in_last(sa)),
                              long8(in_last(sb)));
      });
}

// A contiguous copy of a view, in new memory that `keeper` owns.
Result<Operand> make_contiguous(const Call& call, const Operand& a, DTypeTag dtype, Storage& keeper) {
  if (a.is_contiguous) return a;
  const auto bytes = static_cast<std::uint64_t>(a.elements) * static_cast<std::uint64_t>(a.element_bytes);
  keeper = HT_TRY(allocate_memory(call.device, "", bytes, a.memory->buffer_bytes));
  Operand out = a;
  out.memory = HT_TRY(memory_of(keeper, call.device));
  out.first = 0;
  layout::fill_row_major_strides(out.extents, out.strides);
  out.is_contiguous = true;
  auto kernel = HT_TRY(Kernel::make(call, ht::opencl::core_text(dtype), "copy_strided"));
  const auto from = HT_TRY(only_buffer(a));
  const auto to = HT_TRY(only_buffer(out));
  if (from && to) {
    HT_TRY(kernel.run_row(a.elements, from->buffer, from->at, to->buffer, to->at, unsigned_of(a.elements),
                          static_cast<cl_int>(a.rank), long8(a.extents), long8(a.strides)));
  } else {
    HT_TRY(for_each_part(
        a, a, out, [&](Place of_a, std::int64_t sa, Place, std::int64_t, Place into, std::int64_t part) {
          return kernel.run_row(part, of_a.buffer, of_a.at, into.buffer, into.at, unsigned_of(part),
                                cl_int{1}, long8(in_last(part)), long8(in_last(sa)));
        }));
  }
  return out;
}

// Partial results of the lanes, which are added up here: floating-point ones in double.
template <class Accumulator>
Reduced combine_lanes(Reduction reduction, const std::array<std::uint64_t, reduction_lanes>& raw) {
  std::array<Accumulator, reduction_lanes> lanes{};
  std::memcpy(lanes.data(), raw.data(), sizeof(lanes));
  if constexpr (std::floating_point<Accumulator>) {
    double all = reduction == Reduction::sum ? 0.0 : static_cast<double>(lanes[0]);
    for (const auto lane : lanes) {
      const auto number = static_cast<double>(lane);
      if (reduction == Reduction::sum) {
        all += number;
      } else if (number > all || std::isnan(number)) {
        all = number;
      }
    }
    return {.floating = all, .integer = 0};
  } else {
    std::uint64_t all = 0;
    for (const auto lane : lanes) all += static_cast<std::uint64_t>(lane);
    if (reduction == Reduction::max) all = static_cast<std::uint64_t>(*std::ranges::max_element(lanes));
    return {.floating = 0, .integer = static_cast<std::int64_t>(all)};
  }
}

Result<Reduced> reduce_contiguous(const Call& call, Reduction reduction, const Operand& a, DTypeTag dtype) {
  const auto& cl = call.device.library();
  auto kernel = HT_TRY(Kernel::make(call, ht::opencl::core_text(dtype),
                                    reduction == Reduction::sum ? "reduce_sum" : "reduce_max"));
  std::array<std::uint64_t, reduction_lanes> lanes{};
  const auto partial = HT_TRY(allocate_memory(call.device, "", sizeof(lanes), sizeof(lanes)));
  cl_mem const buffer = HT_TRY(memory_of(partial, call.device))->buffers[0];
  for (std::int64_t done = 0; done < a.elements;) {
    const auto part = std::min(a.elements - done, left_in_buffer(a, a.first + done, 1));
    const auto place = place_of(a, a.first + done);
    // A GPU reads neighbours together; a processor reads one after the other.
    const bool by_blocks = !call.device.facts().is_gpu;
    const auto block = by_blocks ? (unsigned_of(part) + reduction_lanes - 1) / reduction_lanes : 1;
    const auto step = by_blocks ? 1 : reduction_lanes;
    HT_TRY(kernel.run_row(reduction_lanes, place.buffer, unsigned_of(place.at), unsigned_of(part),
                          cl_ulong{block}, cl_ulong{step}, buffer, cl_int{done == 0 ? 1 : 0}));
    done += part;
  }
  HT_TRY(
      check(cl.read_buffer(call.queue, buffer, CL_TRUE, 0, sizeof(lanes), lanes.data(), 0, nullptr, nullptr),
            "copy to the host"));
  if (dtype == F64::tag) return combine_lanes<double>(reduction, lanes);
  if (dtype == F32::tag || dtype == F16::tag || dtype == BF16::tag)
    return combine_lanes<float>(reduction, lanes);
  const bool is_signed = dtype == I8::tag || dtype == I16::tag || dtype == I32::tag || dtype == I64::tag;
  return is_signed ? combine_lanes<std::int64_t>(reduction, lanes)
                   : combine_lanes<std::uint64_t>(reduction, lanes);
}

struct Rows {
  std::int64_t count = 0;
  std::int64_t length = 0;
};

Rows rows_of(const Operand& x) {
  const auto length = x.extents.back();
  return {length == 0 ? 0 : x.elements / length, length};
}

}  // namespace

Result<void> elementwise(const Target& target, Binary operation, const View& a, const View& b,
                         const View& out, const OpenClOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto call = HT_TRY(start(target, options));
    const auto of_a = HT_TRY(operand(a, call.device));
    const auto of_b = HT_TRY(operand(b, call.device));
    const auto to = HT_TRY(operand(out, call.device));
    if (to.elements == 0) return {};
    const bool is_contiguous = of_a.is_contiguous && of_b.is_contiguous;
    auto kernel = HT_TRY(Kernel::make(call, ht::opencl::core_text(a.dtype),
                                      name_of(operation) + (is_contiguous ? "" : "_strided")));
    const std::array<Bytes, 2> touched{of_a.memory->shared, of_b.memory->shared};
    return guarded(touched, [&] {
      return is_contiguous ? combine_contiguous(kernel, of_a, of_b, to)
                           : combine_strided(kernel, of_a, of_b, to);
    });
  });
}

Result<Reduced> reduce(const Target& target, Reduction reduction, const View& a,
                       const OpenClOptions& options) {
  return without_bad_alloc([&]() -> Result<Reduced> {
    const auto call = HT_TRY(start(target, options));
    const auto from = HT_TRY(operand(a, call.device));
    if (from.elements == 0) {
      if (reduction == Reduction::sum) return Reduced{};
      return fail(ErrorCode::bad_shape, "max_has_an_element",
                  format_text("shape {} has 0 elements but max needs one", layout::to_text(from.dims())));
    }
    return guarded(from.memory->shared, [&]() -> Result<Reduced> {
      Storage keeper;
      const auto dense = HT_TRY(make_contiguous(call, from, a.dtype, keeper));
      return reduce_contiguous(call, reduction, dense, a.dtype);
    });
  });
}

Result<void> matmul(const Target& target, const View& a, const View& b, const View& out,
                    const OpenClOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto call = HT_TRY(start(target, options));
    const auto of_a = HT_TRY(operand(a, call.device));
    const auto of_b = HT_TRY(operand(b, call.device));
    const auto to = HT_TRY(operand(out, call.device));
    // A sum without terms is zero, which the memory already is.
    if (to.elements == 0 || of_a.elements == 0) return {};
    const auto pa = HT_TRY(one_buffer(of_a));
    const auto pb = HT_TRY(one_buffer(of_b));
    const auto po = HT_TRY(one_buffer(to));
    auto kernel = HT_TRY(Kernel::make(call, ht::opencl::linear_text(a.dtype), "matmul"));
    const auto tiles = [](std::int64_t length) {
      return (static_cast<std::size_t>(length) + ht::opencl::tile_size - 1) / ht::opencl::tile_size *
             ht::opencl::tile_size;
    };
    const std::array<Bytes, 2> touched{of_a.memory->shared, of_b.memory->shared};
    return guarded(touched, [&] {
      return kernel.run({tiles(to.extents[7]), tiles(to.extents[6])},
                        {ht::opencl::tile_size, ht::opencl::tile_size}, pa.buffer, pa.at, of_a.strides[6],
                        of_a.strides[7], pb.buffer, pb.at, of_b.strides[6], of_b.strides[7], po.buffer, po.at,
                        to.extents[6], of_a.extents[7], to.extents[7]);
    });
  });
}

Result<void> softmax(const Target& target, const View& x, const View& out, const OpenClOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto call = HT_TRY(start(target, options));
    const auto from = HT_TRY(operand(x, call.device));
    const auto to = HT_TRY(operand(out, call.device));
    const auto rows = rows_of(from);
    if (rows.count == 0) return {};
    return guarded(from.memory->shared, [&]() -> Result<void> {
      Storage keeper;
      const auto dense = HT_TRY(make_contiguous(call, from, x.dtype, keeper));
      const auto px = HT_TRY(one_buffer(dense));
      const auto po = HT_TRY(one_buffer(to));
      auto kernel = HT_TRY(Kernel::make(call, ht::opencl::nn_text(), "softmax"));
      return kernel.run({static_cast<std::size_t>(rows.count) * group_size, 1}, {group_size, 1}, px.buffer,
                        px.at, po.buffer, po.at, unsigned_of(rows.length));
    });
  });
}

Result<void> rms_norm(const Target& target, const View& x, const View& weight, float epsilon, const View& out,
                      const OpenClOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto call = HT_TRY(start(target, options));
    const auto from = HT_TRY(operand(x, call.device));
    const auto by = HT_TRY(operand(weight, call.device));
    const auto to = HT_TRY(operand(out, call.device));
    const auto rows = rows_of(from);
    if (rows.count == 0) return {};
    const std::array<Bytes, 2> touched{from.memory->shared, by.memory->shared};
    return guarded(touched, [&]() -> Result<void> {
      Storage keeper;
      Storage weight_keeper;
      const auto dense = HT_TRY(make_contiguous(call, from, x.dtype, keeper));
      const auto dense_weight = HT_TRY(make_contiguous(call, by, x.dtype, weight_keeper));
      const auto px = HT_TRY(one_buffer(dense));
      const auto pw = HT_TRY(one_buffer(dense_weight));
      const auto po = HT_TRY(one_buffer(to));
      auto kernel = HT_TRY(Kernel::make(call, ht::opencl::nn_text(), "rms_norm"));
      return kernel.run({static_cast<std::size_t>(rows.count) * group_size, 1}, {group_size, 1}, px.buffer,
                        px.at, pw.buffer, pw.at, po.buffer, po.at, unsigned_of(rows.length),
                        cl_float{epsilon});
    });
  });
}

Result<void> silu(const Target& target, const View& x, const View& out, const OpenClOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto call = HT_TRY(start(target, options));
    const auto from = HT_TRY(operand(x, call.device));
    const auto to = HT_TRY(operand(out, call.device));
    if (from.elements == 0) return {};
    return guarded(from.memory->shared, [&]() -> Result<void> {
      Storage keeper;
      const auto dense = HT_TRY(make_contiguous(call, from, x.dtype, keeper));
      auto kernel = HT_TRY(Kernel::make(call, ht::opencl::nn_text(), "silu"));
      for (std::int64_t done = 0; done < dense.elements;) {
        const auto part = std::min({dense.elements - done, left_in_buffer(dense, dense.first + done, 1),
                                    left_in_buffer(to, to.first + done, 1)});
        const auto px = place_of(dense, dense.first + done);
        const auto po = place_of(to, to.first + done);
        HT_TRY(kernel.run_row(part, px.buffer, px.at, po.buffer, po.at, unsigned_of(part)));
        done += part;
      }
      return {};
    });
  });
}

}  // namespace ht::inline v1::detail::opencl
