// Values of metadata from what a person writes.
#pragma once

#include <cstddef>
#include <htensor/base/result.hpp>
#include <htensor/format/metadata_edit.hpp>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

/// As `MetaValue::bytes` has it. `dtype_mismatch` where the text does not stand for a value of the type.
[[nodiscard]] Result<std::vector<std::byte>> value_of_text(std::string_view text, const ValueType& type);

}  // namespace ht::inline v1
