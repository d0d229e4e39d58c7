// Statistics and histograms of tensors whose type is known at run time (values/statistics.hpp has the rules).
//
//   for (const ht::AnyTensor& t : model) print(t.name(), HT_TRY(ht::statistics(t)));
//
// Stored bytes are read once, in place if the file is mapped; memory use does not depend on the tensor's
// size. All block encodings and all dtypes of the library except C64 are supported, in either byte order.
// Splats count as if expanded.
#pragma once

#include <htensor/model/any_tensor.hpp>
#include <htensor/values/statistics.hpp>

namespace ht::inline v1 {

/// `unsupported_encoding` if the elements are not real numbers, and the errors of `AnyTensor::copy_to`.
[[nodiscard]] Result<Statistics> statistics(const AnyTensor& tensor, const WorkOptions& work = {});

[[nodiscard]] Result<Histogram> histogram(const AnyTensor& tensor, const HistogramRange& range,
                                          const WorkOptions& work = {});

}  // namespace ht::inline v1
