#include "convert/mlir_syntax.hpp"

#include <algorithm>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/sizes.hpp>

namespace ht::inline v1 {
namespace {

constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr std::string_view hex_digits = "0123456789ABCDEF";

struct Row {
  DTypeTag tag;
  MlirElement element;
};

template <IsDType D>
constexpr Row row(std::string_view type, int numbers = 1) {
  return {D::tag, {type, D::bits, static_cast<std::size_t>(std::max(D::bits / 8 / numbers, 1))}};
}

// IREE's tensors are signless from its input on: what is signed or not are operations, and a type with a sign
// is refused by most of its passes. It packs elements of 4 bits two to a byte, the first one in the low half,
// as files do, and gives each i1 a byte. It gives elements of 6 bits a byte as well, which files do not.
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
    row<C64>("complex<f32>", 2),
    row<F4>("f4E2M1FN"),
    row<F8_E4M3>("f8E4M3FN"),
    row<F8_E5M2>("f8E5M2"),
    row<F8_E8M0>("f8E8M0FNU"),
    row<F8_E4M3FNUZ>("f8E4M3FNUZ"),
    row<F8_E5M2FNUZ>("f8E5M2FNUZ"),
};
static_assert(rows.size() == AllDTypes::size - 2, "all but those of 6 bits have a type");

bool is_bare_identifier(std::string_view name) {
  constexpr std::string_view others = "0123456789_$.";
  const auto is_first = [](char c) { return c == '_' || letters.find(c) != std::string_view::npos; };
  const auto is_later = [&](char c) { return is_first(c) || others.find(c) != std::string_view::npos; };
  return !name.empty() && is_first(name.front()) && std::ranges::all_of(name, is_later);
}

}  // namespace

void append_mlir_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '"' || code < 0x20 || code > 0x7E) {
      out += '\\';
      out += hex_digits[code >> 4U];
      out += hex_digits[code & 0xFU];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_mlir_symbol(std::string& out, std::string_view name) {
  out += '@';
  if (is_bare_identifier(name)) {
    out += name;
  } else {
    append_mlir_string(out, name);
  }
}

MlirTensor::MlirTensor(const Entry& entry) : entry_(entry) {
  const auto* const found = std::ranges::find(rows, entry.dtype, &Row::tag);
  if (entry.encoding == EncodingTag::dense && found != rows.end()) {
    element_ = found->element;
  } else {
    is_bytes_ = true;
    byte_dims_ = {static_cast<std::int64_t>(entry.bytes)};
  }
}

std::uint64_t MlirTensor::elements() const noexcept {
  return static_cast<std::uint64_t>(element_count(dims()).value_or(0));
}

void append_mlir_type(std::string& out, const MlirTensor& tensor) {
  out += "tensor<";
  for (const auto dim : tensor.dims()) {
    out += std::to_string(dim);
    out += 'x';
  }
  out += tensor.element().type;
  out += '>';
}

}  // namespace ht::inline v1
