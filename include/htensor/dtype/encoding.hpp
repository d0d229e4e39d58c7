// The type of a tensor's elements, dense or in blocks with shared scales: `ElementType` at run time, and the
// block encodings as C++ types.
//
//   const ht::ElementType type = tensor.type();             // of an AnyTensor
//   if (type.is_block_encoded()) use(type.name, type.block_elements, type.block_bytes);
//   static_assert(ht::Q4_K::block_elements == 256 && ht::Q4_K::block_bytes == 144);
//
//   const auto found = ht::find_encoding("Q8_0");           // 32 elements in 34 bytes
//   const std::array<std::int64_t, 2> dims{4096, 11008};
//   if (found) use(ht::block_bytes(dims, *found));          // 4096 × 11008 / 32 × 34 bytes
//   ht::visit_encoding(type.encoding, [](auto e) { use(e.name); });    // from a tag to a C++ type
//
// Ownership: all objects here are values without memory of their own. The names are string literals of the
// library, except the name of a user-defined dtype, which the program must keep valid as long as the
// ElementType.
//
// Threads: values may be copied and read by many threads at once. The functions have no state and allocate no
// memory; `visit_encoding` calls its function on the calling thread.
//
// The values of blocks are read through `BlockTensor` (tensor/block_tensor.hpp), `cast` and `as`
// (values/cast.hpp): this header states sizes and names only.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/dtype/dtypes.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace ht::inline v1 {

/// ggml's type number of a block encoding. 0, which is F32 in ggml, stands for all dense dtypes. Files
/// contain these numbers, so they never change. A number from a file may be unknown: `find_encoding` checks
/// it.
enum class EncodingTag : std::uint8_t { dense = 0 };

/// A block encoding at run time: `block_elements` elements take `block_bytes` bytes. `find_encoding` returns
/// every encoding of the library; the types below, such as `Q4_K`, have the same values as static members.
struct Encoding {
  EncodingTag tag = EncodingTag::dense;
  /// As ggml spells it: "Q4_K".
  std::string_view name;
  std::uint32_t block_elements = 1;
  std::uint32_t block_bytes = 0;

  friend bool operator==(const Encoding&, const Encoding&) = default;
};

/// The encoding with this tag. nullopt for `dense`, for ggml's numbers of other dense types, and for numbers
/// that ggml has removed or not assigned.
[[nodiscard]] std::optional<Encoding> find_encoding(EncodingTag tag) noexcept;
/// The encoding with this name, as ggml spells it; nullopt if there is none.
[[nodiscard]] std::optional<Encoding> find_encoding(std::string_view name) noexcept;

/// The size in bytes of a tensor whose rows are stored in blocks. A row is the innermost dimension. nullopt
/// if a row is not a whole number of blocks or the size exceeds 63 bits. A tensor without dimensions counts
/// as a row of one element. With a row of 0 elements, the size is 0.
[[nodiscard]] std::optional<std::uint64_t> block_bytes(std::span<const std::int64_t> dims,
                                                       const Encoding& encoding) noexcept;

/// A dense dtype or a block encoding. Neither if the type in the file is unknown. Exactly one of `is_dense`
/// and `is_block_encoded` is true if `is_known`. Two types are equal if all members are equal.
struct ElementType {
  /// `invalid` unless the tensor is dense.
  DTypeTag dtype = DTypeTag::invalid;
  /// `dense` unless the elements are stored in blocks.
  EncodingTag encoding = EncodingTag::dense;
  /// The name as in safetensors or ggml: "BF16", "Q4_K". Empty if the type is unknown. A string literal, or
  /// the text in the DTypeInfo of a user-defined dtype.
  std::string_view name{};
  /// The width of one element in bits; 0 for blocks and unknown types.
  int bits = 0;
  /// Elements and bytes of one block; 1 and 0 for dense dtypes.
  std::uint32_t block_elements = 1;
  std::uint32_t block_bytes = 0;

  /// Whether the library knows the type. The stored bytes of a tensor of unknown type can still be copied.
  [[nodiscard]] bool is_known() const noexcept { return !name.empty(); }
  /// Whether elements are stored one by one, in `bits` bits each.
  [[nodiscard]] bool is_dense() const noexcept { return dtype != DTypeTag::invalid; }
  /// Whether elements are stored in blocks of `block_bytes` bytes.
  [[nodiscard]] bool is_block_encoded() const noexcept { return encoding != EncodingTag::dense; }

  friend bool operator==(const ElementType&, const ElementType&) = default;
};

namespace detail {

[[nodiscard]] constexpr ElementType element_type_of(const Encoding& encoding) noexcept {
  return {.encoding = encoding.tag,
          .name = encoding.name,
          .block_elements = encoding.block_elements,
          .block_bytes = encoding.block_bytes};
}

}  // namespace detail

// The block encodings: empty types with static properties. All encodings of ggml by their names.
//
// A block holds `block_elements` adjacent elements of a row in `block_bytes` bytes, with their shared scales.
// The tags are ggml's type numbers, which GGUF files contain and which never change.

/// A block encoding as a type: its tag, its name, and the elements and bytes of a block.
///
/// A template takes an encoding as an argument, and all its sizes are constants:
///
///   template <ht::IsEncoding E>
///   constexpr double bits_per_element = 8.0 * E::block_bytes / E::block_elements;      // Q4_K: 4.5
template <class T>
concept IsEncoding = std::is_empty_v<T> && std::same_as<T, std::remove_cv_t<T>> && requires {
  { T::name } -> std::convertible_to<std::string_view>;
  { T::tag } -> std::convertible_to<EncodingTag>;
  { T::block_elements } -> std::convertible_to<int>;
  { T::block_bytes } -> std::convertible_to<int>;
};

