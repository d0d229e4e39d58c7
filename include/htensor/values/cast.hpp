// Conversions of tensors to another dtype, never with a silent loss.
//
//   const auto f = HT_TRY(ht::cast<ht::F32>(bf16));              // every value fits, or it does not compile
//   const auto h = HT_TRY(ht::cast_lossy<ht::BF16>(f));          // rounds to nearest even
//   const auto b = HT_TRY(ht::cast_lossy<ht::Q8_0>(f));          // BlockTensor: encodes blocks of rows
//   HT_TRY(ht::cast_into(buffer, q4k));                          // into the caller's tensor
//   for (float x : ht::as<ht::F32>(bf16)) use(x);                // converts each element when it is read
//
// `upcast` widens within a family, `cast` converts to any dtype that holds every finite value, and `as` is a
// lazy `cast`. A `cast` that could lose a value does not compile; `cast_lossy` and `cast_lossy_into` round.
// Sources are block tensors and tensors of any strides, in memory or mapped. Results own new memory, except
// that a view of `as` shares ownership of the bytes. Conversions between dtypes of the library run on all
// processors, and many threads may convert at once.
//
//   function                 dtypes                           result
//   upcast<To>(x)            wider, same family               Result<Tensor>, new memory
//   cast<To>(x)              To holds every value             Result<Tensor>, new memory
//   as<To>(x)                To holds every value             AsView, no memory; each read converts
//   cast_into(y, x)          y holds every value              Result<void>, writes to y
//   cast_lossy<To>(x, r)     any dtypes but complex to real   Result<Tensor>, new memory
//   cast_lossy<Q8_0>(x)      encodings with an encoder        Result<BlockTensor>, new memory
//   cast_lossy_into(y, x, r) as cast_lossy                    Result<void>, writes to y
//
// Ownership: a source is borrowed during the call and never changed. A view of `as` is a handle: it keeps the
// bytes of its tensor alive, and copies of the view share them.
//
// Cost: one pass over the elements. Up to 2^18 elements are converted on the calling thread, more on all
// processors. Elements that are not contiguous are gathered first and converted on the calling thread.
// Elements of user-defined dtypes are converted on the calling thread, too. `as` converts an element each
// time it is read: use `cast` for data that is read often.
//
// Errors: `out_of_memory`; `read_failed` or `changed_underfoot` if a mapped page cannot be read, and the
// contents of the target are then unspecified; `shape_mismatch` from the `_into` forms. Tensors of rank 0 and
// without elements are valid.
//
// To write one function for numbers of any type, constrain its parameter with `ReadableAs`. The function then
// accepts BF16, Q4_K and the integers whose values F32 holds:
//
//   template <class T>
//     requires ht::ReadableAs<T, ht::F32>
//   ht::Result<double> total(const T& x) {
//     double all = 0;
//     for (const float y : ht::as<ht::F32>(x)) all += y;
//     return all;
//   }
//
// Reads through iterators are not guarded: for a mapped file, `cast` reports an unreadable page, and a loop
// over `as` needs `ht::guarded` to do the same.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <htensor/dtype/encoding.hpp>
#include <htensor/tensor/block_tensor.hpp>
#include <htensor/tensor/tensor.hpp>
#include <iterator>
#include <type_traits>
#include <utility>

// How `cast_lossy` converts values that the target dtype cannot represent.
//
// Every conversion rounds once, from the stored value to the target. docs/dtypes.md has a table of the rules
// for each dtype. In short:
//
// - NaN becomes a quiet NaN with the same sign and the leading bits of its payload. In dtypes without NaN, it
//   becomes 0 (integers), true (BOOL) or the largest value (F4 and F6).
// - A value beyond the largest finite value becomes infinity if the target has infinity, else NaN if the
//   target has NaN, else the largest value. With `saturate`, such a value and infinity become the largest
//   finite value. Integer dtypes always saturate.
// - `toward_zero` never rounds a finite value up to infinity.

