// Encodes a catalog to the header of a file: the inverse of `parse`. Does no I/O.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/error.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

/// Layout options of a file. 0 means the format's default.
struct Layout {
  /// Alignment of tensor data, a power of two.
  std::uint64_t alignment = 0;
  /// Whether to store dtypes and shapes in formats without fields for them, as `TENSORv0:` in IRPA.
  bool tensor_notes = true;
  /// Whether external entries of an IRPA file stay in their files. If false, their data goes into this file,
  /// as is required to merge the files of a model.
  bool keep_external = true;
  /// A power of two, or 0. Unless 0, each tensor keeps its offset modulo `block_bytes`, so that whole blocks
  /// can be shared with the source (reflink). IRPA does this for all tensors, safetensors for tensors that
  /// are adjacent in the same order as in the source. Other formats do not guarantee it.
  std::uint64_t block_bytes = 0;
};

/// A file without its data.
struct Encoded {
  /// The file from its first byte on.
  std::vector<std::byte> header;
  /// Offset of the data of each catalog entry. nullopt for entries without bytes in this file: splats and
  /// external entries of an IRPA file. Other formats reserve space for the expanded splat.
  std::vector<std::optional<std::uint64_t>> offsets;
  /// The length of the whole file. Bytes that neither header nor data covers are zero.
  std::uint64_t file_bytes = 0;
  /// `Format::finish` of the format; null if the header is complete.
  decltype(Format::finish) finish = nullptr;
};

/// New metadata for a file whose data keeps its offset or moves as a whole.
struct HeaderEdit {
  /// The file from its first byte on, at least the whole header; `catalog` was parsed from it.
  Bytes seen;
  std::uint64_t file_bytes = 0;
  const Catalog& catalog;
  /// All metadata of the edited file.
  const Metadata& metadata;
  /// Whether data may begin later than before.
  bool grow = false;
};

struct EditedHeader {
  /// All bytes before the data. They replace the first `old_bytes` of the file; the rest follows unchanged.
  std::vector<std::byte> bytes;
  std::uint64_t old_bytes = 0;
};

/// Reasons why common readers reject a file of this catalog although the format allows it; for GGUF the
/// reader is llama.cpp. Each is a warning, with its rule and a hint. May throw `std::bad_alloc`.
[[nodiscard]] std::vector<Error> reader_warnings(std::string_view format, const Catalog& catalog);

/// Returns the file for the catalog's tensors, in catalog order. `would_lose` for data that the format cannot
/// store, `misaligned` if the alignment is not a power of two.
[[nodiscard]] Result<Encoded> encode(const Format& format, const Catalog& catalog, const Layout& layout = {});
/// The same by the name of one of the library's formats; `not_found` if there is none.
[[nodiscard]] Result<Encoded> encode(std::string_view format, const Catalog& catalog,
                                     const Layout& layout = {});

}  // namespace ht::inline v1
