// A device that lists only slice::Core has no matmul, and the message names the missing slice.
#include <htensor/compute/matmul.hpp>

struct Adder {
  using Slices = ht::SliceList<ht::slice::Core>;
  static constexpr std::string_view name = "Adder";
  static constexpr bool is_host_accessible = false;
  template <class D>
  static constexpr bool stores = true;
};

#ifdef HT_FAIL
using Device = Adder;
#else
using Device = ht::OpenCl<ht::Gpu>;
#endif

auto square(const ht::Tensor<ht::F32, ht::Rank<2>, Device>& a) {
  return ht::matmul(a, a);  // expect: no matching function
                            // expect: HasSlice
                            // expect: slice::Linear
                            // expect: Adder
}
