#include "io/handles.hpp"

#include <atomic>

namespace ht::inline v1::io {

std::uint64_t new_giver() noexcept {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

Error foreign_handle() {
  return Error(ErrorCode::stale_handle, "handle_is_of_this_strategy",
               "this handle was given by somebody else")
      .with_hint("give a handle back to the strategy that it came from");
}

Error released_handle() {
  return Error(ErrorCode::stale_handle, "handle_is_not_released", "this handle was given back before")
      .with_hint("give each handle back once, and do not use it afterwards");
}

}  // namespace ht::inline v1::io
