#include <algorithm>
#include <array>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/relations.hpp>
#include <memory>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "convert/plan/target_catalog.hpp"
#include "format/irpa/irpa.hpp"
#include "model/relayout.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1 {
namespace {

ElementType type_of(const DTypeInfo& dtype) {
  return {.dtype = dtype.tag, .name = dtype.name, .bits = dtype.bits};
}

ElementType type_of(const Encoding& encoding) { return detail::element_type_of(encoding); }

// Unknown for user dtypes.
ElementType type_of(const Entry& entry) {
  if (const auto encoding = find_encoding(entry.encoding)) return type_of(*encoding);
  if (const auto dtype = find_dtype(entry.dtype)) return type_of(*dtype);
  return {};
}

bool is_floating(const ElementType& type) {
  return type.is_dense() && visit_dtype(type.dtype, []<class D>(D) { return IsFloating<D>; }).value_or(false);
}

Result<ElementType> type_named(const std::string& name) {
  if (const auto dtype = find_dtype(name)) return type_of(*dtype);
  if (const auto encoding = find_encoding(name)) {
    // If an encoding has an encoder, F32 can be converted to it.
    if (values::can_convert(type_of(dtype_info<F32>()), type_of(*encoding))) return type_of(*encoding);
    return fail(Error(ErrorCode::unsupported_encoding, "encoding_has_an_encoder",
                      format_text("values cannot be encoded as {}", name))
                    .with_hint("use Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, MXFP4, Q4_K, Q5_K or Q6_K"));
  }
  return fail(Error(ErrorCode::bad_dtype, "type_exists",
                    format_text("'{}' is not a dtype or block encoding", to_utf8(name)))
                  .with_hint("use a name of docs/dtypes.md such as BF16 or Q8_0"));
}

Result<ElementType> decoded_type(const std::string& name) {
  if (const auto dtype = find_dtype(name)) return type_of(*dtype);
  return fail(Error(ErrorCode::bad_dtype, "dequantize_names_a_dtype",
                    format_text("blocks cannot be decoded to '{}', which is not a dtype", to_utf8(name)))
                  .with_hint("use F32, F16 or BF16"));
}

// Whether the pattern has no wildcard: a backslash escapes the character after it.
bool is_exact_pattern(std::string_view pattern) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (std::string_view("*?[{").find(pattern[i]) != std::string_view::npos) {
      return false;
    }
  }
  return true;
}

struct Rule {
  const ConvertOptions::TypeRule* given = nullptr;
  NameFilter filter;
  ElementType type;
  bool is_exact = false;  // no wildcard
  bool is_used = false;
};

// Whether a rule with a wildcard applies to the tensor.
bool applies_by_wildcard(const TargetTensor& tensor, const ElementType& from, const ElementType& to) {
  if (!values::can_convert(from, to)) return false;
  const Entry& entry = tensor.entry;
  if (to.is_block_encoded()) {
    const std::string_view name = entry.name;
    return is_floating(from) && !entry.is_splat() && entry.dims.size() >= 2 &&
           entry.dims.back() % to.block_elements == 0 && name.find("norm") == std::string_view::npos &&
           !name.ends_with(".bias");
  }
  if (is_floating(to)) return from.is_block_encoded() || is_floating(from);
  return from.is_dense();
}

Error not_convertible(const TargetTensor& tensor, const ElementType& from, const ElementType& to) {
  return Error(ErrorCode::unsupported_encoding, "values_can_be_converted",
               format_text("tensor '{}': {} cannot be converted to {}", to_utf8(tensor.name),
                           from.is_known() ? format_text("{} values", from.name) : "values of unknown dtype",
                           to.name))
      .at_tensor(tensor.name)
      .with_hint("leave the tensor out of --cast and --quantize");
}

// Converts the one element that the splat repeats.
Result<void> change_splat(TargetTensor& tensor, const ElementType& from, const ElementType& to,
                          const Rounding& rounding) {
  const auto element = splat_element(tensor.entry.splat, from.bits);
  if (element.empty() || !to.is_dense() || from.bits % 8 != 0 || to.bits % 8 != 0)
    return fail(not_convertible(tensor, from, to));
  auto pattern = std::make_shared<std::array<std::byte, 16>>();
  values::convert_values({.from = from, .to = to, .rounding = rounding}, element.data(), pattern->data(), 1);
  tensor.entry.splat = Bytes(*pattern).first(static_cast<std::size_t>(to.bits / 8));
  tensor.pattern = std::move(pattern);
  return {};
}

