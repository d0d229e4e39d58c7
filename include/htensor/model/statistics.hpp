// Statistics and histograms of tensors whose type is known at run time (values/statistics.hpp has the rules).
//
//   for (const ht::AnyTensor& t : model) print(t.name(), HT_TRY(ht::statistics(t)));
//
// Stored bytes are read once, in place where the file is mapped; memory stays bounded, whatever the tensor's
// size. Every dtype of the library but C64 and every block encoding has values, in either byte order; splats
// count as if they were stored element by element.
#pragma once

#include <htensor/model/any_tensor.hpp>
#include <htensor/values/statistics.hpp>

namespace ht::inline v1 {

/// `unsupported_encoding` where the elements are not real numbers, and the errors of `AnyTensor::copy_to`.
[[nodiscard]] Result<Statistics> statistics(const AnyTensor& tensor, const WorkOptions& work = {});

[[nodiscard]] Result<Histogram> histogram(const AnyTensor& tensor, const HistogramRange& range,
                                          const WorkOptions& work = {});

}  // namespace ht::inline v1
