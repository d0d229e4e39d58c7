#include <htensor/convert/mlir.hpp>

#include <span>
#include <utility>
#include <vector>

#include "base/format_text.hpp"
#include "convert/mlir_elements.hpp"
#include "convert/mlir_syntax.hpp"
#include "io/atomic_file.hpp"

namespace ht::inline v1 {
namespace {

// Text that is handed on whenever there is enough of it.
class Text {
 public:
  explicit Text(const MlirSink& write) : write_(write) {}

  std::string& out() { return out_; }
  Result<void> hand_on_if_long() { return out_.size() < enough ? Result<void>() : hand_on(); }
  Result<void> hand_on() {
    HT_TRY(write_(out_));
    out_.clear();
    return {};
  }

 private:
  static constexpr std::size_t enough = std::size_t{1} << 15U;
  const MlirSink& write_;
  std::string out_;
};

void append_hex(std::string& out, Bytes bytes) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::size_t at = out.size();
  out.resize(at + 2 * bytes.size());
  for (const std::byte byte : bytes) {
    out[at++] = digits[std::to_integer<std::size_t>(byte >> 4U)];
    out[at++] = digits[std::to_integer<std::size_t>(byte & std::byte{0xF})];
  }
}

std::string_view truth(std::byte byte) { return byte == std::byte{0} ? "false" : "true"; }

class ModuleWriter {
 public:
  ModuleWriter(const Model& model, const MlirOptions& options, const MlirSink& write)
      : model_(model), options_(options), text_(write) {}

  Result<void> write() {
    // Every tensor is checked before the first word is written.
    for (const Entry& entry : model_.catalog()) HT_TRY(check(MlirTensor(entry)));
    // The block is named in the generic form, as a region without any operation has none else.
    text_.out() += is_generic() ? "\"builtin.module\"() ({\n^bb0:\n" : "module {\n";
    for (const AnyTensor& tensor : model_) {
      HT_TRY(write_global(tensor));
      HT_TRY(text_.hand_on_if_long());
    }
    text_.out() += is_generic() ? "}) : () -> ()\n" : "}\n";
    return text_.hand_on();
  }

 private:
  [[nodiscard]] bool is_generic() const { return options_.form == MlirOptions::Form::generic; }
  [[nodiscard]] bool is_inlined(const MlirTensor& tensor) const {
    return tensor.entry().bytes < options_.inline_below;
  }

  [[nodiscard]] Result<void> check(const MlirTensor& tensor) const {
    const Entry& entry = tensor.entry();
    if (entry.name.empty()) {
      // It can be read, and what it is printed as cannot.
      return fail(Error(ErrorCode::bad_name, "symbol_has_a_name",
                        "a tensor has an empty name, and MLIR symbols are not empty")
                      .at_path(model_.files()[entry.file].native())
                      .with_hint("name the tensor with --rename"));
    }
    if (!std::in_range<std::int64_t>(entry.bytes)) {
      return fail(
          Error(ErrorCode::size_overflow, "dimensions_fit_63_bits",
                format_text("tensor '{}': {} bytes exceed MLIR's limit of 2^63-1", entry.name, entry.bytes))
              .at_path(model_.files()[entry.file].native())
              .at_tensor(entry.name)
              .with_hint("leave the tensor out with --filter"));
    }
    const bool as_stored = tensor.is_bytes() || tensor.element().bits % 8 != 0;
    const bool is_plain =
        entry.is_splat() || (entry.byte_order == ByteOrder::little &&
                             (entry.order == ElementOrder::row_major || entry.dims.size() < 2));
    if (is_inlined(tensor) && as_stored && !is_plain) {
      return fail(
          Error(ErrorCode::unsupported_encoding, "inlined_bytes_are_row_major_and_little_endian",
                format_text("tensor '{}': inlined bytes must be row-major and little-endian", entry.name))
              .at_path(model_.files()[entry.file].native())
              .at_tensor(entry.name)
              .with_hint("convert to IRPA first, then inline the tensors of the IRPA"));
    }
    return {};
  }

  Result<void> write_global(const AnyTensor& values) {
    const MlirTensor tensor(values.entry());
    auto& out = text_.out();
    if (!is_generic()) {
      out += "  util.global private ";
      append_mlir_symbol(out, tensor.entry().name);
      out += " = ";
      HT_TRY(write_value(tensor, values));
      out += '\n';
      return {};
    }
    out += "  \"util.global\"() <{initial_value = ";
    HT_TRY(write_value(tensor, values));
    out += ", sym_name = ";
    append_mlir_string(out, tensor.entry().name);
    out += ", sym_visibility = \"private\", type = ";
    append_mlir_type(out, tensor);
    out += "}> : () -> ()\n";
    return {};
  }

