#include "load/window_pages.hpp"

#include <algorithm>

#include "model/ranges.hpp"

namespace ht::inline v1::window {
namespace {

// The most that systems with small limits read for one wish.
constexpr std::uint64_t wish_bytes = std::uint64_t{1} << 20;

// The first of a layer's ranges that ends behind a place in a file.
const io::FileRange* first_behind(std::span<const io::FileRange> ranges, const io::FileRange& at) {
  const auto found = std::ranges::partition_point(ranges, [&](const io::FileRange& range) {
    return range.file < at.file || (range.file == at.file && end_of(range) <= at.offset);
  });
  return found != ranges.end() && found->file == at.file ? &*found : nullptr;
}

}  // namespace

LayerPages::LayerPages(const Catalog& catalog, const LayerTable& table, io::MappedStrategy& mapped,
                       bool empty_page_cache)
    : catalog_(catalog),
      table_(table),
      mapped_(mapped),
      empty_page_cache_(empty_page_cache),
      held_(table.rows.size()) {
  for (std::size_t layer = 0; layer < table.rows.size(); ++layer) {
    if (table.rows[layer].shares) sharing_.push_back(layer);
  }
}

Result<void> LayerPages::fetch(std::size_t layer, const std::stop_token& stop, const std::stop_token& over) {
  held_[layer] = true;
  for (const auto& range : table_.ranges_of(layer)) {
    for (std::uint64_t done = 0; done < range.bytes; done += piece_bytes) {
      if (stop.stop_requested() || over.stop_requested()) return fail(Error(ErrorCode::cancelled));
      const std::uint64_t bytes = std::min(piece_bytes, range.bytes - done);
      auto fetched = fetch_pages({range.file, range.offset + done, bytes});
      if (!fetched) return fail(located(std::move(fetched).error(), layer, range));
    }
  }
  return {};
}

Result<void> LayerPages::fetch_pages(const io::FileRange& range) const {
  // Named beforehand, just these pages are read, many at once. By touching alone, the system would read a few
  // at a time, and ahead into what follows, which is not within the budget. It is a wish: what cannot be read
  // is told below.
  for (std::uint64_t done = 0; done < range.bytes; done += wish_bytes) {
    const std::uint64_t bytes = std::min(wish_bytes, range.bytes - done);
    if (!mapped_.advise({range.file, range.offset + done, bytes}, io::Advice::will_need)) break;
  }
  return mapped_.advise(range, io::Advice::populate);
}

Result<void> LayerPages::drop(std::size_t layer) {
  held_[layer] = false;
  for (const auto& range : table_.ranges_of(layer)) {
    HT_TRY(table_.rows[layer].shares ? drop_own(layer, range) : drop_pages(layer, range));
  }
  return {};
}

Result<void> LayerPages::drop_own(std::size_t layer, io::FileRange range) {
  const std::uint64_t end = end_of(range);
  while (range.offset < end) {
    // How far others have it from here on, or where the first of them begins.
    std::uint64_t theirs = range.offset;
    std::uint64_t next = end;
    for (const auto other : sharing_) {
      if (!held_[other]) continue;
      const auto* const found = first_behind(table_.ranges_of(other), range);
      if (found == nullptr) continue;
      if (found->offset <= range.offset) {
        theirs = std::max(theirs, end_of(*found));
      } else {
        next = std::min(next, found->offset);
      }
    }
    if (theirs == range.offset) {
      range.bytes = next - range.offset;
      HT_TRY(drop_pages(layer, range));
      theirs = next;
    }
    range.offset = theirs;
  }
  return {};
}

Result<void> LayerPages::drop_pages(std::size_t layer, const io::FileRange& range) {
  auto dropped = mapped_.advise(range, empty_page_cache_ ? io::Advice::evict : io::Advice::drop);
  if (!dropped) return fail(located(std::move(dropped).error(), layer, range));
  return dropped;
}

Error LayerPages::located(Error error, std::size_t layer, const io::FileRange& range) const {
  const std::uint64_t at = error.offset().value_or(range.offset);
  error = std::move(error).at_offset(at);
  if (!error.tensor().empty()) return error;
  for (const auto index : table_.tensors_of(layer)) {
    const Entry entry = catalog_[index];
    if (entry.is_splat() || entry.file != range.file) continue;
    if (entry.offset <= at && at - entry.offset < entry.bytes) {
      return std::move(error).at_tensor(entry.name);
    }
  }
  return error;
}

}  // namespace ht::inline v1::window
