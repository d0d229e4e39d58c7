#include <htensor/dtype/relations.hpp>

#include <algorithm>
#include <array>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

template <class... Ds>
consteval auto infos_by_tag(DTypeList<Ds...>) {
  std::array infos{dtype_info<Ds>()...};
  std::ranges::sort(infos, {}, &DTypeInfo::tag);
  return infos;
}

constexpr auto infos = infos_by_tag(AllDTypes{});

// Tags are consecutive from 1, so every tag is unique and the next free one is known.
consteval bool tags_are_consecutive() {
  for (std::size_t i = 0; i < infos.size(); ++i) {
    if (static_cast<std::size_t>(infos[i].tag) != i + 1) return false;
  }
  return true;
}
static_assert(tags_are_consecutive());

template <class Matches>
std::optional<DTypeInfo> find_where(std::span<const DTypeInfo> users, Matches matches) noexcept {
  for (const auto& among : {std::span<const DTypeInfo>(infos), users}) {
    const auto found = std::ranges::find_if(among, matches);
    if (found != among.end()) return *found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<DTypeInfo> find_dtype(DTypeTag tag, std::span<const DTypeInfo> users) noexcept {
  return find_where(users, [tag](const DTypeInfo& info) { return info.tag == tag; });
}

std::optional<DTypeInfo> find_dtype(std::string_view name, std::span<const DTypeInfo> users) noexcept {
  return find_where(users, [name](const DTypeInfo& info) { return info.name == name; });
}

Error unknown_dtype(DTypeTag tag, SourceLine where) {
  const auto number = static_cast<int>(tag);
  Error error(ErrorCode::bad_dtype, "dtype_tag_is_known", format_text("dtype tag {} is unknown", number),
              where);
  if (number >= first_user_tag) {
    return std::move(error).with_hint(
        "open the file with a program that defines this user-defined dtype (tags from 192)");
  }
  return std::move(error).with_hint(number == 0 ? "write the file again: tag 0 marks an incomplete header"
                                                : "update htensor");
}

}  // namespace ht::inline v1
