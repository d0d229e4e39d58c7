// A format: the functions that read and write its files, and traits that describe the capabilities of the
// format.
//
//   const ht::Format mine{.name = "mine",
//                         .extension = ".mine",
//                         .looks_like = looks_like,          // functions of the caller
//                         .parse = parse,
//                         .encode = encode};
//   const auto model = HT_TRY(ht::Model::open("a.mine", {.formats = {mine}}));
//
//   const auto parsed = HT_TRY(ht::parse(file, file.size()));                    // file: all bytes
//   if (const auto* const catalog = std::get_if<ht::Catalog>(&parsed))           // else ht::Need
//     store(HT_TRY(ht::encode("gguf", *catalog, {.alignment = 4096})).header);
//
// The library reads traits and never compares a format's name, so a caller's format is opened and converted
// like those of the library: pass it in `OpenOptions::formats` and `ConvertOptions::formats`.
//
// A Format is a value. Its texts are views that must outlive every copy, such as string literals. Its
// functions must be thread-safe.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/format/catalog.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ht::inline v1 {

struct Need;
class FileParts;
struct ParseOptions;
struct EncodeOptions;
struct EncodedFile;
using ParseResult = std::variant<Need, Catalog>;

struct Format {
  struct HeaderEdit;
  struct EditedHeader;

  /// How a model is split into files named `NAME-00001-of-00003.EXT`.
  enum class Sharding : std::uint8_t {
    none,   ///< a model is one file
    index,  ///< each file has all metadata and opens alone; `NAME.EXT.index.json` opens all of them
    parts,  ///< any file opens all of them; the first has the metadata, and `split.*` keys number the files
  };

  /// The byte orders that a format supports for tensors.
  enum class ByteOrders : std::uint8_t { little, one_per_file, any };

  /// The value types that a format supports for metadata.
  enum class MetadataTypes : std::uint8_t { none, text, all };

  /// A checksum of the data; the file stores the checksum in its header.
  struct OwnChecksum {
    std::uint64_t header_bytes = 0;
    /// The range of the data. Bytes between header and data are zero.
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    /// CRC-64/NVME.
    std::uint64_t crc = 0;
  };

  /// The name, such as "gguf".
  std::string_view name{};
  /// The extension of its files, such as ".gguf".
  std::string_view extension{};

  // These three are required.

  /// Whether a file with this prefix is probably of the format. `prefix` has 512 bytes, or all bytes of a
  /// shorter file. True also for a file that ends within the magic number.
  bool (*looks_like)(Bytes prefix, std::uint64_t file_bytes) = nullptr;
  /// See ht::parse. The `format()` of the returned catalog is `name`.
  Result<ParseResult> (*parse)(const FileParts& parts, std::uint64_t file_bytes,
                               const ParseOptions& options) = nullptr;
  /// See ht::encode.
  Result<EncodedFile> (*encode)(const Catalog& catalog, const EncodeOptions& layout) = nullptr;

  // Each of these may be null.

  /// Returns the header with the new metadata. The pointer is null for a format whose metadata cannot be
  /// edited without a new layout of the data.
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
  /// The expected size of a file whose last tensor ends at `data_end`. Set it only if the parser accepts
  /// trailing bytes; ht::diagnose and `htensor doctor` then report the trailing bytes.
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

// Each of these functions searches `more`, the caller's formats, before those of the library.

/// The format with that name; null if there is none.
[[nodiscard]] const Format* find_format(std::string_view name, std::span<const Format> more = {}) noexcept;
/// The format of files with this extension, such as ".gguf"; null if there is none.
[[nodiscard]] const Format* format_of_extension(std::string_view extension,
                                                std::span<const Format> more = {}) noexcept;
/// The format for a file to write, by its extension; `not_found`, with the known extensions.
[[nodiscard]] Result<const Format*> format_for(const std::filesystem::path& target,
                                               std::span<const Format> more = {});
/// The names of all formats.
[[nodiscard]] std::vector<std::string_view> format_names(std::span<const Format> more = {});

// Parses bytes of a file to its catalog. Parsers do no I/O.

/// The bytes [offset, offset + bytes) of the file, which a parser needs to continue. They are within the file
/// and include bytes that the parser has not seen. A range that begins within or directly after the prefix is
/// supplied as a longer prefix, any other range as a FileParts::Part.
struct Need {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// The bytes of a file that a parser sees: the prefix, and the parts that the parser requested.
class FileParts {
 public:
  /// A part of a file that is not its beginning.
  struct Part {
    std::uint64_t offset = 0;
    Bytes bytes{};
  };

