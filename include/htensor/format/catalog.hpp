// All tensors of a model, in file order, whatever format they came from.
//
// A Catalog holds offsets and no pointers: it can be copied, stored and sent. Nothing in it has to be
// checked again; a parser adds only what it has validated. It is made by a CatalogBuilder and does not
// change after that.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/index_iterator.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/facts.hpp>
#include <htensor/format/metadata.hpp>
#include <htensor/format/name_store.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

enum class ByteOrder : std::uint8_t { little, big };
enum class ElementOrder : std::uint8_t { row_major, column_major };

/// A tensor in a catalog. The views live as long as the catalog does and is not moved.
struct Entry {
  std::string_view name{};
  /// What a dense tensor has. `invalid` for a block encoding, and where the file does not say what it holds.
  DTypeTag dtype = DTypeTag::invalid;
  EncodingTag encoding = EncodingTag::dense;
  /// Outermost first; any rank that a file names.
  std::span<const std::int64_t> dims{};
  ElementOrder order = ElementOrder::row_major;
  ByteOrder byte_order = ByteOrder::little;
  /// Which of the model's files has the bytes, and where. Nothing of this counts for a splat but `bytes`.
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  /// The 1, 2, 4, 8 or 16 bytes that a splat repeats to fill its `bytes`; empty for all others.
  Bytes splat{};
  /// What a file says of the tensor that no other member has, word for word.
  std::string_view note{};

  [[nodiscard]] bool is_splat() const noexcept { return !splat.empty(); }
  /// Whether the file says what the bytes are; else dtype and shape are unknown.
  [[nodiscard]] bool is_typed() const noexcept {
    return dtype != DTypeTag::invalid || encoding != EncodingTag::dense;
  }
};

/// A range of entries in file order: `for (const ht::Entry& entry : catalog)`.
class Catalog {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] bool empty() const noexcept { return records_.empty(); }
  /// The nth in file order; there must be one.
  [[nodiscard]] Entry operator[](std::size_t index) const noexcept;
  [[nodiscard]] IndexIterator<Catalog> begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] IndexIterator<Catalog> end() const noexcept { return {*this, size()}; }
  /// In constant time, however many there are.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept {
    return names_.find(name);
  }

  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  /// What the format is called: "ht", "safetensors", …
  [[nodiscard]] std::string_view format() const noexcept { return format_; }
  /// The files that entries lie in, as this one names them: relative, none above its own folder. The first
  /// is the file itself and has no name.
  [[nodiscard]] const std::vector<std::string>& files() const noexcept { return files_; }

  /// Bytes of memory in use.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

 private:
  friend class CatalogBuilder;
  struct Record {
    std::uint64_t dims_end;
    std::uint64_t offset;  // of a splat: where its pattern begins in patterns_
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
  // One store for all names and one for all dims: no allocation a tensor.
  NameStore names_;
  std::vector<std::int64_t> dims_;
  std::vector<std::byte> patterns_;
  std::vector<Record> records_;
  std::vector<Note> notes_;  // by index; few files have any
  Metadata metadata_;
};

/// Collects what a parser has validated.
class CatalogBuilder {
 public:
  /// `format` has to outlive the builder.
  explicit CatalogBuilder(std::string_view format) noexcept : format_(format) {}

  /// Room for this many tensors, bytes of names and dimensions, so that growing does not copy. A number from
  /// a file is not to be trusted with it.
  [[nodiscard]] Result<void> reserve(std::size_t tensors, std::size_t name_bytes = 0, std::size_t dims = 0);
  /// Copies what it is given, which must not be a part of this catalog. `bad_shape`, `size_mismatch` and
  /// `out_of_bounds` for what no format could mean; after `out_of_memory` the builder is of no use any more.
  [[nodiscard]] Result<void> add(const Entry& entry);
  /// One more dimension of the entry that is added next, before those that it brings along itself: for who
  /// gets to know them one by one.
  [[nodiscard]] Result<void> add_dim(std::int64_t dim);
  /// Those that were added so since the last entry.
  [[nodiscard]] std::span<const std::int64_t> next_dims() const noexcept;
  [[nodiscard]] Metadata& metadata() noexcept { return catalog_.metadata_; }
  /// The number for entries that lie in this file, relative to the one that names it.
  [[nodiscard]] Result<std::uint32_t> add_file(std::string_view name);

  /// What was added so far, for checks that look at all of it.
  [[nodiscard]] std::size_t size() const noexcept { return catalog_.size(); }
  [[nodiscard]] Entry operator[](std::size_t index) const noexcept { return catalog_[index]; }
  [[nodiscard]] IndexIterator<Catalog> begin() const noexcept { return catalog_.begin(); }
  [[nodiscard]] IndexIterator<Catalog> end() const noexcept { return catalog_.end(); }

  /// `duplicate_tensor`, `duplicate_key`.
  [[nodiscard]] Result<Catalog> build() &&;

 private:
  [[nodiscard]] Result<void> append(const Entry& entry);

  std::string_view format_;
  Catalog catalog_;
};

}  // namespace ht::inline v1
