#include "model/read_selection.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <htensor/base/fault.hpp>

#include "base/format_text.hpp"
#include "base/workers.hpp"
#include "values/convert_kernels.hpp"

namespace ht::inline v1 {
namespace {

// Elements per job: a multiple of every block size and of 8, so that jobs have whole blocks and whole bytes.
constexpr std::int64_t job_elements = std::int64_t{1} << 18;

template <std::size_t Bytes>
void gather_items(const std::byte* from, std::ptrdiff_t step, std::byte* into, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(into + i * static_cast<std::ptrdiff_t>(Bytes), from + i * step, Bytes);
}

// Copies items that are `step` bytes apart.
void gather(const std::byte* from, std::ptrdiff_t step, std::byte* into, std::int64_t count,
            std::size_t bytes) noexcept {
  if (step == static_cast<std::ptrdiff_t>(bytes)) {
    std::memcpy(into, from, static_cast<std::size_t>(count) * bytes);
    return;
  }
  switch (bytes) {
    case 1: return gather_items<1>(from, step, into, count);
    case 2: return gather_items<2>(from, step, into, count);
    case 4: return gather_items<4>(from, step, into, count);
    case 8: return gather_items<8>(from, step, into, count);
    default:
      for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(into + static_cast<std::size_t>(i) * bytes, from + i * step, bytes);
  }
}

// Elements that share bytes are read in groups of 8, which are whole bytes.
constexpr int group_elements = 8;

// Returns the bytes of an element that shares no byte with other elements.
std::size_t unpacked_bytes(int bits) noexcept { return static_cast<std::size_t>(bits + 7) / 8; }

// Writes each element of a group to its own bytes. One readable byte must follow the group.
void unpack_group(const std::byte* group, int bits, std::byte* unpacked) noexcept {
  for (int i = 0; i < group_elements; ++i) {
    for (int done = 0; done < bits; done += 8) {
      const int bit = i * bits + done;
      const unsigned word =
          std::to_integer<unsigned>(group[bit / 8]) | (std::to_integer<unsigned>(group[bit / 8 + 1]) << 8U);
      const unsigned mask = (1U << std::min(bits - done, 8)) - 1U;
      *unpacked++ = static_cast<std::byte>((word >> (bit % 8)) & mask);
    }
  }
}

// The inverse of `unpack_group`, for `count` elements. Unused bits of the last byte are 0.
void pack(const std::byte* unpacked, int bits, std::int64_t count, std::byte* into) noexcept {
  std::memset(into, 0, static_cast<std::size_t>(bytes_for(static_cast<std::uint64_t>(count), bits).value()));
  for (std::int64_t i = 0; i < count; ++i) {
    for (int done = 0; done < bits; done += 8) {
      const std::int64_t bit = i * bits + done;
      const unsigned word = std::to_integer<unsigned>(*unpacked++) << (bit % 8);
      into[bit / 8] |= static_cast<std::byte>(word);
      if (word > 0xFF) into[bit / 8 + 1] |= static_cast<std::byte>(word >> 8U);
    }
  }
}

// The parameters of a read, shared by all its pieces.
struct Reading {
  const StoredElements& stored;
  const Selection& selection;
  const ResultForm& result;
  MutableBytes into;
  /// Elements and bytes that are read together: a block, a group of packed elements, or one element.
  std::int64_t unit_elements;
  std::size_t unit_bytes;
  /// Bytes of an item. An item is an element between reading and conversion: a decoded F32, an unpacked
  /// element or the stored bytes.
  std::size_t item_bytes;
  /// Elements of the result that together fill whole bytes.
  std::int64_t grain;
  bool is_packed;
  bool is_copy;
  /// Whether units can be converted or copied directly from their stored form, without items.
  bool can_convert_units;
  bool is_large;
  /// Bytes to read at once, if the tensor cannot be used in place; 0 for the needed elements only.
  std::uint64_t read_ahead_bytes;
};

// The part of a result that one thread reads.
class Piece {
 public:
  Piece(const Reading& reading, std::int64_t first, std::int64_t count)
      : r_(reading), at_(first), end_(first + count), bounds_(bounds_of(r_.selection, first, count)) {}

