#include "values/cast_elements.hpp"

#include <htensor/dtype/relations.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/values/cast.hpp>

namespace ht::inline v1 {
namespace {

template <class D, class Byte>
ElementPointer<D> elements_at(Byte* bytes) {
  if constexpr (is_packed<std::remove_const_t<D>>) {
    return PackedPointer<D>(bytes);
  } else {
    return reinterpret_cast<ElementPointer<D>>(bytes);
  }
}

// Calls `f(From{}, To{})` where both are dtypes of the library.
template <class F>
void visit_pair(DTypeTag from, DTypeTag to, F f) {
  static_cast<void>(visit_dtype(from, [&]<class From>(From) {
    static_cast<void>(visit_dtype(to, [&]<class To>(To) { f(From{}, To{}); }));
  }));
}

}  // namespace

bool is_lossless(DTypeTag from, DTypeTag to) noexcept {
  bool lossless = from == to;
  visit_pair(from, to, [&]<class From, class To>(From, To) { lossless = LosslessTo<From, To>; });
  return lossless;
}

void cast_elements(DTypeTag from, Bytes stored, DTypeTag to, MutableBytes into, std::int64_t count) {
  visit_pair(from, to, [&]<class From, class To>(From, To) {
    if constexpr (LosslessTo<From, To>) {
      const auto source = elements_at<const From>(stored.data());
      auto target = elements_at<To>(into.data());
      for (std::int64_t i = 0; i < count; ++i)
        target[i] = detail::convert_element<From, To>(static_cast<typename From::Element>(source[i]));
    }
  });
}

}  // namespace ht::inline v1
