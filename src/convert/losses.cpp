#include "convert/losses.hpp"

#include <algorithm>
#include <array>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/visit.hpp>

#include "base/format_text.hpp"
#include "format/gguf/gguf.hpp"

namespace ht::inline v1 {
namespace {

// What is broken by tensors that can be put in another order.
constexpr std::array order_rules{"format_carries_the_order", "format_carries_the_byte_order"};
constexpr std::array note_rules{"format_carries_the_note", "irpa_notes_tell_the_type"};

std::string type_and_shape(const Entry& entry) {
  if (!entry.is_typed()) return format_text("{} bytes", entry.bytes);
  const auto encoding = find_encoding(entry.encoding);
  const auto dtype = find_dtype(entry.dtype);
  const std::string_view type = entry.encoding != EncodingTag::dense ? (encoding ? encoding->name : "unknown")
                                                                     : (dtype ? dtype->name : "unknown");
  return format_text("{} [{}]", type, fmt::join(entry.dims, ", "));
}

class Fitting {
 public:
  Fitting(const Catalog& source, std::string_view format, const Layout& layout, bool cut)
      : source_(source), format_(format), layout_(layout), cut_(cut) {}

  Result<Fitted> run(std::vector<TargetTensor> tensors, const Metadata& metadata) && {
    fitted_.tensors = std::move(tensors);
    // Most fit as they are.
    const auto whole = refusal(fitted_.tensors, metadata);
    if (!whole) {
      fitted_.metadata = metadata;
      return std::move(fitted_);
    }
    if (whole->code() != ErrorCode::would_lose && !is_mended_by_cutting(*whole)) return fail(*whole);
    HT_TRY(fit_metadata(metadata));
    // No reallocation: entries point into it.
    fitted_.dims.reserve(fitted_.tensors.size());
    for (auto& tensor : fitted_.tensors) HT_TRY(fit_tensor(tensor));
    // What is wrong with all of it together cannot be mended one by one.
    auto still = refusal(fitted_.tensors, fitted_.metadata);
    if (still && !is_mended_by_cutting(*still)) return fail(*std::move(still));
    return std::move(fitted_);
  }

 private:
  [[nodiscard]] bool is_mended_by_cutting(const Error& error) const noexcept {
    return cut_ && error.code() == ErrorCode::header_too_large;
  }

  // Nothing where the format takes these.
  [[nodiscard]] std::optional<Error> refusal(std::span<const TargetTensor> tensors,
                                             const Metadata& metadata) const {
    auto catalog = catalog_of(tensors, metadata, source_, format_);
    if (!catalog) return std::move(catalog).error();
    auto encoded = encode(format_, *catalog, layout_);
    if (!encoded) return std::move(encoded).error();
    return std::nullopt;
  }

  Result<void> fit_metadata(const Metadata& metadata) {
    static constexpr std::array<std::int64_t, 1> none{0};
    const TargetTensor small{"t", {.dtype = F32::tag, .dims = none}, {}};
    for (const auto& [key, value] : metadata) {
      Metadata alone;
      HT_TRY(alone.add(key, value));
      const auto refused = refusal(std::span(&small, 1), alone);
      if (!refused) {
        HT_TRY(fitted_.metadata.add(key, value));
        continue;
      }
      if (refused->code() != ErrorCode::would_lose) return fail(*refused);
      // How a file was laid out is no loss for one that is laid out in another way.
      if (format_gguf::describes_the_layout(key)) continue;
      fitted_.losses.push_back({.name = std::string(key),
                                .kind = LossKind::metadata,
                                .is_tensor = false,
                                .why = std::string(refused->message()),
                                .hint = std::string(refused->hint())});
    }
    return fitted_.metadata.index();
  }

  Result<void> fit_tensor(TargetTensor& tensor) {
    auto refused = refusal(std::span(&tensor, 1), {});
    if (refused && std::ranges::find(order_rules, refused->rule()) != order_rules.end()) {
      HT_TRY(normalize_layout(tensor));
      refused = refusal(std::span(&tensor, 1), {});
    }
    if (refused) refused = without_note(tensor, *std::move(refused));
    if (!refused) return {};
    if (refused->code() != ErrorCode::would_lose) return fail(*refused);
    auto& loss = lose(tensor, LossKind::raw_bytes, *refused);
    const std::string before = type_and_shape(tensor.entry);
    // Raw bytes carry no byte order, so they are written in the usual one.
    HT_TRY(normalize_layout(tensor));
    fitted_.dims.push_back(static_cast<std::int64_t>(tensor.entry.bytes));
    tensor.entry.dtype = format_ == "gguf" ? I8::tag : U8::tag;
    tensor.entry.encoding = EncodingTag::dense;
    tensor.entry.dims = std::span(&fitted_.dims.back(), 1);
    loss.change = format_text("{} → {}", before, type_and_shape(tensor.entry));
    auto again = refusal(std::span(&tensor, 1), {});
    if (again) again = without_note(tensor, *std::move(again));
    if (again) return fail(*refused);
    return {};
  }

  // What is still refused when the note is left out, where that was it.
  std::optional<Error> without_note(TargetTensor& tensor, Error refused) {
    if (std::ranges::find(note_rules, refused.rule()) == note_rules.end()) return refused;
    lose(tensor, LossKind::metadata, refused);
    tensor.entry.note = {};
    return refusal(std::span(&tensor, 1), {});
  }

  Loss& lose(const TargetTensor& tensor, LossKind kind, const Error& error) {
    return fitted_.losses.emplace_back(Loss{.name = tensor.name,
                                            .kind = kind,
                                            .is_tensor = true,
                                            .why = std::string(error.message()),
                                            .hint = std::string(error.hint())});
  }

  const Catalog& source_;
  std::string_view format_;
  const Layout& layout_;
  bool cut_;
  Fitted fitted_;
};

}  // namespace

Result<Fitted> fit(std::vector<TargetTensor> tensors, const Metadata& metadata, const Catalog& source,
                   std::string_view format, const Layout& layout, bool cut) {
  return Fitting(source, format, layout, cut).run(std::move(tensors), metadata);
}

}  // namespace ht::inline v1
