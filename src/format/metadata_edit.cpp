#include <htensor/format/metadata_edit.hpp>

#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <vector>

#include "base/format_text.hpp"
#include "format/gguf/gguf.hpp"
#include "format/shards/split_info.hpp"
#include "format/value_text.hpp"

namespace ht::inline v1 {
namespace {

std::optional<MetaType> type_named(std::string_view name) noexcept {
  for (std::uint32_t i = 0; i < meta_type_count; ++i) {
    const auto type = static_cast<MetaType>(i);
    if (type != MetaType::array && to_string(type) == name) return type;
  }
  return std::nullopt;
}

ValueType type_of(const MetaValue& value) noexcept {
  const auto array = value.array();
  return {value.type(), array ? array->element_type() : MetaType::string};
}

// All values, with those that are made here kept beside the old ones.
class Editing {
 public:
  explicit Editing(const Metadata& metadata) {
    items_.reserve(metadata.size());
    for (const auto& item : metadata) items_.push_back({item, {}});
  }

  Result<void> edit(const MetadataEdit& edit) {
    const auto found = std::ranges::find(items_, edit.key, [](const Slot& slot) { return slot.item.key; });
    const bool is_there = found != items_.end();
    if (!edit.value) {
      if (!is_there) {
        return fail(Error(ErrorCode::not_found, "key_is_there",
                          format_text("the metadata has no key '{}'", to_utf8(edit.key)))
                        .with_hint("list the keys: htensor meta FILE"));
      }
      items_.erase(found);
      return {};
    }
    const ValueType type = edit.type ? *edit.type : is_there ? type_of(found->item.value) : ValueType{};
    auto bytes = value_of_text(*edit.value, type);
    if (!bytes) return fail(std::move(bytes).error());
    // A vector that is moved keeps its bytes where they are, and so do the views of them.
    const MetaValue value(type.type, *bytes);
    if (is_there) {
      found->item.value = value;
      found->bytes = *std::move(bytes);
    } else {
      items_.push_back({{edit.key, value}, *std::move(bytes)});
    }
    return {};
  }

  [[nodiscard]] Result<Metadata> finish() const {
    Metadata metadata;
    std::size_t key_bytes = 0;
    std::size_t value_bytes = 0;
    for (const auto& [item, bytes] : items_) {
      key_bytes += item.key.size();
      value_bytes += item.value.bytes().size();
    }
    HT_TRY(metadata.reserve(items_.size(), key_bytes, value_bytes));
    for (const auto& [item, bytes] : items_) HT_TRY(metadata.add(item.key, item.value));
    HT_TRY(metadata.index());
    return metadata;
  }

 private:
  struct Slot {
    Metadata::Item item;
    std::vector<std::byte> bytes;  // of a new value
  };
  std::vector<Slot> items_;
};

}  // namespace

std::optional<ValueType> value_type_named(std::string_view name) noexcept {
  constexpr std::string_view array = "array:";
  const bool is_array = name.starts_with(array);
  const auto type = type_named(is_array ? name.substr(array.size()) : name);
  if (!type) return std::nullopt;
  return is_array ? ValueType{MetaType::array, *type} : ValueType{*type};
}

bool is_padding(const Metadata::Item& item) noexcept {
  if (item.key != format_gguf::pad_key) return false;
  const auto text = item.value.text();
  return text && text->find_first_not_of(' ') == std::string_view::npos;
}

bool describes_layout(const Metadata::Item& item) noexcept {
  return item.key == format_gguf::alignment_key || item.key.starts_with(split_prefix) || is_padding(item);
}

Result<Metadata> edited(const Metadata& metadata, std::span<const MetadataEdit> edits) {
  return without_bad_alloc([&]() -> Result<Metadata> {
    Editing editing(metadata);
    for (const auto& edit : edits) HT_TRY(editing.edit(edit));
    return editing.finish();
  });
}

}  // namespace ht::inline v1
