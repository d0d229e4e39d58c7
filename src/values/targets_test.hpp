// Tries each target of this machine in turn.
#pragma once

#include <hwy/targets.h>

#include <cstdint>

#include "values/targets.hpp"

namespace ht::testing {

/// Selects each target that is compiled and supported by this processor in turn, and calls `f(name)`.
template <class F>
void for_each_target(F f) {
  for (std::int64_t rest = supported_targets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    set_targets_for_test(rest & -rest);
    f(hwy::TargetName(rest & -rest));
  }
  set_targets_for_test(0);
}

}  // namespace ht::testing
