#include <algorithm>
#include <array>

#include "base/format_text.hpp"
#include "format/npy/npy_header.hpp"

namespace ht::inline v1::format_npy {
namespace {

struct Row {
  std::string_view code;
  DTypeInfo dtype;
};

// numpy's kinds with their widths in bytes.
constexpr std::array rows{
    Row{"b1", dtype_info<Bool>()}, Row{"i1", dtype_info<I8>()},  Row{"i2", dtype_info<I16>()},
    Row{"i4", dtype_info<I32>()},  Row{"i8", dtype_info<I64>()}, Row{"u1", dtype_info<U8>()},
    Row{"u2", dtype_info<U16>()},  Row{"u4", dtype_info<U32>()}, Row{"u8", dtype_info<U64>()},
    Row{"f2", dtype_info<F16>()},  Row{"f4", dtype_info<F32>()}, Row{"f8", dtype_info<F64>()},
    Row{"c8", dtype_info<C64>()},
};

bool is_one_byte(const Row& row) { return row.dtype.bits == 8; }

std::string_view hint_for(std::string_view code) {
  switch (code.empty() ? '\0' : code[0]) {
    case 'c': return "save it as complex64: numpy.save(path, array.astype(numpy.complex64))";
    case 'f':
    case 'g': return "save it as float64: numpy.save(path, array.astype(numpy.float64))";
    case 'S':
    case 'U':
    case 'a': return "store text outside the weights, for instance as JSON";
    case 'M':
    case 'm': return "save it as int64: numpy.save(path, array.astype(numpy.int64))";
    case 'V':
      return "numpy.save drops the dtype of ml_dtypes arrays such as bfloat16 and float8: write them as "
             "safetensors, or save array.astype(numpy.float32)";
    default:
      return "save it as b1, i1 to i8, u1 to u8, f2, f4, f8 or c8, with the byte order '<', '>', '=' or '|'";
  }
}

Error unknown(std::string_view text, std::string_view code, std::uint64_t offset) {
  if (code.starts_with('O')) {
    return broken(ErrorCode::bad_dtype, "npy_elements_are_no_pickled_objects",
                  "array holds pickled Python objects, which can run code when loaded", offset)
        .with_hint("if you trust the file, load it with numpy and save its numbers with a plain dtype");
  }
  return broken(ErrorCode::bad_dtype, "npy_dtype_is_known",
                format_text("dtype '{}' is not supported", shown(text)), offset)
      .with_hint(hint_for(code));
}

}  // namespace

Result<Descr> read_descr(std::string_view text, std::uint64_t offset) {
  const bool has_order = !text.empty() && std::string_view("<>=|").find(text[0]) != std::string_view::npos;
  const std::string_view code = has_order ? text.substr(1) : text;
  const auto row = std::ranges::find(rows, code, &Row::code);
  if (row == rows.end()) return fail(unknown(text, code, offset));
  if (is_one_byte(*row)) return Descr{row->dtype, ByteOrder::little};
  // numpy takes '=' and none for the order of the machine that reads, and that is little endian here.
  const char order = has_order ? text[0] : '=';
  if (order == '|') {
    return fail(broken(ErrorCode::bad_dtype, "npy_wide_dtypes_have_a_byte_order",
                       format_text("dtype '{}' has no byte order", text), offset));
  }
  return Descr{row->dtype, order == '>' ? ByteOrder::big : ByteOrder::little};
}

std::optional<std::string> write_descr(DTypeTag dtype, ByteOrder byte_order) {
  const auto row = std::ranges::find(rows, dtype, [](const Row& r) { return r.dtype.tag; });
  if (row == rows.end()) return std::nullopt;
  const char order = is_one_byte(*row) ? '|' : byte_order == ByteOrder::big ? '>' : '<';
  return order + std::string(row->code);
}

}  // namespace ht::inline v1::format_npy
