// A device that lists slice::Core alone has no matmul, and the message names the slice that it lacks.
#include <htensor/tensor/tensor.hpp>

struct Adder {
  using Slices = ht::SliceList<ht::slice::Core>;
  static constexpr std::string_view name = "Adder";
  static constexpr bool host_accessible = false;
  template <class D>
  static constexpr bool stores = true;
};

template <class D, class S, class Dev>
  requires ht::Computes<Dev, ht::slice::Linear, D>
void multiply(const ht::Tensor<D, S, Dev>& a, const ht::Tensor<D, S, Dev>& b);

#ifdef HT_FAIL
using Device = Adder;
#else
using Device = ht::OpenCl<ht::Gpu>;
#endif

void use(const ht::Tensor<ht::F32, ht::Rank<2>, Device>& a) {
  multiply(a, a);  // expect: no matching function
                   // expect: HasSlice
                   // expect: slice::Linear
                   // expect: Adder
}