namespace detail {

// The members that all encodings share. Each encoding derives from its own Blocks and stays an empty type.
template <int Number, int Elements, int Bytes>
struct Blocks {
  static constexpr EncodingTag tag = static_cast<EncodingTag>(Number);
  static constexpr int block_elements = Elements;
  static constexpr int block_bytes = Bytes;
};

}  // namespace detail

// NOLINTBEGIN(readability-identifier-naming): as ggml spells them.

// One scale per 32 elements. Q4_1 and Q5_1 also have an offset, Q8_1 the sum of its elements.
struct Q4_0 : detail::Blocks<2, 32, 18> {
  static constexpr std::string_view name = "Q4_0";
};
struct Q4_1 : detail::Blocks<3, 32, 20> {
  static constexpr std::string_view name = "Q4_1";
};
struct Q5_0 : detail::Blocks<6, 32, 22> {
  static constexpr std::string_view name = "Q5_0";
};
struct Q5_1 : detail::Blocks<7, 32, 24> {
  static constexpr std::string_view name = "Q5_1";
};
struct Q8_0 : detail::Blocks<8, 32, 34> {
  static constexpr std::string_view name = "Q8_0";
};
struct Q8_1 : detail::Blocks<9, 32, 36> {
  static constexpr std::string_view name = "Q8_1";
};

// Blocks of 256 elements: a scale for each group, and a scale of these scales. Q8_K has one scale.
struct Q2_K : detail::Blocks<10, 256, 84> {
  static constexpr std::string_view name = "Q2_K";
};
struct Q3_K : detail::Blocks<11, 256, 110> {
  static constexpr std::string_view name = "Q3_K";
};
struct Q4_K : detail::Blocks<12, 256, 144> {
  static constexpr std::string_view name = "Q4_K";
};
struct Q5_K : detail::Blocks<13, 256, 176> {
  static constexpr std::string_view name = "Q5_K";
};
struct Q6_K : detail::Blocks<14, 256, 210> {
  static constexpr std::string_view name = "Q6_K";
};
struct Q8_K : detail::Blocks<15, 256, 292> {
  static constexpr std::string_view name = "Q8_K";
};

// Indices into tables of values (codebooks); one index stands for up to 8 elements.
struct IQ2_XXS : detail::Blocks<16, 256, 66> {
  static constexpr std::string_view name = "IQ2_XXS";
};
struct IQ2_XS : detail::Blocks<17, 256, 74> {
  static constexpr std::string_view name = "IQ2_XS";
};
struct IQ3_XXS : detail::Blocks<18, 256, 98> {
  static constexpr std::string_view name = "IQ3_XXS";
};
struct IQ1_S : detail::Blocks<19, 256, 50> {
  static constexpr std::string_view name = "IQ1_S";
};
struct IQ4_NL : detail::Blocks<20, 32, 18> {
  static constexpr std::string_view name = "IQ4_NL";
};
struct IQ3_S : detail::Blocks<21, 256, 110> {
  static constexpr std::string_view name = "IQ3_S";
};
struct IQ2_S : detail::Blocks<22, 256, 82> {
  static constexpr std::string_view name = "IQ2_S";
};
struct IQ4_XS : detail::Blocks<23, 256, 136> {
  static constexpr std::string_view name = "IQ4_XS";
};
struct IQ1_M : detail::Blocks<29, 256, 56> {
  static constexpr std::string_view name = "IQ1_M";
};

// Elements of -1, 0 and 1, times one scale.
struct TQ1_0 : detail::Blocks<34, 256, 54> {
  static constexpr std::string_view name = "TQ1_0";
};
struct TQ2_0 : detail::Blocks<35, 256, 66> {
  static constexpr std::string_view name = "TQ2_0";
};

// 4-bit floats, with a scale for 32 (MXFP4) or 16 (NVFP4) elements.
struct MXFP4 : detail::Blocks<39, 32, 17> {
  static constexpr std::string_view name = "MXFP4";
};
struct NVFP4 : detail::Blocks<40, 64, 36> {
  static constexpr std::string_view name = "NVFP4";
};

// Elements of 1 and 2 bits, times one scale.
struct Q1_0 : detail::Blocks<41, 128, 18> {
  static constexpr std::string_view name = "Q1_0";
};
struct Q2_0 : detail::Blocks<42, 64, 18> {
  static constexpr std::string_view name = "Q2_0";
};

// NOLINTEND(readability-identifier-naming)

/// A list of encodings as a type, for code that visits all encodings.
template <IsEncoding... Es>
struct EncodingList {
  static constexpr int size = sizeof...(Es);
};

/// Every encoding of the library, by tag.
using AllEncodings =
    EncodingList<Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K, IQ2_XXS, IQ2_XS,
                 IQ3_XXS, IQ1_S, IQ4_NL, IQ3_S, IQ2_S, IQ4_XS, IQ1_M, TQ1_0, TQ2_0, MXFP4, NVFP4, Q1_0, Q2_0>;

namespace detail {

template <class E, class F>
bool visit_encoding_if(EncodingTag tag, F& f) {
  if (E::tag != tag) return false;
  f(E{});
  return true;
}

template <class... Es, class F>
bool visit_encoding_among(EncodingList<Es...>, EncodingTag tag, F& f) {
  return (visit_encoding_if<Es>(tag, f) || ...);
}

}  // namespace detail

/// Calls `f(E{})` with the encoding of the tag. Returns false if `find_encoding` returns nullopt. `f`
/// is compiled once for each encoding; the value that it returns is dropped. Capture a variable for a result.
template <class F>
bool visit_encoding(EncodingTag tag, F&& f) {
  return detail::visit_encoding_among(AllEncodings{}, tag, f);
}

}  // namespace ht::inline v1
