#include "cli/print/rows.hpp"

#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <tuple>

#include "cli/print/text.hpp"

namespace ht::cli {

Result<Rows> Rows::of(const Model& model, const NameFilter& filter) {
  HT_TRY(filter.check());
  Rows rows(model);
  rows.filter_ = filter;
  const auto matches = [&](const Entry& entry) { return filter.matches(entry.name); };
  if (filter.is_everything() || std::ranges::any_of(model.catalog(), matches)) return rows;
  return fail(filter.no_match());
}

Row Rows::at(std::size_t position) const {
  Row row{model_.catalog()[position], {}, position};
  if (!row.entry.is_typed()) return row;
  const bool is_dense = row.entry.encoding == EncodingTag::dense;
  auto& name = is_dense ? dtypes_[static_cast<std::uint8_t>(row.entry.dtype)]
                        : encodings_[static_cast<std::uint8_t>(row.entry.encoding)];
  const auto name_of = [](const auto& type) { return type ? type->name : "unknown"; };
  if (name.empty())
    name = is_dense ? name_of(model_.dtype(row.entry.dtype)) : name_of(find_encoding(row.entry.encoding));
  row.dtype = name;
  return row;
}

std::vector<std::uint32_t> Rows::positions() const {
  const Catalog& catalog = model_.catalog();
  std::vector<std::uint32_t> positions;
  // 32 bits are enough for positions: a catalog has fewer than 2^32 names.
  if (filter_.is_everything()) positions.reserve(catalog.size());
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    if (filter_.matches(catalog[i].name)) positions.push_back(static_cast<std::uint32_t>(i));
  }
  return positions;
}

void Rows::sort(std::string_view key) {
  const Catalog& catalog = model_.catalog();
  is_sorted_ = key == "name" || key == "size" || key == "offset";
  if (is_sorted_) order_ = positions();
  // Ties keep file order.
  if (key == "name") {
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {
      return natural_order(catalog[a].name, catalog[b].name) < 0;
    });
  } else if (key == "size") {
    std::ranges::sort(order_, {}, [&](std::uint32_t i) { return std::pair(~catalog[i].bytes, i); });
  } else if (key == "offset") {
    std::ranges::sort(order_, {}, [&](std::uint32_t i) {
      const Entry entry = catalog[i];
      return entry.is_splat() ? std::tuple(true, std::uint32_t{0}, std::uint64_t{0}, i)
                              : std::tuple(false, entry.file, entry.offset, i);
    });
  }
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  return checked::add(a, b).value_or(UINT64_MAX);
}

std::string type_text(const Row& row) {
  if (!row.entry.is_typed()) return "-";
  return fmt::format("{} {}", row.dtype, shape_text(row.entry.dims));
}

}  // namespace ht::cli
