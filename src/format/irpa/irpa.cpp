#include "format/irpa/irpa.hpp"
#include "base/utf8.hpp"
#include "format/format_errors.hpp"
#include "format/irpa/irpa_metadata.hpp"
#include "format/irpa/irpa_wire.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

namespace ht::inline v1::format_irpa {
namespace {

// Entry tables and metadata segments that are closer than this are requested together with the bytes between
// them.
constexpr std::uint64_t close_bytes = 4096;

constexpr std::string_view update_hint = "update htensor, or write the file again with IREE's exporter";

/// A header whose segments were checked. Offsets are relative to the file; an empty segment has offset 0,
/// whatever the header says.
struct Header {
  std::uint64_t entry_count = 0;
  Range entries{};
  Range metadata{};
  Range storage{};
};

Result<void> check_magic_version_and_size(Bytes header, std::uint64_t base) {
  if (!std::ranges::equal(header.first(magic.size()), bytes_of(magic))) {
    return fail(broken(ErrorCode::bad_magic, "irpa_headers_begin_with_the_magic", {base},
                       "IRPA header at byte {} does not start with the magic 'IRPA'", base));
  }
  const auto major = load_le<std::uint16_t>(header.subspan(at_major));
  const auto minor = load_le<std::uint16_t>(header.subspan(at_minor));
  if (major != 0 || minor != 0) {
    return fail(broken(ErrorCode::bad_version, "irpa_version_is_0_0", {base + at_major},
                       "IRPA version {}.{} is not supported; the supported version is 0.0", major, minor)
                    .with_hint(update_hint));
  }
  const auto size = load_le<std::uint64_t>(header.subspan(at_header_size));
  if (size != header_bytes) {
    return fail(broken(ErrorCode::bad_header, "irpa_header_size_is_88", {base + at_header_size},
                       "header size field is {} but must be {}", size, header_bytes));
  }
  return {};
}

// The entry table, the metadata or the storage, as a range of the file.
Result<Range> segment(Bytes header, std::uint64_t base, std::size_t field, std::string_view label) {
  const Range relative = load_range(header.subspan(field));
  // As in IREE, the offset of an empty range is ignored.
  if (relative.length == 0) return Range{};
  const auto begin = checked::add(base, relative.offset);
  if (!begin || !checked::add(*begin, relative.length)) {
    return fail(broken(ErrorCode::bad_offset, "irpa_segment_ends_fit_64_bits", {base + field},
                       "{} of {} bytes at offset {} from the header at byte {} ends beyond 2^64-1", label,
                       relative.length, relative.offset, base));
  }
  return Range{*begin, relative.length};
}

Result<void> check_is_complete(const Range& segment, std::uint64_t file_bytes, std::string_view label) {
  if (checked::range_fits(segment.offset, segment.length, file_bytes)) return {};
  return fail(broken(ErrorCode::truncated, "irpa_entries_and_metadata_are_complete", {file_bytes},
                     "{} ends at byte {} but the file has {} bytes", label, segment.end(), file_bytes));
}

// Rejects a count that does not fit the size of the entry table, before the table is read.
Result<void> check_count(const Header& header, std::uint64_t base) {
  // The smallest entry has 60 bytes. All entries but the last are padded to a multiple of 16, so each takes
  // at least 64.
  constexpr std::uint64_t min_padded_bytes =
      (entry_header_bytes + entry_alignment - 1) / entry_alignment * entry_alignment;
  const std::uint64_t table_bytes = header.entries.length;
  const std::uint64_t room =
      table_bytes < entry_header_bytes ? 0 : (table_bytes - entry_header_bytes) / min_padded_bytes + 1;
  if (header.entry_count <= room) return {};
  return fail(broken(ErrorCode::bad_header, "irpa_entry_count_fits_the_table", {base + at_entry_count},
                     "header declares {} entries but its entry table of {} bytes holds at most {}",
                     header.entry_count, table_bytes, room));
}

Result<Header> read_header(Bytes bytes, std::uint64_t base, std::uint64_t file_bytes, bool allow_incomplete) {
  HT_TRY(check_magic_version_and_size(bytes, base));
  Header header{.entry_count = load_le<std::uint64_t>(bytes.subspan(at_entry_count))};
  header.entries = HT_TRY(segment(bytes, base, at_entries, "entry table"));
  header.metadata = HT_TRY(segment(bytes, base, at_metadata, "metadata"));
  header.storage = HT_TRY(segment(bytes, base, at_storage, "storage"));
  HT_TRY(check_is_complete(header.entries, file_bytes, "entry table"));
  HT_TRY(check_is_complete(header.metadata, file_bytes, "metadata"));
  const Range& storage = header.storage;
  if (!allow_incomplete && !checked::range_fits(storage.offset, storage.length, file_bytes)) {
    return fail(broken(ErrorCode::truncated, "irpa_storage_is_complete", {file_bytes},
                       "storage ends at byte {} but the file has {} bytes", storage.end(), file_bytes));
  }
  HT_TRY(check_count(header, base));
  return header;
}

// Adds the sizes of a header, its entry table and its metadata to `total_bytes`. `header_too_large` if the
// total exceeds the limit.
Result<void> add_to_total(const Header& header, std::uint64_t base, std::uint64_t limit,
                          std::uint64_t& total_bytes) {
  for (const std::uint64_t bytes : {header_bytes, header.entries.length, header.metadata.length}) {
    const auto sum = checked::add(total_bytes, bytes);
    if (!sum || *sum > limit) {
      return fail(broken(ErrorCode::header_too_large, "irpa_headers_entries_and_metadata_fit_the_limit",
                         {base}, "headers, entry tables and metadata exceed the limit of {} bytes", limit));
    }
    total_bytes = *sum;
  }
  return {};
}

// The offset of the next header; nullopt after the last one.
Result<std::optional<std::uint64_t>> next_header(Bytes bytes, std::uint64_t base, std::size_t headers) {
  const auto distance = load_le<std::uint64_t>(bytes.subspan(at_next_header));
  if (distance == 0) return std::nullopt;
  const auto next = checked::add(base, distance);
  if (!next) {
    return fail(broken(ErrorCode::bad_offset, "irpa_next_header_offset_fits_64_bits", {base + at_next_header},
                       "next header, {} bytes after the header at byte {}, is beyond 2^64-1", distance,
                       base));
  }
  if (headers == max_headers) {
    return fail(broken(ErrorCode::bad_header, "irpa_headers_are_at_most_256", {base + at_next_header},
                       "archive links more than {} headers", max_headers));
  }
  return next;
}

/// All linked headers in order, or the range to read next.
Result<std::variant<Need, std::vector<Header>>> read_headers(const FileParts& parts, std::uint64_t file_bytes,
                                                             const ParseOptions& options) {
  std::vector<Header> headers;
  const std::uint64_t limit =
      options.max_header_bytes == 0 ? default_max_header_bytes : options.max_header_bytes;
  std::uint64_t total_bytes = 0;
  // Each header is after its predecessor, so the chain has no cycle.
  std::optional<std::uint64_t> base = 0;
  while (base) {
    if (!checked::range_fits(*base, header_bytes, file_bytes)) {
      return fail(broken(ErrorCode::truncated, "irpa_headers_are_complete", {file_bytes},
                         "header at byte {} needs {} bytes but the file has {} bytes", *base, header_bytes,
                         file_bytes));
    }
    const auto bytes = parts.range(*base, header_bytes);
    if (!bytes) return Need{*base, header_bytes};
    headers.push_back(HT_TRY(read_header(*bytes, *base, file_bytes, options.allow_incomplete)));
    HT_TRY(add_to_total(headers.back(), *base, limit, total_bytes));
    base = HT_TRY(next_header(*bytes, *base, headers.size()));
  }
  return headers;
}

/// The entry tables and metadata of all headers, sorted by offset. `overlap` if the sum of their sizes is
/// more than twice the number of distinct bytes in them.
Result<std::vector<Range>> entries_and_metadata(const std::vector<Header>& headers) {
  std::vector<Range> segments;
  for (const auto& header : headers) {
    for (const auto& segment : {header.entries, header.metadata}) {
      if (segment.length != 0) segments.push_back(segment);
    }
  }
  std::ranges::sort(segments);
  // Some sharing is harmless. The limit keeps the memory for the catalog proportional to the file size.
  std::uint64_t total = 0;
  std::uint64_t covered = 0;
  std::uint64_t end = 0;
  for (const auto& segment : segments) {
    total += segment.length;
    if (segment.end() > end) covered += segment.end() - std::max(end, segment.offset);
    end = std::max(end, segment.end());
  }
  if (total > 2 * covered) {
    return fail(broken(ErrorCode::overlap, "irpa_segments_total_at_most_twice_their_distinct_bytes",
                       {segments[0].offset},
                       "entry tables and metadata add up to {} bytes but cover only {}: too many headers "
                       "share the same bytes",
                       total, covered));
  }
  return segments;
}

/// The first segment that was not read yet, merged with close ones after it into one request. `segments` is
/// sorted by offset.
std::optional<Need> first_missing(const FileParts& parts, const std::vector<Range>& segments) {
  auto segment = std::ranges::find_if_not(
      segments, [&](const Range& range) { return parts.range(range.offset, range.length).has_value(); });
  if (segment == segments.end()) return std::nullopt;
  const std::uint64_t begin = segment->offset;
  std::uint64_t end = segment->end();
  // Segments may overlap.
  const auto is_close = [&](const Range& range) {
    return range.offset <= end || range.offset - end <= close_bytes;
  };
  for (++segment; segment != segments.end() && is_close(*segment); ++segment)
    end = std::max(end, segment->end());
  return Need{begin, end - begin};
}

// Checks entries and adds them to a catalog.
class EntryReader {
 public:
  explicit EntryReader(CatalogBuilder& builder) : builder_(builder) {}

