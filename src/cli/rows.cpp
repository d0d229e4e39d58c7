#include "cli/rows.hpp"

#include <algorithm>
#include <htensor/base/checked.hpp>
#include <limits>
#include <tuple>
#include <utility>

#include "cli/text.hpp"

namespace ht::cli {
namespace {

Result<std::string_view> dtype_name(const Model& model, const Entry& entry) {
  if (!entry.is_typed()) return std::string_view();
  if (entry.encoding == EncodingTag::dense) return HT_TRY(model.dtype(entry.dtype)).name;
  return find_encoding(entry.encoding).value_or(Encoding{.name = "unknown"}).name;
}

}  // namespace

Result<std::vector<Row>> rows_of(const Model& model, const NameFilter& filter) {
  HT_TRY(filter.check());
  const Catalog& catalog = model.catalog();
  std::vector<Row> rows;
  rows.reserve(filter.is_everything() ? catalog.size() : 0);
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    const Entry entry = catalog[i];
    if (!filter.matches(entry.name)) continue;
    const auto dtype = HT_TRY(dtype_name(model, entry));
    rows.push_back({entry, dtype, i});
  }
  if (rows.empty() && !filter.is_everything()) return fail(filter.no_match());
  return rows;
}

void sort_rows(std::vector<Row>& rows, std::string_view key) {
  const auto sort_by = [&](auto value) {
    std::ranges::sort(rows, {}, [&](const Row& row) { return std::pair(value(row), row.position); });
  };
  if (key == "name") sort_by([](const Row& row) { return row.entry.name; });
  // The largest first: that is what one looks for.
  if (key == "size") sort_by([](const Row& row) { return ~row.entry.bytes; });
  if (key == "offset") {
    sort_by([](const Row& row) {
      return row.entry.is_splat() ? std::tuple(true, std::uint32_t{0}, std::uint64_t{0})
                                  : std::tuple(false, row.entry.file, row.entry.offset);
    });
  }
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  return checked::add(a, b).value_or(std::numeric_limits<std::uint64_t>::max());
}

std::uint64_t total_bytes(const std::vector<Row>& rows) noexcept {
  std::uint64_t total = 0;
  for (const auto& row : rows) total = saturating_add(total, row.entry.bytes);
  return total;
}

std::string dtype_cell(const Row& row) { return row.dtype.empty() ? "-" : std::string(row.dtype); }

std::string shape_cell(const Row& row) { return row.entry.is_typed() ? shape_text(row.entry.dims) : "-"; }

}  // namespace ht::cli
