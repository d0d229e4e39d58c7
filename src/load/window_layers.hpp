// Which tensors are a layer, and where the bytes of each layer are.
#pragma once

#include <cstdint>
#include <htensor/base/glob.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "io/chunks.hpp"

namespace ht::inline v1::window {

/// As `WindowOptions::layers` describes it.
class LayerPattern {
 public:
  /// `bad_state` where the number is in it more than once, or a pattern is malformed.
  [[nodiscard]] static Result<LayerPattern> from(std::string_view text);

  /// The number of the layer that a tensor of this name is in. It takes time in proportion to the name.
  [[nodiscard]] std::optional<std::uint64_t> number_in(std::string_view name) const noexcept;

 private:
  LayerPattern(NameFilter before, std::optional<NameFilter> behind) noexcept
      : before_(std::move(before)), behind_(std::move(behind)) {}

  NameFilter before_;  // the number, or the whole name where the pattern has no number
  std::optional<NameFilter> behind_;
};

/// Layers in the order of their numbers. What one has of the tensors and ranges begins where what the one
/// before has ends.
struct LayerTable {
  struct Row {
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
    std::size_t tensors_end = 0;
    std::size_t ranges_end = 0;
    /// Whether another layer has some of its bytes, too.
    bool shares = false;
  };
  std::vector<Row> rows;
  /// By their numbers in the catalog, in file order within a layer.
  std::vector<std::size_t> tensors;
  /// In the order of the files within a layer; they neither touch nor overlap there.
  std::vector<io::FileRange> ranges;

  [[nodiscard]] std::span<const std::size_t> tensors_of(std::size_t layer) const noexcept {
    const std::size_t begin = layer == 0 ? 0 : rows[layer - 1].tensors_end;
    return std::span(tensors).subspan(begin, rows[layer].tensors_end - begin);
  }
  [[nodiscard]] std::span<const io::FileRange> ranges_of(std::size_t layer) const noexcept {
    const std::size_t begin = layer == 0 ? 0 : rows[layer - 1].ranges_end;
    return std::span(ranges).subspan(begin, rows[layer].ranges_end - begin);
  }
};

/// Empty where no tensor is in a layer.
[[nodiscard]] LayerTable layers_of(const Catalog& catalog, const LayerPattern& pattern);

}  // namespace ht::inline v1::window
