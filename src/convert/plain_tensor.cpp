#include "convert/plain_tensor.hpp"

#include <htensor/dtype/sizes.hpp>

#include "model/plain_copy.hpp"

namespace ht::inline v1 {
namespace {

std::size_t bytes_of_run(std::uint64_t count, int bits) {
  return static_cast<std::size_t>(bytes_for(count, bits).value_or(0));
}

// A complex number is two numbers.
std::size_t number_bytes(DTypeTag dtype, int bits) {
  return static_cast<std::size_t>(bits) / (dtype == C64::tag ? 16 : 8);
}

}  // namespace

Result<PlainTensor> PlainTensor::of(const Model& model, std::size_t index) {
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
  return tensor;
}

bool PlainTensor::is_column_major() const noexcept {
  return entry_.order == ElementOrder::column_major && entry_.dims.size() > 1;
}

Result<void> PlainTensor::fetch(std::uint64_t first, std::uint64_t count) const {
  // The elements of a run are all over a column-major tensor, and a splat has none in the file.
  if (entry_.is_splat() || is_column_major()) return {};
  return stored_.fetch(bytes_of_run(first, bits_), bytes_of_run(count, bits_));
}

Bytes PlainTensor::read(std::uint64_t first, std::uint64_t count, std::vector<std::byte>& buffer) const {
  const std::size_t bytes = bytes_of_run(count, bits_);
  const bool in_order = is_in_machine_order(entry_, bits_);
  if (entry_.is_splat()) {
    buffer.resize(bytes);
    fill_with(buffer, entry_.splat);
  } else if (is_column_major()) {
    buffer.resize(bytes);
    copy_to_row_major(buffer, stored_.bytes, entry_.dims, static_cast<std::size_t>(bits_) / 8, first);
  } else {
    const Bytes run = stored_.bytes.subspan(bytes_of_run(first, bits_), bytes);
    if (in_order) return run;
    buffer.assign(run.begin(), run.end());
  }
  if (!in_order) reverse_bytes(buffer, number_bytes(entry_.dtype, bits_));
  return buffer;
}

}  // namespace ht::inline v1