namespace ht::inline v1 {

/// The rules of `cast_lossy`. Has no effect if the target holds every value of the source.
///
///   const auto e4m3 = HT_TRY(ht::cast_lossy<ht::F8_E4M3>(x, {.saturate = true}));  // 1e9 becomes 448
///   const ht::Rounding random{.mode = ht::Rounding::Mode::stochastic, .seed = 7};
///   const auto bf16 = HT_TRY(ht::cast_lossy<ht::BF16>(x, random));     // same bits in every run
struct Rounding {
  /// Every mode keeps values that the target holds.
  enum class Mode : std::uint8_t {
    /// To the nearest value, ties to even.
    nearest_even,
    /// To the nearest value that is not larger in magnitude.
    toward_zero,
    /// To one of the two neighbouring values, at random, such that the expected result is the stored value.
    /// The choice depends only on the seed and on the element's row-major index, not on threads.
    stochastic,
  };

  Mode mode = Mode::nearest_even;
  /// Whether infinities and values beyond the largest finite value become the largest finite value. Useful
  /// for F8 formats, where one overflow would otherwise become NaN.
  bool saturate = false;
  /// The seed of `stochastic`.
  std::uint64_t seed = 0;
};

namespace detail {

/// Whether T is a BlockTensor.
template <class T>
inline constexpr bool is_block_tensor = false;
template <class E, class S>
inline constexpr bool is_block_tensor<BlockTensor<E, S>> = true;

/// Whether T is a Tensor, on any device.
template <class T>
inline constexpr bool is_dense_tensor = false;
template <class D, class S, class Dev>
inline constexpr bool is_dense_tensor<Tensor<D, S, Dev>> = true;

}  // namespace detail

/// A dense tensor or a block tensor in memory of this process, all of whose values `D` holds. Operations that
/// read numbers require this. Block tensors count as F32. A tensor on a device without host access is not
/// readable: copy it with `to_host`.
template <class T, class D>
concept ReadableAs = (detail::is_block_tensor<T> || detail::is_dense_tensor<T>) &&
                     HostAccessible<typename T::Device> && LosslessTo<typename T::DType, D>;

/// A dtype of the library for real numbers or booleans. Every such dtype converts to every other one, exactly
/// or with rounding.
template <class D>
concept LibraryReal = contains<D, AllDTypes> && IsNumber<D> && D::number.kind != NumberFacts::Kind::complex;

/// `cast_lossy` converts T to the dtype: any dtypes of the library, but not complex to real numbers.
/// User-defined dtypes are excluded: `cast` converts them where no value is lost.
template <class T, class To>
concept RoundableTo =
    (detail::is_block_tensor<T> || detail::is_dense_tensor<T>) && HostAccessible<typename T::Device> &&
    (LibraryReal<typename T::DType> || std::same_as<typename T::DType, To>) && contains<To, AllDTypes>;

namespace detail {

/// Returns one element converted to a dtype that holds its value. Exact. The caller has checked LosslessTo.
template <class From, class To>
[[nodiscard]] constexpr typename To::Element convert_element(typename From::Element value) noexcept {
  using Target = typename To::Element;
  if constexpr (std::same_as<From, To>) {
    return value;
  } else if constexpr (To::number.kind == NumberFacts::Kind::complex) {
    return Target(convert_element<From, F32>(value));
  } else if constexpr (requires { static_cast<Target>(value); }) {
    return static_cast<Target>(value);
  } else {
    // Two small types of different families, including user-defined types: a double holds the values of both.
    return static_cast<Target>(static_cast<double>(value));
  }
}

// The type as a value, for functions that are compiled once for all types.
template <IsDType D>
[[nodiscard]] constexpr ElementType element_type_of() noexcept {
  return {.dtype = D::tag, .name = D::name, .bits = D::bits};
}
template <IsEncoding E>
[[nodiscard]] constexpr ElementType element_type_of() noexcept {
  return {.encoding = E::tag,
          .name = E::name,
          .block_elements = E::block_elements,
          .block_bytes = E::block_bytes};
}

/// Converts contiguous elements on all processors with the kernels of the library. `first` is the row-major
/// index of the first element. The types are any pair that `cast` or `cast_lossy` accepts. The memory
/// does not overlap.
[[nodiscard]] Result<void> convert_stored(const ElementType& from, const std::byte* stored,
                                          const ElementType& to, std::byte* into, std::int64_t count,
                                          const Rounding& rounding, std::uint64_t first);

/// Writes the F32 values of one block to `into`. `into` has room for the elements of one block.
void decode_block(EncodingTag encoding, const std::byte* block, float* into) noexcept;

/// The address of the first element; null if it does not start on a byte boundary.
template <class D>
[[nodiscard]] auto first_byte(ElementPointer<D> elements) noexcept {
  using Byte = std::conditional_t<std::is_const_v<D>, const std::byte, std::byte>;
  if constexpr (is_packed<std::remove_const_t<D>>) {
    return elements.address();
  } else {
    return reinterpret_cast<Byte*>(elements);
  }
}

/// A pointer to elements that start on a byte boundary.
template <class D, class Byte>
[[nodiscard]] ElementPointer<D> elements_at(Byte* first) noexcept {
  if constexpr (is_packed<std::remove_const_t<D>>) {
    return detail::PackedPointer<D>(first);
  } else {
    return reinterpret_cast<ElementPointer<D>>(first);
  }
}

/// Converts the elements of one run through short contiguous buffers. `first` is the row-major index of the
/// first element.
template <class D, class To>
[[nodiscard]] Result<void> convert_strided_run(const Run<2>& run, ElementPointer<D> from,
                                               ElementPointer<To> to, const Rounding& rounding,
                                               std::uint64_t first) {
  using From = std::remove_const_t<D>;
  constexpr std::int64_t strip = 256;
  alignas(16) std::array<std::byte, std::size_t{strip} * From::bits / 8> stored{};
  alignas(16) std::array<std::byte, std::size_t{strip} * To::bits / 8> converted{};
  const auto gathered = elements_at<From>(stored.data());
  const auto results = elements_at<const To>(std::as_const(converted).data());
  for (std::int64_t at = 0; at < run.count; at += strip) {
    const std::int64_t count = std::min(strip, run.count - at);
    for (std::int64_t i = 0; i < count; ++i)
      gathered[i] = static_cast<typename From::Element>(from[run.offsets[0] + (at + i) * run.strides[0]]);
    HT_TRY(convert_stored(element_type_of<From>(), stored.data(), element_type_of<To>(), converted.data(),
                          count, rounding, first + static_cast<std::uint64_t>(at)));
    for (std::int64_t i = 0; i < count; ++i) to[run.offsets[1] + (at + i) * run.strides[1]] = results[i];
  }
  return {};
}

// Converts runs that are contiguous in both tensors directly, other runs through short buffers, and elements
// of user-defined dtypes one by one. Element indices are counted over all runs, so that stochastic rounding
// does not depend on strides.
template <class D, class S, class Dev, class To, class ToS>
[[nodiscard]] Result<void> convert_into(const Tensor<D, S, Dev>& from, const Tensor<To, ToS, Dev>& into,
                                        const Rounding& rounding) {
  using From = std::remove_const_t<D>;
  HT_TRY(layout::check_equal(from.shape().extents(), into.shape().extents()));
  const auto touched =
      HT_TRY(placement::touched_bytes<D>(from.data(), from.shape().extents(), from.strides()));
  return guarded(touched, [&]() -> Result<void> {
    Result<void> result;
    std::uint64_t first = 0;
    for_each_run(
        from.shape().extents(),
        [&](const Run<2>& run) {
          if (!result) return;
          if constexpr (contains<From, AllDTypes> && contains<To, AllDTypes>) {
            const auto* const stored = first_byte<D>(from.data() + run.offsets[0]);
            auto* const target = first_byte<To>(into.data() + run.offsets[1]);
            // The last packed elements may share a byte with elements outside the run: write these elements
            // one by one.
            Run<2> rest = run;
            if (run.is_contiguous() && stored != nullptr && target != nullptr) {
              const std::int64_t whole = is_packed<To> ? run.count / 8 * 8 : run.count;
              result = convert_stored(element_type_of<From>(), stored, element_type_of<To>(), target, whole,
                                      rounding, first);
              rest.count -= whole;
              for (auto& offset : rest.offsets) offset += whole;
            }
            if (result && rest.count != 0)
              result = convert_strided_run<D, To>(rest, from.data(), into.data(), rounding,
                                                  first + static_cast<std::uint64_t>(run.count - rest.count));
          } else {
            for (std::int64_t i = 0; i < run.count; ++i)
              into.data()[run.offsets[1] + i * run.strides[1]] = convert_element<From, To>(
                  static_cast<typename From::Element>(from.data()[run.offsets[0] + i * run.strides[0]]));
          }
          first += static_cast<std::uint64_t>(run.count);
        },
        from.strides(), into.strides());
    return result;
  });
}

// Blocks are decoded straight into the target, which must therefore be contiguous.
template <class E, class S, class To, class ToS>
[[nodiscard]] Result<void> convert_into(const BlockTensor<E, S>& from, const Tensor<To, ToS, Host>& into,
                                        const Rounding& rounding) {
  HT_TRY(layout::check_equal(from.shape().extents(), into.shape().extents()));
  HT_TRY(into.bytes());
  return guarded(from.bytes(), [&] {
    return convert_stored(element_type_of<E>(), from.data(), element_type_of<To>(),
                          first_byte<To>(into.data()), from.elements(), rounding, 0);
  });
}

// Allocates the result and converts all elements.
template <class To, class T>
[[nodiscard]] Result<Tensor<To, typename T::ShapeType, typename T::Device>> convert_all(
    const T& tensor, const Rounding& rounding) {
  auto result = HT_TRY(Tensor<To, typename T::ShapeType, typename T::Device>::zeros(tensor.shape()));
  HT_TRY(convert_into(tensor, result, rounding));
  return result;
}

}  // namespace detail

/// Returns the same values in a wider dtype of the same family, in new memory. The result is a
/// Result<Tensor<To, …>> in the shape of the source, row-major. Use it in generic code that must not change
/// from integers to floating-point numbers. `out_of_memory`; `read_failed` or `changed_underfoot` for an
/// unreadable mapped page.
template <class To, class T>
  requires UpcastableTo<typename T::DType, To> && ReadableAs<T, To> && Compatible<typename T::Device, To> &&
           placement::CanAllocate<typename T::Device>
[[nodiscard]] auto upcast(const T& tensor) {
  return detail::convert_all<To>(tensor, Rounding{});
}

/// Returns the same values in any dtype that holds all of them, in new memory. The result is a
/// Result<Tensor<To, …>> in the shape of the source, row-major. A cast to the same dtype is a copy.
/// Infinities stay infinities, NaNs stay NaNs, and -0 stays -0. `out_of_memory`; `read_failed` or
/// `changed_underfoot` for an unreadable mapped page.
template <class To, class T>
  requires ReadableAs<T, To> && Compatible<typename T::Device, To> &&
           placement::CanAllocate<typename T::Device>
[[nodiscard]] auto cast(const T& tensor) {
  return detail::convert_all<To>(tensor, Rounding{});
}

/// Writes the same values to the elements of `into`. `shape_mismatch` if the shapes differ; `bad_state` if
/// blocks are decoded into elements that are not contiguous. `into` may have any strides if the source is
/// dense. `into` must not overlap the source. After `read_failed` or `changed_underfoot`, the contents of
/// `into` are unspecified.
template <class To, class S, class Dev, class T>
  requires ReadableAs<T, To> && std::same_as<typename T::Device, Dev>
[[nodiscard]] Result<void> cast_into(const Tensor<To, S, Dev>& into, const T& tensor) {
  return detail::convert_into(tensor, into, Rounding{});
}

/// Returns the values rounded to another dtype, in new memory. Values that the dtype holds do not change. The
/// result is a Result<Tensor<To, …>> in the shape of the source, row-major. Never fails because of a value:
/// NaN, infinity and overflow follow the rules above. The bits depend neither on the number of threads nor on
/// the strides. Errors are those of `cast`.
template <IsDType To, class T>
  requires RoundableTo<T, To> && Compatible<typename T::Device, To> &&
           placement::CanAllocate<typename T::Device>
[[nodiscard]] auto cast_lossy(const T& tensor, const Rounding& rounding = {}) {
  return detail::convert_all<To>(tensor, rounding);
}

/// Writes the rounded values to the elements of `into`; errors as in `cast_into`. The target has any dtype of
/// the library and any strides; block tensors need a contiguous target.
template <IsDType To, class S, class Dev, class T>
  requires RoundableTo<T, To> && std::same_as<typename T::Device, Dev>
[[nodiscard]] Result<void> cast_lossy_into(const Tensor<To, S, Dev>& into, const T& tensor,
                                           const Rounding& rounding = {}) {
  return detail::convert_into(tensor, into, rounding);
}

/// The encodings that `cast_lossy` writes. Other encodings can be read, but not written.
///
///   static_assert(ht::HasEncoder<ht::Q4_K> && !ht::HasEncoder<ht::Q2_K>);
template <class E>
concept HasEncoder =
    IsEncoding<E> && (std::same_as<E, Q8_0> || std::same_as<E, Q4_0> || std::same_as<E, Q4_1> ||
                      std::same_as<E, Q5_0> || std::same_as<E, Q5_1> || std::same_as<E, MXFP4> ||
                      std::same_as<E, Q4_K> || std::same_as<E, Q5_K> || std::same_as<E, Q6_K>);

/// Returns the values in blocks of an encoding, in new memory. `bad_shape` if a row is not a whole number of
/// blocks. Values that F32 does not hold are rounded to F32 first, to nearest even. `out_of_memory`,
/// `read_failed`, `changed_underfoot`. A source that is not contiguous needs memory for one more copy.
/// Encoders choose the scales of a block; `Rounding` does not apply to them.
template <HasEncoder E, class T>
  requires RoundableTo<T, F32> && std::same_as<typename T::Device, Host> && (T::rank >= 1)
[[nodiscard]] Result<BlockTensor<E, typename T::ShapeType>> cast_lossy(const T& tensor) {
  using Blocks = BlockTensor<E, typename T::ShapeType>;
  const auto bytes = HT_TRY(placement::bytes_of_blocks(tensor.shape().extents(), Blocks::encoding));
  auto storage = HT_TRY(Storage::owned(bytes));
  const auto into = HT_TRY(storage.writable_bytes());
  // Encoders read contiguous rows: elements with other strides are copied first.
  if constexpr (detail::is_block_tensor<T>) {
    HT_TRY(guarded(tensor.bytes(), [&] {
      return detail::convert_stored(detail::element_type_of<typename T::EncodingType>(), tensor.data(),
                                    detail::element_type_of<E>(), into.data(), tensor.elements(), Rounding{},
                                    0);
    }));
  } else {
    auto plain = HT_TRY(tensor.contiguous());
    // A packed view may be contiguous and start within a byte.
    if (!plain.bytes()) plain = HT_TRY(tensor.copy());
    const auto stored = HT_TRY(plain.bytes());
    HT_TRY(guarded(stored, [&] {
      return detail::convert_stored(detail::element_type_of<typename T::DType>(), stored.data(),
                                    detail::element_type_of<E>(), into.data(), tensor.elements(), Rounding{},
                                    0);
    }));
  }
  return Blocks::over(std::move(storage), tensor.shape());
}

/// A view of a tensor as another dtype. It copies no data and converts each element when it is read. A view
/// is a handle like a Tensor: small, cheap to copy, and safe to read from many threads at once.
template <class To, class T>
  requires ReadableAs<T, To>
class AsView;

/// A view of a dense tensor. The shape and the strides are those of the tensor.
template <class To, class D, class S, class Dev>
  requires ReadableAs<Tensor<D, S, Dev>, To>
class AsView<To, Tensor<D, S, Dev>> {
 public:
  using DType = To;
  using ShapeType = S;
  /// The dtype of the elements in memory.
  using Stored = std::remove_const_t<D>;
  using Element = typename To::Element;
  static constexpr int rank = S::rank;

