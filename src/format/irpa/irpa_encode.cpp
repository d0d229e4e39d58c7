#include <algorithm>
#include <htensor/dtype/dtypes.hpp>
#include <string>

#include "base/utf8.hpp"
#include "format/format_errors.hpp"
#include "format/irpa/irpa.hpp"
#include "format/irpa/irpa_metadata.hpp"
#include "format/irpa/irpa_wire.hpp"

namespace ht::inline v1::format_irpa {
namespace {

constexpr std::uint64_t entries_begin =
    (header_bytes + entry_alignment - 1) / entry_alignment * entry_alignment;

// Checks only the name, the element order and the byte order; IRPA stores any dtype, encoding or raw bytes.
Result<void> check_name_and_orders(const Entry& entry) {
  if (!is_utf8(entry.name)) {
    return fail(Error(ErrorCode::bad_utf8, "irpa_names_are_utf8",
                      format_text("tensor name '{}' is not valid UTF-8", to_utf8(entry.name)))
                    .with_hint("rename the tensor with --rename OLD=NEW"));
  }
  Entry dense = entry;
  dense.dtype = U8::tag;
  dense.encoding = EncodingTag::dense;
  dense.note = {};
  return check_plain(dense, "IRPA");
}

// Whether the description states the dtype and shape of the entry. Without a description, the entry must be
// untyped.
bool description_matches(const std::optional<Description>& description, const Entry& entry) {
  if (!description) return !entry.is_typed();
  return description->dtype == entry.dtype && description->encoding == entry.encoding &&
         std::ranges::equal(description->extents(), entry.dims);
}

// The metadata to write for an entry: the note of the entry, if it has one; otherwise the description of its
// dtype and shape, if `describe_types` is set; otherwise none.
Result<std::string> metadata_of(const Entry& entry, bool describe_types) {
  if (!entry.note.empty()) {
    json::Scratch scratch;
    const auto description = read_description(entry.note, entry.bytes, scratch);
    if (description_matches(description, entry)) return std::string(entry.note);
    return fail(would_lose_error(
        "irpa_note_matches_the_type", entry,
        description ? "clear Entry::note, or set the dtype and shape that it describes"
                    : "clear Entry::note, or describe dtype and shape in it by TENSORv0:",
        "tensor '{}': its note {}, and IRPA has one field for note, dtype and shape", entry.name,
        description ? "describes a dtype or shape that the tensor does not have"
                    : "does not describe its dtype and shape"));
  }
  if (!entry.is_typed() || !describe_types) return std::string();
  HT_TRY(check_data_size(entry));
  if (auto described = describe(entry)) return *std::move(described);
  return fail(would_lose_error("irpa_can_describe_the_type", entry,
                               "write the archive without dtypes and shapes (--plain)",
                               "tensor '{}': IRPA has no notation for its dtype or shape", entry.name));
}

// Builds the parts of an archive entry by entry.
class ArchiveWriter {
 public:
  ArchiveWriter(const Catalog& catalog, const EncodeOptions& layout)
      : catalog_(catalog),
        describe_types_(layout.describe_types),
        keep_external_(layout.keep_external),
        alignment_(std::max(layout.alignment, data_alignment)),
        disk_block_bytes_(layout.disk_block_bytes),
        path_at_(catalog.files().size()) {}

  Result<void> add(const Entry& entry) {
    HT_TRY(check_name_and_orders(entry));
    const auto entry_metadata = HT_TRY(metadata_of(entry, describe_types_));
    const Kind kind = kind_of(entry);
    const MutableBytes bytes = begin_entry(kind, entry.name, entry_metadata);
    if (kind == Kind::splat) put_splat(bytes, entry);
    if (kind == Kind::data) HT_TRY(put_data(bytes, entry));
    if (kind == Kind::external) put_external(bytes, entry);
    if (kind != Kind::data) offsets_.push_back(std::nullopt);
    return {};
  }

  /// Adds the metadata of the model in an entry that other readers skip. Called after all tensors were added.
  Result<void> add_metadata(const Metadata& metadata) {
    const auto entry_metadata = HT_TRY(encode_model_metadata(metadata));
    begin_entry(Kind::skip, metadata_name, entry_metadata);
    return {};
  }

  Result<EncodedFile> finish() && {
    const std::uint64_t metadata_begin = entries_begin + table_.size();
    const std::uint64_t metadata_end = metadata_begin + metadata_.size();
    // Without data, no alignment is needed.
    const auto begin =
        checked::align_up(metadata_end, has_data_ ? std::max(alignment_, disk_block_bytes_) : 1);
    const auto end = begin ? checked::add(*begin, storage_bytes_) : std::nullopt;
    const auto file_bytes = end ? checked::align_up(*end, file_alignment) : std::nullopt;
    if (!file_bytes) return fail(file_too_large());
    EncodedFile encoded{.header = std::vector<std::byte>(static_cast<std::size_t>(metadata_end)),
                        .offsets = std::move(offsets_),
                        .file_bytes = *file_bytes};
    for (auto& offset : encoded.offsets) {
      if (offset) *offset += *begin;
    }
    const MutableBytes header(encoded.header);
    std::ranges::copy(bytes_of(magic), header.begin());
    store_le(header.subspan(at_header_size), header_bytes);
    store_le(header.subspan(at_entry_count), entries_);
    store_range(header.subspan(at_entries), {entries_begin, table_.size()});
    store_range(header.subspan(at_metadata), {metadata_begin, metadata_.size()});
    store_range(header.subspan(at_storage), {*begin, storage_bytes_});
    std::ranges::copy(table_, header.subspan(entries_begin).begin());
    std::ranges::copy(bytes_of(metadata_), header.subspan(static_cast<std::size_t>(metadata_begin)).begin());
    return encoded;
  }

