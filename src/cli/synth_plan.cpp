#include "cli/synth_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ht::cli {

StoredAs stored_as(const DTypeInfo& dtype) {
  return {.name = dtype.name,
          .dtype = dtype.tag,
          .group_elements = 8,
          .group_bytes = static_cast<std::uint64_t>(dtype.bits)};
}

StoredAs stored_as(const Encoding& encoding) {
  return {.name = encoding.name,
          .encoding = encoding.tag,
          .group_elements = encoding.block_elements,
          .group_bytes = encoding.block_bytes};
}

std::uint64_t StoredAs::bytes_for(std::uint64_t elements) const noexcept {
  const std::uint64_t rest = elements % group_elements * group_bytes;
  return elements / group_elements * group_bytes + (rest + group_elements - 1) / group_elements;
}

std::uint64_t StoredAs::next_group(std::uint64_t element) const noexcept {
  return (element + group_elements - 1) / group_elements * group_elements;
}

double about_bytes(const std::vector<PlannedTensor>& tensors) {
  double sum = 0;
  for (const auto& tensor : tensors) {
    double bytes = static_cast<double>(tensor.type.group_bytes);
    for (const auto dim : tensor.dims) bytes *= static_cast<double>(dim);
    sum += bytes / static_cast<double>(tensor.type.group_elements);
  }
  return sum;
}

std::int64_t scaled_size(std::int64_t size, double scale, std::int64_t granule) {
  const double granules = static_cast<double>(size) * scale / static_cast<double>(granule);
  return std::max<std::int64_t>(1, std::llround(granules)) * granule;
}

double largest_scale(const std::function<bool(double)>& fits) {
  double low = 0x1p-24;
  double high = 0x1p40;
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(low * high);
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

tl::unexpected<Error> too_large(std::uint64_t bytes) {
  return fail(
      Error(ErrorCode::size_overflow, "size_fits_63_bits",
            fmt::format("a model of {} bytes has more bytes or elements than 63 bits can count", bytes))
          .with_hint("choose a smaller --size"));
}

}  // namespace ht::cli
