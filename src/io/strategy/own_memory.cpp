#include "io/strategy/own_memory.hpp"

#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <numeric>
#include <tuple>

#include "base/format_text.hpp"
#include "base/memory_hints.hpp"
#include "io/port/port.hpp"
#include "io/strategy/direct_file.hpp"

namespace ht::inline v1::io {
namespace {

constexpr std::uint64_t buffer_alignment = DirectFile::max_alignment;
// Gaps up to this size are cheaper to read than to skip by starting another read.
constexpr std::uint64_t max_gap_bytes = 16384;
// Gaps up to this size are read even after a small read.
constexpr std::uint64_t small_gap_bytes = 64;
// Minimum alignment of tensors, for kernels that compute on them.
constexpr std::uint64_t min_alignment = 64;

bool is_aligned(const Strategy::LoadRequest& request) {
  return request.alignment <= 1 || request.range.offset % request.alignment == 0;
}

// Returns the position of the next read after `end`; nullopt on overflow.
std::optional<std::uint64_t> position_after(std::uint64_t end, const Strategy::LoadRequest& request) {
  const auto alignment =
      is_aligned(request) ? buffer_alignment : std::max<std::uint64_t>(request.alignment, min_alignment);
  const auto up = checked::align_up(end, alignment);
  if (!up || !is_aligned(request)) return up;
  return checked::add(*up, request.range.offset % buffer_alignment);
}

Error too_many_bytes() {
  return Error(ErrorCode::size_overflow, "loaded_size_fits_64_bits",
               "total size to load exceeds 2^64-1 bytes")
      .with_hint("load fewer tensors at once");
}

// Returns the largest gap to read. Small relative to the read, because the gap takes memory too.
std::uint64_t max_gap_after(const FileRange& read) {
  return std::clamp(read.bytes / 8, small_gap_bytes, max_gap_bytes);
}

}  // namespace

Result<std::shared_ptr<OwnMemory>> OwnMemory::allocate(std::uint64_t bytes, Port& port) {
  const std::uint64_t alignment = bytes >= huge_page_bytes ? huge_page_bytes : port.page_bytes();
  const auto rounded = checked::align_up(std::max<std::uint64_t>(bytes, 1), alignment);
  if (!rounded || !checked::narrow<std::ptrdiff_t>(*rounded)) return fail(out_of_memory(bytes));
  AlignedMemory memory(static_cast<std::byte*>(
      std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(*rounded))));
  if (!memory) return fail(out_of_memory(bytes));
  // A failure is ignored: without huge pages the memory is only slower.
  static_cast<void>(port.advise({memory.get(), *rounded}, Strategy::Advice::huge_pages));
  return std::shared_ptr<OwnMemory>(new OwnMemory(std::move(memory), static_cast<std::size_t>(bytes), port));
}

bool OwnMemory::allocate_pages(std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t page = port_.page_bytes();
  const std::uint64_t first = offset / page * page;
  const std::uint64_t last = (offset + bytes + page - 1) / page * page;
  return port_.advise({memory_.get() + first, last - first}, Strategy::Advice::allocate).has_value();
}

void OwnMemory::drop(Bytes part) noexcept {
  const std::uint64_t page = port_.page_bytes();
  const auto begin = static_cast<std::uint64_t>(part.data() - memory_.get());
  // Pages shared with adjacent parts are kept.
  const std::uint64_t first = (begin + page - 1) / page * page;
  const std::uint64_t last = (begin + part.size()) / page * page;
  // On failure the pages are freed with the whole memory.
  if (first < last)
    static_cast<void>(port_.advise({memory_.get() + first, last - first}, Strategy::Advice::drop));
}

std::shared_ptr<const void> own_part(std::shared_ptr<OwnMemory> memory, Bytes part,
                                     std::shared_ptr<const void> within, bool shared) {
  const auto release_pages = [memory = std::move(memory), part, within = std::move(within),
                              shared](const void*) {
    if (!shared) memory->drop(part);
  };
  return {part.data(), release_pages};
}

Result<ArenaLayout> lay_out(std::span<const Strategy::LoadRequest> requests) {
  ArenaLayout layout;
  layout.positions.resize(requests.size());
  layout.read_of.resize(requests.size());
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Aligned requests first, because only these can be merged into one read.
  std::ranges::sort(order, {}, [&](std::size_t i) {
    const FileRange& range = requests[i].range;
    return std::tuple(!is_aligned(requests[i]), range.file, range.offset, i);
  });
  for (const std::size_t i : order) {
    const Strategy::LoadRequest& request = requests[i];
    const FileRange& range = request.range;
    if (range.bytes == 0) continue;
    auto* const last = layout.reads.empty() ? nullptr : &layout.reads.back();
    const bool joins = last != nullptr && is_aligned(request) && last->file == range.file &&
                       range.offset <= last->offset + last->bytes + max_gap_after(*last);
    if (!joins) {
      const auto position = position_after(layout.bytes, request);
      if (!position) return fail(too_many_bytes());
      layout.reads.push_back({range.file, range.offset, 0});
      layout.read_positions.push_back(*position);
      layout.shared.push_back(false);
    }
    auto& read = layout.reads.back();
    if (range.offset < read.offset + read.bytes) layout.shared.back() = true;
    // Requests may overlap, so the read ends at the furthest end.
    read.bytes = std::max(read.bytes, range.offset + range.bytes - read.offset);
    layout.read_of[i] = layout.reads.size() - 1;
    layout.positions[i] = layout.read_positions.back() + (range.offset - read.offset);
    const auto end = checked::add(layout.read_positions.back(), read.bytes);
    if (!end) return fail(too_many_bytes());
    layout.bytes = *end;
  }
  return layout;
}

}  // namespace ht::inline v1::io
