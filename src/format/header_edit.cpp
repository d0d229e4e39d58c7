#include "format/header_edit.hpp"

#include <algorithm>
#include <bit>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

// The unit in which file systems share data.
constexpr std::uint64_t shared_block_bytes = 4096;
// A larger alignment of the old data is taken for chance and not kept.
constexpr std::uint64_t max_alignment = std::uint64_t{2} << 20;
// Left free for later edits.
constexpr std::uint64_t room_bytes = 1024;

}  // namespace

std::uint64_t later_begin(std::uint64_t needed, std::uint64_t old_bytes) {
  const std::uint64_t alignment = std::uint64_t{1} << std::countr_zero(old_bytes | max_alignment);
  const std::uint64_t step = std::max(alignment, shared_block_bytes);
  const std::uint64_t wanted = std::max(needed + room_bytes, old_bytes + 1);
  return old_bytes + (wanted - old_bytes + step - 1) / step * step;
}

Result<std::uint64_t> data_begin_for(std::uint64_t needed, std::uint64_t old_bytes, const HeaderEdit& edit) {
  if (needed <= old_bytes) return old_bytes;
  if (edit.grow || old_bytes == edit.file_bytes) return later_begin(needed, old_bytes);
  return fail(Error(ErrorCode::header_too_large, "metadata_fits_the_slack",
                    format_text("the header needs {} bytes and has {} before the data", needed, old_bytes))
                  .with_hint("leave out --no-grow: the data then moves by a multiple of 4096 bytes"));
}

}  // namespace ht::inline v1
