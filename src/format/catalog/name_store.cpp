#include "format/catalog/name_store.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace ht::inline v1 {
namespace {

std::size_t first_slot(std::uint64_t hash, std::size_t slots) noexcept {
  return static_cast<std::size_t>((hash >> 32) * slots >> 32);
}

std::uint64_t slot_value(std::uint64_t hash, std::size_t position) noexcept {
  return hash << 32 | static_cast<std::uint32_t>(position + 1);
}

std::size_t position_in(std::uint64_t slot) noexcept { return static_cast<std::uint32_t>(slot) - 1; }

bool same_half_hash(std::uint64_t slot, std::uint64_t hash) noexcept {
  return slot >> 32 == (hash & 0xFFFF'FFFF);
}

}  // namespace

void detail::NameStore::reserve(std::size_t names, std::size_t bytes) {
  ends_.reserve(names);
  text_.reserve(bytes + names);
}

void detail::NameStore::add(std::string_view name) {
  text_.append(name);
  text_.push_back('\0');
  ends_.push_back(text_.size());
}

std::optional<std::size_t> detail::NameStore::build_index() {
  hash_ = KeyedHash(bytes_of(text_));
  const std::size_t count = ends_.size();
  // A slot stores a position in 32 bits.
  if (count >= UINT32_MAX) throw std::length_error("too many names");
  slots_.assign(count + count / 2 + 1, 0);
  std::optional<std::size_t> duplicate;
  // In groups, so that the prefetch of a slot overlaps with hashing the other names.
  std::array<std::uint64_t, 16> hashes{};
  for (std::size_t begin = 0; begin < count; begin += hashes.size()) {
    const std::size_t group = std::min(hashes.size(), count - begin);
    for (std::size_t i = 0; i < group; ++i) {
      hashes[i] = hash_((*this)[begin + i]);
      __builtin_prefetch(&slots_[first_slot(hashes[i], slots_.size())], 1);
    }
    for (std::size_t i = 0; i < group; ++i) {
      std::size_t slot = first_slot(hashes[i], slots_.size());
      while (slots_[slot] != 0) {
        if (!duplicate && same_half_hash(slots_[slot], hashes[i]) &&
            (*this)[position_in(slots_[slot])] == (*this)[begin + i]) {
          duplicate = begin + i;
        }
        slot = slot + 1 == slots_.size() ? 0 : slot + 1;
      }
      slots_[slot] = slot_value(hashes[i], begin + i);
    }
    if (duplicate) return duplicate;
  }
  return std::nullopt;
}

std::optional<std::size_t> detail::NameStore::find(std::string_view name) const noexcept {
  if (slots_.empty()) return std::nullopt;
  const std::uint64_t hash = hash_(name);
  for (std::size_t slot = first_slot(hash, slots_.size()); slots_[slot] != 0;
       slot = slot + 1 == slots_.size() ? 0 : slot + 1) {
    const std::size_t position = position_in(slots_[slot]);
    if (same_half_hash(slots_[slot], hash) && (*this)[position] == name) return position;
  }
  return std::nullopt;
}

void detail::NameStore::trim() {
  detail::trim(text_);
  detail::trim(ends_);
}

namespace detail {

bool operator==(const NameStore& a, const NameStore& b) noexcept {
  return a.text_ == b.text_ && a.ends_ == b.ends_;
}

}  // namespace detail

const detail::NameStore& detail::names_in(const std::shared_ptr<NameStore>& names) noexcept {
  static const NameStore none;
  return names ? *names : none;
}

detail::NameStore& detail::writable_names(std::shared_ptr<NameStore>& names) {
  if (!names) {
    names = std::make_shared<NameStore>();
  } else if (names.use_count() > 1) {
    names = std::make_shared<NameStore>(*names);
  } else {
    // Another thread may have read the names through a copy that it then destroyed. `use_count` does not
    // order those reads before the changes by this thread; the exchange of the count in `lock` does. A fence
    // would, too, but the thread sanitizer of g++ does not support fences.
    static_cast<void>(std::weak_ptr(names).lock());
  }
  return *names;
}

std::uint64_t detail::NameStore::memory_bytes() const noexcept {
  return text_.capacity() + (ends_.capacity() + slots_.capacity()) * sizeof(std::uint64_t);
}

}  // namespace ht::inline v1
