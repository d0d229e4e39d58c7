// The headers of an archive: what each says of where its parts lie, checked against the file.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/parse.hpp>
#include <optional>
#include <variant>
#include <vector>

#include "format/irpa/irpa_wire.hpp"

namespace ht::inline v1::format_irpa {

/// A header whose parts lie where they can. Offsets are from the file's first byte; a part without bytes is
/// at 0, whatever the header says.
struct Header {
  std::uint64_t entry_count = 0;
  Range entries{};
  Range metadata{};
  Range storage{};
};

/// All that are linked, in order, or what has to be seen of them.
[[nodiscard]] Result<std::variant<Need, std::vector<Header>>> read_headers(const Seen& seen,
                                                                           std::uint64_t file_bytes,
                                                                           const ParseOptions& options);

/// The entry tables and metadata of all headers, by where they lie. `overlap` where two share bytes: what is
/// read stays in proportion to the file only where each byte counts once.
[[nodiscard]] Result<std::vector<Range>> tables_of(const std::vector<Header>& headers);

/// What of these, sorted by where they lie, was not seen yet; those that lie close together are asked for at
/// once.
[[nodiscard]] std::optional<Need> first_unseen(const Seen& seen, const std::vector<Range>& tables);

}  // namespace ht::inline v1::format_irpa
