// Compilers report the error inside of this header and name the line that instantiated the template.
#pragma once

template <class T>
auto doubled(T value) {
  return value.doubled();
}
