// Many names in one block of memory, with look-up in constant time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hash/keyed_hash.hpp"

namespace ht::inline v1::detail {

/// Shrinks a container that is less than half full. For a fuller container, the copy would cost more than it
/// saves.
template <class Container>
void trim(Container& container) {
  if (container.size() < container.capacity() / 2) container.shrink_to_fit();
}

/// Names in the order in which they were added, accessible by position and, after `build_index()`, by
/// name. No allocation per name.
class NameStore {
 public:
  void reserve(std::size_t names, std::size_t bytes = 0);
  void add(std::string_view name);

  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
  /// `index` must be less than `size`. The view is valid while the store is alive and unchanged. A NUL
  /// follows it, so that C programs get the name without a copy.
  [[nodiscard]] std::string_view operator[](std::size_t index) const noexcept {
    const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(text_).substr(begin, ends_[index] - begin - 1);
  }

  /// Builds the index for `find`, in linear time for any names. Returns the position of the first duplicate,
  /// if there is one; `find` must not be used then. Throws std::length_error for 2^32 - 1 names or more.
  [[nodiscard]] std::optional<std::size_t> build_index();
  /// The position of a name, in constant time. Requires `build_index()` after the last `add`.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;

  /// Releases unused capacity, if it is large.
  void trim();
  /// Bytes of memory in use.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

  friend bool operator==(const NameStore& a, const NameStore& b) noexcept;

 private:
  std::string text_;
  std::vector<std::uint64_t> ends_;
  // Open addressing, two thirds full. A slot is 0 if free, else half of the hash in the upper bits and the
  // position + 1 in the lower bits. The other half of the hash selects the slot.
  std::vector<std::uint64_t> slots_;
  KeyedHash hash_;
};

/// The names of a catalog or the keys of metadata, for reading; an empty store if `names` is null.
[[nodiscard]] const NameStore& names_in(const std::shared_ptr<NameStore>& names) noexcept;
/// The same, for changes. Copies of a catalog or of metadata share a NameStore. If `names` is shared, this
/// function first replaces it with a copy. Throws std::bad_alloc.
[[nodiscard]] NameStore& writable_names(std::shared_ptr<NameStore>& names);

}  // namespace ht::inline v1::detail
