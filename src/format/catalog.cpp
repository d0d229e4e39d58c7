#include <htensor/format/catalog.hpp>

#include <functional>
#include <limits>

#include "base/format_text.hpp"

namespace ht::inline v1 {

std::string_view Catalog::name_of(const Record& record) const noexcept {
  return std::string_view(names_).substr(record.name_begin, record.name_bytes);
}

Entry Catalog::operator[](std::size_t index) const noexcept {
  const Record& record = records_[index];
  return {.name = name_of(record),
          .dtype = record.dtype,
          .dims = std::span(dims_).subspan(record.dims_begin, record.rank),
          .file = record.file,
          .offset = record.offset,
          .bytes = record.bytes};
}

std::size_t Catalog::slot_of(std::string_view name) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>{}(name)&mask;
  while (slots_[slot] != 0 && name_of(records_[slots_[slot] - 1]) != name) slot = (slot + 1) & mask;
  return slot;
}

std::optional<std::size_t> Catalog::find(std::string_view name) const noexcept {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t found = slots_[slot_of(name)];
  if (found == 0) return std::nullopt;
  return found - 1;
}

void Catalog::grow_slots() {
  slots_.assign(slots_.empty() ? 8 : slots_.size() * 2, 0);
  for (std::size_t i = 0; i < records_.size(); ++i) {
    slots_[slot_of(name_of(records_[i]))] = static_cast<std::uint32_t>(i + 1);
  }
}

Result<void> Catalog::add(const Entry& entry) {
  return without_bad_alloc([&]() -> Result<void> {
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max() - 1;
    if (records_.size() >= most || entry.name.size() > most || entry.dims.size() > most) {
      return fail(ErrorCode::size_overflow, "catalog_can_count_its_entries",
                  "a catalog has room for fewer than 2^32 tensors, bytes of a name and dimensions");
    }
    // Half empty, so that look-ups stay short.
    if (records_.size() * 2 >= slots_.size()) grow_slots();
    const std::size_t slot = slot_of(entry.name);
    if (slots_[slot] != 0) {
      return fail(Error(ErrorCode::duplicate_tensor, "names_are_unique",
                        format_text("two tensors are named '{}'", entry.name))
                      .at_tensor(entry.name)
                      .at_offset(entry.offset)
                      .with_hint("the writer of this file broke the format: write it again"));
    }
    // Stores first and the record last: should memory run out between, nothing refers to what is left.
    const auto name_begin = names_.size();
    const auto dims_begin = dims_.size();
    names_.append(entry.name);
    dims_.insert(dims_.end(), entry.dims.begin(), entry.dims.end());
    records_.push_back({.name_begin = name_begin,
                        .dims_begin = dims_begin,
                        .offset = entry.offset,
                        .bytes = entry.bytes,
                        .name_bytes = static_cast<std::uint32_t>(entry.name.size()),
                        .file = entry.file,
                        .rank = static_cast<std::uint32_t>(entry.dims.size()),
                        .dtype = entry.dtype});
    slots_[slot] = static_cast<std::uint32_t>(records_.size());
    return {};
  });
}

}  // namespace ht::inline v1
