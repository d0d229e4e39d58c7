// All tensors of a model, in file order, independent of the file format.
//
//   for (const ht::Entry& entry : model.catalog()) print(entry.name, entry.dims, entry.offset);
//   const auto index = model.catalog().find("wte.weight");           // std::optional<std::size_t>
//
//   ht::CatalogBuilder builder("npy");                               // in a parser
//   HT_TRY(builder.add({.name = name, .dtype = ht::F32::tag, .dims = dims, .offset = 128, .bytes = 24}));
//   return std::move(builder).build();                               // Result<Catalog>
//
// A Catalog is a value that holds offsets in files, not pointers into them, so it may outlive the files. The
// parser has validated all entries. A CatalogBuilder creates the Catalog, which is immutable afterwards: many
// threads may read it. Entries are views of their Catalog.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/format/metadata.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

enum class ByteOrder : std::uint8_t { little, big };
enum class ElementOrder : std::uint8_t { row_major, column_major };

/// A tensor in a catalog. The views are valid until the catalog is destroyed or moved.
struct Entry {
  /// The name of the tensor. In a catalog, a NUL follows it.
  std::string_view name{};
  /// The dtype of a dense tensor. `invalid` for a block encoding, and if the file does not state a type.
  DTypeTag dtype = DTypeTag::invalid;
  EncodingTag encoding = EncodingTag::dense;
  /// The dimensions, outermost first; of any rank.
  std::span<const std::int64_t> dims{};
  ElementOrder order = ElementOrder::row_major;
  ByteOrder byte_order = ByteOrder::little;
  /// The index of the file in the model, and the position and the size of the tensor's bytes in the file. For
  /// a splat only `bytes` is valid.
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  /// The pattern of 1, 2, 4, 8 or 16 bytes that a splat repeats to fill `bytes`; empty for other tensors.
  Bytes splat{};
  /// The text that an IRPA file stores with the tensor, verbatim. Empty if the library would write the same
  /// text for type and dimensions, and for other formats.
  std::string_view note{};

  [[nodiscard]] bool is_splat() const noexcept { return !splat.empty(); }
  /// Whether the file states a type. If not, dtype and shape are unknown.
  [[nodiscard]] bool is_typed() const noexcept {
    return dtype != DTypeTag::invalid || encoding != EncodingTag::dense;
  }
  /// Whether the elements are in row-major order. With fewer than two dimensions, both orders are the same.
  [[nodiscard]] bool is_row_major() const noexcept {
    return order == ElementOrder::row_major || dims.size() < 2;
  }
  /// Whether the stored bytes equal the dense, row-major, little-endian form that AnyTensor::copy_to writes:
  /// not a splat, row-major, little-endian. `bits` is the width of an element, 0 for blocks; elements of one
  /// byte have no byte order.
  [[nodiscard]] bool is_plain(int bits) const noexcept {
    return !is_splat() && is_row_major() && (byte_order == ByteOrder::little || bits == 8);
  }
};

/// A range of entries in file order: `for (const ht::Entry& entry : catalog)`.
class Catalog {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] bool empty() const noexcept { return records_.empty(); }
  /// The entry at `index`, in file order. `index` must be less than `size`.
  [[nodiscard]] Entry operator[](std::size_t index) const noexcept;
  [[nodiscard]] detail::IndexIterator<Catalog> begin() const noexcept;
  [[nodiscard]] detail::IndexIterator<Catalog> end() const noexcept;
  /// The index of the entry with that name, in constant time; nullopt if there is none.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;

  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  /// The name of the format: "ht", "safetensors", …
  [[nodiscard]] std::string_view format() const noexcept { return format_; }
  /// The files that contain the entries, as the parsed file names them: paths relative to its folder. The
  /// first is the parsed file itself, with an empty name.
  [[nodiscard]] const std::vector<std::string>& files() const noexcept { return files_; }

  /// Bytes of memory in use.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

 private:
  friend class CatalogBuilder;
  struct Record {
    std::uint64_t dims_end;
    std::uint64_t offset;  // of a splat: offset of its pattern in patterns_
    std::uint64_t bytes;
    std::uint32_t file;
    DTypeTag dtype;
    EncodingTag encoding;
    std::uint8_t pattern_bytes;
    bool column_major : 1;
    bool big_endian : 1;
    bool has_note : 1;
  };
  static_assert(sizeof(Record) == 32);
  struct Note {
    std::uint64_t index;
    std::string text;
  };

  Catalog() = default;

  std::string format_;
  std::vector<std::string> files_;
  // One store for all names and one for all dims: no allocation per tensor.
  std::shared_ptr<detail::NameStore> names_;
  std::vector<std::int64_t> dims_;
  std::vector<std::byte> patterns_;
  std::vector<Record> records_;
  std::vector<Note> notes_;  // by index; few files have any
  Metadata metadata_;
};

/// Builds a Catalog from the entries that a parser has validated.
class CatalogBuilder {
 public:
  /// `format` is the name of the format; it must outlive the builder.
  explicit CatalogBuilder(std::string_view format) noexcept;

  /// Reserves memory for this many tensors, bytes of names and dimensions. Do not pass unchecked numbers from
  /// a file.
  [[nodiscard]] Result<void> reserve(std::size_t tensors, std::size_t name_bytes = 0, std::size_t dims = 0);
  /// Copies the entry, whose views must not point into this catalog. `bad_shape`, `size_mismatch` and
  /// `out_of_bounds` for an entry that is invalid in every format. After `out_of_memory` the builder must not
  /// be used.
  [[nodiscard]] Result<void> add(const Entry& entry);
  /// Adds a dimension to the next entry, before the entry's own `dims`: for parsers that read dimensions one
  /// by one.
  [[nodiscard]] Result<void> add_dim(std::int64_t dim);
  /// The dimensions that `add_dim` has added since the last `add`.
  [[nodiscard]] std::span<const std::int64_t> next_dims() const noexcept;
  [[nodiscard]] Metadata& metadata() noexcept { return catalog_.metadata_; }
  /// Adds a file, by a path relative to the parsed file, and returns its index for `Entry::file`. If the last
  /// file that was added has this name, returns its index and adds none.
  [[nodiscard]] Result<std::uint32_t> add_file(std::string_view name);

  /// The entries added so far, for checks over all of them.
  [[nodiscard]] std::size_t size() const noexcept { return catalog_.size(); }
  [[nodiscard]] Entry operator[](std::size_t index) const noexcept { return catalog_[index]; }
  [[nodiscard]] detail::IndexIterator<Catalog> begin() const noexcept;
  [[nodiscard]] detail::IndexIterator<Catalog> end() const noexcept;

  /// Returns the Catalog. `duplicate_tensor`, `duplicate_key`.
  [[nodiscard]] Result<Catalog> build() &&;

 private:
  [[nodiscard]] Result<void> append(const Entry& entry);

  std::string_view format_;
  Catalog catalog_;
};

}  // namespace ht::inline v1
