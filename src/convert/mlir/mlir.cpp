#include <htensor/convert/save.hpp>

#include <algorithm>
#include <array>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/packed.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "io/atomic_file.hpp"
#include "io/port/port.hpp"
#include "model/relayout.hpp"

namespace ht::inline v1 {
namespace {

constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
// Text is passed to the sink once this much is buffered.
constexpr std::size_t part_bytes = std::size_t{1} << 15U;
// A multiple of the size of every element and every pattern.
constexpr std::size_t max_piece_bytes = std::size_t{1} << 14U;
// The same for a column-major tensor, whose elements may each be on a different page.
constexpr std::size_t scattered_bytes = std::size_t{1} << 12U;
constexpr std::size_t longest_pattern = 16;

// The element type of a tensor in MLIR.
struct MlirElement {
  std::string_view type = "i8";
  int stored_bits = 8;

  [[nodiscard]] bool is_boolean() const noexcept { return type == "i1"; }
  // Bytes of one inlined element.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(std::max(stored_bits / 8, 1));
  }
};

struct Row {
  DTypeTag tag;
  MlirElement element;
};

template <IsDType D>
constexpr Row row(std::string_view type) {
  return {D::tag, {type, D::bits}};
}

// IREE's tensors are signless: operations are signed or unsigned, and most passes reject a type with a sign.
// IREE packs two 4-bit elements into a byte, the first one in the low half, as files do. It stores i1 and
// 6-bit elements in a byte each; files pack 6-bit elements.
constexpr std::array rows{
    row<Bool>("i1"),
    row<I4>("i4"),
    row<U4>("i4"),
    row<I8>("i8"),
    row<U8>("i8"),
    row<I16>("i16"),
    row<U16>("i16"),
    row<I32>("i32"),
    row<U32>("i32"),
    row<I64>("i64"),
    row<U64>("i64"),
    row<F16>("f16"),
    row<BF16>("bf16"),
    row<F32>("f32"),
    row<F64>("f64"),
    row<C64>("complex<f32>"),
    row<F4>("f4E2M1FN"),
    row<F8_E4M3>("f8E4M3FN"),
    row<F8_E5M2>("f8E5M2"),
    row<F8_E8M0>("f8E8M0FNU"),
    row<F8_E4M3FNUZ>("f8E4M3FNUZ"),
    row<F8_E5M2FNUZ>("f8E5M2FNUZ"),
};
static_assert(rows.size() == AllDTypes::size - 2, "every dtype except the two 6-bit dtypes has an MLIR type");

// A tensor with its own dtype and shape, or as bytes if MLIR and IREE have no type with the same storage. The
// type does not depend on where the data is stored, so moving the data does not change a program.
struct MlirTensor {
  explicit MlirTensor(const Entry& of) : entry(of), dims(of.dims.begin(), of.dims.end()) {
    const auto* const found = std::ranges::find(rows, of.dtype, &Row::tag);
    is_bytes = of.encoding != EncodingTag::dense || found == rows.end();
    if (!is_bytes) element = found->element;
    if (is_bytes) dims = {static_cast<std::int64_t>(of.bytes)};
  }

  Entry entry;
  std::vector<std::int64_t> dims;
  MlirElement element{};
  bool is_bytes = false;
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

// Appends `"text"`; bytes that are not printable ASCII become a backslash and two hexadecimal digits.
void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '"' || code < 0x20 || code > 0x7E) {
      out += '\\';
      append_hex(out, std::as_bytes(std::span(&c, 1)));
    } else {
      out += c;
    }
  }
  out += '"';
}

bool is_bare_identifier(std::string_view name) {
  constexpr std::string_view others = "0123456789_$.";
  const auto is_first = [](char c) { return c == '_' || letters.find(c) != std::string_view::npos; };
  const auto is_later = [&](char c) { return is_first(c) || others.find(c) != std::string_view::npos; };
  return !name.empty() && is_first(name.front()) && std::ranges::all_of(name, is_later);
}

// Appends `@name`, in quotes unless it is a bare identifier. Quotes do not change the symbol.
void append_symbol(std::string& out, std::string_view name) {
  out += '@';
  if (is_bare_identifier(name)) {
    out += name;
  } else {
    append_string(out, name);
  }
}

