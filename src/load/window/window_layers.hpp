// Groups tensors into layers, finds the bytes of each layer, and fetches and drops them.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/names.hpp>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "io/strategy/strategies.hpp"

namespace ht::inline v1::window {

/// A pattern as described in `WindowOptions::layers`.
class LayerPattern {
 public:
  /// `bad_state` if `{}` appears more than once, or the pattern is malformed.
  [[nodiscard]] static Result<LayerPattern> from(std::string_view text);

  /// Returns the layer number of a tensor name; nullopt if the tensor is not in a layer. Linear in the length
  /// of the name.
  [[nodiscard]] std::optional<std::uint64_t> number_in(std::string_view name) const noexcept;

 private:
  LayerPattern(NameFilter before, std::optional<NameFilter> after) noexcept
      : before_(std::move(before)), after_(std::move(after)) {}

  NameFilter before_;  // for text before the number, or the whole name if the pattern has no number
  std::optional<NameFilter> after_;  // for text after the number
};

/// Layers in the order of their numbers. The tensors and ranges of a layer begin where those of the previous
/// layer end.
struct LayerTable {
  struct Row {
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
    std::size_t tensors_end = 0;
    std::size_t ranges_end = 0;
    /// Whether the layer shares bytes with another layer.
    bool shares = false;
  };
  std::vector<Row> rows;
  /// Indices in the catalog, in file order within a layer.
  std::vector<std::size_t> tensors;
  /// In file order within a layer. The ranges of one layer neither touch nor overlap.
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

/// Empty if no tensor is in a layer.
[[nodiscard]] LayerTable layers_of(const Catalog& catalog, const LayerPattern& pattern);

/// Fetches and drops the pages of layers. Not thread-safe. Allocates memory only for errors.
class LayerPages {
 public:
  /// Bytes fetched between two polls of the stop tokens.
  static constexpr std::uint64_t piece_bytes = std::uint64_t{16} << 20;

  /// All arguments have to outlive this object, and the files of all ranges must exist.
  LayerPages(const Catalog& catalog, const LayerTable& table, io::MappedStrategy& mapped,
             bool drop_page_cache);

  /// Fetches the layer and waits for the disk. `cancelled` after a stop request on either token.
  [[nodiscard]] Result<void> fetch(std::size_t layer, const std::stop_token& stop,
                                   const std::stop_token& thread_stop);
  /// Drops the layer, except bytes shared with layers that were fetched and not dropped.
  [[nodiscard]] Result<void> drop(std::size_t layer);

 private:
  [[nodiscard]] Result<void> fetch_pages(const io::FileRange& range) const;
  /// Drops the part of the range that no other fetched layer shares.
  [[nodiscard]] Result<void> drop_unshared(std::size_t layer, io::FileRange range);
  [[nodiscard]] Result<void> drop_pages(std::size_t layer, const io::FileRange& range);
  /// Adds an offset and a tensor to an error that lacks them.
  [[nodiscard]] Error located(Error error, std::size_t layer, const io::FileRange& range) const;

  const Catalog& catalog_;
  const LayerTable& table_;
  io::MappedStrategy& mapped_;
  bool drop_page_cache_;
  std::vector<std::size_t> sharing_;  // layers that share bytes with others
  std::vector<bool> fetched_;
};

}  // namespace ht::inline v1::window
