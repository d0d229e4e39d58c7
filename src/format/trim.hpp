// Memory that growing has taken and nobody needs.
#pragma once

namespace ht::inline v1 {

/// Shrinks a container that is less than half full. One that is fuller is left: a copy would cost more
/// than it gives back.
template <class Container>
void trim(Container& container) {
  if (container.size() < container.capacity() / 2) container.shrink_to_fit();
}

}  // namespace ht::inline v1
