// Handles that tell when they are not good any more: released already, or given by somebody else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace ht::inline v1::io {

/// Names something that a strategy holds for whoever asked for it.
struct Handle {
  std::uint64_t giver = 0;  ///< 0: a handle of nothing
  std::uint32_t place = 0;
  std::uint32_t generation = 0;

  friend bool operator==(const Handle&, const Handle&) = default;
};

/// A number that no other giver of handles in this process has.
[[nodiscard]] std::uint64_t new_giver() noexcept;
/// `stale_handle`.
[[nodiscard]] Error foreign_handle();
[[nodiscard]] Error released_handle();

/// What the handles of one giver name. A place is used again, with the next generation.
template <class T>
class HandleTable {
 public:
  /// Adding that many more will not fail for want of memory.
  void reserve(std::size_t more) {
    const std::size_t wanted = places_.size() + more;
    // Doubled, as they are asked for one by one. Every place may be free one day, and releasing needs no
    // memory then.
    if (places_.capacity() < wanted) places_.reserve(std::max(wanted, 2 * places_.capacity()));
    if (free_.capacity() < places_.capacity()) free_.reserve(places_.capacity());
  }

  [[nodiscard]] Handle add(T value) {
    if (free_.empty()) {
      reserve(1);
      places_.emplace_back();
      free_.push_back(static_cast<std::uint32_t>(places_.size() - 1));
    }
    const std::uint32_t place = free_.back();
    free_.pop_back();
    places_[place].value.emplace(std::move(value));
    return {giver_, place, places_[place].generation};
  }

  /// Good until something is added or taken.
  [[nodiscard]] Result<T*> find(Handle handle) {
    if (handle.giver != giver_ || handle.place >= places_.size()) return fail(foreign_handle());
    Place& place = places_[handle.place];
    if (place.generation != handle.generation || !place.value) return fail(released_handle());
    return &*place.value;
  }

  /// What the handle named; from now on it names nothing.
  [[nodiscard]] Result<T> take(Handle handle) {
    T taken = std::move(*HT_TRY(find(handle)));
    Place& place = places_[handle.place];
    place.value.reset();
    // A place whose generations are used up is never used again.
    if (++place.generation != 0) free_.push_back(handle.place);
    return taken;
  }

  [[nodiscard]] std::size_t size() const noexcept { return places_.size() - free_.size(); }

 private:
  struct Place {
    std::uint32_t generation = 1;
    std::optional<T> value;
  };

  std::uint64_t giver_ = new_giver();
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
};

}  // namespace ht::inline v1::io
