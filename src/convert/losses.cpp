#include "convert/losses.hpp"

#include <array>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/metadata_edit.hpp>
#include <utility>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

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
  Fitting(const Catalog& source, const Format& format, const Layout& layout)
      : source_(source), format_(format), layout_(layout) {}

  Result<Fitted> run(std::vector<TargetTensor> tensors, const Metadata& metadata) && {
    fitted_.tensors = std::move(tensors);
    HT_TRY(fit_metadata(metadata));
    // No reallocation: entries point into it.
    fitted_.dims.reserve(fitted_.tensors.size());
    for (auto& tensor : fitted_.tensors) HT_TRY(fit_tensor(tensor));
    return std::move(fitted_);
  }

 private:
  // nullopt where the format takes a file of this tensor and metadata.
  [[nodiscard]] std::optional<Error> refusal(const TargetTensor& tensor,
                                             const Metadata& metadata = {}) const {
    auto catalog = catalog_of(std::span(&tensor, 1), metadata, source_, format_);
    if (!catalog) return std::move(catalog).error();
    auto encoded = encode(format_, *catalog, layout_);
    if (!encoded) return std::move(encoded).error();
    return std::nullopt;
  }

  Result<void> fit_metadata(const Metadata& metadata) {
    static constexpr std::array<std::int64_t, 1> none{0};
    const TargetTensor small{"t", {.dtype = format_.raw_dtype, .dims = none}, {}};
    for (const auto& item : metadata) {
      const auto& [key, value] = item;
      Metadata alone;
      HT_TRY(alone.add(key, value));
      const auto refused = refusal(small, alone);
      if (!refused) {
        HT_TRY(fitted_.metadata.add(key, value));
        continue;
      }
      if (refused->code() != ErrorCode::would_lose) return fail(*refused);
      // The target has a layout of its own.
      if (describes_layout(item)) continue;
      fitted_.losses.push_back({.name = std::string(key),
                                .kind = LossKind::metadata,
                                .is_tensor = false,
                                .why = std::string(refused->message()),
                                .hint = std::string(refused->hint())});
    }
    return fitted_.metadata.index();
  }

  Result<void> fit_tensor(TargetTensor& tensor) {
    auto refused = refusal(tensor);
    if (!refused) return {};
    if (const auto note = std::exchange(tensor.entry.note, {}); !note.empty()) {
      auto other = refusal(tensor);
      if (!other) {
        lose(tensor, LossKind::metadata, *refused);
        return {};
      }
      tensor.entry.note = note;
      refused = std::move(other);
    }
    if (refused->code() != ErrorCode::would_lose) return fail(*std::move(refused));
    HT_TRY(keep_raw_bytes(tensor, *refused));
    auto again = refusal(tensor);
    if (again && !tensor.entry.note.empty()) {
      lose(tensor, LossKind::metadata, *again);
      tensor.entry.note = {};
      again = refusal(tensor);
    }
    if (again) return fail(*std::move(refused));
    return {};
  }

  Result<void> keep_raw_bytes(TargetTensor& tensor, const Error& refused) {
    const std::string before = type_and_shape(tensor.entry);
    // Raw bytes carry no byte order, so they are written in the usual one.
    HT_TRY(normalize_layout(tensor));
    fitted_.dims.push_back(static_cast<std::int64_t>(tensor.entry.bytes));
    tensor.entry.dtype = format_.raw_dtype;
    tensor.entry.encoding = EncodingTag::dense;
    tensor.entry.dims = std::span(&fitted_.dims.back(), 1);
    lose(tensor, LossKind::raw_bytes, refused).change =
        format_text("{} → {}", before, type_and_shape(tensor.entry));
    return {};
  }

  Loss& lose(const TargetTensor& tensor, LossKind kind, const Error& error) {
    return fitted_.losses.emplace_back(Loss{.name = tensor.name,
                                            .kind = kind,
                                            .is_tensor = true,
                                            .why = std::string(error.message()),
                                            .hint = std::string(error.hint())});
  }

  const Catalog& source_;
  const Format& format_;
  const Layout& layout_;
  Fitted fitted_;
};

}  // namespace

Result<Fitted> fit(std::vector<TargetTensor> tensors, const Metadata& metadata, const Catalog& source,
                   const Format& format, const Layout& layout) {
  return Fitting(source, format, layout).run(std::move(tensors), metadata);
}

}  // namespace ht::inline v1
