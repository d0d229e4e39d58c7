// The entries that a header's table has.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <map>
#include <optional>
#include <string_view>

#include "format/irpa/irpa_headers.hpp"
#include "format/irpa/irpa_note.hpp"
#include "format/json.hpp"

namespace ht::inline v1::format_irpa {

/// Checks entries and adds them to a catalog.
class EntryReader {
 public:
  explicit EntryReader(CatalogBuilder& builder) : builder_(builder) {}

  /// All entries of a header whose table and metadata these bytes are.
  [[nodiscard]] Result<void> read(const Header& header, Bytes table, Bytes metadata);

 private:
  /// One entry, with all of its bytes and where they begin in the file.
  struct Raw {
    Bytes bytes;
    std::uint64_t offset;
    std::uint64_t number;
  };

  [[nodiscard]] Result<Raw> next(Bytes rest, std::uint64_t offset, std::uint64_t number) const;
  [[nodiscard]] Result<void> add(const Raw& raw);
  [[nodiscard]] Result<std::string_view> text(const Raw& raw, std::size_t field, std::string_view what) const;
  [[nodiscard]] Result<void> use(const Raw& raw, std::uint64_t bytes);
  [[nodiscard]] Result<void> fill_splat(const Raw& raw, Entry& entry) const;
  [[nodiscard]] Result<void> fill_data(const Raw& raw, Entry& entry) const;
  [[nodiscard]] Result<void> fill_external(const Raw& raw, Entry& entry);
  [[nodiscard]] Result<std::uint32_t> file_of(const Raw& raw);
  [[nodiscard]] Result<void> add_described(Entry& entry, std::string_view metadata);
  [[nodiscard]] const std::optional<Description>& described(std::string_view metadata, std::uint64_t bytes);

  CatalogBuilder& builder_;
  // Of the header that is read now.
  Header header_{};
  Bytes metadata_{};
  std::uint64_t metadata_used_ = 0;
  // Many entries lie in one file: its path is looked at once, and kept once.
  std::map<Range, std::uint32_t> file_at_;
  std::map<std::string_view, std::uint32_t> file_named_;
  json::Scratch scratch_;
  // A model has few shapes, so the next entry's metadata is often one of the last ones.
  struct Known {
    std::string_view metadata;
    std::uint64_t bytes = 0;
    std::optional<Description> description;
  };
  std::array<Known, 4> known_{};
  std::size_t oldest_ = 0;
};

}  // namespace ht::inline v1::format_irpa
