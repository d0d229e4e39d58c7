#include "cli/rows.hpp"

#include <algorithm>
#include <htensor/base/checked.hpp>
#include <limits>
#include <tuple>

#include "cli/text.hpp"

namespace ht::cli {
namespace {

constexpr std::uint64_t max_count = std::numeric_limits<std::uint64_t>::max();

}  // namespace

Result<Rows> Rows::of(const Model& model, const NameFilter& filter) {
  HT_TRY(filter.check());
  Rows rows(model);
  rows.filter_ = filter;
  if (filter.is_everything()) return rows;
  const Catalog& catalog = model.catalog();
  for (const Entry& entry : catalog) {
    if (filter.matches(entry.name)) return rows;
  }
  return fail(filter.no_match());
}

Row Rows::at(std::size_t position) const {
  Row row{model_.catalog()[position], {}, position};
  if (!row.entry.is_typed()) return row;
  constexpr std::string_view unknown = "unknown";
  if (row.entry.encoding == EncodingTag::dense) {
    auto& name = dtypes_[static_cast<std::uint8_t>(row.entry.dtype)];
    if (name.empty()) {
      const auto dtype = model_.dtype(row.entry.dtype);
      name = dtype ? dtype->name : unknown;
    }
    row.dtype = name;
  } else {
    auto& name = encodings_[static_cast<std::uint8_t>(row.entry.encoding)];
    if (name.empty()) name = find_encoding(row.entry.encoding).value_or(Encoding{.name = unknown}).name;
    row.dtype = name;
  }
  return row;
}

std::vector<std::uint32_t> Rows::positions() const {
  const Catalog& catalog = model_.catalog();
  std::vector<std::uint32_t> positions;
  // A catalog has fewer than 2^32 names.
  if (filter_.is_everything()) positions.reserve(catalog.size());
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    if (filter_.matches(catalog[i].name)) positions.push_back(static_cast<std::uint32_t>(i));
  }
  return positions;
}

void Rows::sort(std::string_view key) {
  const Catalog& catalog = model_.catalog();
  const auto sort_by = [&](const auto& less) {
    order_ = positions();
    is_sorted_ = true;
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) { return less(a, b); });
  };
  // File order decides between equal ones.
  if (key == "name") {
    sort_by([&](std::uint32_t a, std::uint32_t b) {
      return natural_order(catalog[a].name, catalog[b].name) < 0;
    });
  } else if (key == "size") {
    sort_by([&](std::uint32_t a, std::uint32_t b) {
      return std::pair(catalog[b].bytes, a) < std::pair(catalog[a].bytes, b);
    });
  } else if (key == "offset") {
    const auto place = [&](std::uint32_t i) {
      const Entry entry = catalog[i];
      return entry.is_splat() ? std::tuple(true, std::uint32_t{0}, std::uint64_t{0}, i)
                              : std::tuple(false, entry.file, entry.offset, i);
    };
    sort_by([&](std::uint32_t a, std::uint32_t b) { return place(a) < place(b); });
  }
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  return checked::add(a, b).value_or(max_count);
}

std::optional<std::uint64_t> parameter_count(const Entry& entry) noexcept {
  if (!entry.is_typed()) return std::nullopt;
  std::uint64_t count = 1;
  for (const std::int64_t dim : entry.dims) {
    if (dim == 0) return 0;
    count = checked::multiply(count, static_cast<std::uint64_t>(dim)).value_or(max_count);
  }
  return count;
}

std::string type_text(const Row& row) {
  if (!row.entry.is_typed()) return "-";
  std::string text(row.dtype);
  text += ' ';
  return text += shape_text(row.entry.dims);
}

}  // namespace ht::cli