  /// Valid as long as a handle to the bytes exists; does not keep the bytes alive.
  class Iterator {
   public:
    using Base = decltype(std::declval<const Tensor<const Stored, S, Dev>&>().begin());
    using value_type = Element;
    using difference_type = std::int64_t;
    using iterator_category = std::input_iterator_tag;
    using iterator_concept = std::forward_iterator_tag;

    Iterator() = default;
    explicit Iterator(Base at) noexcept : at_(at) {}
    [[nodiscard]] Element operator*() const noexcept {
      return detail::convert_element<Stored, To>(static_cast<typename Stored::Element>(*at_));
    }
    Iterator& operator++() noexcept {
      ++at_;
      return *this;
    }
    Iterator operator++(int) noexcept {
      auto before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) noexcept = default;

   private:
    Base at_{};
  };

  /// Shares ownership of the bytes of the tensor.
  explicit AsView(Tensor<const Stored, S, Dev> tensor) noexcept : tensor_(std::move(tensor)) {}

  /// The viewed tensor. Kernels read this tensor and convert its elements themselves. Valid as long as this
  /// view.
  [[nodiscard]] const Tensor<const Stored, S, Dev>& stored() const noexcept { return tensor_; }
  [[nodiscard]] const S& shape() const noexcept { return tensor_.shape(); }
  [[nodiscard]] std::int64_t elements() const noexcept { return tensor_.elements(); }

