// Planning and applying for sources that are not, or not all, files of a model.
#pragma once

#include <htensor/convert/convert.hpp>
#include <htensor/convert/write.hpp>
#include <optional>
#include <vector>

#include "convert/copy_engine.hpp"
#include "io/mapped_file.hpp"

namespace ht::inline v1 {

/// For each tensor of a catalog: its bytes, where they are in memory and in no file. Empty where none is.
using InMemory = std::vector<std::optional<Bytes>>;

[[nodiscard]] Result<ConversionPlan> plan_from(const Catalog& source, const InMemory& memory,
                                               const std::filesystem::path& target,
                                               const ConvertOptions& options);

/// Data that a caller hands out piece by piece, on its way into a file.
struct Pieces {
  const DataSource& source;
  /// Where the data begins in the file: offsets of pieces count from here.
  std::uint64_t begin = 0;
  /// The first byte of the data that a piece may cover, as a header may be part of the data.
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;
  /// Whether room on the disk is reserved for all of it, as no piece leaves a hole.
  bool is_dense = false;
};

/// Writes the pieces behind the header of the file. Returns whether they leave no hole in the data.
/// `out_of_bounds` for a piece that is out of order or outside, `cancelled`, or the Error of the source.
[[nodiscard]] Result<bool> copy_pieces(const PlannedFile& file, const Pieces& pieces, io::AtomicFile& target,
                                       const CopyOptions& options);

/// What files are made of.
struct Contents {
  /// The files that the plan's bytes lie in; null where nothing is taken from one.
  std::vector<io::MappedFile*> sources{};
  /// The data of the plan's only file, in place of its parts.
  const Pieces* pieces = nullptr;
};

/// The one way to a file: `convert`, `save` and `write` end here. `reading` is how the target is opened to be
/// sealed.
[[nodiscard]] Result<Converted> apply_from(const ConversionPlan& plan, Contents contents,
                                           const ApplyOptions& options, const OpenOptions& reading);

}  // namespace ht::inline v1
