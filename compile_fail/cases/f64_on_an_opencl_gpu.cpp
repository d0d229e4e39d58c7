// A dtype that the device does not store is rejected where the tensor type is named, not by each operation.
#include <htensor/tensor/tensor.hpp>

#ifdef HT_FAIL
using Weights = ht::Tensor<ht::F64, ht::Rank<2>, ht::OpenCl<ht::Gpu>>;  // expect: Compatible
                                                                        // expect: OpenCl<.*Gpu>
                                                                        // expect: Float<64>
#else
using Weights = ht::Tensor<ht::F32, ht::Rank<2>, ht::OpenCl<ht::Gpu>>;
using Precise = ht::Tensor<ht::F64, ht::Rank<2>, ht::OpenCl<ht::Cpu>>;
#endif
