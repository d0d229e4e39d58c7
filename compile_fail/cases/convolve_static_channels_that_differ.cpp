// The static channels of the weight must divide those of the input.
#include <htensor/compute/conv.hpp>

using Image = ht::Tensor<ht::F32, ht::Shape<1, 4, 8, 8>>;
using Fits = ht::Tensor<ht::F32, ht::Shape<2, 4, 3, 3>>;
using Differs = ht::Tensor<ht::F32, ht::Shape<2, 3, 3, 3>>;

auto convolved(const Image& image, const Fits& fits, const Differs& differs) {
#ifdef HT_FAIL
  static_cast<void>(fits);
  return ht::conv2d(image, differs);  // expect: no matching function
                                      // expect: ConvolvableShapes
                                      // expect: Shape<2, 3, 3, 3>
#else
  static_cast<void>(differs);
  return ht::conv2d(image, fits);
#endif
}
