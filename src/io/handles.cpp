#include "io/handles.hpp"

#include <atomic>

namespace ht::inline v1::io {

std::uint64_t new_giver() noexcept {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

Error foreign_handle() {
  return Error(ErrorCode::stale_handle, "handle_is_of_this_strategy", "handle was issued by another strategy")
      .with_hint("release a handle through the strategy that issued it");
}

Error released_handle() {
  return Error(ErrorCode::stale_handle, "handle_is_not_released", "handle was already released")
      .with_hint("release each handle once and do not use it afterwards");
}

}  // namespace ht::inline v1::io
