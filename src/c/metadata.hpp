// Values of metadata, between C and the stored form.
#pragma once

#include <htensor/htensor.h>

#include <htensor/format/metadata.hpp>
#include <vector>

#include "c/boundary.hpp"

namespace ht::c {

/// Copies texts and arrays into `memory`.
[[nodiscard]] ht_value to_c(const MetaValue& value, Memory& memory);

/// The stored form of a value, as `MetaValue::bytes` describes it. `dtype_mismatch` for a number that its
/// type does not hold, `bad_state` for a NULL array or an unknown type.
[[nodiscard]] Result<std::vector<std::byte>> stored_form(const ht_value& value);

}  // namespace ht::c
