// Converts metadata values between the structs of the C API and their stored form.
#pragma once

#include <htensor/htensor.h>

#include <htensor/format/metadata.hpp>
#include <vector>

#include "c/boundary/boundary.hpp"

namespace ht::c {

/// Returns a value for the C API. Texts and arrays are copied into `memory`.
[[nodiscard]] ht_value to_c(const MetaValue& value, Memory& memory);

/// Returns the stored form of a value, as `MetaValue::bytes` describes it. Fails with `dtype_mismatch` for a
/// number that its type does not hold, `bad_state` for a NULL array or an unknown type.
[[nodiscard]] Result<std::vector<std::byte>> stored_form(const ht_value& value);

}  // namespace ht::c
