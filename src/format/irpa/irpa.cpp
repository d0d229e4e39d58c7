#include "format/irpa/irpa.hpp"

#include "format/irpa/irpa_entries.hpp"
#include "format/irpa/irpa_headers.hpp"
#include "format/sniff.hpp"

namespace ht::inline v1::format_irpa {
namespace {

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
