#include <htensor/format/catalog.hpp>

#include <algorithm>
#include <bit>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "format/catalog/name_store.hpp"

namespace ht::inline v1 {

Entry Catalog::operator[](std::size_t index) const noexcept {
  const Record& record = records_[index];
  const std::uint64_t dims_begin = index == 0 ? 0 : records_[index - 1].dims_end;
  Entry entry{.name = (*names_)[index],
              .dtype = record.dtype,
              .encoding = record.encoding,
              .dims = std::span(dims_).subspan(dims_begin, record.dims_end - dims_begin),
              .order = record.column_major ? ElementOrder::column_major : ElementOrder::row_major,
              .byte_order = record.big_endian ? ByteOrder::big : ByteOrder::little,
              .file = record.file,
              .offset = record.offset,
              .bytes = record.bytes};
  if (record.pattern_bytes != 0) {
    entry.splat = Bytes(patterns_).subspan(static_cast<std::size_t>(record.offset), record.pattern_bytes);
    entry.offset = 0;
  }
  if (record.has_note) entry.note = std::ranges::lower_bound(notes_, index, {}, &Note::index)->text;
  return entry;
}

std::optional<std::size_t> Catalog::find(std::string_view name) const noexcept {
  return detail::names_in(names_).find(name);
}

detail::IndexIterator<Catalog> Catalog::begin() const noexcept { return {*this, 0}; }
detail::IndexIterator<Catalog> Catalog::end() const noexcept { return {*this, size()}; }

std::uint64_t Catalog::memory_bytes() const noexcept {
  std::uint64_t notes = notes_.capacity() * sizeof(Note);
  for (const auto& note : notes_) notes += note.text.size();
  std::uint64_t files = files_.capacity() * sizeof(std::string);
  for (const auto& name : files_) files += name.size();
  return detail::names_in(names_).memory_bytes() + metadata_.memory_bytes() +
         dims_.capacity() * sizeof(std::int64_t) + patterns_.capacity() +
         records_.capacity() * sizeof(Record) + notes + files;
}

CatalogBuilder::CatalogBuilder(std::string_view format) noexcept : format_(format) {}

detail::IndexIterator<Catalog> CatalogBuilder::begin() const noexcept { return catalog_.begin(); }
detail::IndexIterator<Catalog> CatalogBuilder::end() const noexcept { return catalog_.end(); }

Result<void> CatalogBuilder::reserve(std::size_t tensors, std::size_t name_bytes, std::size_t dims) {
  return without_bad_alloc([&]() -> Result<void> {
    catalog_.records_.reserve(tensors);
    detail::writable_names(catalog_.names_).reserve(tensors, name_bytes);
    catalog_.dims_.reserve(dims);
    return {};
  });
}

Result<void> CatalogBuilder::add_dim(std::int64_t dim) {
  return without_bad_alloc([&]() -> Result<void> {
    catalog_.dims_.push_back(dim);
    return {};
  });
}

std::span<const std::int64_t> CatalogBuilder::next_dims() const noexcept {
  const std::size_t used = catalog_.records_.empty() ? 0 : catalog_.records_.back().dims_end;
  return std::span(catalog_.dims_).subspan(used);
}

Result<std::uint32_t> CatalogBuilder::add_file(std::string_view name) {
  return without_bad_alloc([&]() -> Result<std::uint32_t> {
    auto& files = catalog_.files_;
    if (files.empty()) files.emplace_back();
    // Consecutive tensors mostly name the same file, so only the last one is compared.
    if (files.back() != name) files.emplace_back(name);
    return static_cast<std::uint32_t>(files.size() - 1);
  });
}

namespace {

// The rules that entries of every format must satisfy.
Result<void> check_entry(const Entry& entry, std::span<const std::int64_t> more_dims, std::size_t files) {
  const auto refuse = [&](ErrorCode code, std::string_view rule, std::string_view why) {
    return fail(Error(code, rule, format_text("tensor '{}': {}", to_utf8(entry.name), why))
                    .at_tensor(entry.name)
                    .with_hint("correct the entry before adding it"));
  };
  const auto pattern = entry.splat.size();
  if (pattern > 16 || (pattern != 0 && !std::has_single_bit(pattern))) {
    return refuse(ErrorCode::size_mismatch, "splat_patterns_have_1_2_4_8_or_16_bytes",
                  format_text("splat pattern has {} bytes, not 1, 2, 4, 8 or 16", pattern));
  }
  if (pattern != 0 && entry.bytes % pattern != 0) {
    return refuse(
        ErrorCode::size_mismatch, "splat_bytes_are_multiple_of_pattern",
        format_text("{} bytes are not a multiple of its splat pattern of {} bytes", entry.bytes, pattern));
  }
  if (entry.file >= files) {
    return refuse(ErrorCode::out_of_bounds, "entry_file_is_in_the_file_list",
                  format_text("file number {} is out of range; the catalog has {} files", entry.file, files));
  }
  for (const auto dims : {entry.dims, more_dims}) {
    const auto negative = std::ranges::find_if(dims, [](std::int64_t dim) { return dim < 0; });
    if (negative != dims.end()) {
      return refuse(ErrorCode::bad_shape, "dims_are_not_negative",
                    format_text("dimension {} is negative", *negative));
    }
  }
  return {};
}

}  // namespace

Result<void> CatalogBuilder::add(const Entry& entry) {
  // File 0 is the file itself and always exists.
  HT_TRY(check_entry(entry, next_dims(), std::max<std::size_t>(catalog_.files_.size(), 1)));
  return without_bad_alloc([&] { return append(entry); });
}

Result<void> CatalogBuilder::append(const Entry& entry) {
  auto& [format, files, names, dims, patterns, records, notes, metadata] = catalog_;
  if (!entry.note.empty()) notes.push_back({records.size(), std::string(entry.note)});
  const std::uint64_t pattern_begin = patterns.size();
  patterns.insert(patterns.end(), entry.splat.begin(), entry.splat.end());
  dims.insert(dims.end(), entry.dims.begin(), entry.dims.end());
  detail::writable_names(names).add(entry.name);
  records.push_back({.dims_end = dims.size(),
                     .offset = entry.is_splat() ? pattern_begin : entry.offset,
                     .bytes = entry.bytes,
                     .file = entry.is_splat() ? 0 : entry.file,
                     .dtype = entry.dtype,
                     .encoding = entry.encoding,
                     .pattern_bytes = static_cast<std::uint8_t>(entry.splat.size()),
                     .column_major = entry.order == ElementOrder::column_major,
                     .big_endian = entry.byte_order == ByteOrder::big,
                     .has_note = !entry.note.empty()});
  return {};
}

Result<Catalog> CatalogBuilder::build() && {
  return without_bad_alloc([&]() -> Result<Catalog> {
    catalog_.format_ = format_;
    if (catalog_.files_.empty()) catalog_.files_.emplace_back();
    HT_TRY(catalog_.metadata_.index());
    detail::trim(catalog_.records_);
    detail::trim(catalog_.dims_);
    detail::writable_names(catalog_.names_).trim();
    catalog_.metadata_.trim();
    if (const auto duplicate = detail::writable_names(catalog_.names_).build_index()) {
      const Entry entry = catalog_[*duplicate];
      auto error = Error(ErrorCode::duplicate_tensor, "names_are_unique",
                         format_text("tensor name '{}' occurs twice", entry.name))
                       .at_tensor(entry.name)
                       .with_hint("write the file again with its exporter");
      // Report the data offset of the second tensor, if its data is in this file.
      if (entry.is_splat() || entry.file != 0) return fail(std::move(error));
      return fail(std::move(error).at_offset(entry.offset));
    }
    return std::move(catalog_);
  });
}

}  // namespace ht::inline v1
