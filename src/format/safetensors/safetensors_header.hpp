// The members of a JSON header, before their sizes and offsets are checked.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/format/format.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "format/catalog/packed_text.hpp"

namespace ht::inline v1::format_safetensors {

inline constexpr std::uint64_t length_bytes = sizeof(std::uint64_t);
inline constexpr std::string_view metadata_key = "__metadata__";

/// All dtypes of the library but the 4-bit integers, which safetensors does not have.
[[nodiscard]] inline bool is_safetensors_dtype(DTypeTag tag) noexcept {
  return tag != I4::tag && tag != U4::tag;
}

/// A dtype of safetensors, or one of `user_dtypes`.
[[nodiscard]] inline std::optional<DTypeInfo> dtype_named(std::string_view name,
                                                          std::span<const DTypeInfo> user_dtypes) {
  const auto found = find_dtype(name, user_dtypes);
  if (!found || !is_safetensors_dtype(found->tag)) return std::nullopt;
  return found;
}

/// Whether a tensor ends at a byte boundary. Eight elements of any width do, so only the element count modulo
/// 8 matters. The element count must not overflow.
[[nodiscard]] inline bool fills_whole_bytes(std::span<const std::int64_t> dims, int bits) noexcept {
  const auto elements = static_cast<std::uint64_t>(element_count(dims).value_or(0));
  return elements % 8 * static_cast<std::uint64_t>(bits) % 8 == 0;
}

/// The first number of a member in `PackedText`: its kind, and the length of its name or key. A member has
/// these numbers and texts; [name] and [key] exist only if `is_in_text` is false:
///
///   tensor:   tag, offset of the name in the text, [name], each dim + 1, end_of_dims, number of the dtype,
///             begin and end of the data
///   metadata: tag, offset of the key in the text, [key], length of the value, value
struct MemberTag {
  bool is_metadata = false;
  /// Whether the header spells the name without escapes.
  bool is_in_text = false;
  std::size_t name_bytes = 0;

  [[nodiscard]] static MemberTag of(std::uint64_t number) noexcept {
    return {(number & 1) != 0, (number & 2) != 0, static_cast<std::size_t>(number / 4)};
  }
  [[nodiscard]] std::uint64_t number() const noexcept {
    return name_bytes * 4 + (is_in_text ? 2U : 0U) + (is_metadata ? 1U : 0U);
  }
};
inline constexpr std::uint64_t end_of_dims = 0;

/// The members of a header in order, and the totals for reserving memory.
struct HeaderMembers {
  PackedText packed;
  std::vector<DTypeInfo> dtypes;  // the dtypes of the tensors, each once
  std::size_t tensors = 0;
  std::size_t name_bytes = 0;
  std::size_t dims = 0;
  std::size_t values = 0;
  std::size_t key_bytes = 0;
  std::size_t value_bytes = 0;
};

/// The name of a tensor or the key of metadata, and its offset in the text. If the name has escapes, the
/// offset is a position of the parser after the name, and only Errors use it, as their place.
struct MemberName {
  std::string_view name;
  std::uint64_t at = 0;
  bool is_in_text = false;  // as in MemberTag
};

/// Packs members one after another.
class HeaderPacker {
 public:
  HeaderPacker(std::size_t text_bytes, std::span<const DTypeInfo> user_dtypes)
      : packer_(text_bytes), user_dtypes_(user_dtypes) {}

  void metadata(const MemberName& key, std::string_view text) {
    begin(key, true);
    packer_.number(text.size());
    packer_.text(text);
    ++members_.values;
    members_.key_bytes += key.name.size();
    members_.value_bytes += Metadata::bytes_of_text(text);
  }

  // A tensor: its name, then its dims, then the rest.
  void begin_tensor(const MemberName& name) {
    begin(name, false);
    ++members_.tensors;
    members_.name_bytes += name.name.size();
  }
  void dim(std::uint64_t size) {
    ++members_.dims;
    packer_.number(size + 1);
  }
  void end_dims() { packer_.number(end_of_dims); }
  void end_tensor(std::size_t dtype, const std::array<std::uint64_t, 2>& offsets) {
    packer_.number(dtype);
    for (const auto offset : offsets) packer_.number(offset);
  }

  /// The number of a dtype in `HeaderMembers::dtypes`; nullopt for an unknown one.
  [[nodiscard]] std::optional<std::size_t> number_of_dtype(std::string_view name) {
    auto& known = members_.dtypes;
    const auto found = std::ranges::find(known, name, &DTypeInfo::name);
    if (found != known.end()) return static_cast<std::size_t>(found - known.begin());
    const auto dtype = dtype_named(name, user_dtypes_);
    if (!dtype) return std::nullopt;
    known.push_back(*dtype);
    return known.size() - 1;
  }

  [[nodiscard]] HeaderMembers finish() && {
    members_.packed = std::move(packer_).finish();
    return std::move(members_);
  }

 private:
  void begin(const MemberName& name, bool is_metadata) {
    packer_.number(MemberTag{is_metadata, name.is_in_text, name.name.size()}.number());
    packer_.number(name.at);
    if (!name.is_in_text) packer_.text(name.name);
  }

  Packer packer_;
  std::span<const DTypeInfo> user_dtypes_;
  HeaderMembers members_;
};

/// The members of a header. Checks that every value has the right type and that every tensor has a dtype, a
/// shape and offsets. `bytes_after` are the bytes directly after the text.
[[nodiscard]] Result<HeaderMembers> read_header(Bytes text, Bytes bytes_after, const ParseOptions& options);

/// The same with the JSON parser only. `read_header` reads the spelling of the safetensors library directly,
/// and all other texts with this function.
[[nodiscard]] Result<HeaderMembers> read_json_header(Bytes text, Bytes bytes_after,
                                                     const ParseOptions& options);

/// The members of a header in the spelling of the safetensors library: no white space except after the
/// object, and strings in ASCII without escapes. nullopt for any other text, valid or not.
[[nodiscard]] std::optional<HeaderMembers> read_plain_header(std::string_view text,
                                                             const ParseOptions& options);

}  // namespace ht::inline v1::format_safetensors
