#include "cli/elements.hpp"

#include <algorithm>
#include <cstring>

#include "cli/text.hpp"

namespace ht::cli {
namespace {

// They have whole bytes, whatever the dtype.
constexpr std::int64_t group = 8;
constexpr std::int64_t max_piece = 4096;

template <class D>
void append_nth(fmt::memory_buffer& out, Bytes elements, std::int64_t index, bool json) {
  if constexpr (is_packed<D>) {
    append_element<D>(out, PackedPointer<const D>(elements.data())[index], json);
  } else {
    typename D::Element element{};
    std::memcpy(&element, elements.data() + static_cast<std::size_t>(index) * sizeof(element),
                sizeof(element));
    append_element<D>(out, element, json);
  }
}

}  // namespace

Result<ElementPrinter> ElementPrinter::of(const AnyTensor& tensor, bool json) {
  HT_TRY(layout::count_elements(tensor.dims()));
  return visit_dtype(tensor.type().dtype,
                     [&]<class D>(D) { return ElementPrinter(tensor, &append_nth<D>, json); });
}

ElementPrinter::ElementPrinter(const AnyTensor& tensor, Append append_one, bool json)
    : tensor_(tensor),
      append_(append_one),
      json_(json),
      elements_(layout::count_elements(tensor.dims()).value_or(0)) {}

Result<void> ElementPrinter::append(fmt::memory_buffer& out, std::int64_t index) {
  if (index < begin_ || index >= end_) HT_TRY(read(index));
  append_(out, piece_, index - begin_, json_);
  return {};
}

Result<void> ElementPrinter::read(std::int64_t index) {
  const std::int64_t count = index == end_ && index != 0 ? max_piece : group;
  const int bits = tensor_.type().bits;
  const auto bytes = [&](std::int64_t elements) {
    return bytes_for(static_cast<std::uint64_t>(elements), bits).value_or(0);
  };
  begin_ = index / group * group;
  end_ = std::min(begin_ + count, elements_);
  piece_.resize(static_cast<std::size_t>(bytes(end_ - begin_)));
  return tensor_.copy_to(piece_, bytes(begin_));
}

}  // namespace ht::cli
