#include "convert/plain_tensor.hpp"

#include <htensor/dtype/sizes.hpp>

#include "model/plain_copy.hpp"

namespace ht::inline v1 {
namespace {

std::size_t bytes_of_run(std::uint64_t count, int bits) {
  return static_cast<std::size_t>(bytes_for(count, bits).value_or(0));
}

}  // namespace

Result<PlainTensor> PlainTensor::of(const Model& model, std::size_t index, Order order) {
  const Entry entry = model.catalog()[index];
  const bool has_elements = entry.dtype != DTypeTag::invalid && entry.encoding == EncodingTag::dense;
  int bits = 8;
  std::uint64_t elements = entry.bytes;
  if (has_elements) {
    bits = HT_TRY(model.dtype(entry.dtype)).bits;
    elements = static_cast<std::uint64_t>(HT_TRY(layout::count_elements(entry.dims)));
  }
  PlainTensor tensor(entry, bits, elements);
  if (!entry.is_splat() && elements != 0) tensor.stored_ = HT_TRY(stored_tensor(model, index));
  if (order == Order::usual) tensor.turning_ = HT_TRY(turning_of(entry));
  return tensor;
}

Result<void> PlainTensor::fetch(std::uint64_t first, std::uint64_t count) const {
  // The elements of a run are all over a column-major tensor, and a splat has none in the file.
  if (entry_.is_splat() || (turning_ && !turning_->column_major.empty())) return {};
  return stored_.fetch(bytes_of_run(first, bits_), bytes_of_run(count, bits_));
}

Result<Bytes> PlainTensor::read(std::uint64_t first, std::uint64_t count, std::vector<std::byte>& buffer,
                                const std::stop_token& stop) const {
  const std::size_t bytes = bytes_of_run(count, bits_);
  const std::size_t begin = bytes_of_run(first, bits_);
  if (!turning_ && !entry_.is_splat()) return stored_.bytes.subspan(begin, bytes);
  buffer.resize(bytes);
  if (turning_) {
    HT_TRY(turn_into(buffer, *turning_, begin, [&](std::uint64_t nth, MutableBytes units) -> Result<void> {
      if (stop.stop_requested()) return fail(Error(ErrorCode::cancelled));
      copy_units(units, stored_.bytes, *turning_, nth);
      return {};
    }));
  } else {
    fill_with(buffer, entry_.splat);
  }
  return buffer;
}

}  // namespace ht::inline v1