  /// The converted element. As with a tensor, debug builds assert that the index is valid, and reads of
  /// mapped pages are not guarded. Each call converts again: `copy` once if elements are read often.
  template <std::integral... Is>
    requires(sizeof...(Is) == rank)
  [[nodiscard]] Element operator()(Is... index) const noexcept {
    return detail::convert_element<Stored, To>(tensor_(index...));
  }
  /// The converted element. `out_of_bounds`; `read_failed` or `changed_underfoot` for a mapped page that
  /// cannot be read.
  template <std::integral... Is>
    requires(sizeof...(Is) == rank)
  [[nodiscard]] Result<Element> at(Is... index) const {
    return detail::convert_element<Stored, To>(HT_TRY(tensor_.at(index...)));
  }
  /// Iterates over the elements in row-major order and converts each when it is read. As with a tensor,
  /// reads of mapped pages are not guarded (see base/fault.hpp).
  [[nodiscard]] auto begin() const noexcept { return Iterator(tensor_.begin()); }
  [[nodiscard]] auto end() const noexcept { return Iterator(tensor_.end()); }
  /// Returns all elements in new memory, as `cast` does and with its errors.
  [[nodiscard]] Result<Tensor<To, S, Dev>> copy() const
    requires placement::CanAllocate<Dev>
  {
    return cast<To>(tensor_);
  }