 private:
  [[nodiscard]] Kind kind_of(const Entry& entry) const {
    if (entry.is_splat()) return Kind::splat;
    // In catalogs of other formats, several files are shards and not external files.
    return entry.file != 0 && keep_external_ && catalog_.format() == "irpa" ? Kind::external : Kind::data;
  }

  Range append(std::string_view text) {
    const Range range{metadata_.size(), text.size()};
    metadata_ += text;
    return range;
  }

  /// Appends an entry and fills in the fields common to all kinds.
  MutableBytes begin_entry(Kind kind, std::string_view name, std::string_view entry_metadata) {
    const std::size_t at = (table_.size() + entry_alignment - 1) / entry_alignment * entry_alignment;
    table_.resize(at + static_cast<std::size_t>(entry_bytes[static_cast<std::size_t>(kind)]));
    const MutableBytes bytes = MutableBytes(table_).subspan(at);
    store_le(bytes.subspan(at_entry_size), static_cast<std::uint64_t>(bytes.size()));
    store_le(bytes.subspan(at_kind), static_cast<std::uint32_t>(kind));
    store_range(bytes.subspan(at_name), append(name));
    // As in IREE, empty metadata has offset 0.
    store_range(bytes.subspan(at_entry_metadata), entry_metadata.empty() ? Range{} : append(entry_metadata));
    ++entries_;
    return bytes;
  }

  static void put_splat(MutableBytes bytes, const Entry& entry) {
    store_le(bytes.subspan(at_splat_length), entry.bytes);
    std::ranges::copy(entry.splat, bytes.subspan(at_pattern).begin());
    store_le(bytes.subspan(at_pattern_length), static_cast<std::uint8_t>(entry.splat.size()));
  }

  Result<void> put_data(MutableBytes bytes, const Entry& entry) {
    const auto begin = place_for(entry);
    const auto end = begin ? checked::add(*begin, entry.bytes) : std::nullopt;
    if (!end) return fail(file_too_large());
    has_data_ = true;
    storage_bytes_ = *end;
    offsets_.push_back(begin);
    // Data that shares disk blocks with the source file (reflink) keeps the alignment that it has in that
    // file, which may be smaller than `alignment_`.
    const std::uint64_t minimum_alignment =
        *begin == 0 ? alignment_ : std::min(alignment_, *begin & (~*begin + 1));
    store_le(bytes.subspan(at_minimum_alignment), minimum_alignment);
    store_range(bytes.subspan(at_data), {*begin, entry.bytes});
    return {};
  }

  // Returns the offset of the data in the storage. The storage starts at a multiple of the disk block size.
  [[nodiscard]] std::optional<std::uint64_t> place_for(const Entry& entry) const {
    if (disk_block_bytes_ == 0) return checked::align_up(storage_bytes_, alignment_);
    const std::uint64_t padding = (entry.offset - storage_bytes_) & (disk_block_bytes_ - 1);
    return checked::add(storage_bytes_, padding);
  }

  void put_external(MutableBytes bytes, const Entry& entry) {
    auto& path = path_at_[entry.file];
    if (path.length == 0) path = append(catalog_.files()[entry.file]);
    store_range(bytes.subspan(at_path), path);
    store_range(bytes.subspan(at_external), {entry.offset, entry.bytes});
  }

  const Catalog& catalog_;
  bool describe_types_;
  bool keep_external_;
  std::uint64_t alignment_;
  std::uint64_t disk_block_bytes_;
  std::vector<std::byte> table_;
  std::string metadata_;
  std::vector<std::optional<std::uint64_t>> offsets_;  // from the start of the storage
  std::uint64_t entries_ = 0;
  std::uint64_t storage_bytes_ = 0;
  bool has_data_ = false;
  std::vector<Range> path_at_;  // by file; empty if not written yet
};

}  // namespace

Result<EncodedFile> encode(const Catalog& catalog, const EncodeOptions& layout) {
  // Without `describe_types` (`--plain`), the archive has only the kinds of content that IREE's builder also
  // writes: no "skip" entry with the metadata of the model.
  if (!layout.describe_types) HT_TRY(check_no_metadata(catalog, "plain IRPA"));
  ArchiveWriter writer(catalog, layout);
  for (const Entry& entry : catalog) HT_TRY(writer.add(entry));
  if (!catalog.metadata().empty()) HT_TRY(writer.add_metadata(catalog.metadata()));
  return std::move(writer).finish();
}

}  // namespace ht::inline v1::format_irpa
