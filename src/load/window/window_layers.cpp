#include "load/window/window_layers.hpp"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1::window {
namespace {

constexpr std::string_view number_mark = "{}";
constexpr std::string_view digits = "0123456789";
// Only the first numbers in a name are tried, to limit the cost of names with many numbers.
constexpr int max_numbers = 16;

// Parses the whole text as a number.
std::optional<std::uint64_t> number_from(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> first_numeric_part(std::string_view name) noexcept {
  while (true) {
    const auto end = name.find('.');
    if (const auto number = number_from(name.substr(0, end))) return number;
    if (end == std::string_view::npos) return std::nullopt;
    name.remove_prefix(end + 1);
  }
}

void mark_shared(LayerTable& table) {
  struct Placed {
    io::FileRange range;
    std::size_t layer;
  };
  std::vector<Placed> all;
  all.reserve(table.ranges.size());
  for (std::size_t layer = 0; layer < table.rows.size(); ++layer) {
    for (const auto& range : table.ranges_of(layer)) all.push_back({range, layer});
  }
  std::ranges::sort(all, {},
                    [](const Placed& placed) { return std::tuple(placed.range.file, placed.range.offset); });
  // Ranges of one layer do not overlap, so a range that begins before the furthest end so far is shared by
  // two layers.
  const Placed* furthest = nullptr;
  for (const auto& placed : all) {
    const bool same_file = furthest != nullptr && furthest->range.file == placed.range.file;
    if (same_file && placed.range.offset < end_of(furthest->range)) {
      table.rows[placed.layer].shares = true;
      table.rows[furthest->layer].shares = true;
    }
    if (!same_file || end_of(placed.range) > end_of(furthest->range)) furthest = &placed;
  }
}

}  // namespace

Result<LayerPattern> LayerPattern::from(std::string_view text) {
  if (text.empty()) text = "*";
  const auto at = text.find(number_mark);
  NameFilter before(text.substr(0, at));
  HT_TRY(before.check());
  if (at == std::string_view::npos) return LayerPattern(std::move(before), std::nullopt);
  const auto rest = text.substr(at + number_mark.size());
  if (rest.find(number_mark) != std::string_view::npos) {
    return fail(Error(ErrorCode::bad_state, "pattern_has_one_number",
                      format_text("pattern '{}' has more than one {{}}", to_utf8(text)))
                    .with_hint("keep one {} and write * for the others"));
  }
  NameFilter after(rest);
  HT_TRY(after.check());
  return LayerPattern(std::move(before), std::move(after));
}

std::optional<std::uint64_t> LayerPattern::number_in(std::string_view name) const noexcept {
  if (!after_) {
    return before_.matches(name) ? first_numeric_part(name) : std::nullopt;
  }
  std::size_t end = 0;
  for (int tried = 0; tried < max_numbers; ++tried) {
    const auto begin = name.find_first_of(digits, end);
    if (begin == std::string_view::npos) return std::nullopt;
    end = std::min(name.find_first_not_of(digits, begin), name.size());
    const auto number = number_from(name.substr(begin, end - begin));
    if (number && before_.matches(name.substr(0, begin)) && after_->matches(name.substr(end))) {
      return number;
    }
  }
  return std::nullopt;
}

LayerTable layers_of(const Catalog& catalog, const LayerPattern& pattern) {
  std::vector<std::pair<std::uint64_t, std::size_t>> numbered;
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    if (const auto number = pattern.number_in(catalog[i].name)) numbered.emplace_back(*number, i);
  }
  std::ranges::sort(numbered);
  LayerTable table;
  table.tensors.reserve(numbered.size());
  for (std::size_t i = 0; i < numbered.size();) {
    LayerTable::Row row{.number = numbered[i].first};
    const std::size_t begin = table.tensors.size();
    for (; i < numbered.size() && numbered[i].first == row.number; ++i) {
      table.tensors.push_back(numbered[i].second);
    }
    row.tensors_end = table.tensors.size();
    const auto ranges = merged_ranges(catalog, std::span(table.tensors).subspan(begin));
    table.ranges.insert(table.ranges.end(), ranges.begin(), ranges.end());
    row.ranges_end = table.ranges.size();
    row.bytes = sum_of(ranges);
    table.rows.push_back(row);
  }
  mark_shared(table);
  return table;
}

