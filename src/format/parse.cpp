#include <htensor/format/parse.hpp>

#include <algorithm>
#include <array>
#include <htensor/format/ht.hpp>

namespace ht::inline v1 {
namespace {

struct Format {
  std::string_view magic;
  Result<Parsed> (*parse)(Bytes, std::uint64_t, const ParseOptions&);
};

// A format is registered by its line here.
constexpr std::array formats{
    Format{format_ht::magic, format_ht::parse},
};

constexpr std::uint64_t sniffed_bytes = 8;

bool starts_with(Bytes bytes, std::string_view magic) {
  // A file that ends within a magic is a truncated file of that format.
  const auto seen = std::min(bytes.size(), magic.size());
  return seen > 0 && std::ranges::equal(bytes.first(seen), bytes_of(magic).first(seen));
}

}  // namespace

Result<Parsed> parse(Bytes prefix, std::uint64_t file_bytes, const ParseOptions& options) {
  if (file_bytes == 0) {
    return fail(Error(ErrorCode::bad_magic, "file_is_not_empty", "is empty")
                    .at_offset(0)
                    .with_hint("the download or copy did not start: fetch it again"));
  }
  const auto wanted = std::min(sniffed_bytes, file_bytes);
  if (prefix.size() < wanted) return Need{wanted};
  for (const auto& format : formats) {
    if (starts_with(prefix, format.magic)) return format.parse(prefix, file_bytes, options);
  }
  return fail(Error(ErrorCode::bad_magic, "format_is_known", "is of no format that is known here")
                  .at_offset(0)
                  .with_hint("known formats: ht"));
}

}  // namespace ht::inline v1