  Result<void> run() {
    if (r_.stored.in_place == nullptr) return read();
    const std::uint64_t begin = offset_of(bounds_.begin);
    const std::uint64_t end = end_of(bounds_.end);
    if (r_.selection.is_contiguous() && r_.stored.fetch) HT_TRY(r_.stored.fetch(begin, end - begin));
    return guarded(Bytes(r_.stored.in_place + begin, static_cast<std::size_t>(end - begin)),
                   [&] { return read(); });
  }

 private:
  static constexpr std::int64_t max_staged = values::strip_elements;

  [[nodiscard]] std::uint64_t offset_of(std::int64_t position) const noexcept {
    return static_cast<std::uint64_t>(position / r_.unit_elements) * r_.unit_bytes;
  }
  // The last group of packed elements may be incomplete.
  [[nodiscard]] std::uint64_t end_of(std::int64_t position) const noexcept {
    return std::min(offset_of(position + r_.unit_elements - 1), r_.stored.bytes);
  }
  [[nodiscard]] std::byte* result_at(std::int64_t element) const noexcept {
    return r_.into.data() + r_.result.bytes_for(element);
  }

  Result<void> read() {
    if (!writes_items())
      items_.resize(static_cast<std::size_t>(std::min(max_staged, end_ - at_)) * r_.item_bytes);
    for (SelectionRuns runs(r_.selection, at_); at_ < end_;) {
      const std::int64_t remaining = std::min(runs.remaining(), end_ - at_);
      std::int64_t count = elements_in_whole_units(runs, remaining);
      if (count != 0) {
        flush();
        HT_TRY(convert_units(runs.position(), count));
      } else {
        count = std::min(remaining, writes_items() ? remaining : max_staged - staged_);
        HT_TRY(stage(runs.position(), runs.step(), count));
        staged_ += count;
      }
      at_ += count;
      runs.advance(count);
      if (staged_ == max_staged) flush();
    }
    flush();
    return {};
  }

  // Whether items are written directly to the result; only their byte order may have to change.
  [[nodiscard]] bool writes_items() const noexcept {
    return r_.is_packed ? r_.result.unpack : r_.is_copy && r_.unit_elements == 1;
  }

  // Returns how many of the next elements can be converted directly from their stored form, without items.
  [[nodiscard]] std::int64_t elements_in_whole_units(const SelectionRuns& runs,
                                                     std::int64_t remaining) const noexcept {
    constexpr std::int64_t min_elements = 32;  // fewer are not worth a call
    const std::int64_t unit = std::max(r_.unit_elements, r_.grain);
    if (!r_.can_convert_units || runs.step() != 1 || runs.position() % r_.unit_elements != 0 ||
        at_ % r_.grain != 0)
      return 0;
    const std::int64_t whole = remaining / unit * unit;
    // Blocks that keep their encoding cannot be read as items, so even a single block is copied as a unit.
    const bool can_use_items = !r_.is_copy || !r_.stored.type.is_block_encoded();
    return whole >= (can_use_items ? min_elements : unit) ? whole : 0;
  }

  Result<void> convert_units(std::int64_t position, std::int64_t count) {
    if (r_.is_copy) {
      const MutableBytes part(result_at(at_), static_cast<std::size_t>(r_.result.bytes_for(count)));
      HT_TRY(copy_stored(offset_of(position), part));
      swap(part);
      return {};
    }
    const values::Conversion conversion{
        .from = r_.stored.type, .to = r_.result.type, .rounding = r_.result.rounding};
    const auto convert = [&](const std::byte* units, std::int64_t done, std::int64_t elements) {
      const auto nth = static_cast<std::uint64_t>(at_ + done);
      if (r_.is_large) {
        values::convert_streaming(conversion, units, result_at(at_ + done), elements, nth);
      } else {
        values::convert_values(conversion, units, result_at(at_ + done), elements, nth);
      }
    };
    if (r_.stored.in_place != nullptr && r_.stored.relayout == nullptr) {
      convert(r_.stored.in_place + offset_of(position), 0, count);
      return {};
    }
    for (std::int64_t done = 0; done < count; done += job_elements / 4) {
      const std::int64_t elements = std::min(job_elements / 4, count - done);
      units_.resize(static_cast<std::size_t>(values::stored_bytes(r_.stored.type, elements)));
      HT_TRY(copy_stored(offset_of(position + done), units_));
      swap(units_);
      convert(units_.data(), done, elements);
    }
    return {};
  }

