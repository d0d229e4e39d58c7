// A format: the functions that read and write its files, and traits that describe the capabilities of the
// format.
//
// Code outside of `format` reads traits and never compares a format's name, so a caller's format is opened
// and converted like the library's: pass it in `OpenOptions::formats` and `ConvertOptions::formats`.
// <htensor/format/parse.hpp> and <htensor/format/encode.hpp> define the types that its functions use.
//
// A Format is copied as a value. Its texts are views that have to outlive every copy, such as string
// literals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/error.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/format/catalog.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace ht::inline v1 {

struct Need;
class Seen;
struct ParseOptions;
struct Layout;
struct Encoded;
struct HeaderEdit;
struct EditedHeader;
using Parsed = std::variant<Need, Catalog>;

/// How a model is split into files named `NAME-00001-of-00003.EXT`.
enum class Sharding : std::uint8_t {
  none,   ///< a model is one file
  index,  ///< each file has all metadata and opens alone; `NAME.EXT.index.json` opens all of them
  parts,  ///< any file opens all of them: the metadata is in the first, and `split.*` keys number each
};

/// The byte orders that a format supports for tensors.
enum class ByteOrders : std::uint8_t { little, one_per_file, any };

/// The value types that a format supports for metadata.
enum class MetadataTypes : std::uint8_t { none, text, all };

/// A checksum of the data that a file stores in its header.
struct OwnChecksum {
  std::uint64_t header_bytes = 0;
  /// The data; bytes between header and data are zero.
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  /// CRC-64/NVME.
  std::uint64_t crc = 0;
};

struct Format {
  /// "gguf".
  std::string_view name{};
  /// ".gguf".
  std::string_view extension{};

  // These three are required.

  /// Whether a file with this prefix is probably of the format. `prefix` has 512 bytes, or all bytes of a
  /// shorter file. True also for a file that ends within the magic number.
  bool (*looks_like)(Bytes prefix, std::uint64_t file_bytes) = nullptr;
  /// See ht::parse. The catalog's format is `name`.
  Result<Parsed> (*parse)(const Seen& seen, std::uint64_t file_bytes, const ParseOptions& options) = nullptr;
  /// See ht::encode.
  Result<Encoded> (*encode)(const Catalog& catalog, const Layout& layout) = nullptr;

  // Each of these may be null.

  /// The header with other metadata; null if the metadata cannot be edited in place.
  Result<EditedHeader> (*edit)(const HeaderEdit& edit) = nullptr;
  /// Reasons why common readers reject a file of this catalog although the format allows it.
  std::vector<Error> (*warnings)(const Catalog& catalog) = nullptr;
  /// Whether the format's reference writer stores `a` before `b`; null means in order of names.
  bool (*precedes)(const Entry& a, const Entry& b) = nullptr;
  /// Completes the header, as `encode` made it, with the CRC-64/NVME of the data of all tensors in file
  /// order.
  void (*finish)(MutableBytes header, std::uint64_t data_crc64nvme) = nullptr;
  /// The checksum that `finish` stored, from the first 512 bytes of a file; nullopt if there is none.
  Result<std::optional<OwnChecksum>> (*own_checksum)(Bytes prefix) = nullptr;
  /// The size of a file whose last tensor ends at `data_end`; null unless the parser accepts any size.
  std::uint64_t (*file_end)(const Catalog& catalog, std::uint64_t data_end) = nullptr;

  Sharding sharding = Sharding::none;
  std::uint32_t max_shards = 99'999;
  /// The largest alignment of data that common readers accept, and the reason.
  std::uint64_t max_alignment = UINT64_MAX;
  std::string_view max_alignment_reason{};
  ByteOrders byte_orders = ByteOrders::little;
  /// Whether tensors may be column-major; otherwise they are row-major.
  bool column_major = false;
  MetadataTypes metadata = MetadataTypes::none;
  /// The dtype for a tensor that is stored as raw bytes because the format lacks its dtype.
  DTypeTag raw_dtype = U8::tag;
};

/// The library's formats, in the order in which they are tried.
[[nodiscard]] std::span<const Format> formats() noexcept;

// Each of these searches `more`, the caller's formats, before the library's.

/// Null if there is no format of that name.
[[nodiscard]] const Format* find_format(std::string_view name, std::span<const Format> more = {}) noexcept;
/// The format of files with this extension, such as ".gguf"; null if there is none.
[[nodiscard]] const Format* format_of_extension(std::string_view extension,
                                                std::span<const Format> more = {}) noexcept;
/// The format for a file to write, by its extension; `not_found`, with the known extensions.
[[nodiscard]] Result<const Format*> format_for(const std::filesystem::path& target,
                                               std::span<const Format> more = {});
[[nodiscard]] std::vector<std::string_view> format_names(std::span<const Format> more = {});

}  // namespace ht::inline v1