namespace {

// Bytes per readahead call. Some systems read no more than this for one call.
constexpr std::uint64_t prefetch_step_bytes = std::uint64_t{1} << 20;

// Returns the first of a layer's ranges in the file that ends after the given offset; null if there is none.
const io::FileRange* first_ending_after(std::span<const io::FileRange> ranges, const io::FileRange& at) {
  const auto found = std::ranges::partition_point(ranges, [&](const io::FileRange& range) {
    return range.file < at.file || (range.file == at.file && end_of(range) <= at.offset);
  });
  return found != ranges.end() && found->file == at.file ? &*found : nullptr;
}

}  // namespace

LayerPages::LayerPages(const Catalog& catalog, const LayerTable& table, io::MappedStrategy& mapped,
                       bool drop_page_cache)
    : catalog_(catalog),
      table_(table),
      mapped_(mapped),
      drop_page_cache_(drop_page_cache),
      fetched_(table.rows.size()) {
  for (std::size_t layer = 0; layer < table.rows.size(); ++layer) {
    if (table.rows[layer].shares) sharing_.push_back(layer);
  }
}

Result<void> LayerPages::fetch(std::size_t layer, const std::stop_token& stop,
                               const std::stop_token& thread_stop) {
  fetched_[layer] = true;
  for (const auto& range : table_.ranges_of(layer)) {
    for (std::uint64_t done = 0; done < range.bytes; done += piece_bytes) {
      if (stop.stop_requested() || thread_stop.stop_requested()) return fail(Error(ErrorCode::cancelled));
      const std::uint64_t bytes = std::min(piece_bytes, range.bytes - done);
      auto fetched = fetch_pages({range.file, range.offset + done, bytes});
      if (!fetched) return fail(located(std::move(fetched).error(), layer, range));
    }
  }
  return {};
}

Result<void> LayerPages::fetch_pages(const io::FileRange& range) const {
  // Readahead calls read exactly these pages, many at once. Page faults alone would read a few pages at a
  // time and beyond the range, which exceeds the budget. Failures are ignored here; `populate` reports them.
  for (std::uint64_t done = 0; done < range.bytes; done += prefetch_step_bytes) {
    const std::uint64_t bytes = std::min(prefetch_step_bytes, range.bytes - done);
    if (!io::advise(mapped_, {range.file, range.offset + done, bytes}, io::Strategy::Advice::will_need))
      break;
  }
  return io::advise(mapped_, range, io::Strategy::Advice::populate);
}

Result<void> LayerPages::drop(std::size_t layer) {
  fetched_[layer] = false;
  for (const auto& range : table_.ranges_of(layer)) {
    HT_TRY(table_.rows[layer].shares ? drop_unshared(layer, range) : drop_pages(layer, range));
  }
  return {};
}

Result<void> LayerPages::drop_unshared(std::size_t layer, io::FileRange range) {
  const std::uint64_t end = end_of(range);
  while (range.offset < end) {
    // The end of the bytes at `range.offset` that other layers hold, and the start of their next range.
    std::uint64_t shared_end = range.offset;
    std::uint64_t next = end;
    for (const auto other : sharing_) {
      if (!fetched_[other]) continue;
      const auto* const found = first_ending_after(table_.ranges_of(other), range);
      if (found == nullptr) continue;
      if (found->offset <= range.offset) {
        shared_end = std::max(shared_end, end_of(*found));
      } else {
        next = std::min(next, found->offset);
      }
    }
    if (shared_end == range.offset) {
      range.bytes = next - range.offset;
      HT_TRY(drop_pages(layer, range));
      shared_end = next;
    }
    range.offset = shared_end;
  }
  return {};
}

Result<void> LayerPages::drop_pages(std::size_t layer, const io::FileRange& range) {
  auto dropped =
      io::advise(mapped_, range, drop_page_cache_ ? io::Strategy::Advice::evict : io::Strategy::Advice::drop);
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
