// Many names in one piece of memory, found in constant time.
#pragma once

#include <cstdint>
#include <htensor/hash/keyed_hash.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

namespace detail {

/// Gives memory back that growing has taken, where a container is less than half full. One that is fuller is
/// left: a copy would cost more than it gives back.
template <class Container>
void trim(Container& container) {
  if (container.size() < container.capacity() / 2) container.shrink_to_fit();
}

}  // namespace detail

/// Names in the order they were added, by number and, once `index` was called, by name. Nothing is
/// allocated for a name alone.
class NameStore {
 public:
  void reserve(std::size_t names, std::size_t bytes = 0);
  void add(std::string_view name);

  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
  /// The nth; there must be one. It lives as long as the store and is not changed.
  [[nodiscard]] std::string_view operator[](std::size_t index) const noexcept {
    const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(text_).substr(begin, ends_[index] - begin);
  }

  /// Makes `find` work, in linear time whatever the names are. The first name that was there before, if
  /// there is one; then `find` is not to be used. Throws std::length_error at 2^32 names.
  [[nodiscard]] std::optional<std::size_t> index();
  /// The number of a name, in constant time. Only after `index`, and as long as nothing was added.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const noexcept;

  /// Gives memory back that growing has taken and names do not need, where it is much.
  void trim();
  /// Bytes of memory in use.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

  friend bool operator==(const NameStore& a, const NameStore& b) noexcept {
    return a.text_ == b.text_ && a.ends_ == b.ends_;
  }

 private:
  std::string text_;
  std::vector<std::uint64_t> ends_;
  // Open addressing, two thirds full: half a hash above the number + 1, 0 where free. The other half of the
  // hash chooses the slot.
  std::vector<std::uint64_t> slots_;
  KeyedHash hash_;
};

}  // namespace ht::inline v1
