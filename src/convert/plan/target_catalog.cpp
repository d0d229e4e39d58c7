#include "convert/plan/target_catalog.hpp"

#include <algorithm>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/relations.hpp>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "model/relayout.hpp"

namespace ht::inline v1 {
namespace {

// nullopt if the rename does not match the name. A star stands for the same text on both sides.
std::optional<std::string> renamed(std::string_view name, const ConvertOptions::Rename& rename) {
  const std::string_view from = rename.from;
  const std::string_view to = rename.to;
  const auto star = from.find('*');
  if (star == std::string_view::npos) return name == from ? std::optional(rename.to) : std::nullopt;
  const auto before = from.substr(0, star);
  const auto behind = from.substr(star + 1);
  if (name.size() < before.size() + behind.size() || !name.starts_with(before) || !name.ends_with(behind)) {
    return std::nullopt;
  }
  const auto middle = name.substr(before.size(), name.size() - before.size() - behind.size());
  const auto place = to.find('*');
  if (place == std::string_view::npos) return rename.to;
  return std::string(to.substr(0, place)).append(middle).append(to.substr(place + 1));
}

std::string type_and_shape(const Entry& entry) {
  if (!entry.is_typed()) return format_text("{} bytes", entry.bytes);
  const auto encoding = find_encoding(entry.encoding);
  const auto dtype = find_dtype(entry.dtype);
  const std::string_view type = entry.encoding != EncodingTag::dense ? (encoding ? encoding->name : "unknown")
                                                                     : (dtype ? dtype->name : "unknown");
  return format_text("{} [{}]", type, fmt::join(entry.dims, ", "));
}

}  // namespace

std::string change_text(const Entry& before, const Entry& after) {
  return format_text("{} → {}", type_and_shape(before), type_and_shape(after));
}

Result<std::vector<TargetTensor>> target_tensors(const Catalog& source, const InMemory& memory,
                                                 const ConvertOptions& options) {
  HT_TRY(options.filter.check());
  std::vector<TargetTensor> tensors;
  tensors.reserve(source.size());
  std::vector<bool> matched(options.renames.size(), false);
  std::vector<bool> used = matched;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const Entry entry = source[i];
    if (!options.filter.matches(entry.name)) continue;
    TargetTensor tensor{std::string(entry.name), entry, memory.empty() ? std::nullopt : memory[i]};
    bool is_renamed = false;
    for (std::size_t k = 0; k < options.renames.size(); ++k) {
      auto name = renamed(entry.name, options.renames[k]);
      if (!name) continue;
      matched[k] = true;
      if (std::exchange(is_renamed, true)) continue;
      used[k] = true;
      tensor.name = *std::move(name);
    }
    tensors.push_back(std::move(tensor));
  }
  if (tensors.empty() && !options.filter.is_everything()) return fail(options.filter.no_match());
  for (std::size_t k = 0; k < used.size(); ++k) {
    if (used[k]) continue;
    const auto pattern = to_utf8(options.renames[k].from);
    if (matched[k]) {
      return fail(
          Error(ErrorCode::not_found, "rename_changes_a_name",
                format_text("--rename '{}' matches only tensors that an earlier --rename matches", pattern))
              .with_hint("put this --rename before the others: the first match counts"));
    }
    return fail(Error(ErrorCode::not_found, "rename_matches_a_tensor",
                      format_text("--rename '{}' matches no tensor", pattern))
                    .with_hint("list the tensors with `htensor ls`"));
  }
  return tensors;
}

void sort_canonically(std::span<TargetTensor> tensors, const Format& format) {
  std::ranges::sort(tensors, [&](const TargetTensor& a, const TargetTensor& b) {
    return format.precedes != nullptr ? format.precedes(a.as_entry(), b.as_entry()) : a.name < b.name;
  });
}

Result<void> normalize_layout(TargetTensor& tensor) {
  if (tensor.relayout) return {};
  tensor.relayout = HT_TRY(relayout_of(tensor.entry));
  tensor.entry.byte_order = ByteOrder::little;
  tensor.entry.order = ElementOrder::row_major;
  return {};
}

Result<void> normalize_unsupported_layouts(std::span<TargetTensor> tensors, const Format& format,
                                           const Format* source) {
  const auto is_big = [](const TargetTensor& tensor) { return tensor.entry.byte_order == ByteOrder::big; };
  // Most readers of formats with one byte order per file refuse big-endian files. A target of such a format
  // is therefore big-endian only if the source's format also has one byte order per file and all selected
  // tensors are big-endian.
  const bool big_endian =
      format.byte_orders == Format::ByteOrders::any ||
      (format.byte_orders == Format::ByteOrders::one_per_file && source != nullptr &&
       source->byte_orders == Format::ByteOrders::one_per_file && std::ranges::all_of(tensors, is_big));
  for (auto& tensor : tensors) {
    const Entry& entry = tensor.entry;
    if ((is_big(tensor) && !big_endian) || (!entry.is_row_major() && !format.column_major))
      HT_TRY(normalize_layout(tensor));
  }
  return {};
}

Result<Catalog> catalog_of(std::span<const TargetTensor> tensors, const Metadata& metadata,
                           const Catalog& source, const Format& format) {
  CatalogBuilder builder(format.name);
  HT_TRY(builder.reserve(tensors.size()));
  for (std::size_t i = 1; i < source.files().size(); ++i) HT_TRY(builder.add_file(source.files()[i]));
  for (const auto& tensor : tensors) HT_TRY(builder.add(tensor.as_entry()));
  for (const auto& item : metadata) {
    HT_TRY(builder.metadata().add(item.key, item.value));
  }
  auto catalog = std::move(builder).build();
  if (catalog || catalog.error().code() != ErrorCode::duplicate_tensor) return catalog;
  return fail(std::move(catalog).error().with_hint("rename one of the two tensors with --rename"));
}

}  // namespace ht::inline v1