// Appends `tensor<4x8xf32>`.
void append_type(std::string& out, const MlirTensor& tensor) {
  out += "tensor<";
  for (const auto dim : tensor.dims) {
    out += std::to_string(dim);
    out += 'x';
  }
  out += tensor.element.type;
  out += '>';
}

std::string_view boolean_text(std::byte byte) { return byte == std::byte{0} ? "false" : "true"; }

// Unpacks 4-bit elements to one byte each, and normalizes booleans to 0 or 1. Returns `piece` or `wide`.
Bytes widened(const MlirElement& element, MutableBytes piece, std::vector<std::byte>& wide) {
  if (element.stored_bits == 4) {
    wide.clear();
    for (const std::byte both : piece) {
      wide.push_back(both & std::byte{0xF});
      wide.push_back(both >> 4U);
    }
    return wide;
  }
  if (element.is_boolean()) {
    std::ranges::transform(piece, piece.begin(),
                           [](std::byte byte) { return std::byte{byte != std::byte{0}}; });
  }
  return piece;
}

// Calls `visit` with some elements at a time, in row-major order, little-endian and unpacked by `widened`.
template <class Visit>
Result<void> visit_elements(const MlirTensor& tensor, const AnyTensor& values, const Visit& visit) {
  const bool is_scattered = !tensor.entry.is_row_major() && !values.is_splat();
  const std::uint64_t max_bytes = is_scattered ? scattered_bytes : max_piece_bytes;
  // The last byte may hold one element more than the tensor has.
  auto elements_left = static_cast<std::uint64_t>(element_count(tensor.dims).value_or(0));
  std::vector<std::byte> piece;
  std::vector<std::byte> wide;
  for (std::uint64_t at = 0; at < values.byte_size(); at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min(max_bytes, values.byte_size() - at)));
    HT_TRY(values.copy_to(piece, at));
    const Bytes elements = widened(tensor.element, piece, wide);
    const auto count = std::min<std::uint64_t>(elements.size() / tensor.element.bytes(), elements_left);
    elements_left -= count;
    HT_TRY(visit(elements.first(static_cast<std::size_t>(count) * tensor.element.bytes())));
  }
  return {};
}

// The element that a splat repeats, in the form of `visit_elements`; nullopt if its elements differ.
std::optional<std::vector<std::byte>> repeated_element(const MlirTensor& tensor) {
  // The size of the piece is a multiple of the sizes of the pattern and the element.
  std::array<std::byte, longest_pattern> piece{};
  fill_with(piece, tensor.entry.splat);
  std::vector<std::byte> wide;
  const Bytes elements = widened(tensor.element, piece, wide);
  const Bytes first = elements.first(tensor.element.bytes());
  for (std::size_t at = 0; at < elements.size(); at += first.size()) {
    if (!std::ranges::equal(elements.subspan(at, first.size()), first)) return std::nullopt;
  }
  return std::vector<std::byte>(first.begin(), first.end());
}

bool is_inlined(const MlirTensor& tensor, const MlirOptions& options) {
  return tensor.entry.bytes < options.inline_below;
}

// Checks that a module can have the tensor, which is in the file at `path`.
Result<void> check_global(const MlirTensor& tensor, const MlirOptions& options,
                          const std::filesystem::path& path) {
  const Entry& entry = tensor.entry;
  const auto refuse = [&](Error error, std::string_view hint) {
    return fail(std::move(error).at_path(path.native()).at_tensor(entry.name).with_hint(hint));
  };
  if (entry.name.empty()) {
    // MLIR can parse an empty symbol, but not the text that it prints for an empty symbol.
    return refuse(Error(ErrorCode::bad_name, "symbol_has_a_name",
                        "tensor name is empty but an MLIR symbol needs a name"),
                  "leave the tensor out with --filter '?*', or name all tensors with --rename '*=PREFIX*'");
  }
  if (!std::in_range<std::int64_t>(entry.bytes)) {
    return refuse(Error(ErrorCode::size_overflow, "dimensions_fit_63_bits",
                        format_text("tensor '{}': {} bytes exceed MLIR's limit of 2^63-1",
                                    to_utf8(entry.name), entry.bytes)),
                  "leave the tensor out with --exclude");
  }
  const bool as_stored = tensor.is_bytes || tensor.element.stored_bits % 8 != 0;
  const bool is_plain = entry.is_splat() || (entry.byte_order == ByteOrder::little && entry.is_row_major());
  if (is_inlined(tensor, options) && as_stored && !is_plain) {
    return refuse(Error(ErrorCode::unsupported_encoding, "inlined_bytes_are_row_major_and_little_endian",
                        format_text("tensor '{}': inlined bytes must be row-major and little-endian",
                                    to_utf8(entry.name))),
                  "convert to IRPA first, then inline the tensors of the IRPA");
  }
  return {};
}

