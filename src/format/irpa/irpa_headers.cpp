#include "format/irpa/irpa_headers.hpp"

#include <algorithm>

#include "base/format_text.hpp"
#include "format/common.hpp"
#include "format/irpa/irpa.hpp"

namespace ht::inline v1::format_irpa {
namespace {

// Tables that lie this close are cheaper to read with what is between them than one by one.
constexpr std::uint64_t close_bytes = 4096;

Result<void> check_frame(Bytes header, std::uint64_t base) {
  if (!std::ranges::equal(header.first(magic.size()), bytes_of(magic))) {
    return fail(broken(ErrorCode::bad_magic, "irpa_headers_begin_with_the_magic",
                       format_text("IRPA header at byte {} does not start with the magic 'IRPA'", base),
                       base));
  }
  const auto major = load_le<std::uint16_t>(header.subspan(at_major));
  const auto minor = load_le<std::uint16_t>(header.subspan(at_minor));
  if (major != 0 || minor != 0) {
    return fail(
        broken(ErrorCode::bad_version, "irpa_version_is_0_0",
               format_text("IRPA version {}.{} is not supported; the supported version is 0.0", major, minor),
               base + at_major)
            .with_hint("update htensor, or write the file again with IREE's exporter"));
  }
  const auto size = load_le<std::uint64_t>(header.subspan(at_header_size));
  if (size != header_bytes) {
    return fail(broken(ErrorCode::bad_header, "irpa_header_size_is_88",
                       format_text("header size field is {} but must be {}", size, header_bytes),
                       base + at_header_size));
  }
  return {};
}

// A part of the archive, counted from the file's first byte.
Result<Range> segment(Bytes header, std::uint64_t base, std::size_t field, std::string_view what) {
  const Range relative = load_range(header.subspan(field));
  // As in IREE, nothing is nowhere: what its offset says does not count.
  if (relative.length == 0) return Range{};
  const auto begin = checked::add(base, relative.offset);
  if (!begin || !checked::add(*begin, relative.length)) {
    return fail(
        broken(ErrorCode::bad_offset, "irpa_segments_end_in_64_bits",
               format_text("{} of {} bytes at offset {} from the header at byte {} ends beyond 2^64-1", what,
                           relative.length, relative.offset, base),
               base + field));
  }
  return Range{*begin, relative.length};
}

Result<void> check_table(const Range& table, std::uint64_t file_bytes, std::string_view what) {
  if (checked::range_fits(table.offset, table.length, file_bytes)) return {};
  return fail(broken(ErrorCode::truncated, "irpa_tables_are_all_there",
                     format_text("{} ends at byte {} but the file has {} bytes", what,
                                 table.offset + table.length, file_bytes),
                     file_bytes));
}

Result<void> check_storage(const Range& storage, std::uint64_t file_bytes, bool headers_only) {
  if (headers_only || checked::range_fits(storage.offset, storage.length, file_bytes)) return {};
  return fail(broken(ErrorCode::truncated, "irpa_storage_is_all_there",
                     format_text("storage ends at byte {} but the file has {} bytes",
                                 storage.offset + storage.length, file_bytes),
                     file_bytes));
}

// Before the table is seen: a count that no table of its length can have.
Result<void> check_count(const Header& header, std::uint64_t base) {
  // All entries but the last are filled up to a multiple of 16.
  const std::uint64_t room =
      header.entries.length < entry_header_bytes ? 0 : (header.entries.length - entry_header_bytes) / 64 + 1;
  if (header.entry_count <= room) return {};
  return fail(
      broken(ErrorCode::bad_header, "irpa_entry_count_fits_the_table",
             format_text("header declares {} entries but its entry table of {} bytes holds at most {}",
                         header.entry_count, header.entries.length, room),
             base + at_entry_count));
}

Result<Header> read_header(Bytes bytes, std::uint64_t base, std::uint64_t file_bytes, bool headers_only) {
  HT_TRY(check_frame(bytes, base));
  Header header{.entry_count = load_le<std::uint64_t>(bytes.subspan(at_entry_count))};
  header.entries = HT_TRY(segment(bytes, base, at_entries, "entry table"));
  header.metadata = HT_TRY(segment(bytes, base, at_metadata, "metadata"));
  header.storage = HT_TRY(segment(bytes, base, at_storage, "storage"));
  HT_TRY(check_table(header.entries, file_bytes, "entry table"));
  HT_TRY(check_table(header.metadata, file_bytes, "metadata"));
  HT_TRY(check_storage(header.storage, file_bytes, headers_only));
  HT_TRY(check_count(header, base));
  return header;
}

// Counts what has to be read and refuses what is too much.
class ReadLimit {
 public:
  explicit ReadLimit(std::uint64_t limit) : limit_(limit == 0 ? default_max_header_bytes : limit) {}

