#include "format/irpa/irpa.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <htensor/base/utf8.hpp>
#include <map>

#include "base/format_text.hpp"
#include "format/common.hpp"
#include "format/irpa/irpa_headers.hpp"
#include "format/irpa/irpa_note.hpp"
#include "format/sniff.hpp"

namespace ht::inline v1::format_irpa {
namespace {

// Nothing for kinds that are not known.
std::optional<std::uint64_t> bytes_of_kind(std::uint32_t kind) {
  if (kind > static_cast<std::uint32_t>(Kind::external)) return std::nullopt;
  return entry_bytes(Kind{kind});
}

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Checks entries and adds them to a catalog.
class EntryReader {
 public:
  explicit EntryReader(CatalogBuilder& builder) : builder_(builder) {}

  /// All entries of a header whose table and metadata these bytes are.
  Result<void> read(const Header& header, Bytes table, Bytes metadata) {
    header_ = header;
    metadata_ = metadata;
    metadata_used_ = 0;
    std::uint64_t at = 0;
    for (std::uint64_t number = 0; number < header.entry_count; ++number) {
      const auto rest = table.subspan(static_cast<std::size_t>(std::min<std::uint64_t>(at, table.size())));
      const auto raw = HT_TRY(next(rest, header.entries.offset + at, number));
      HT_TRY(add(raw));
      // What fills up the last entry need not be a part of the table.
      at += (raw.bytes.size() + entry_alignment - 1) / entry_alignment * entry_alignment;
    }
    return {};
  }

 private:
  /// One entry, with all of its bytes and where they begin in the file.
  struct Raw {
    Bytes bytes;
    std::uint64_t offset;
    std::uint64_t number;
  };

  [[nodiscard]] Result<Raw> next(Bytes rest, std::uint64_t offset, std::uint64_t number) const {
    const auto outside = [&](std::uint64_t size) {
      return fail(broken(ErrorCode::bad_header, "irpa_entries_are_in_their_table",
                         format_text("entry {} has {} bytes but only {} bytes of the entry table are left",
                                     number, size, rest.size()),
                         offset));
    };
    if (rest.size() < entry_header_bytes) return outside(entry_header_bytes);
    const auto kind = load_le<std::uint32_t>(rest.subspan(at_kind));
    const auto least = bytes_of_kind(kind);
    if (!least) {
      return fail(
          broken(ErrorCode::unsupported_encoding, "irpa_entry_kind_is_known",
                 format_text("entry {} has kind {} but only kinds 0 to 3 are supported", number, kind),
                 offset + at_kind)
              .with_hint("update htensor, or write the file again with IREE's exporter"));
    }
    const auto size = load_le<std::uint64_t>(rest.subspan(at_entry_size));
    if (size < *least) {
      return fail(
          broken(ErrorCode::bad_header, "irpa_entry_size_holds_its_kind",
                 format_text("entry {} has {} bytes but kind {} needs {}", number, size, kind, *least),
                 offset + at_entry_size));
    }
    if (size > rest.size()) return outside(size);
    return Raw{rest.first(static_cast<std::size_t>(size)), offset, number};
  }

  Result<void> add(const Raw& raw) {
    const auto name = HT_TRY(text(raw, at_name, "name"));
    const auto note = HT_TRY(text(raw, at_note, "metadata"));
    const Kind kind{load_le<std::uint32_t>(raw.bytes.subspan(at_kind))};
    if (kind == Kind::skip && name != metadata_name) return {};
    HT_TRY(use(raw, name.size()));
    HT_TRY(use(raw, note.size()));
    if (kind == Kind::skip) return read_metadata_text(note, raw.offset, builder_.metadata());
    if (!is_utf8(name)) {
      return fail(broken(ErrorCode::bad_utf8, "irpa_names_are_utf8",
                         format_text("name of entry {} is not valid UTF-8", raw.number),
                         raw.offset + at_name));
    }
    Entry entry{.name = name};
    if (kind == Kind::splat) HT_TRY(fill_splat(raw, entry));
    if (kind == Kind::data) HT_TRY(fill_data(raw, entry));
    if (kind == Kind::external) HT_TRY(fill_external(raw, entry));
    return add_described(entry, note);
  }

