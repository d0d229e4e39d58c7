#include <algorithm>
#include <htensor/compute/elementwise.hpp>

#include "base/format_text.hpp"

namespace ht::inline v1::detail {

Result<void> check_has_element(layout::Extents extents) {
  if (std::ranges::find(extents, 0) == extents.end()) return {};
  return fail(Error(ErrorCode::bad_shape, "max_operand_has_elements",
                    format_text("shape {} has 0 elements but max needs one", layout::to_text(extents)))
                  .with_hint("check the shape before the call"));
}

}  // namespace ht::inline v1::detail