  Result<void> copy_stored(std::uint64_t offset, MutableBytes to) {
    if (r_.stored.in_place == nullptr) return r_.stored.read(offset, to);
    const std::byte* const from = r_.stored.in_place + offset;
    // Streaming stores need an aligned destination.
    const std::size_t head = std::min(to.size(), (0 - reinterpret_cast<std::uintptr_t>(to.data())) % 64);
    const std::size_t body = r_.is_large && r_.stored.relayout == nullptr ? (to.size() - head) / 64 * 64 : 0;
    if (body != 0) {
      values::copy_streaming(from + head, to.data() + head, body);
      values::end_streaming();
    }
    std::memcpy(to.data(), from, head);
    std::memcpy(to.data() + head + body, from + head + body, to.size() - head - body);
    return {};
  }

  // Appends items to the result if `writes_items()`, else to a buffer.
  Result<void> stage(std::int64_t position, std::int64_t step, std::int64_t count) {
    std::byte* const items =
        writes_items() ? result_at(at_) : items_.data() + static_cast<std::size_t>(staged_) * r_.item_bytes;
    if (r_.unit_elements != 1) return stage_from_units(position, step, count, items);
    const auto step_bytes = static_cast<std::ptrdiff_t>(step) * static_cast<std::ptrdiff_t>(r_.unit_bytes);
    if (r_.stored.in_place != nullptr) {
      gather(r_.stored.in_place + offset_of(position), step_bytes, items, count, r_.item_bytes);
      return {};
    }
    for (std::int64_t i = 0; i < count;) {
      const std::uint64_t offset = offset_of(position + i * step);
      const auto* const from = HT_TRY(stored_at(offset, r_.unit_bytes, step < 0));
      // Bytes and elements that follow in `read_ahead_`.
      const std::uint64_t ahead = step < 0 ? offset - read_ahead_offset_
                                           : read_ahead_offset_ + read_ahead_.size() - offset - r_.unit_bytes;
      const auto more = static_cast<std::int64_t>(ahead / static_cast<std::uint64_t>(std::abs(step_bytes)));
      const std::int64_t batch_items = std::min(count - i, more + 1);
      gather(from, step_bytes, items + static_cast<std::size_t>(i) * r_.item_bytes, batch_items,
             r_.item_bytes);
      i += batch_items;
    }
    return {};
  }

  Result<void> stage_from_units(std::int64_t position, std::int64_t step, std::int64_t count,
                                std::byte* items) {
    const auto item_step = static_cast<std::ptrdiff_t>(step) * static_cast<std::ptrdiff_t>(r_.item_bytes);
    for (std::int64_t i = 0; i < count;) {
      const std::int64_t from = position + i * step;
      const std::int64_t inside = from % r_.unit_elements;
      HT_TRY(decode_unit(from / r_.unit_elements));
      const std::int64_t ahead = step < 0 ? inside / -step : (r_.unit_elements - 1 - inside) / step;
      const std::int64_t batch_items = std::min(count - i, ahead + 1);
      gather(decoded_.data() + static_cast<std::size_t>(inside) * r_.item_bytes, item_step,
             items + static_cast<std::size_t>(i) * r_.item_bytes, batch_items, r_.item_bytes);
      i += batch_items;
    }
    return {};
  }