class ModuleWriter {
 public:
  ModuleWriter(const Model& model, const MlirOptions& options, const MlirSink& write)
      : model_(model), options_(options), write_(write) {}

  Result<void> write() {
    // All tensors are checked before the first write.
    for (const Entry& entry : model_.catalog())
      HT_TRY(check_global(MlirTensor(entry), options_, model_.files()[entry.file]));
    // In the generic form a region without operations needs an explicit block label.
    out_ += is_generic() ? "\"builtin.module\"() ({\n^bb0:\n" : "module {\n";
    for (const AnyTensor& tensor : model_) {
      HT_TRY(write_global(tensor));
      HT_TRY(flush_if_long());
    }
    out_ += is_generic() ? "}) : () -> ()\n" : "}\n";
    return flush();
  }

 private:
  [[nodiscard]] bool is_generic() const { return options_.form == MlirOptions::Form::generic; }

  Result<void> flush_if_long() { return out_.size() < part_bytes ? Result<void>() : flush(); }
  Result<void> flush() {
    HT_TRY(write_(out_));
    out_.clear();
    return {};
  }

  Result<void> write_global(const AnyTensor& values) {
    const MlirTensor tensor(values.entry());
    if (!is_generic()) {
      out_ += "  util.global private ";
      append_symbol(out_, tensor.entry.name);
      out_ += " = ";
      HT_TRY(write_value(tensor, values));
      out_ += '\n';
      return {};
    }
    out_ += "  \"util.global\"() <{initial_value = ";
    HT_TRY(write_value(tensor, values));
    out_ += ", sym_name = ";
    append_string(out_, tensor.entry.name);
    out_ += ", sym_visibility = \"private\", type = ";
    append_type(out_, tensor);
    out_ += "}> : () -> ()\n";
    return {};
  }

  Result<void> write_value(const MlirTensor& tensor, const AnyTensor& values) {
    if (is_inlined(tensor, options_)) {
      out_ += "dense<";
      HT_TRY(write_elements(tensor, values));
    } else {
      out_ += options_.dialect == MlirOptions::Dialect::flow ? "#flow" : "#stream";
      out_ += ".parameter.named<";
      if (!options_.scope.empty()) {
        append_string(out_, options_.scope);
        out_ += "::";
      }
      append_string(out_, tensor.entry.name);
    }
    out_ += "> : ";
    append_type(out_, tensor);
    return {};
  }

  // Writes the bytes of all elements, or of a repeated one, as hexadecimal digits. i1 is written as true and
  // false, because MLIR versions pack it differently.
  Result<void> write_elements(const MlirTensor& tensor, const AnyTensor& values) {
    if (element_count(tensor.dims).value_or(0) == 0) return {};
    const auto repeated = values.is_splat() ? repeated_element(tensor) : std::nullopt;
    if (tensor.element.is_boolean()) {
      if (!repeated) return write_booleans(tensor, values);
      out_ += boolean_text(repeated->front());
      return {};
    }
    out_ += "\"0x";
    if (repeated) {
      append_hex(out_, *repeated);
    } else {
      HT_TRY(visit_elements(tensor, values, [&](Bytes elements) {
        append_hex(out_, elements);
        return flush_if_long();
      }));
    }
    out_ += '"';
    return {};
  }

  // Nested lists, one level for each dimension.
  Result<void> write_booleans(const MlirTensor& tensor, const AnyTensor& values) {
    const auto& dims = tensor.dims;
    std::vector<std::int64_t> index(dims.size());
    // The number of lists that begin before the next element: as many as ended after the previous one.
    std::size_t lists = dims.size();
    bool is_first = true;
    return visit_elements(tensor, values, [&](Bytes elements) -> Result<void> {
      for (const std::byte element : elements) {
        if (!std::exchange(is_first, false)) out_ += ", ";
        out_.append(lists, '[');
        out_ += boolean_text(element);
        lists = 0;
        for (auto i = dims.size(); i-- > 0; ++lists) {
          if (++index[i] < dims[i]) break;
          index[i] = 0;
        }
        out_.append(lists, ']');
        HT_TRY(flush_if_long());
      }
      return {};
    });
  }

