// The objects behind the handles of C, and the facts about a tensor.
#pragma once

#include <htensor/htensor.h>

#include <cstdint>
#include <htensor/model/any_tensor.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <mutex>
#include <vector>

#include "c/boundary.hpp"

// NOLINTBEGIN(readability-identifier-naming): as C spells them.

struct ht_model {
  /// An item of the metadata with its own texts and arrays.
  struct Item {
    ht::c::Memory memory;
    ht_metadata_item item{};
  };

  explicit ht_model(const ht::Model& opened);

  ht::Model model;
  /// The index of the padding in the metadata, or SIZE_MAX: C does not list it.
  std::size_t padding = SIZE_MAX;
  mutable std::mutex mutex;
  /// By index in the metadata; null for items that were not asked for yet.
  mutable std::vector<std::unique_ptr<const Item>> items;
};

struct ht_tensor {
  ht::Model model;
  ht::AnyTensor tensor;
  std::size_t index = 0;
  /// Of rows, the index of the first in the whole tensor.
  std::int64_t first_row = 0;
  mutable std::mutex mutex{};
  /// Keeps the memory of ht_tensor_private_data.
  mutable ht::Storage private_pages{};
};

// NOLINTEND(readability-identifier-naming)

namespace ht::c {

/// The facts about the tensor at `index`, without allocation.
[[nodiscard]] ht_tensor_info describe_entry(const Model& model, std::size_t index) noexcept;

}  // namespace ht::c
