#include "format/shards/numbered_name.hpp"

#include <array>
#include <charconv>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

constexpr std::size_t digits = 5;

std::optional<std::uint32_t> five_digits(std::string_view text) {
  std::uint32_t number = 0;
  const char* const begin = text.data();
  const auto [after, error] = std::from_chars(begin, begin + text.size(), number);
  if (text.size() != digits || error != std::errc() || after != begin + text.size()) return std::nullopt;
  return number;
}

struct SplitKey {
  std::string_view name;
  MetaType type;
};

constexpr std::array split_keys{SplitKey{"split.no", MetaType::u16}, SplitKey{"split.count", MetaType::u16},
                                SplitKey{"split.tensors.count", MetaType::i32}};

Result<void> check_keys(const Catalog& catalog) {
  constexpr std::string_view hint = "download the file again, or split the model again with llama-gguf-split";
  for (const auto& [name, type] : split_keys) {
    const auto value = catalog.metadata().find(name);
    if (!value) {
      return fail(Error(ErrorCode::bad_header, "split_keys_exist",
                        format_text("is a part of a split model but has no key '{}'", name))
                      .with_hint(hint));
    }
    if (value->type() != type) {
      return fail(Error(ErrorCode::bad_header, "split_keys_have_their_types",
                        format_text("the key '{}' is of type {} instead of {}", name,
                                    to_string(value->type()), to_string(type)))
                      .with_hint(hint));
    }
  }
  return {};
}

}  // namespace

std::string NumberedName::name_of_part(std::uint32_t part) const {
  return fmt::format("{}-{:05}-of-{:05}{}", stem, part, count, extension);
}

std::vector<std::string> NumberedName::names() const {
  std::vector<std::string> all;
  all.reserve(count);
  for (std::uint32_t i = 1; i <= count; ++i) all.push_back(name_of_part(i));
  return all;
}

std::optional<NumberedName> parse_numbered_name(std::string_view file_name) {
  const auto dot = file_name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto name = file_name.substr(0, dot);
  constexpr std::string_view between = "-of-";
  constexpr std::size_t tail = 1 + digits + between.size() + digits;
  if (name.size() <= tail) return std::nullopt;
  const auto numbers = name.substr(name.size() - tail);
  const auto number = five_digits(numbers.substr(1, digits));
  const auto count = five_digits(numbers.substr(tail - digits));
  if (numbers[0] != '-' || numbers.substr(1 + digits, between.size()) != between || !number || !count)
    return std::nullopt;
  if (*number == 0 || *number > *count) return std::nullopt;
  return NumberedName{std::string(name.substr(0, name.size() - tail)), *number, *count,
                      std::string(file_name.substr(dot))};
}

std::optional<SplitInfo> split_info(const Catalog& catalog) {
  const auto number = [&](std::string_view key) -> std::optional<std::uint64_t> {
    const auto value = catalog.metadata().find(key);
    return value ? value->unsigned_integer() : std::nullopt;
  };
  const auto part = number("split.no");
  const auto count = number("split.count");
  if (!part || !count || *count < 2) return std::nullopt;
  return SplitInfo{*part, *count, number("split.tensors.count")};
}

Result<std::optional<SplitInfo>> checked_split_info(const Catalog& catalog, const Format* format,
                                                    std::string_view file_name) {
  if (format == nullptr || format->sharding != Format::Sharding::parts) return std::nullopt;
  const auto name = parse_numbered_name(file_name);
  const bool is_named_as_part = name && name->count > 1;
  const auto count = catalog.metadata().find("split.count");
  const std::uint64_t parts = count ? count->unsigned_integer().value_or(0) : 0;
  if (!is_named_as_part && parts < 2) return std::nullopt;
  HT_TRY(check_keys(catalog));
  const std::uint64_t number = *catalog.metadata().find("split.no")->unsigned_integer();
  if (!name || name->count != parts || name->number != number + 1) {
    return fail(Error(ErrorCode::missing_shard, "split_part_is_named_by_its_number",
                      format_text("is part {} of {} by its keys, but not by its name", number + 1, parts))
                    .with_hint(format_text(
                        "name the file NAME-{:05}-of-{:05}{}, and rename the other parts in the same way",
                        number + 1, parts, format->extension)));
  }
  return split_info(catalog);
}

Result<Metadata> metadata_of_part(Format::Sharding sharding, const Metadata& all, const SplitInfo& info) {
  if (sharding != Format::Sharding::parts) return all;
  Metadata metadata;
  if (info.number == 0) {
    // The model may still have the keys of an earlier split.
    for (const auto& [key, value] : all) {
      if (!key.starts_with(split_prefix)) HT_TRY(metadata.add(key, value));
    }
  }
  HT_TRY(metadata.add("split.no", static_cast<std::uint16_t>(info.number)));
  HT_TRY(metadata.add("split.count", static_cast<std::uint16_t>(info.count)));
  HT_TRY(metadata.add("split.tensors.count", static_cast<std::int32_t>(info.tensors.value_or(0))));
  HT_TRY(metadata.index());
  return metadata;
}

}  // namespace ht::inline v1