  // Decodes a block to F32, or unpacks a group.
  Result<void> decode_unit(std::int64_t unit) {
    if (unit == decoded_unit_) return {};
    const std::uint64_t offset = static_cast<std::uint64_t>(unit) * r_.unit_bytes;
    const std::size_t bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(r_.unit_bytes, r_.stored.bytes - offset));
    const auto* const from = HT_TRY(stored_at(offset, bytes, unit < decoded_unit_));
    unit_.assign(from, from + bytes);
    unit_.resize(r_.unit_bytes + 1);
    decoded_.resize(static_cast<std::size_t>(r_.unit_elements) * r_.item_bytes);
    if (r_.is_packed) {
      unpack_group(unit_.data(), r_.stored.type.bits, decoded_.data());
    } else {
      swap(MutableBytes(unit_).first(bytes));
      values::read_f32(r_.stored.type, unit_.data(), reinterpret_cast<float*>(decoded_.data()),
                       r_.unit_elements);
    }
    decoded_unit_ = unit;
    return {};
  }

  // Returns stored bytes in place, or in `read_ahead_`, which also contains bytes to be used next.
  Result<const std::byte*> stored_at(std::uint64_t offset, std::size_t bytes, bool backwards) {
    if (r_.stored.in_place != nullptr) return r_.stored.in_place + offset;
    if (offset < read_ahead_offset_ || offset + bytes > read_ahead_offset_ + read_ahead_.size()) {
      const std::uint64_t size = std::max<std::uint64_t>(r_.read_ahead_bytes, bytes);
      const std::uint64_t limit = end_of(bounds_.end);
      const std::uint64_t start = offset_of(bounds_.begin);
      const std::uint64_t begin =
          !backwards ? offset : std::max(start, offset + bytes - std::min(size, offset + bytes));
      const std::uint64_t end = backwards ? offset + bytes : std::min(limit, offset + size);
      read_ahead_.resize(static_cast<std::size_t>(end - begin));
      read_ahead_offset_ = begin;
      HT_TRY(r_.stored.read(begin, read_ahead_));
    }
    return read_ahead_.data() + (offset - read_ahead_offset_);
  }

  void swap(MutableBytes units) const noexcept {
    if (r_.stored.relayout != nullptr) swap_numbers(units, *r_.stored.relayout);
  }

  // Finishes the staged items. Items that were written to the result itself are byte-swapped there if
  // necessary. Items that were written to the buffer are converted or packed, and written to the result.
  void flush() {
    if (staged_ == 0) return;
    const std::int64_t first = at_ - staged_;
    const std::size_t bytes = static_cast<std::size_t>(staged_) * r_.item_bytes;
    const auto from = r_.stored.type.is_block_encoded() ? detail::element_type_of<F32>() : r_.stored.type;
    const values::Conversion conversion{.from = from, .to = r_.result.type, .rounding = r_.result.rounding};
    if (writes_items()) {
      if (!r_.is_packed) swap({result_at(first), bytes});
    } else if (r_.is_packed && r_.is_copy) {
      pack(items_.data(), r_.stored.type.bits, staged_, result_at(first));
    } else {
      const std::byte* items = items_.data();
      if (r_.is_packed) {
        units_.resize(static_cast<std::size_t>(values::stored_bytes(r_.stored.type, staged_)));
        pack(items, r_.stored.type.bits, staged_, units_.data());
        items = units_.data();
      } else if (r_.unit_elements == 1) {
        swap(MutableBytes(items_).first(bytes));
      }
      values::convert_values(conversion, items, result_at(first), staged_, static_cast<std::uint64_t>(first));
    }
    staged_ = 0;
  }

