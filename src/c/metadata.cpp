#include "c/metadata.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "c/boundary/handles.hpp"

namespace ht::c {
namespace {

// Calls `use(T{})`, where T is the C type of a number of the MetaType; the argument only states T. Does not
// call `use` for strings and arrays, which are structs in C.
template <class Use>
void with_item_type(MetaType type, const Use& use) {
  switch (type) {
    case MetaType::u8:
    case MetaType::boolean: return use(std::uint8_t{});
    case MetaType::i8: return use(std::int8_t{});
    case MetaType::u16: return use(std::uint16_t{});
    case MetaType::i16: return use(std::int16_t{});
    case MetaType::u32: return use(std::uint32_t{});
    case MetaType::i32: return use(std::int32_t{});
    case MetaType::f32: return use(float{});
    case MetaType::u64: return use(std::uint64_t{});
    case MetaType::i64: return use(std::int64_t{});
    case MetaType::f64: return use(double{});
    case MetaType::string:
    case MetaType::array: return;
  }
}

const void* copy_items(const MetaValue::Array& array, Memory& memory) {  // NOLINT(misc-no-recursion)
  const auto count = static_cast<std::size_t>(array.size());
  if (array.element_type() == MetaType::string) {
    auto* const items = memory.array<ht_string>(count);
    std::size_t i = 0;
    for (const MetaValue& text : array) items[i++] = memory.text(text.text().value_or(""));
    return items;
  }
  if (array.element_type() == MetaType::array) {
    auto* const items = memory.array<ht_value>(count);
    std::size_t i = 0;
    for (const MetaValue& value : array) items[i++] = to_c(value, memory);
    return items;
  }
  const void* copy = nullptr;
  with_item_type(array.element_type(), [&]<class T>(T) {
    auto* const items = memory.array<T>(count);
    std::size_t i = 0;
    const bool is_flag = array.element_type() == MetaType::boolean;
    for (const MetaValue& value : array)
      items[i++] = is_flag ? static_cast<T>(value.boolean().value_or(false)) : load_le<T>(value.bytes());
    copy = items;
  });
  return copy;
}

template <class Number>
std::string digits_of(Number number) {
  std::array<char, 32> digits{};  // the longest is that of a double: 24 characters
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

// Appends the stored form of an ht_value.
class ValueWriter {
 public:
  explicit ValueWriter(std::vector<std::byte>& into) noexcept : into_(into) {}

  Result<void> value(const ht_value& value) {  // NOLINT(misc-no-recursion)
    HT_TRY(check_choice(value.type, HT_VALUE_F64, "type"));
    const auto type = static_cast<MetaType>(value.type);
    if (type == MetaType::string) return text(value.as.text);
    if (type == MetaType::array) return array(value);
    Result<void> done;
    with_item_type(type, [&]<class T>(T) { done = scalar<T>(value); });
    return done;
  }

 private:
  template <class T>
  void number(T value) {
    std::array<std::byte, sizeof(T)> bytes{};
    store_le(MutableBytes(bytes), value);
    into_.insert(into_.end(), bytes.begin(), bytes.end());
  }

  template <class T>
  Result<void> scalar(const ht_value& value) {
    if constexpr (std::is_floating_point_v<T>) {
      const auto stored = static_cast<T>(value.as.f64);
      if (std::isinf(stored) && !std::isinf(value.as.f64))
        return outside<double>(value.as.f64, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max());
      number(stored);
      return {};
    } else if constexpr (std::is_signed_v<T>) {
      return integer<T>(value.as.i64, INT64_C(0) + std::numeric_limits<T>::max());
    } else {
      const std::uint64_t max = value.type == HT_VALUE_BOOL ? 1 : std::numeric_limits<T>::max();
      return integer<T>(value.as.u64, max);
    }
  }

  template <class T, class Wide>
  Result<void> integer(Wide value, Wide max) {
    constexpr Wide min = Wide{0} + std::numeric_limits<T>::min();
    if (value > max || value < min) return outside(value, min, max);
    number(static_cast<T>(value));
    return {};
  }

  template <class Number>
  static Result<void> outside(Number value, Number min, Number max) {
    return fail(
        ErrorCode::dtype_mismatch, "number_fits_its_type",
        "number " + digits_of(value) + " is outside the range " + digits_of(min) + " to " + digits_of(max));
  }

  Result<void> text(const ht_string& text) {
    const auto view = text_of(text);
    number(static_cast<std::uint64_t>(view.size()));
    const auto bytes = bytes_of(view);
    into_.insert(into_.end(), bytes.begin(), bytes.end());
    return {};
  }

  Result<void> array(const ht_value& array) {  // NOLINT(misc-no-recursion)
    constexpr int max_depth = 8;               // the limit of the GGUF parser
    if (depth_ > max_depth) {
      return fail(ErrorCode::bad_state, "arrays_are_nested_at_most_8_deep",
                  "array is nested more than 8 levels deep");
    }
    HT_TRY(check_choice(array.item_type, HT_VALUE_F64, "item_type"));
    HT_TRY(require(array.as.items != nullptr || array.count == 0, "items"));
    const auto type = static_cast<MetaType>(array.item_type);
    number(static_cast<std::uint32_t>(type));
    number(array.count);
    const auto count = static_cast<std::size_t>(array.count);
    if (type == MetaType::string) {
      const auto* const items = static_cast<const ht_string*>(array.as.items);
      for (std::size_t i = 0; i < count; ++i) HT_TRY(text(items[i]));
    } else if (type == MetaType::array) {
      const auto* const items = static_cast<const ht_value*>(array.as.items);
      for (std::size_t i = 0; i < count; ++i) {
        if (items[i].type != HT_VALUE_ARRAY) {
          return fail(ErrorCode::dtype_mismatch, "items_have_the_type_of_their_array",
                      "item " + std::to_string(i) + " of an array of arrays is not an array");
        }
        ++depth_;
        HT_TRY(this->array(items[i]));
        --depth_;
      }
    } else {
      with_item_type(type, [&]<class T>(T) {
        const auto* const items = static_cast<const T*>(array.as.items);
        for (std::size_t i = 0; i < count; ++i)
          number(type == MetaType::boolean ? static_cast<T>(items[i] != T{}) : items[i]);
      });
    }
    return {};
  }

  std::vector<std::byte>& into_;
  int depth_ = 1;
};

// Returns the metadata index of the item that the C API lists at `index`: the padding is skipped.
std::size_t metadata_index_of(const ht_model& model, std::size_t index) noexcept {
  return index >= model.padding ? index + 1 : index;
}

Result<const ht_metadata_item*> item_at(const ht_model& model, std::size_t index) {
  const auto& metadata = model.model.catalog().metadata();
  const std::lock_guard lock(model.mutex);
  if (model.items.empty()) model.items.resize(metadata.size());
  auto& cached = model.items[index];
  if (cached == nullptr) {
    const auto stored = metadata[index];
    auto item = std::make_unique<ht_model::Item>();
    item->item.key = item->memory.text(stored.key);
    item->item.value = to_c(stored.value, item->memory);
    cached = std::move(item);
  }
  return &cached->item;
}

}  // namespace

ht_value to_c(const MetaValue& value, Memory& memory) {  // NOLINT(misc-no-recursion)
  ht_value c{
      .type = static_cast<ht_value_type>(value.type()), .item_type = HT_VALUE_U8, .count = 0, .as = {}};
  if (const auto text = value.text()) {
    c.as.text = memory.text(*text);
  } else if (const auto array = value.array()) {
    c.item_type = static_cast<ht_value_type>(array->element_type());
    c.count = array->size();
    c.as.items = copy_items(*array, memory);
  } else if (const auto flag = value.boolean()) {
    c.as.u64 = *flag ? 1 : 0;
  } else if (const auto real = value.real()) {
    c.as.f64 = *real;
  } else if (const auto natural = value.unsigned_integer()) {
    c.as.u64 = *natural;  // also for a signed number: `i64` has the same bits
  } else {
    c.as.i64 = value.integer().value_or(0);
  }
  return c;
}

Result<std::vector<std::byte>> stored_form(const ht_value& value) {
  std::vector<std::byte> bytes;
  HT_TRY(ValueWriter(bytes).value(value));
  return bytes;
}

}  // namespace ht::c

using ht::Result;
using ht::c::call;
using ht::c::require;

ht_model::ht_model(const ht::Model& opened) : model(opened) {
  const auto& metadata = model.catalog().metadata();
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    if (is_padding(metadata[i])) padding = i;
  }
}

size_t ht_model_metadata_count(const ht_model* model) {
  if (model == nullptr) return 0;
  return model->model.catalog().metadata().size() - (model->padding == SIZE_MAX ? 0 : 1);
}

ht_status ht_model_metadata_at(const ht_model* model, size_t index, const ht_metadata_item** item,
                               ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    HT_TRY(require(item != nullptr, "item"));
    HT_TRY(ht::c::check_position(index, ht_model_metadata_count(model), "keys of the metadata"));
    *item = HT_TRY(ht::c::item_at(*model, ht::c::metadata_index_of(*model, index)));
    return {};
  });
}

ht_status ht_model_metadata_get(const ht_model* model, const char* key, size_t key_size,
                                const ht_metadata_item** item, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    HT_TRY(require(item != nullptr, "item"));
    const auto text = HT_TRY(ht::c::text_of(key, key_size, "key"));
    const auto index = model->model.catalog().metadata().index_of(text);
    if (!index || *index == model->padding) {
      return fail(ht::Error(ht::ErrorCode::not_found, "metadata_has_the_key",
                            "the metadata has no key '" + std::string(text) + "'"));
    }
    *item = HT_TRY(ht::c::item_at(*model, *index));
    return {};
  });
}
