// One pass over tensors of a model: chooses a strategy, reads the bytes, and verifies them if requested.
#pragma once

#include <cstddef>
#include <htensor/io/strategy.hpp>
#include <htensor/load/load.hpp>
#include <span>
#include <vector>

namespace ht::inline v1 {

/// Loads tensors by the strategy of the options; only `read` and a custom strategy make them resident.
/// `in_memory` lists tensors that are resident already; they are not loaded again.
[[nodiscard]] Result<LoadReport> load_tensors(const Model& model, const LoadOptions& options,
                                              std::vector<std::size_t> tensors,
                                              std::vector<std::size_t> in_memory);
/// Passes the bytes of the tensors to `consumer`.
[[nodiscard]] Result<LoadReport> stream_tensors(const Model& model, const LoadOptions& options,
                                                std::vector<std::size_t> tensors,
                                                const PieceConsumer& consumer);
/// Reads the tensors into the memory of the requests.
[[nodiscard]] Result<LoadReport> load_tensors_into(const Model& model, const LoadOptions& options,
                                                   std::vector<std::size_t> tensors,
                                                   std::span<const io::Strategy::LoadRequest> requests);

}  // namespace ht::inline v1