  /// Adds all entries of a header. `table` and `metadata` are the header's entry table and metadata.
  Result<void> read(const Header& header, Bytes table, Bytes metadata) {
    header_ = header;
    metadata_ = metadata;
    metadata_used_ = 0;
    std::uint64_t at = 0;
    for (std::uint64_t number = 0; number < header.entry_count; ++number) {
      const auto rest = table.subspan(static_cast<std::size_t>(std::min<std::uint64_t>(at, table.size())));
      const auto raw = HT_TRY(next(rest, header.entries.offset + at, number));
      HT_TRY(add(raw));
      // The padding of the last entry may be outside the table.
      at += (raw.bytes.size() + entry_alignment - 1) / entry_alignment * entry_alignment;
    }
    return {};
  }

 private:
  /// One entry: its bytes and their offset in the file.
  struct RawEntry {
    Bytes bytes;
    std::uint64_t offset;
    std::uint64_t number;
  };

  [[nodiscard]] Result<RawEntry> next(Bytes rest, std::uint64_t offset, std::uint64_t number) const {
    const auto outside = [&](std::uint64_t size) {
      return fail(broken(ErrorCode::bad_header, "irpa_entries_are_in_their_table", {offset},
                         "entry {} needs {} bytes but only {} bytes of the entry table are left", number,
                         size, rest.size()));
    };
    if (rest.size() < entry_header_bytes) return outside(entry_header_bytes);
    const auto kind = load_le<std::uint32_t>(rest.subspan(at_kind));
    if (kind >= entry_bytes.size()) {
      return fail(broken(ErrorCode::unsupported_encoding, "irpa_entry_kind_is_known", {offset + at_kind},
                         "entry {} has kind {} but only kinds 0 to 3 are supported", number, kind)
                      .with_hint(update_hint));
    }
    const auto size = load_le<std::uint64_t>(rest.subspan(at_entry_size));
    if (size < entry_bytes[kind]) {
      return fail(broken(ErrorCode::bad_header, "irpa_entry_size_is_at_least_that_of_its_kind",
                         {offset + at_entry_size}, "entry {} has {} bytes but kind {} needs {}", number, size,
                         kind, entry_bytes[kind]));
    }
    if (size > rest.size()) return outside(size);
    return RawEntry{rest.first(static_cast<std::size_t>(size)), offset, number};
  }

