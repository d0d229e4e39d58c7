#include <htensor/tensor/storage.hpp>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/format_text.hpp"
#include "base/memory_hints.hpp"

namespace ht::inline v1 {

struct Storage::Block {
  std::shared_ptr<const void> owner;
  MutableBytes bytes;
  bool writable = false;
  Origin origin;
  bool may_be_mapped = false;
};

Storage::Storage(std::shared_ptr<const Block> block) noexcept : block_(std::move(block)) {}

Result<Storage> Storage::make(std::shared_ptr<const void> owner, MutableBytes bytes, bool writable,
                              Origin origin, bool may_be_mapped) {
  return without_bad_alloc([&]() -> Result<Storage> {
    return Storage(std::make_shared<const Block>(
        Block{std::move(owner), bytes, writable, std::move(origin), may_be_mapped}));
  });
}

Result<Storage> Storage::owned(std::uint64_t bytes, std::uint64_t alignment) {
  if (!std::has_single_bit(alignment)) {
    return fail(Error(ErrorCode::misaligned, "alignment_is_a_power_of_two",
                      format_text("alignment {} is not a power of two", alignment))
                    .with_hint("use 1, 2, 4 and so on"));
  }
  // A large allocation is usually a result that is written completely, which is slow with small pages.
  const bool is_large = bytes >= 4 * huge_page_bytes;
  if (is_large) alignment = std::max<std::uint64_t>(alignment, huge_page_bytes);
  const auto with_room = checked::add(bytes, alignment);
  if (!with_room || !checked::narrow<std::ptrdiff_t>(*with_room)) {
    return fail(out_of_memory(bytes));
  }
  return without_bad_alloc([&]() -> Result<Storage> {
    // calloc instead of new: large zeroed blocks are fresh pages, which are not resident until they are used.
    std::shared_ptr<void> owner(std::calloc(1, static_cast<std::size_t>(*with_room)), std::free);
    if (!owner) return fail(out_of_memory(bytes));
    void* start = owner.get();
    auto room = static_cast<std::size_t>(*with_room);
    std::align(static_cast<std::size_t>(alignment), static_cast<std::size_t>(bytes), start, room);
    const MutableBytes memory(static_cast<std::byte*>(start), static_cast<std::size_t>(bytes));
    if (is_large) advise_huge_pages(memory);
    return make(std::move(owner), memory, true, Owned{});
  });
}

Result<Storage> Storage::borrowed(MutableBytes bytes) { return make(nullptr, bytes, true, Borrowed{}); }

namespace {

// A Block has a mutable pointer also to read-only bytes; its flag `writable` prevents writes.
MutableBytes as_mutable(Bytes bytes) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<Storage> Storage::borrowed_read_only(Bytes bytes) {
  return make(nullptr, as_mutable(bytes), false, Borrowed{});
}

Result<Storage> Storage::owned_by(std::shared_ptr<const void> owner, MutableBytes bytes, bool may_be_mapped) {
  return make(std::move(owner), bytes, true, Owned{}, may_be_mapped);
}

Result<Storage> Storage::owned_read_only(std::shared_ptr<const void> owner, Bytes bytes) {
  return make(std::move(owner), as_mutable(bytes), false, Owned{});
}

Result<Storage> Storage::file_backed(std::shared_ptr<const void> owner, Bytes bytes, FileBacked range) {
  return make(std::move(owner), as_mutable(bytes), false, std::move(range));
}

Result<Storage> Storage::in_file(FileBacked range) { return make(nullptr, {}, false, std::move(range)); }

Result<Storage> Storage::on_device(std::shared_ptr<const void> owner, OnDevice where) {
  return make(std::move(owner), {}, false, std::move(where));
}

Bytes Storage::bytes() const noexcept { return block_ ? Bytes(block_->bytes) : Bytes(); }

bool Storage::is_writable() const noexcept { return block_ && block_->writable; }

bool Storage::may_be_mapped() const noexcept {
  return block_ && (block_->may_be_mapped || !std::holds_alternative<Owned>(block_->origin));
}

Result<MutableBytes> Storage::writable_bytes() const {
  if (!is_writable()) {
    return fail(Error(ErrorCode::bad_state, "storage_is_writable", "storage is read-only")
                    .with_hint("use a Tensor<const D, …>, or call copy() first"));
  }
  return block_->bytes;
}

const Storage::Origin& Storage::origin() const noexcept {
  static constexpr Borrowed borrowed_origin{};
  static const Origin default_origin = borrowed_origin;
  return block_ ? block_->origin : default_origin;
}

std::shared_ptr<const void> Storage::owner() const noexcept { return block_ ? block_->owner : nullptr; }

}  // namespace ht::inline v1