  [[nodiscard]] Result<std::string_view> text(const Raw& raw, std::size_t field,
                                              std::string_view what) const {
    const Range range = load_range(raw.bytes.subspan(field));
    if (range.length == 0) return std::string_view();
    const auto found = part(metadata_, range.offset, range.length);
    if (!found) {
      return fail(
          broken(ErrorCode::bad_offset, "irpa_names_are_in_the_metadata",
                 format_text("entry {}: {} of {} bytes at offset {} is outside the metadata of {} bytes",
                             raw.number, what, range.length, range.offset, metadata_.size()),
                 raw.offset + field));
    }
    return as_text(*found);
  }

  // What is kept has to stay in proportion to the file, and it would not where all entries name the same
  // bytes.

  Result<void> use(const Raw& raw, std::uint64_t bytes) {
    constexpr std::uint64_t always_allowed = 4096;
    metadata_used_ += bytes;
    if (metadata_used_ <= 2 * metadata_.size() + always_allowed) return {};
    return fail(
        broken(ErrorCode::overlap, "irpa_entries_share_little_metadata",
               format_text("entries 0 to {} use {} bytes of metadata but the archive has {}: too many "
                           "entries share the same bytes",
                           raw.number, metadata_used_, metadata_.size()),
               raw.offset));
  }

  Result<void> fill_splat(const Raw& raw, Entry& entry) const {
    const auto bytes = std::to_integer<std::size_t>(raw.bytes[at_pattern_length]);
    if (bytes > max_pattern_bytes || !std::has_single_bit(bytes)) {
      return fail(broken(ErrorCode::bad_header, "irpa_patterns_have_1_2_4_8_or_16_bytes",
                         format_text("tensor '{}': splat pattern has {} bytes, not 1, 2, 4, 8 or 16",
                                     entry.name, bytes),
                         raw.offset + at_pattern_length)
                      .at_tensor(entry.name));
    }
    entry.bytes = load_le<std::uint64_t>(raw.bytes.subspan(at_splat_length));
    if (entry.bytes % bytes != 0) {
      return fail(
          broken(ErrorCode::size_mismatch, "splat_bytes_are_multiple_of_pattern",
                 format_text("tensor '{}': {} bytes are not a multiple of its splat pattern of {} bytes",
                             entry.name, entry.bytes, bytes),
                 raw.offset + at_splat_length)
              .at_tensor(entry.name));
    }
    entry.splat = raw.bytes.subspan(at_pattern, bytes);
    return {};
  }

  Result<void> fill_data(const Raw& raw, Entry& entry) const {
    const Range data = load_range(raw.bytes.subspan(at_data));
    if (data.length == 0) return {};
    if (!checked::range_fits(data.offset, data.length, header_.storage.length)) {
      return fail(broken(ErrorCode::bad_offset, "irpa_data_is_in_the_storage",
                         format_text("tensor '{}': {} bytes at offset {} are outside the storage of {} bytes",
                                     entry.name, data.length, data.offset, header_.storage.length),
                         raw.offset + at_data)
                      .at_tensor(entry.name));
    }
    entry.offset = header_.storage.offset + data.offset;
    entry.bytes = data.length;
    return {};
  }

  Result<void> fill_external(const Raw& raw, Entry& entry) {
    const Range range = load_range(raw.bytes.subspan(at_external));
    if (!checked::add(range.offset, range.length)) {
      return fail(broken(ErrorCode::bad_offset, "irpa_external_ranges_end_in_64_bits",
                         format_text("tensor '{}': {} bytes at byte {} of an external file end beyond 2^64-1",
                                     entry.name, range.length, range.offset),
                         raw.offset + at_external)
                      .at_tensor(entry.name));
    }
    entry.file = HT_TRY(file_of(raw));
    entry.offset = range.offset;
    entry.bytes = range.length;
    return {};
  }

