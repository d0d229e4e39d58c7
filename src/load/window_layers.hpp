// Which tensors are a layer, where the bytes of each layer are, and how they come into memory and go.
#pragma once

#include <cstdint>
#include <htensor/base/glob.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "io/strategies.hpp"

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

/// One thread at a time uses it. Nothing is allocated unless something fails.
class LayerPages {
 public:
  /// What is fetched between two looks at whether to stop.
  static constexpr std::uint64_t piece_bytes = std::uint64_t{16} << 20;

  /// All of these have to outlive this, and the files of all ranges have to be there.
  LayerPages(const Catalog& catalog, const LayerTable& table, io::MappedStrategy& files,
             bool empty_page_cache);

  /// Waits for the disk. `cancelled` once one of these wants it to end.
  [[nodiscard]] Result<void> fetch(std::size_t layer, const std::stop_token& stop,
                                   const std::stop_token& over);
  /// All but what layers that were fetched and not dropped have, too.
  [[nodiscard]] Result<void> drop(std::size_t layer);

 private:
  [[nodiscard]] Result<void> fetch_pages(const io::FileRange& range) const;
  /// What nobody else has of it.
  [[nodiscard]] Result<void> drop_own(std::size_t layer, io::FileRange range);
  [[nodiscard]] Result<void> drop_pages(std::size_t layer, const io::FileRange& range);
  /// Adds the tensor to an error where it has none.
  [[nodiscard]] Error located(Error error, std::size_t layer, const io::FileRange& range) const;

  const Catalog& catalog_;
  const LayerTable& table_;
  io::MappedStrategy& mapped_;
  bool empty_page_cache_;
  std::vector<std::size_t> sharing_;  // layers that share bytes with others
  std::vector<bool> held_;
};

}  // namespace ht::inline v1::window
