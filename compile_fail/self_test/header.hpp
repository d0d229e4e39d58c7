// A mistake that a compiler can only see in here, and says from where it came.
#pragma once

template <class T>
auto doubled(T value) {
  return value.doubled();
}
