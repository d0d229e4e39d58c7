// Planning and applying for sources that are, at least in part, in memory.
#pragma once

#include <htensor/convert/convert.hpp>
#include <htensor/convert/save.hpp>
#include <optional>
#include <vector>

#include "convert/copy/copy_engine.hpp"
#include "io/strategy/mapped_file.hpp"

namespace ht::inline v1 {

/// For each tensor of a catalog, its bytes if they are in memory and not in a file. Empty if all are in
/// files.
using InMemory = std::vector<std::optional<Bytes>>;

[[nodiscard]] Result<ConversionPlan> plan_from(const Catalog& source, const InMemory& memory,
                                               const std::filesystem::path& target,
                                               const ConvertOptions& options);

/// Data that a caller supplies piece by piece and that is written to a file.
struct Pieces {
  const DataSource& source;
  /// Offset of the data in the file; offsets of pieces are relative to it.
  std::uint64_t begin = 0;
  /// The first byte of the data that a piece may cover; it is not 0 if the header is part of the data.
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;
  /// Whether disk space is allocated for all of the data, because the pieces leave no hole.
  bool is_dense = false;
};

/// Writes the pieces after the header of the file. Returns whether they leave no hole in the data.
/// `out_of_bounds` for a piece that is out of order or outside the data, `cancelled`, or the Error of the
/// source.
[[nodiscard]] Result<bool> copy_pieces(const PlannedFile& file, const Pieces& pieces, io::AtomicFile& target,
                                       const CopyOptions& options);

/// The sources of the planned files.
struct Contents {
  /// The files that the plan reads; null for a file that is not read.
  std::vector<io::MappedFile*> sources{};
  /// The data of the plan's only file, instead of its parts.
  const Pieces* pieces = nullptr;
};

/// `would_lose` for losses that the options do not allow. The hint names the options that allow them.
[[nodiscard]] Result<void> check_losses(const ConversionPlan& plan, const ApplyOptions& options);

/// The checks of `apply_from` before its first write. Returns the files that it would remove.
[[nodiscard]] Result<std::vector<std::filesystem::path>> check_target(const ConversionPlan& plan,
                                                                      const ApplyOptions& options,
                                                                      const OpenOptions& reading);

/// Writes the files of a plan. `convert`, `save` and `write` all end here. `reading` is used to open the
/// target when it is sealed.
[[nodiscard]] Result<Converted> apply_from(const ConversionPlan& plan, Contents contents,
                                           const ApplyOptions& options, const OpenOptions& reading);

}  // namespace ht::inline v1
