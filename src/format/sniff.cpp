#include "format/sniff.hpp"

#include <htensor/format/encode.hpp>

#include "base/format_text.hpp"

namespace ht::inline v1 {

Error no_weights(Bytes /*prefix*/, std::uint64_t file_bytes) {
  if (file_bytes == 0) {
    return Error(ErrorCode::bad_magic, "file_is_not_empty", "is empty")
        .at_offset(0)
        .with_hint("the download or copy did not start: fetch it again");
  }
  return Error(ErrorCode::bad_magic, "format_is_known", "is of no format that is known here")
      .at_offset(0)
      .with_hint(format_text("known formats: {}", fmt::join(format_names(), ", ")));
}

}  // namespace ht::inline v1
