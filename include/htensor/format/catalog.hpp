// All tensors of a model, in file order, whatever format they came from.
//
// A Catalog holds offsets and no pointers: it can be copied, stored and sent. Nothing in it has to be
// checked again; a parser adds only what it has validated.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/dtype/facts.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

/// A tensor in a catalog. The views live as long as the catalog does and is not changed.
struct Entry {
  std::string_view name{};
  DTypeTag dtype = DTypeTag::invalid;
  /// Outermost first; any rank that a file names.
  std::span<const std::int64_t> dims{};
  /// Which of the model's files has the bytes, and where.
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class Catalog {
 public:
  /// Copies what it is given, which must not be a part of this catalog. `duplicate_tensor` where the name
  /// is taken.
  [[nodiscard]] Result<void> add(const Entry& entry);

  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] bool empty() const noexcept { return records_.empty(); }
  /// The nth in file order; there must be one.
  [[nodiscard]] Entry operator[](std::size_t index) const noexcept;
  /// In constant time, however many there are.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;

  /// What the format is called: "ht", "safetensors", …
  [[nodiscard]] std::string_view format() const noexcept { return format_; }
  void set_format(std::string_view format) { format_ = format; }

 private:
  struct Record {
    std::uint64_t name_begin;
    std::uint64_t dims_begin;
    std::uint64_t offset;
    std::uint64_t bytes;
    std::uint32_t name_bytes;
    std::uint32_t file;
    std::uint32_t rank;
    DTypeTag dtype;
  };
  [[nodiscard]] std::string_view name_of(const Record& record) const noexcept;
  /// The slot that has the name, or the free one where it belongs.
  [[nodiscard]] std::size_t slot_of(std::string_view name) const noexcept;
  void grow_slots();

  std::string format_;
  // One store for all names and one for all dims: no allocation a tensor.
  std::string names_;
  std::vector<std::int64_t> dims_;
  std::vector<Record> records_;
  // Open addressing: index + 1 of a record, 0 where free. The size is a power of two.
  std::vector<std::uint32_t> slots_;
};

}  // namespace ht::inline v1