  Result<void> add(const RawEntry& raw) {
    const auto name = HT_TRY(text(raw, at_name, "name"));
    const auto entry_metadata = HT_TRY(text(raw, at_entry_metadata, "metadata"));
    const Kind kind{load_le<std::uint32_t>(raw.bytes.subspan(at_kind))};
    if (kind == Kind::skip && name != metadata_name) return {};
    HT_TRY(add_to_metadata_used(raw, name.size()));
    HT_TRY(add_to_metadata_used(raw, entry_metadata.size()));
    if (kind == Kind::skip) return decode_model_metadata(entry_metadata, raw.offset, builder_.metadata());
    if (!is_utf8(name)) {
      return fail(broken(ErrorCode::bad_utf8, "irpa_names_are_utf8", {raw.offset + at_name},
                         "name of entry {} is not valid UTF-8", raw.number));
    }
    Entry entry{.name = name};
    if (kind == Kind::splat) HT_TRY(fill_splat(raw, entry));
    if (kind == Kind::data) HT_TRY(fill_data(raw, entry));
    if (kind == Kind::external) HT_TRY(fill_external(raw, entry));
    return add_described(entry, entry_metadata);
  }

  [[nodiscard]] Result<std::string_view> text(const RawEntry& raw, std::size_t field,
                                              std::string_view label) const {
    const Range range = load_range(raw.bytes.subspan(field));
    if (range.length == 0) return std::string_view();
    const auto found = part(metadata_, range.offset, range.length);
    if (!found) {
      return fail(broken(ErrorCode::bad_offset, "irpa_names_are_in_the_metadata", {raw.offset + field},
                         "entry {}: {} of {} bytes at offset {} is outside the metadata of {} bytes",
                         raw.number, label, range.length, range.offset, metadata_.size()));
    }
    return as_text(*found);
  }

