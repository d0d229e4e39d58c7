#include "format/header_edit.hpp"

#include <algorithm>
#include <bit>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

// What file systems share is made of such blocks.
constexpr std::uint64_t shared_block_bytes = 4096;
// Data that lies at multiples of more than this was hardly meant to.
constexpr std::uint64_t most_alignment = std::uint64_t{2} << 20;
// For a few more values.
constexpr std::uint64_t room_bytes = 1024;

}  // namespace

std::uint64_t later_begin(std::uint64_t needed, std::uint64_t old_bytes) {
  const std::uint64_t alignment = std::uint64_t{1} << std::countr_zero(old_bytes | most_alignment);
  const std::uint64_t step = std::max(alignment, shared_block_bytes);
  const std::uint64_t wanted = std::max(needed + room_bytes, old_bytes + 1);
  return old_bytes + (wanted - old_bytes + step - 1) / step * step;
}

Result<std::uint64_t> data_begin_for(std::uint64_t needed, std::uint64_t old_bytes, const HeaderEdit& edit) {
  if (needed <= old_bytes) return old_bytes;
  if (edit.grow || old_bytes == edit.file_bytes) return later_begin(needed, old_bytes);
  return fail(
      Error(
          ErrorCode::header_too_large, "metadata_fits_the_slack",
          format_text("the header would need {} bytes more than it has before the data", needed - old_bytes))
          .with_hint("let the data move (--grow): the whole file is written anew, with room for more"));
}

}  // namespace ht::inline v1