 private:
  Tensor<const Stored, S, Dev> tensor_;
};

/// A view of blocks as F32 or F64. A read of one element decodes its block; iteration decodes each block
/// once. There is no `operator()`, because each call would decode a block.
template <class To, class E, class S>
  requires ReadableAs<BlockTensor<E, S>, To>
class AsView<To, BlockTensor<E, S>> {
 public:
  using DType = To;
  using ShapeType = S;
  using Element = typename To::Element;
  static constexpr int rank = S::rank;

  /// Holds the decoded values of the current block, so an iterator of Q4_K is 1 KiB large: do not copy it in
  /// loops.
  class Iterator {
   public:
    using value_type = Element;
    using difference_type = std::int64_t;
    using iterator_category = std::input_iterator_tag;
    using iterator_concept = std::forward_iterator_tag;

    Iterator() = default;
    Iterator(const std::byte* blocks, std::int64_t position, std::int64_t elements) noexcept
        : blocks_(blocks), position_(position), elements_(elements) {
      load();
    }
    [[nodiscard]] Element operator*() const noexcept {
      return detail::convert_element<F32, To>(
          values_[static_cast<std::size_t>(position_ % E::block_elements)]);
    }
    Iterator& operator++() noexcept {
      ++position_;
      load();
      return *this;
    }
    Iterator operator++(int) noexcept {
      auto before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) noexcept {
      return a.position_ == b.position_;
    }

