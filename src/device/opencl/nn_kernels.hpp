// Source text of the kernels of slice::Nn. `Number` is float or double, `NUMBER(x)` a literal of that type.
#pragma once

#include <string_view>

namespace ht::inline v1::opencl {

[[nodiscard]] std::string_view nn_kernels();

}  // namespace ht::inline v1::opencl
