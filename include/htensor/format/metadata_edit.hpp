// Changes to metadata, with values as text.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/format/metadata.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ht::inline v1 {

/// The type of a value and, for an array, of its elements.
struct ValueType {
  MetaType type = MetaType::string;
  MetaType element = MetaType::string;

  friend bool operator==(const ValueType&, const ValueType&) = default;
};

/// "u32", "string", … or "array:u32".
[[nodiscard]] std::optional<ValueType> value_type_named(std::string_view name) noexcept;

/// Whether the item is padding that an edit left in a header (`htensor.pad`, spaces only). It describes the
/// file's layout and not the model, so it is not shown, compared or converted.
[[nodiscard]] bool is_padding(const Metadata::Item& item) noexcept;

/// Whether the item describes the layout of a file and not the model: padding, `general.alignment`,
/// `split.*`. GGUF defines these keys, and a conversion may carry them into another format.
[[nodiscard]] bool describes_layout(const Metadata::Item& item) noexcept;

struct MetadataEdit {
  std::string key;
  /// A number in digits, `true` or `false`, a plain string, or an array as a JSON list. nullopt removes the
  /// key.
  std::optional<std::string> value{};
  /// If nullopt, an existing key keeps its type and a new key is a string.
  std::optional<ValueType> type{};
};

/// Returns the metadata after all edits, applied in order. An existing key keeps its position; a new key is
/// appended. `not_found` for a key to remove that does not exist, `dtype_mismatch` for a value that does not
/// match its type.
[[nodiscard]] Result<Metadata> edited(const Metadata& metadata, std::span<const MetadataEdit> edits);

}  // namespace ht::inline v1
