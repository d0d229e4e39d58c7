#include "model/read_catalog.hpp"

#include <algorithm>
#include <vector>

#include "base/format_text.hpp"

namespace ht::inline v1 {

// Headers are read and not looked at through the mapping: a file that shrinks meanwhile is an error
// here and would be a fatal signal there.
Result<Catalog> read_catalog(const io::Opened& file, Parser parser, const ParseOptions& options) {
  constexpr std::uint64_t first_read = 4096;
  const std::uint64_t file_bytes = file.stat().bytes;
  std::vector<std::byte> prefix;
  std::uint64_t wanted = std::min(first_read, file_bytes);
  while (true) {
    // Never more than the file has.
    prefix.resize(static_cast<std::size_t>(wanted));
    HT_TRY(file.read(0, prefix));
    auto parsed = HT_TRY(parser(prefix, file_bytes, options));
    if (auto* catalog = std::get_if<Catalog>(&parsed)) return std::move(*catalog);
    const std::uint64_t asked = std::get<Need>(parsed).bytes;
    if (asked <= wanted || asked > file_bytes) {
      return fail(ErrorCode::internal, "parser_asks_for_more_that_is_there",
                  format_text("a parser that saw {} of {} bytes asks for {}", wanted, file_bytes, asked));
    }
    wanted = asked;
  }
}

}  // namespace ht::inline v1
