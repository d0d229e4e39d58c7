// An element of a broadcast view has several indices, so the view is read-only.
#include <htensor/compute/elementwise.hpp>

using Matrix = ht::Tensor<ht::F32, ht::Rank<2>>;

ht::Result<void> add(const Matrix& row, const Matrix& x) {
  const auto view = HT_TRY(row.broadcast(x.shape()));
#ifdef HT_FAIL
  return ht::add_into(view, x);  // expect: no matching function
                                 // expect: is_const_v
#else
  return ht::add_into(x, view);
#endif
}