  Result<void> count(const Header& header, std::uint64_t base) {
    for (const std::uint64_t bytes : {header_bytes, header.entries.length, header.metadata.length}) {
      const auto total = checked::add(read_, bytes);
      if (!total || *total > limit_) {
        return fail(
            Error(ErrorCode::header_too_large, "irpa_tables_fit_the_limit",
                  format_text("headers, entry tables and metadata exceed the limit of {} bytes", limit_))
                .at_offset(base)
                .with_hint("raise the limit with --max-header SIZE if you trust the file"));
      }
      read_ = *total;
    }
    return {};
  }

 private:
  std::uint64_t limit_;
  std::uint64_t read_ = 0;
};

// Where the next header is; nothing behind the last.
Result<std::optional<std::uint64_t>> next_header(Bytes bytes, std::uint64_t base, std::size_t headers) {
  const auto distance = load_le<std::uint64_t>(bytes.subspan(at_next_header));
  if (distance == 0) return std::nullopt;
  const auto next = checked::add(base, distance);
  if (!next) {
    return fail(broken(
        ErrorCode::bad_offset, "irpa_next_header_is_in_64_bits",
        format_text("next header, {} bytes after the header at byte {}, is beyond 2^64-1", distance, base),
        base + at_next_header));
  }
  if (headers == max_headers) {
    return fail(broken(ErrorCode::bad_header, "irpa_headers_are_at_most_256",
                       format_text("archive links more than {} headers", max_headers),
                       base + at_next_header));
  }
  return next;
}

}  // namespace

Result<std::variant<Need, std::vector<Header>>> read_headers(const Seen& seen, std::uint64_t file_bytes,
                                                             const ParseOptions& options) {
  std::vector<Header> headers;
  ReadLimit limit(options.max_header_bytes);
  // Each lies behind the one before it, so that there is no way round in a circle.
  std::optional<std::uint64_t> base = 0;
  while (base) {
    if (!checked::range_fits(*base, header_bytes, file_bytes)) {
      return fail(broken(ErrorCode::truncated, "irpa_headers_are_all_there",
                         format_text("header at byte {} needs {} bytes but the file has {} bytes", *base,
                                     header_bytes, file_bytes),
                         file_bytes));
    }
    const auto bytes = seen.range(*base, header_bytes);
    if (!bytes) return Need{*base, header_bytes};
    headers.push_back(HT_TRY(read_header(*bytes, *base, file_bytes, options.headers_only)));
    HT_TRY(limit.count(headers.back(), *base));
    base = HT_TRY(next_header(*bytes, *base, headers.size()));
  }
  return headers;
}

Result<std::vector<Range>> tables_of(const std::vector<Header>& headers) {
  std::vector<Range> tables;
  for (const auto& header : headers) {
    for (const auto& table : {header.entries, header.metadata}) {
      if (table.length != 0) tables.push_back(table);
    }
  }
  std::ranges::sort(tables);
  // Sharing is harmless within a header; but what is made of the tables has to stay in proportion to the
  // file.
  std::uint64_t named = 0;
  std::uint64_t covered = 0;
  std::uint64_t end = 0;
  for (const auto& table : tables) {
    named += table.length;
    const std::uint64_t table_end = table.offset + table.length;
    if (table_end > end) covered += table_end - std::max(end, table.offset);
    end = std::max(end, table_end);
  }
  if (named > 2 * covered) {
    return fail(broken(ErrorCode::overlap, "irpa_tables_share_few_bytes",
                       format_text("entry tables and metadata add up to {} bytes but cover only {}: too many "
                                   "headers share the same bytes",
                                   named, covered),
                       tables[0].offset));
  }
  return tables;
}

std::optional<Need> first_unseen(const Seen& seen, const std::vector<Range>& tables) {
  auto table = std::ranges::find_if_not(
      tables, [&](const Range& range) { return seen.range(range.offset, range.length).has_value(); });
  if (table == tables.end()) return std::nullopt;
  const std::uint64_t begin = table->offset;
  std::uint64_t end = begin + table->length;
  for (++table; table != tables.end() && table->offset - end <= close_bytes; ++table) {
    end = table->offset + table->length;
  }
  return Need{begin, end - begin};
}

}  // namespace ht::inline v1::format_irpa