   private:
    void load() noexcept {
      if (position_ % E::block_elements == 0 && position_ < elements_)
        detail::decode_block(E::tag, blocks_ + position_ / E::block_elements * E::block_bytes,
                             values_.data());
    }

    const std::byte* blocks_ = nullptr;
    std::int64_t position_ = 0;
    std::int64_t elements_ = 0;
    std::array<float, E::block_elements> values_{};
  };

  /// Shares ownership of the blocks.
  explicit AsView(BlockTensor<E, S> tensor) noexcept : tensor_(std::move(tensor)) {}

  /// The viewed tensor. Valid as long as this view.
  [[nodiscard]] const BlockTensor<E, S>& stored() const noexcept { return tensor_; }
  [[nodiscard]] const S& shape() const noexcept { return tensor_.shape(); }
  [[nodiscard]] std::int64_t elements() const noexcept { return tensor_.elements(); }

  /// Decodes one block of up to 256 elements. `out_of_bounds`; `read_failed` or `changed_underfoot` for a
  /// mapped page that cannot be read.
  template <std::integral... Is>
    requires(sizeof...(Is) == rank)
  [[nodiscard]] Result<Element> at(Is... index) const {
    const typename S::Array place{layout::to_index(index)...};
    HT_TRY(layout::check_index(place, tensor_.shape().extents()));
    std::int64_t position = 0;
    for (std::size_t i = 0; i < place.size(); ++i)
      position = position * tensor_.shape().extents()[i] + place[i];
    const std::byte* const block = tensor_.data() + position / E::block_elements * E::block_bytes;
    std::array<float, E::block_elements> values{};
    HT_TRY(
        guarded(Bytes(block, E::block_bytes), [&] { detail::decode_block(E::tag, block, values.data()); }));
    return detail::convert_element<F32, To>(values[static_cast<std::size_t>(position % E::block_elements)]);
  }
  /// Iterates over the elements in row-major order. Reads of mapped pages are not guarded; `begin` reads and
  /// decodes the first block. Iterators are valid as long as a handle to the blocks exists.
  [[nodiscard]] auto begin() const noexcept { return Iterator(tensor_.data(), 0, elements()); }
  [[nodiscard]] auto end() const noexcept { return Iterator(tensor_.data(), elements(), elements()); }
  /// Returns all elements in new memory, as `cast` does: each block is decoded once.
  [[nodiscard]] Result<Tensor<To, S>> copy() const { return cast<To>(tensor_); }

 private:
  BlockTensor<E, S> tensor_;
};

/// Returns a lazy `cast`. The view copies the handle and shares ownership of the bytes, so the argument may
/// be a temporary.
///
/// Reads nothing yet, so no error is possible here. Operations of neural networks take such views as weights:
///
///   const auto y = HT_TRY(ht::linear(x, ht::as<ht::F32>(w)));      // x is F32, w is BF16 or Q4_K
template <class To, class T>
  requires ReadableAs<T, To>
[[nodiscard]] auto as(const T& tensor) noexcept {
  return AsView<To, T>(tensor);
}

}  // namespace ht::inline v1