  Result<std::uint32_t> file_of(const Raw& raw) {
    const auto path = HT_TRY(text(raw, at_path, "path"));
    Range range = load_range(raw.bytes.subspan(at_path));
    range.offset += header_.metadata.offset;
    if (const auto known = file_at_.find(range); known != file_at_.end()) return known->second;
    HT_TRY(use(raw, path.size()));
    if (const auto fault = path_fault(path); !fault.empty()) {
      return fail(
          Error(ErrorCode::path_escapes, "irpa_external_paths_stay_inside",
                format_text("entry {}: the path of its external file, '{}', {}", raw.number, to_utf8(path),
                            fault))
              .at_offset(raw.offset + at_path)
              .with_hint("move the external files into the archive's folder and write the archive again"));
    }
    auto [named, is_new] = file_named_.try_emplace(path, 0U);
    if (is_new) named->second = HT_TRY(builder_.add_file(path));
    file_at_.emplace(range, named->second);
    return named->second;
  }

  const std::optional<Description>& described(std::string_view metadata, std::uint64_t bytes) {
    for (const auto& known : known_) {
      if (known.bytes == bytes && known.metadata == metadata) return known.description;
    }
    auto& known = known_[oldest_];
    oldest_ = (oldest_ + 1) % known_.size();
    known = {metadata, bytes, read_description(metadata, bytes, scratch_)};
    return known.description;
  }

  // Metadata that `describe` would not write again is kept word for word.

  Result<void> add_described(Entry& entry, std::string_view metadata) {
    const auto& description = described(metadata, entry.bytes);
    if (!description) {
      entry.note = metadata;
      return builder_.add(entry);
    }
    entry.dtype = description->dtype;
    entry.encoding = description->encoding;
    entry.dims = description->extents();
    if (!description->is_canonical && describe(entry) != metadata) entry.note = metadata;
    return builder_.add(entry);
  }

  CatalogBuilder& builder_;
  // Of the header that is read now.
  Header header_{};
  Bytes metadata_{};
  std::uint64_t metadata_used_ = 0;
  // Many entries lie in one file: its path is looked at once, and kept once.
  std::map<Range, std::uint32_t> file_at_;
  std::map<std::string_view, std::uint32_t> file_named_;
  json::Scratch scratch_;
  // A model has few shapes, so the next entry's metadata is often one of the last ones.
  struct Known {
    std::string_view metadata;
    std::uint64_t bytes = 0;
    std::optional<Description> description;
  };
  std::array<Known, 4> known_{};
  std::size_t oldest_ = 0;
};

// A part without bytes is nowhere.
Bytes seen_part(const Seen& seen, const Range& range) {
  return range.length == 0 ? Bytes() : seen.range(range.offset, range.length).value();
}

// Reserves memory in proportion to tables that are all there: each entry has bytes of its own in one, and
// names are about half of the metadata, as each has a description beside it.
Result<void> reserve(const std::vector<Header>& headers, CatalogBuilder& builder) {
  std::size_t entries = 0;
  std::size_t metadata_bytes = 0;
  for (const auto& header : headers) {
    entries += static_cast<std::size_t>(header.entry_count);
    metadata_bytes += static_cast<std::size_t>(header.metadata.length);
  }
  constexpr std::size_t usual_rank = 2;
  return builder.reserve(entries, metadata_bytes / 2, usual_rank * entries);
}

}  // namespace

bool looks_like(Bytes prefix, std::uint64_t /*file_bytes*/) { return begins_with(prefix, magic); }

Result<Parsed> parse(const Seen& seen, std::uint64_t file_bytes, const ParseOptions& options) {
  const auto found = HT_TRY(read_headers(seen, file_bytes, options));
  if (const auto* need = std::get_if<Need>(&found)) return *need;
  const auto& headers = std::get<std::vector<Header>>(found);
  // Entries are looked at when all tables are there, so that none is read twice.
  const auto tables = HT_TRY(tables_of(headers));
  if (const auto need = first_unseen(seen, tables)) return *need;
  CatalogBuilder builder("irpa");
  HT_TRY(reserve(headers, builder));
  EntryReader reader(builder);
  for (const auto& header : headers) {
    HT_TRY(reader.read(header, seen_part(seen, header.entries), seen_part(seen, header.metadata)));
  }
  return std::move(builder).build();
}

}  // namespace ht::inline v1::format_irpa