  // Keeps memory proportional to the file size, even if all entries refer to the same bytes.
  Result<void> add_to_metadata_used(const RawEntry& raw, std::uint64_t bytes) {
    constexpr std::uint64_t always_allowed = 4096;
    metadata_used_ += bytes;
    if (metadata_used_ <= 2 * metadata_.size() + always_allowed) return {};
    return fail(broken(ErrorCode::overlap, "irpa_entries_share_little_metadata", {raw.offset},
                       "entries 0 to {} use {} bytes of metadata but their header has {}: too many entries "
                       "share the same bytes",
                       raw.number, metadata_used_, metadata_.size()));
  }

  Result<void> fill_splat(const RawEntry& raw, Entry& entry) const {
    const auto bytes = std::to_integer<std::size_t>(raw.bytes[at_pattern_length]);
    if (bytes > max_pattern_bytes || !std::has_single_bit(bytes)) {
      return fail(broken(ErrorCode::bad_header, "irpa_patterns_have_1_2_4_8_or_16_bytes",
                         {raw.offset + at_pattern_length, entry.name},
                         "tensor '{}': splat pattern has {} bytes, not 1, 2, 4, 8 or 16", entry.name, bytes));
    }
    entry.bytes = load_le<std::uint64_t>(raw.bytes.subspan(at_splat_length));
    if (entry.bytes % bytes != 0) {
      return fail(broken(ErrorCode::size_mismatch, "splat_bytes_are_multiple_of_pattern",
                         {raw.offset + at_splat_length, entry.name},
                         "tensor '{}': {} bytes are not a multiple of its splat pattern of {} bytes",
                         entry.name, entry.bytes, bytes));
    }
    entry.splat = raw.bytes.subspan(at_pattern, bytes);
    return {};
  }

  Result<void> fill_data(const RawEntry& raw, Entry& entry) const {
    const Range data = load_range(raw.bytes.subspan(at_data));
    if (data.length == 0) return {};
    if (!checked::range_fits(data.offset, data.length, header_.storage.length)) {
      return fail(broken(ErrorCode::bad_offset, "irpa_data_is_in_the_storage",
                         {raw.offset + at_data, entry.name},
                         "tensor '{}': {} bytes at offset {} are outside the storage of {} bytes", entry.name,
                         data.length, data.offset, header_.storage.length));
    }
    entry.offset = header_.storage.offset + data.offset;
    entry.bytes = data.length;
    return {};
  }

  Result<void> fill_external(const RawEntry& raw, Entry& entry) {
    const Range range = load_range(raw.bytes.subspan(at_external));
    if (!checked::add(range.offset, range.length)) {
      return fail(broken(ErrorCode::bad_offset, "irpa_external_range_ends_fit_64_bits",
                         {raw.offset + at_external, entry.name},
                         "tensor '{}': {} bytes at byte {} of an external file end beyond 2^64-1", entry.name,
                         range.length, range.offset));
    }
    entry.file = HT_TRY(file_of(raw));
    entry.offset = range.offset;
    entry.bytes = range.length;
    return {};
  }