Result<void> change_type(TargetTensor& tensor, const ElementType& to, const Rounding& rounding) {
  Entry& entry = tensor.entry;
  const ElementType from = type_of(entry);
  // Only values from a file can be converted. An empty tensor has no values, so it may be in memory.
  const bool is_in_memory = tensor.memory && !tensor.memory->empty();
  if (!values::can_convert(from, to) || is_in_memory) return fail(not_convertible(tensor, from, to));
  const auto elements = element_count(entry.dims).value_or(0);
  const std::int64_t row = entry.dims.empty() ? 1 : entry.dims.back();
  if (row % to.block_elements != 0) {
    return fail(
        Error(ErrorCode::bad_shape, "rows_are_whole_blocks",
              format_text("tensor '{}' [{}]: rows are not a whole number of {} blocks of {} elements",
                          to_utf8(tensor.name), fmt::join(entry.dims, ", "), to.name, to.block_elements))
            .at_tensor(tensor.name)
            .with_hint("leave the tensor out of --quantize"));
  }
  const auto bytes = to.is_block_encoded() ? block_bytes(entry.dims, *find_encoding(to.encoding))
                                           : dense_bytes(entry.dims, to.bits);
  if (!bytes) {
    return fail(Error(ErrorCode::size_overflow, "changed_size_fits_63_bits",
                      format_text("tensor '{}', {} [{}]: size exceeds 2^63-1 bytes", to_utf8(tensor.name),
                                  to.name, fmt::join(entry.dims, ", ")))
                    .at_tensor(tensor.name)
                    .with_hint("leave the tensor out of --cast, --dequantize and --quantize"));
  }
  if (entry.is_splat()) {
    HT_TRY(change_splat(tensor, from, to, rounding));
  } else if (!tensor.memory) {
    auto relayout = HT_TRY(relayout_of(entry));
    tensor.change = PlannedFile::ValueChange{.from = from,
                                             .to = to,
                                             .rounding = rounding,
                                             .elements = static_cast<std::uint64_t>(elements),
                                             .relayout = std::move(relayout)};
  }
  entry.dtype = to.dtype;
  entry.encoding = to.encoding;
  entry.byte_order = ByteOrder::little;
  entry.order = ElementOrder::row_major;
  entry.bytes = *bytes;
  // A note may name the old type.
  entry.note = {};
  return {};
}

}  // namespace

Result<void> change_types(std::span<TargetTensor> tensors, const ConvertOptions& options,
                          const std::function<Loss&(const TargetTensor&, Loss::Kind, const Error&)>& lost) {
  // Rules without a wildcard are tried first. Otherwise an earlier wildcard that matches the same tensor
  // would hide them.
  std::vector<Rule> rules;
  std::ptrdiff_t exact_rules = 0;
  for (const auto& given : options.types) {
    const auto type = HT_TRY(type_named(given.type));
    Rule rule{.given = &given,
              .filter = NameFilter(given.pattern),
              .type = type,
              .is_exact = is_exact_pattern(given.pattern)};
    HT_TRY(rule.filter.check());
    const auto at = rule.is_exact ? rules.begin() + exact_rules++ : rules.end();
    rules.insert(at, std::move(rule));
  }
  std::optional<ElementType> dequantized;
  if (!options.dequantize.empty()) dequantized = HT_TRY(decoded_type(options.dequantize));
  for (auto& tensor : tensors) {
    const ElementType from = type_of(tensor.entry);
    const auto rule = std::ranges::find_if(rules, [&](const Rule& each) {
      return each.filter.matches(tensor.entry.name) &&
             (each.is_exact || applies_by_wildcard(tensor, from, each.type));
    });
    const bool has_rule = rule != rules.end();
    if (has_rule) rule->is_used = true;
    if (!has_rule && !(dequantized && from.is_block_encoded())) continue;
    const ElementType to = has_rule ? rule->type : *dequantized;
    if (to == from) continue;
    const bool loses = !values::is_lossless(from, to) && to.is_dense() && has_rule;
    const bool has_note = !format_irpa::note_beyond_type(tensor.entry).empty();
    const Entry before = tensor.entry;
    HT_TRY(change_type(tensor, to, options.rounding));
    if (has_note) {
      lost(tensor, Loss::Kind::metadata,
           Error(ErrorCode::would_lose, "changed_tensor_has_no_note",
                 format_text("tensor '{}' changes its type and loses its note", to_utf8(tensor.name)))
               .with_hint("leave the tensor out of --cast, --dequantize and --quantize"));
    }
    if (!loses) continue;
    lost(tensor, Loss::Kind::rounding,
         Error(ErrorCode::would_lose, "cast_keeps_every_value",
               format_text("tensor '{}' is {}, and {} does not hold every {} value", to_utf8(tensor.name),
                           from.name, to.name, from.is_block_encoded() ? F32::name : from.name))
             .with_hint(format_text("cast to {}", from.is_block_encoded() ? F32::name : from.name)))
        .change = change_text(before, tensor.entry);
  }
  for (const auto& rule : rules) {
    if (rule.is_used) continue;
    return fail(
        Error(ErrorCode::not_found, "type_rule_changes_a_tensor",
              format_text("'{}={}' changes no tensor", to_utf8(rule.given->pattern), rule.given->type))
            .with_hint("list the tensors with `htensor ls`; a wildcard does not convert integers to a "
                       "floating-point dtype or to blocks, and does not encode norms, biases and rows "
                       "that are not whole blocks"));
  }
  return {};
}

}  // namespace ht::inline v1
