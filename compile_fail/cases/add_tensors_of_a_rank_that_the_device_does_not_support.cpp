// A device that adds vectors only has no operator for matrices, and the message names the device and the
// operation.
#include <htensor/compute/elementwise.hpp>

struct VectorAdder {
  using Slices = ht::SliceList<ht::slice::Core>;
  static constexpr std::string_view name = "VectorAdder";
  static constexpr bool is_host_accessible = false;
  template <class D>
  static constexpr bool stores = true;

  static ht::Result<ht::Storage> allocate(std::uint64_t bytes);
  template <class D, class A, class B>
  static ht::Result<void> run(std::plus<> add, const ht::ComputeOptions& options,
                              const ht::Tensor<D, ht::Rank<1>, VectorAdder>& into,
                              const ht::Tensor<A, ht::Rank<1>, VectorAdder>& a,
                              const ht::Tensor<B, ht::Rank<1>, VectorAdder>& b);
};

#ifdef HT_FAIL
using Shape = ht::Rank<2>;
#else
using Shape = ht::Rank<1>;
#endif

auto twice(const ht::Tensor<ht::F32, Shape, VectorAdder>& a) {
  return a + a;  // expect: no match for .operator\+.|invalid operands to binary expression
                 // expect: CombinesBy
                 // expect: std::plus
                 // expect: VectorAdder
}