  Result<std::uint32_t> file_of(const RawEntry& raw) {
    const auto path = HT_TRY(text(raw, at_path, "path"));
    Range range = load_range(raw.bytes.subspan(at_path));
    range.offset += header_.metadata.offset;
    if (const auto known = file_at_.find(range); known != file_at_.end()) return known->second;
    HT_TRY(add_to_metadata_used(raw, path.size()));
    if (const auto fault = path_problem(path); !fault.empty()) {
      return fail(
          broken(ErrorCode::path_escapes, "irpa_external_paths_stay_inside", {raw.offset + at_path},
                 "entry {}: the path of its external file, '{}', {}", raw.number, to_utf8(path), fault)
              .with_hint("move the external files into the archive's folder and write the archive again"));
    }
    auto [named, is_new] = file_named_.try_emplace(path, 0U);
    if (is_new) named->second = HT_TRY(builder_.add_file(path));
    file_at_.emplace(range, named->second);
    return named->second;
  }

  const std::optional<Description>& cached_description(std::string_view metadata, std::uint64_t bytes) {
    for (const auto& known : cache_) {
      if (known.bytes == bytes && known.metadata == metadata) return known.description;
    }
    auto& known = cache_[oldest_];
    oldest_ = (oldest_ + 1) % cache_.size();
    known = {metadata, bytes, read_description(metadata, bytes, scratch_)};
    return known.description;
  }

  // Keeps the metadata of the entry verbatim as a note if `describe` would write another text.
  Result<void> add_described(Entry& entry, std::string_view entry_metadata) {
    const auto& description = cached_description(entry_metadata, entry.bytes);
    if (description) {
      entry.dtype = description->dtype;
      entry.encoding = description->encoding;
      entry.dims = description->extents();
    }
    const bool is_canonical =
        description && (description->is_known_canonical || describe(entry) == entry_metadata);
    if (!is_canonical) entry.note = entry_metadata;
    return builder_.add(entry);
  }

  CatalogBuilder& builder_;
  // State of the current header.
  Header header_{};
  Bytes metadata_{};
  std::uint64_t metadata_used_ = 0;
  // Many entries are in one external file; its path is checked and stored once.
  std::map<Range, std::uint32_t> file_at_;
  std::map<std::string_view, std::uint32_t> file_named_;
  json::Scratch scratch_;
  // Cache of recent descriptions: a model has few shapes, so metadata repeats.
  struct CachedDescription {
    std::string_view metadata;
    std::uint64_t bytes = 0;
    std::optional<Description> description;
  };
  std::array<CachedDescription, 4> cache_{};
  std::size_t oldest_ = 0;
};

// Empty for an empty range, which has no valid offset.
Bytes bytes_in(const FileParts& parts, const Range& range) {
  return range.length == 0 ? Bytes() : parts.range(range.offset, range.length).value();
}

// The counts can be trusted: `check_count` has compared them with the sizes of the entry tables, and all
// tables and metadata were read. Names are about half of the metadata; descriptions are the other half.
Result<void> reserve(const std::vector<Header>& headers, CatalogBuilder& builder) {
  std::size_t entries = 0;
  std::size_t metadata_bytes = 0;
  for (const auto& header : headers) {
    entries += static_cast<std::size_t>(header.entry_count);
    metadata_bytes += static_cast<std::size_t>(header.metadata.length);
  }
  constexpr std::size_t typical_rank = 2;
  return builder.reserve(entries, metadata_bytes / 2, typical_rank * entries);
}

}  // namespace

Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes, const ParseOptions& options) {
  const auto found = HT_TRY(read_headers(parts, file_bytes, options));
  if (const auto* need = std::get_if<Need>(&found)) return *need;
  const auto& headers = std::get<std::vector<Header>>(found);
  // Entries are parsed only after all entry tables and metadata were read, so that no entry is parsed twice.
  const auto segments = HT_TRY(entries_and_metadata(headers));
  if (const auto need = first_missing(parts, segments)) return *need;
  CatalogBuilder builder("irpa");
  HT_TRY(reserve(headers, builder));
  EntryReader reader(builder);
  for (const auto& header : headers) {
    HT_TRY(reader.read(header, bytes_in(parts, header.entries), bytes_in(parts, header.metadata)));
  }
  return std::move(builder).build();
}

}  // namespace ht::inline v1::format_irpa