  const Model& model_;
  const MlirOptions& options_;
  const MlirSink& write_;
  std::string out_;
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

Result<void> check_mlir(const ConversionPlan& plan, const MlirOptions& options,
                        const OpenOptions& open_options) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto* const format = find_format(plan.format, plan.formats);
    if (format == nullptr) return {};
    const bool has_index = format->sharding == Format::Sharding::index && plan.files.size() > 1;
    for (std::size_t i = 0; i < plan.files.size(); ++i) {
      if (has_index && i == plan.main_file) continue;
      const PlannedFile& file = plan.files[i];
      const std::string stem = to_utf8(file.path.stem().string());
      auto parsed = format->parse(file.header, file.bytes,
                                  {.stem = stem,
                                   .dtypes = open_options.dtypes,
                                   .formats = open_options.formats,
                                   .max_header_bytes = open_options.max_header_bytes});
      if (!parsed) return fail(std::move(parsed).error().at_path(file.path.native()));
      const auto* const catalog = std::get_if<Catalog>(&*parsed);
      // A caller's format may keep the names of its tensors after the header.
      if (catalog == nullptr) continue;
      for (const Entry& entry : *catalog) HT_TRY(check_global(MlirTensor(entry), options, file.path));
    }
    return {};
  });
}

Result<void> check_mlir_target(const std::filesystem::path& module,
                               std::span<const std::filesystem::path> model_files,
                               const WriteOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    auto& port = options.port != nullptr ? *options.port : io::system_port();
    const auto refuse = [&](ErrorCode code, std::string_view rule, std::string_view problem,
                            std::string_view hint) {
      return fail(Error(code, rule, std::string(problem)).at_path(module.native()).with_hint(hint));
    };
    constexpr std::string_view other = "choose another FILE for --emit-mlir";
    const auto stat = port.stat(module);
    const auto is_module = [&](const std::filesystem::path& path) {
      if (path.lexically_normal() == module.lexically_normal()) return true;
      const auto file = port.stat(path);
      return stat && file && file->device == stat->device && file->inode == stat->inode;
    };
    if (std::ranges::any_of(model_files, is_module)) {
      return refuse(ErrorCode::already_exists, "module_is_a_separate_file",
                    "is a file of the model and cannot also be the MLIR module", other);
    }
    if (stat && stat->kind != io::FileKind::regular) {
      return refuse(ErrorCode::write_failed, "module_can_be_written", "exists and is not a regular file",
                    other);
    }
    const auto folder = module.has_parent_path() ? module.parent_path() : std::filesystem::path(".");
    // A file without a name shows whether the folder is writable, and leaves nothing behind. Some file
    // systems have no such files.
    const auto trial = port.create_nameless(folder, std::nullopt);
    if (trial) static_cast<void>(port.close(*trial));
    const auto folder_stat = port.stat(folder);
    const bool is_refused = !trial && (trial.error() == std::errc::permission_denied ||
                                       trial.error() == std::errc::read_only_file_system);
    if (!folder_stat || folder_stat->kind != io::FileKind::folder || is_refused) {
      return refuse(ErrorCode::write_failed, "module_can_be_written", "its folder is missing or not writable",
                    other);
    }
    if (stat && options.if_exists == IfExists::fail) {
      return refuse(ErrorCode::already_exists, "module_path_is_free", "file already exists",
                    "choose another FILE for --emit-mlir, or replace it and DST with --force");
    }
    return {};
  });
}

Result<void> write_mlir(const std::filesystem::path& path, const Model& model, const MlirOptions& options,
                        const WriteOptions& write_options) {
  return without_bad_alloc([&]() -> Result<void> {
    auto& port = write_options.port != nullptr ? *write_options.port : io::system_port();
    auto file = HT_TRY(io::AtomicFile::create(path, write_options.if_exists, port));
    std::uint64_t end = 0;
    HT_TRY(emit_mlir(model, options, [&](std::string_view text) -> Result<void> {
      if (write_options.stop.stop_requested()) {
        return fail(
            Error(ErrorCode::cancelled, "work_is_completed",
                  format_text("stopped: {} bytes of the module written; the target is unchanged", end))
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
