// Compares the tensors of two catalogs, regardless of their offsets.
#pragma once

#include <algorithm>
#include <htensor/format/catalog.hpp>

namespace ht::testing {

/// True if everything but the offsets is equal: names in the same order, types, shapes, orders, sizes,
/// patterns, notes, files, and metadata.
[[nodiscard]] inline bool same_tensors(const Catalog& a, const Catalog& b) noexcept {
  const auto same = [](const Entry& x, const Entry& y) noexcept {
    return x.name == y.name && x.dtype == y.dtype && x.encoding == y.encoding &&
           std::ranges::equal(x.dims, y.dims) && x.order == y.order && x.byte_order == y.byte_order &&
           x.file == y.file && x.bytes == y.bytes && std::ranges::equal(x.splat, y.splat) && x.note == y.note;
  };
  if (a.format() != b.format() || a.files() != b.files() || a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same(a[i], b[i])) return false;
  }
  return a.metadata() == b.metadata();
}

}  // namespace ht::testing
