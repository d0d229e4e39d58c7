// The structs behind the handles ht_model and ht_tensor, and the description of a tensor.
#pragma once

#include <htensor/htensor.h>

#include <cstdint>
#include <htensor/model/any_tensor.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "c/boundary/boundary.hpp"

// NOLINTBEGIN(readability-identifier-naming): names of the C API.

struct ht_model {
  /// A metadata item and the memory of its texts and arrays.
  struct Item {
    ht::c::Memory memory;
    ht_metadata_item item{};
  };

  explicit ht_model(const ht::Model& opened);

  ht::Model model;
  /// The metadata index of the padding, which the C API does not list; SIZE_MAX without padding.
  std::size_t padding = SIZE_MAX;
  mutable std::mutex mutex;
  /// By metadata index; null until an item is first requested. Guarded by `mutex`.
  mutable std::vector<std::unique_ptr<const Item>> items;
};

struct ht_tensor {
  ht::Model model;
  ht::AnyTensor tensor;
  std::size_t index = 0;
  mutable std::mutex mutex{};
  /// Owns the memory that ht_tensor_private_data returned. Guarded by `mutex`.
  mutable ht::Storage private_pages{};
};

// NOLINTEND(readability-identifier-naming)

namespace ht::c {

/// Describes the tensor at `index`, without allocation. Pointers belong to the model.
[[nodiscard]] ht_tensor_info describe_entry(const Model& model, std::size_t index) noexcept;

}  // namespace ht::c
