#include "format/same_tensors.hpp"

#include <algorithm>

namespace ht::inline v1 {
namespace {

bool same(const Entry& a, const Entry& b) noexcept {
  return a.name == b.name && a.dtype == b.dtype && a.encoding == b.encoding &&
         std::ranges::equal(a.dims, b.dims) && a.order == b.order && a.byte_order == b.byte_order &&
         a.file == b.file && a.bytes == b.bytes && std::ranges::equal(a.splat, b.splat) && a.note == b.note;
}

}  // namespace

bool same_tensors(const Catalog& a, const Catalog& b) noexcept {
  if (a.format() != b.format() || a.files() != b.files() || a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same(a[i], b[i])) return false;
  }
  return a.metadata() == b.metadata();
}

}  // namespace ht::inline v1