  FileParts() noexcept = default;
  /// Implicit, so that `ht::parse` also takes plain bytes. `owner` keeps the prefix alive and unchanged for
  /// as long as a catalog refers to it; without an owner, the parser copies.
  template <std::convertible_to<Bytes> T>
  FileParts(const T& prefix, std::span<const Part> parts = {},  // NOLINT(google-explicit-constructor)
            std::shared_ptr<const void> owner = {}) noexcept
      : prefix_(prefix), parts_(parts), owner_(std::move(owner)) {}

  [[nodiscard]] Bytes prefix() const noexcept { return prefix_; }
  /// Null if the prefix has no owner.
  [[nodiscard]] const std::shared_ptr<const void>& owner() const noexcept { return owner_; }
  /// The bytes of the range if they are in the prefix or in one part; else nullopt.
  [[nodiscard]] std::optional<Bytes> range(std::uint64_t offset, std::uint64_t bytes) const noexcept;

 private:
  Bytes prefix_;
  std::span<const Part> parts_;
  std::shared_ptr<const void> owner_;
};

struct ParseOptions {
  /// The name of the tensor in formats that store one tensor without a name.
  std::string_view stem{};
  /// User-defined dtypes that the file may use.
  std::span<const DTypeInfo> dtypes{};
  /// The caller's formats, tried before those of the library.
  std::span<const Format> formats{};
  /// Also accepts a file with incomplete data, such as an unfinished download.
  bool allow_incomplete = false;
  /// The maximum number of bytes to read before the data; 0 is the limit of the format, which for safetensors
  /// is 100,000,000.
  std::uint64_t max_header_bytes = 0;
};

/// Recognises the format by content and parses it. `parts` are of a file of `file_bytes` bytes. Returns
/// the catalog, or the Need for more bytes. `bad_magic` if the file is not a weights file; the error names
/// its type if known. Else the errors of the format.
[[nodiscard]] Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes,
                                        const ParseOptions& options = {});

// Encodes a catalog to the header of a file: the inverse of `parse`. Does no I/O.

/// The layout of a file to encode. 0 means the format's default.
struct EncodeOptions {
  /// Alignment of tensor data, a power of two.
  std::uint64_t alignment = 0;
  /// Whether to store dtypes and shapes in formats without fields for them, as `TENSORv0:` in IRPA.
  bool describe_types = true;
  /// Whether safetensors stores metadata without keys as `"__metadata__":{}`. If false, it stores none.
  bool empty_metadata = false;
  /// Whether the data of an IRPA file's external entries stays in the files that they name. If false, their
  /// data goes into this file, as a merge of a model's files requires.
  bool keep_external = true;
  /// The size of a disk block, a power of two, or 0. Unless it is 0, each tensor keeps its offset modulo
  /// `disk_block_bytes`, so that the file system can share whole disk blocks with the source (reflink). IRPA
  /// does this for all tensors, safetensors for tensors that are adjacent in the same order as in the source.
  /// Other formats do not guarantee it.
  std::uint64_t disk_block_bytes = 0;
};

/// A file to write, without its data.
struct EncodedFile {
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
struct Format::HeaderEdit {
  /// The file from its first byte on, at least the whole header; `catalog` was parsed from it.
  Bytes prefix;
  std::uint64_t file_bytes = 0;
  const Catalog& catalog;
  /// All metadata of the edited file.
  const Metadata& metadata;
  /// Whether the data may move towards the end of the file.
  bool grow = false;
};

struct Format::EditedHeader {
  /// All bytes before the data. They replace the first `replaced_bytes` of the file; the rest follows
  /// unchanged.
  std::vector<std::byte> bytes;
  std::uint64_t replaced_bytes = 0;
};

/// Reasons why common readers reject a file of this catalog although the format allows it; for GGUF the
/// reader is llama.cpp. `more` are the caller's formats. Each is a warning, with its rule and a hint. May
/// throw `std::bad_alloc`.
[[nodiscard]] std::vector<Error> reader_warnings(std::string_view format, const Catalog& catalog,
                                                 std::span<const Format> more = {});

/// Returns the header and the layout of a file with the catalog's tensors, in catalog order. `would_lose` for
/// data that the format cannot store, `misaligned` if the alignment or the block size is not a power of two.
[[nodiscard]] Result<EncodedFile> encode(const Format& format, const Catalog& catalog,
                                         const EncodeOptions& layout = {});
/// The same by the name of one of the library's formats; `not_found` if there is none.
[[nodiscard]] Result<EncodedFile> encode(std::string_view format, const Catalog& catalog,
                                         const EncodeOptions& layout = {});

}  // namespace ht::inline v1