  Result<void> write_value(const MlirTensor& tensor, const AnyTensor& values) {
    auto& out = text_.out();
    if (is_inlined(tensor)) {
      out += "dense<";
      HT_TRY(write_elements(tensor, values));
    } else {
      out += options_.dialect == MlirOptions::Dialect::flow ? "#flow" : "#stream";
      out += ".parameter.named<";
      if (!options_.scope.empty()) {
        append_mlir_string(out, options_.scope);
        out += "::";
      }
      append_mlir_string(out, tensor.entry().name);
    }
    out += "> : ";
    append_mlir_type(out, tensor);
    return {};
  }

  // Hexadecimal digits are the bytes of all elements, or of one that is repeated. Not so for i1, which
  // versions of MLIR pack differently: they are spelled.
  Result<void> write_elements(const MlirTensor& tensor, const AnyTensor& values) {
    auto& out = text_.out();
    if (tensor.elements() == 0) return {};
    const bool is_boolean = tensor.element().is_boolean();
    if (const auto element = values.is_splat() ? mlir_splat(tensor) : std::nullopt) {
      if (is_boolean) {
        out += truth(element->front());
      } else {
        out += "\"0x";
        append_hex(out, *element);
        out += '"';
      }
      return {};
    }
    MlirElements elements(tensor, values);
    return is_boolean ? write_truths(tensor.dims(), elements) : write_hex(elements);
  }

  Result<void> write_hex(MlirElements& elements) {
    text_.out() += "\"0x";
    for (Bytes piece = HT_TRY(elements.next()); !piece.empty(); piece = HT_TRY(elements.next())) {
      append_hex(text_.out(), piece);
      HT_TRY(text_.hand_on_if_long());
    }
    text_.out() += '"';
    return {};
  }

  // A list for each dimension.
  Result<void> write_truths(std::span<const std::int64_t> dims, MlirElements& elements) {
    auto& out = text_.out();
    std::vector<std::int64_t> index(dims.size());
    std::size_t begun = dims.size();  // lists that begin at this element, as many as ended before it
    bool is_first = true;
    for (Bytes piece = HT_TRY(elements.next()); !piece.empty(); piece = HT_TRY(elements.next())) {
      for (const std::byte element : piece) {
        if (!std::exchange(is_first, false)) out += ", ";
        out.append(begun, '[');
        out += truth(element);
        begun = 0;
        for (auto i = dims.size(); i-- > 0; ++begun) {
          if (++index[i] < dims[i]) break;
          index[i] = 0;
        }
        out.append(begun, ']');
        HT_TRY(text_.hand_on_if_long());
      }
    }
    return {};
  }

  const Model& model_;
  const MlirOptions& options_;
  Text text_;
};

}  // namespace

Result<void> emit_mlir(const Model& model, const MlirOptions& options, const MlirSink& write) {
  return without_bad_alloc([&] { return ModuleWriter(model, options, write).write(); });
}

Result<std::string> mlir_text(const Model& model, const MlirOptions& options) {
  return without_bad_alloc([&]() -> Result<std::string> {
    std::string text;
    HT_TRY(emit_mlir(model, options, [&](std::string_view part) -> Result<void> {
      text += part;
      return {};
    }));
    return text;
  });
}

Result<void> write_mlir(const std::filesystem::path& path, const Model& model, const MlirOptions& options,
                        const WriteOptions& how) {
  return without_bad_alloc([&]() -> Result<void> {
    auto& port = how.port != nullptr ? *how.port : io::system_port();
    auto file = HT_TRY(io::AtomicFile::create(path, how.if_exists, port));
    std::uint64_t end = 0;
    HT_TRY(emit_mlir(model, options, [&](std::string_view text) -> Result<void> {
      if (how.stop.stop_requested()) {
        return fail(Error(ErrorCode::cancelled, "work_is_not_stopped",
                          format_text("stopped: {} bytes of the module written, nothing left behind", end))
                        .at_path(path.native()));
      }
      HT_TRY(file.write(end, bytes_of(text)));
      end += text.size();
      return {};
    }));
    return std::move(file).commit();
  });
}

}  // namespace ht::inline v1
