// Text as a JSON string.
#pragma once

#include <string>
#include <string_view>

namespace ht::inline v1 {

/// Appends the text with its quotes: quotes, backslashes and control characters are escaped, everything else
/// stands as it is, as serde writes it. Bytes that are no UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

}  // namespace ht::inline v1