  const Reading& r_;
  std::int64_t at_;  // next element of the result
  std::int64_t end_;
  PositionRange bounds_;
  std::int64_t staged_ = 0;       // items that `stage` has read and `flush` has not finished
  std::vector<std::byte> items_;  // aligned for F32 by the allocator
  std::vector<std::byte> units_;
  std::vector<std::byte> unit_;
  std::vector<std::byte> decoded_;
  std::int64_t decoded_unit_ = -1;
  std::vector<std::byte> read_ahead_;
  std::uint64_t read_ahead_offset_ = 0;
};

// Returns the bytes to read at once; 0 for the needed elements only. Larger reads pay off if consecutive
// elements of the result are on one page.
std::uint64_t read_ahead_bytes_of(const Selection& selection, std::int64_t unit_elements,
                                  std::size_t unit_bytes) {
  constexpr std::uint64_t page_bytes = 4096;
  constexpr std::uint64_t read_ahead_bytes = std::uint64_t{64} << 10;
  const auto& loops = selection.loops;
  if (loops.empty()) return 0;
  const auto units =
      static_cast<std::uint64_t>(std::abs(loops.back().step)) / static_cast<std::uint64_t>(unit_elements);
  return units * unit_bytes <= page_bytes ? read_ahead_bytes : 0;
}

Reading prepare(const StoredElements& stored, const Selection& selection, const ResultForm& result,
                MutableBytes into) {
  const ElementType& from = stored.type;
  const bool is_packed = from.is_dense() && from.bits % 8 != 0;
  const bool is_copy = from.dtype == result.type.dtype && from.encoding == result.type.encoding;
  Reading reading{.stored = stored,
                  .selection = selection,
                  .result = result,
                  .into = into,
                  .unit_elements = from.is_block_encoded() ? from.block_elements
                                   : is_packed             ? group_elements
                                                           : 1,
                  .unit_bytes = from.is_block_encoded() ? from.block_bytes
                                : is_packed             ? static_cast<std::size_t>(from.bits)
                                                        : static_cast<std::size_t>(from.bits) / 8,
                  .item_bytes = from.is_block_encoded() ? sizeof(float) : unpacked_bytes(from.bits),
                  .grain = result.type.bits % 8 != 0 && !result.unpack ? group_elements : 1,
                  .is_packed = is_packed,
                  .is_copy = is_copy,
                  .can_convert_units = !(is_packed && result.unpack),
                  .is_large = selection.count > job_elements,
                  .read_ahead_bytes = 0};
  reading.read_ahead_bytes = read_ahead_bytes_of(selection, reading.unit_elements, reading.unit_bytes);
  return reading;
}

}  // namespace

std::uint64_t ResultForm::bytes_for(std::int64_t elements) const noexcept {
  if (unpack && type.is_dense()) return static_cast<std::uint64_t>(elements) * unpacked_bytes(type.bits);
  return values::stored_bytes(type, elements);
}

Result<void> read_selection(const StoredElements& stored, const Selection& selection,
                            const ResultForm& result, MutableBytes into, const WorkOptions& work) {
  const Reading reading = prepare(stored, selection, result, into);
  const auto started = std::chrono::steady_clock::now();
  Progress progress{.total_bytes = into.size()};
  std::atomic<std::uint64_t> done = 0;
  const auto check_stop = [&]() -> Result<void> {
    if (!work.stop.stop_requested() || done == into.size()) return {};
    return fail(ErrorCode::cancelled, "work_is_completed",
                format_text("stopped: {} of {} bytes read", done.load(), into.size()));
  };
  Jobs jobs;
  jobs.count = static_cast<std::size_t>((selection.count + job_elements - 1) / job_elements);
  jobs.run = [&](std::size_t job, std::size_t /*worker*/) -> Result<void> {
    HT_TRY(check_stop());
    const auto first = static_cast<std::int64_t>(job) * job_elements;
    const std::int64_t count = std::min(job_elements, selection.count - first);
    HT_TRY(Piece(reading, first, count).run());
    done += result.bytes_for(count);
    return {};
  };
  const auto report = [&]() -> Result<void> {
    HT_TRY(check_stop());
    if (work.on_progress) {
      progress.done_bytes = done;
      progress.elapsed = std::chrono::steady_clock::now() - started;
      work.on_progress(progress);
    }
    return {};
  };
  if (jobs.count <= 1) {
    if (jobs.count == 1) HT_TRY(jobs.run(0, 0));
    return report();
  }
  // Without `meanwhile`, the calling thread runs jobs too.
  if (work.on_progress || work.stop.stop_possible()) jobs.meanwhile = report;
  HT_TRY(report());  // so that the callback can stop even the shortest read
  return run_all(jobs);
}

}  // namespace ht::inline v1
