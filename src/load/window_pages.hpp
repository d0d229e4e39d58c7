// Brings layers into memory and takes them away, by the pages of the mapped files.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <optional>
#include <stop_token>
#include <vector>

#include "io/strategies.hpp"
#include "load/window_layers.hpp"

namespace ht::inline v1::window {

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
