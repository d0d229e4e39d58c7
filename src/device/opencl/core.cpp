// Operations of `slice::Core` on OpenCL devices: elementwise operations, copies and reductions. Tensors may
// span several buffers.
#include <array>
#include <cmath>
#include <cstring>

#include "device/opencl/call.hpp"

namespace ht::inline v1::opencl {
namespace {

Dims dims_with_last(std::int64_t number) { return {1, 1, 1, 1, 1, 1, 1, number}; }

// Calls run_part(places of a, b and out, strides of each, elements) for each run of elements with constant
// strides. Splits runs at the ends of buffers. Used for views that span several buffers.
template <class RunPart>
Result<void> for_each_part(const Operand& a, const Operand& b, const Operand& out, const RunPart& run_part) {
  Result<void> result;
  const std::array<const Operand*, 3> operands{&a, &b, &out};
  const auto visit = [&](const detail::Run<3>& run) {
    for (std::int64_t done = 0; done < run.count && result;) {
      std::int64_t part = run.count - done;
      std::array<Place, 3> places;
      std::array<Long8, 3> strides{};
      for (std::size_t i = 0; i < 3; ++i) {
        const auto at = operands[i]->first + run.offsets[i] + done * run.strides[i];
        part = std::min(part, left_in_buffer(*operands[i], at, run.strides[i]));
        places[i] = place_of(*operands[i], at);
        strides[i] = long8(dims_with_last(run.strides[i]));
      }
      result = run_part(places, strides, part);
      done += part;
    }
  };
  detail::for_each_run(a.extents, visit, a.strides, b.strides, out.strides);
  return result;
}

Result<void> combine_strided(Kernel& kernel, const Operand& a, const Operand& b, const Operand& out) {
  const auto pa = HT_TRY(place_if_in_one_buffer(a));
  const auto pb = HT_TRY(place_if_in_one_buffer(b));
  const auto po = HT_TRY(place_if_in_one_buffer(out));
  if (pa && pb && po) {
    return kernel.run_items(out.elements, pa->buffer, pa->at, pb->buffer, pb->at, po->buffer, po->at,
                            unsigned_of(out.elements), static_cast<cl_int>(out.rank), long8(out.extents),
                            long8(a.strides), long8(b.strides), long8(out.strides));
  }
  return for_each_part(a, b, out, [&](const auto& places, const auto& strides, std::int64_t part) {
    return kernel.run_items(part, places[0].buffer, places[0].at, places[1].buffer, places[1].at,
                            places[2].buffer, places[2].at, unsigned_of(part), cl_int{1},
                            long8(dims_with_last(part)), strides[0], strides[1], strides[2]);
  });
}

// Combines the partial results of the lanes on the host, floating-point ones in double.
template <class Accumulator>
Accumulator combine_lanes(bool is_max, const std::array<std::uint64_t, reduction_lanes>& raw) {
  std::array<Accumulator, reduction_lanes> lanes{};
  std::memcpy(lanes.data(), raw.data(), sizeof(lanes));
  if constexpr (std::floating_point<Accumulator>) {
    std::array<double, reduction_lanes> numbers{};
    std::ranges::copy(lanes, numbers.begin());
    if (!is_max) {
      // Pairwise, so that each number takes part in at most ten additions.
      for (std::size_t step = reduction_lanes / 2; step > 0; step /= 2) {
        for (std::size_t i = 0; i < step; ++i) numbers[i] += numbers[i + step];
      }
      return static_cast<Accumulator>(numbers[0]);
    }
    double all = numbers[0];
    for (const double number : numbers) {
      if (number > all || std::isnan(number)) all = number;
    }
    return static_cast<Accumulator>(all);
  } else {
    if (is_max) return *std::ranges::max_element(lanes);
    std::uint64_t all = 0;
    for (const auto lane : lanes) all += static_cast<std::uint64_t>(lane);
    return static_cast<Accumulator>(all);
  }
}

template <class Accumulator>
Result<void> write_reduced(const Call& call, bool is_max, const Operand& out,
                           const std::array<std::uint64_t, reduction_lanes>& lanes) {
  const auto value = combine_lanes<Accumulator>(is_max, lanes);
  const auto to = HT_TRY(place_in_one_buffer(out));
  return check(call.device.library().write_buffer(call.queue, to.buffer, CL_TRUE,
                                                  static_cast<std::size_t>(to.at) * sizeof(value),
                                                  sizeof(value), &value, 0, nullptr, nullptr),
               "copy to the device");
}

}  // namespace

Result<void> combine_contiguous(Kernel& kernel, const Operand& a, const Operand& b, const Operand& out) {
  for (std::int64_t done = 0; done < out.elements;) {
    auto part = out.elements - done;
    for (const auto* each : {&a, &b, &out})
      part = std::min(part, left_in_buffer(*each, each->first + done, 1));
    const auto pa = place_of(a, a.first + done);
    const auto pb = place_of(b, b.first + done);
    const auto po = place_of(out, out.first + done);
    HT_TRY(kernel.run_items(part, pa.buffer, pa.at, pb.buffer, pb.at, po.buffer, po.at, unsigned_of(part)));
    done += part;
  }
  return {};
}

Result<void> run_binary(const Call& call, const char* kernel, const Operands& operands) {
  const auto& [a, b, unused] = operands.in;
  const bool is_contiguous = a.is_contiguous && b.is_contiguous && operands.out.is_contiguous;
  const std::string name = std::string(kernel) + (is_contiguous ? "" : "_strided");
  auto kernel_object = HT_TRY(Kernel::make(call, core_text(operands.out.dtype), name.c_str()));
  return is_contiguous ? combine_contiguous(kernel_object, a, b, operands.out)
                       : combine_strided(kernel_object, a, b, operands.out);
}

Result<void> run_copy(const Call& call, const Operands& operands) {
  const Operand& from = operands.in[0];
  const Operand& out = operands.out;
  auto kernel = HT_TRY(Kernel::make(call, core_text(out.dtype), "copy_strided"));
  const auto source = HT_TRY(place_if_in_one_buffer(from));
  const auto to = HT_TRY(place_if_in_one_buffer(out));
  if (source && to) {
    return kernel.run_items(out.elements, source->buffer, source->at, to->buffer, to->at,
                            unsigned_of(out.elements), static_cast<cl_int>(out.rank), long8(out.extents),
                            long8(from.strides), long8(out.strides));
  }
  return for_each_part(from, from, out, [&](const auto& places, const auto& strides, std::int64_t part) {
    return kernel.run_items(part, places[0].buffer, places[0].at, places[2].buffer, places[2].at,
                            unsigned_of(part), cl_int{1}, long8(dims_with_last(part)), strides[0],
                            strides[2]);
  });
}

Result<void> run_reduction(const Call& call, bool is_max, const Operands& operands) {
  // The sum of zero elements is 0, and the memory is already zero.
  if (operands.in[0].elements == 0) return {};
  Storage owner;
  const auto x = HT_TRY(make_contiguous(call, operands.in[0], owner));
  auto kernel = HT_TRY(Kernel::make(call, core_text(x.dtype), is_max ? "reduce_max" : "reduce_sum"));
  std::array<std::uint64_t, reduction_lanes> lanes{};
  const auto partial = HT_TRY(
      allocate_memory(call.device, call.device.facts().name, sizeof(lanes), sizeof(lanes), call.queue));
  cl_mem const buffer = HT_TRY(memory_of(partial, call.device))->buffers[0];
  for (std::int64_t done = 0; done < x.elements;) {
    const auto part = std::min(x.elements - done, left_in_buffer(x, x.first + done, 1));
    const auto place = place_of(x, x.first + done);
    // On a GPU, lanes read neighbouring elements; on a CPU, each lane reads a contiguous block.
    const bool by_blocks = !call.device.facts().is_gpu;
    const auto block = by_blocks ? (unsigned_of(part) + reduction_lanes - 1) / reduction_lanes : 1;
    const auto step = by_blocks ? 1 : reduction_lanes;
    HT_TRY(kernel.run_items(reduction_lanes, place.buffer, unsigned_of(place.at), unsigned_of(part),
                            cl_ulong{block}, cl_ulong{step}, buffer, cl_int{done == 0 ? 1 : 0}));
    done += part;
  }
  HT_TRY(check(call.device.library().read_buffer(call.queue, buffer, CL_TRUE, 0, sizeof(lanes), lanes.data(),
                                                 0, nullptr, nullptr),
               "copy to the host"));
  if (operands.out.dtype == F64::tag) return write_reduced<double>(call, is_max, operands.out, lanes);
  if (operands.out.dtype == F32::tag) return write_reduced<float>(call, is_max, operands.out, lanes);
  if (operands.out.dtype == I64::tag) return write_reduced<std::int64_t>(call, is_max, operands.out, lanes);
  return write_reduced<std::uint64_t>(call, is_max, operands.out, lanes);
}

}  // namespace ht::inline v1::opencl
