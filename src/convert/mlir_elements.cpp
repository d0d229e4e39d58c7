#include "convert/mlir_elements.hpp"

#include <algorithm>

#include "model/relayout.hpp"

namespace ht::inline v1 {
namespace {

// A multiple of every element's and every pattern's length.
constexpr std::size_t piece_bytes = std::size_t{1} << 14U;
// Of a column-major tensor, whose elements may lie on a page each.
constexpr std::size_t scattered_bytes = std::size_t{1} << 12U;
constexpr std::size_t longest_pattern = 16;

// What is stored, brought to a form in which each element has whole bytes. The answer is one of the two.
Bytes widened(const MlirElement& element, MutableBytes piece, std::vector<std::byte>& wide) {
  if (element.bits == 4) {
    wide.clear();
    for (const std::byte both : piece) {
      wide.push_back(both & std::byte{0xF});
      wide.push_back(both >> 4U);
    }
    return wide;
  }
  if (element.is_boolean()) {
    std::ranges::transform(piece, piece.begin(),
                           [](std::byte byte) { return std::byte{byte != std::byte{0}}; });
  }
  return piece;
}

std::size_t wide_bytes(const MlirElement& element) {
  return static_cast<std::size_t>(std::max(element.bits / 8, 1));
}

}  // namespace

MlirElements::MlirElements(const MlirTensor& tensor, const AnyTensor& values)
    : tensor_(tensor), values_(values), elements_left_(tensor.elements()) {}

Result<Bytes> MlirElements::next() {
  const MlirElement& element = tensor_.element();
  const Entry& entry = tensor_.entry();
  const bool is_scattered = entry.order == ElementOrder::column_major && !entry.is_splat();
  const std::uint64_t most = is_scattered ? scattered_bytes : piece_bytes;
  piece_.resize(static_cast<std::size_t>(std::min(most, values_.byte_size() - at_)));
  HT_TRY(values_.copy_to(piece_, at_));
  at_ += piece_.size();
  const Bytes wide = widened(element, piece_, widened_);
  // The last byte may have room for one more element than there are.
  const auto count = std::min<std::uint64_t>(wide.size() / wide_bytes(element), elements_left_);
  elements_left_ -= count;
  return wide.first(static_cast<std::size_t>(count) * wide_bytes(element));
}

std::optional<std::vector<std::byte>> mlir_splat(const MlirTensor& tensor) {
  // Both the pattern and an element come out even in this.
  std::array<std::byte, longest_pattern> piece{};
  fill_with(piece, tensor.entry().splat);
  std::vector<std::byte> wide;
  const Bytes elements = widened(tensor.element(), piece, wide);
  const Bytes first = elements.first(wide_bytes(tensor.element()));
  for (std::size_t at = 0; at < elements.size(); at += first.size()) {
    if (!std::ranges::equal(elements.subspan(at, first.size()), first)) return std::nullopt;
  }
  return std::vector<std::byte>(first.begin(), first.end());
}

}  // namespace ht::inline v1
