// From a catalog to the bytes of a file around its data: the inverse of `parse`, as pure as that.
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

/// What may be chosen about a file. Zero and empty mean what the format itself does.
struct Layout {
  /// Where data may begin: at multiples of this power of two.
  std::uint64_t alignment = 0;
  /// Whether formats that know no dtypes and shapes are told them all the same, as IRPA's `TENSORv0:`.
  bool tensor_notes = true;
  /// Whether entries that an IRPA has in other files stay there; else their data goes into the file, as it
  /// has to where a model's own files are brought together.
  bool keep_external = true;
  /// Not 0: data goes to places that leave the same rest, divided by this power of two, as where it lies now,
  /// so that whole blocks of so many bytes can be shared with the source. IRPA does that for all of its
  /// tensors, safetensors for those that follow each other as they do in the source; for other formats it is
  /// chance.
  std::uint64_t block_bytes = 0;
};

/// A file without its data.
struct Encoded {
  /// The file from its first byte on.
  std::vector<std::byte> header;
  /// Where the data of each of the catalog's entries begins. Nothing for those whose bytes do not go into
  /// this file: splats and external entries of an IRPA. Other formats have room for a splat's bytes.
  std::vector<std::optional<std::uint64_t>> offsets;
  /// The length of the whole file. What neither header nor data covers is zero.
  std::uint64_t file_bytes = 0;
  /// `Format::finish` of its format; null if the header is complete as it is.
  decltype(Format::finish) finish = nullptr;
};

/// Other metadata for a file whose data stays where it is, or moves as a whole.
struct HeaderEdit {
  /// The file from its first byte on, its whole header at least; it was parsed to `catalog`.
  Bytes seen;
  std::uint64_t file_bytes = 0;
  const Catalog& catalog;
  /// All metadata of the edited file.
  const Metadata& metadata;
  /// Whether data may begin later than before.
  bool grow = false;
};

struct EditedHeader {
  /// All bytes before the data. The bytes behind `old_bytes` follow them unchanged.
  std::vector<std::byte> bytes;
  std::uint64_t old_bytes = 0;
};

/// Reasons why the format's usual readers refuse a file of this catalog, although the format allows it; for
/// GGUF the usual reader is llama.cpp. Each is a warning, with its rule and a hint. May throw
/// `std::bad_alloc`.
[[nodiscard]] std::vector<Error> reader_warnings(std::string_view format, const Catalog& catalog);

/// The file for the catalog's tensors, in the catalog's order. Where its entries lie now does not matter.
/// `would_lose` for what the format cannot carry, `misaligned` for an alignment that is no power of two.
[[nodiscard]] Result<Encoded> encode(const Format& format, const Catalog& catalog, const Layout& layout = {});
/// The same by the name of one of the library's formats; `not_found` if there is none.
[[nodiscard]] Result<Encoded> encode(std::string_view format, const Catalog& catalog,
                                     const Layout& layout = {});

}  // namespace ht::inline v1
