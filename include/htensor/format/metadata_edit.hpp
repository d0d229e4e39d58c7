// Changes to metadata, with values as a person writes them.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/format/metadata.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ht::inline v1 {

/// What a value is, and, for an array, what its elements are.
struct ValueType {
  MetaType type = MetaType::string;
  MetaType element = MetaType::string;

  friend bool operator==(const ValueType&, const ValueType&) = default;
};

/// "u32", "string", … or "array:u32".
[[nodiscard]] std::optional<ValueType> value_type_named(std::string_view name) noexcept;

/// Whether the item is padding that an edit left in a header (`htensor.pad`, spaces only). It describes the
/// file's layout and not the model, so it is neither shown nor compared nor converted.
[[nodiscard]] bool is_padding(const Metadata::Item& item) noexcept;

/// Whether the item describes the layout of a file and not the model: padding, `general.alignment`,
/// `split.*`. GGUF defines these keys, and a conversion may carry them into another format.
[[nodiscard]] bool describes_layout(const Metadata::Item& item) noexcept;

struct MetadataEdit {
  std::string key;
  /// A number in digits, `true` or `false`, a string as it is, an array as a JSON list. Nothing: the key
  /// goes.
  std::optional<std::string> value{};
  /// Unless given, a key keeps the type that it has, and a new one is a string.
  std::optional<ValueType> type{};
};

/// The metadata after all edits, one after another: a key keeps its place, and a new one comes last.
/// `not_found` for one that is to go and is not there, `dtype_mismatch` for a value that is not of its type.
[[nodiscard]] Result<Metadata> edited(const Metadata& metadata, std::span<const MetadataEdit> edits);

}  // namespace ht::inline v1
