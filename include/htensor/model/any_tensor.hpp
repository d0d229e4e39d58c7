// A tensor whose type is known at run time: what a Model yields.
//
//   for (const ht::AnyTensor& t : model) upload(t.name(), t.type(), t.dims(), HT_TRY(t.bytes()));
//
// An AnyTensor is a handle like a Tensor: copies share the bytes, and it may outlive the model. `bytes` are
// stored bytes in place, `tensor` are typed elements in place; `copy_to` and `cast` write dense row-major
// elements whatever byte order, element order or splat is stored. A const AnyTensor may be used from many
// threads.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/io/strategy.hpp>
#include <htensor/tensor/block_tensor.hpp>
#include <htensor/tensor/tensor.hpp>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct ModelState;
struct Relayout;

class AnyTensor {
 public:
  /// Alive as long as this or another tensor of the model.
  [[nodiscard]] std::string_view name() const noexcept { return entry().name; }
  [[nodiscard]] ElementType type() const noexcept;
  /// Outermost first. Empty also where the file does not name a type.
  [[nodiscard]] std::span<const std::int64_t> dims() const noexcept;
  /// In elements: element (i, j, …) lies at i × strides[0] + j × strides[1] + … All 0 for a splat. Empty
  /// unless the tensor is dense. `out_of_memory`.
  [[nodiscard]] Result<std::vector<std::int64_t>> strides() const;
  [[nodiscard]] ByteOrder byte_order() const noexcept { return entry().byte_order; }
  /// Of all elements, as stored; a splat counts as if it were stored element by element.
  [[nodiscard]] std::uint64_t byte_size() const noexcept;
  [[nodiscard]] bool is_splat() const noexcept { return entry().is_splat(); }
  /// Whether the stored bytes are what `copy_to` writes: no splat, row-major, little-endian.
  [[nodiscard]] bool is_plain() const noexcept;
  /// The tensor in its catalog, with its place in a file. Of a slice, the whole tensor that it is a part of.
  [[nodiscard]] Entry entry() const noexcept;

  /// The stored bytes in place, alive as long as this. Reading pages that cannot be read is an Error under
  /// `ht::guarded` only, and ends the process elsewhere. Where a file cannot be mapped whole, the tensor's
  /// range stays mapped as long as the model; `storage` gives it back earlier. `unsupported_encoding` for a
  /// splat, and for rows of a column-major tensor, which have no bytes in one piece: use `copy_to`.
  /// `truncated` and `missing_shard` where the file is not all there, `bad_state` where the model was opened
  /// for its catalog alone.
  [[nodiscard]] Result<Bytes> bytes() const&;
  [[nodiscard]] Result<Bytes> bytes() const&& = delete;
  /// The same bytes with their owner and their place in the file.
  [[nodiscard]] Result<Storage> storage() const;

  /// Writes dense, row-major, little-endian elements: those of the bytes from `begin` on that such a tensor
  /// has, as many as `into` has room for. Splats are expanded. Blocks are copied as they are; big-endian ones
  /// are `unsupported_encoding` where their byte order cannot be changed. `out_of_bounds` beyond the end.
  [[nodiscard]] Result<void> copy_to(MutableBytes into, std::uint64_t begin = 0) const;

  /// `count` of the stored bytes from `begin` on: in place where the tensor was loaded or its file is mapped
  /// whole, with the cautions of `bytes`, else read into `buffer`, as always under FaultPolicy::off. Errors
  /// are those of `bytes`; `out_of_bounds`.
  [[nodiscard]] Result<Bytes> view(std::uint64_t begin, std::uint64_t count,
                                   std::vector<std::byte>& buffer) const&;
  [[nodiscard]] Result<Bytes> view(std::uint64_t begin, std::uint64_t count,
                                   std::vector<std::byte>& buffer) const&& = delete;

  /// The rows `begin` to `end` of the outermost dimension; shares the bytes. `out_of_bounds`; `bad_shape`
  /// for a scalar; `misaligned` where the rows do not begin with a whole byte, or are not whole blocks. The
  /// last of the `bytes` of packed elements may have bits of the next row.
  [[nodiscard]] Result<AnyTensor> slice(std::int64_t begin, std::int64_t end) const;

  /// Typed and in place, exactly as stored. `dtype_mismatch` and `shape_mismatch` name the stored type and
  /// shape. `misaligned` and `unsupported_encoding` where it cannot be used in place: then `copy` can. A
  /// column-major tensor has the strides for that, a splat strides of 0.
  template <IsDType D, IsShape S>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<const D, S>> tensor() const {
    const auto found = HT_TRY(in_place(dtype_info<D>()));
    const auto shape = HT_TRY(located(S::from(dims())));
    typename S::Array strides{};
    fill_strides(strides);
    auto tensor = Tensor<const D, S>::strided(found.storage, shape, strides, found.offset);
    if (!tensor) return fail(not_in_place(std::move(tensor).error()));
    return tensor;
  }

  /// Blocks of the encoding, in place: see tensor/block_tensor.hpp. Big-endian blocks are
  /// `unsupported_encoding`, and `cast` reads them.
  template <IsEncoding E, IsShape S>
    requires(S::rank >= 1)
  [[nodiscard]] Result<BlockTensor<E, S>> tensor() const {
    HT_TRY(check_encoding(E::tag, E::name));
    const auto shape = HT_TRY(located(S::from(dims())));
    return located(BlockTensor<E, S>::over(HT_TRY(storage()), shape));
  }

  /// In memory of its own: aligned, row-major, in this machine's byte order.
  template <IsDType D, IsShape S>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<D, S>> copy() const {
    HT_TRY(check_dtype(dtype_info<D>()));
    const auto shape = HT_TRY(located(S::from(dims())));
    return located(Tensor<D, S>::over(HT_TRY(copied()), shape));
  }

  /// All elements in row-major order, whatever the rank: in place where they lie like that, else as `copy`.
  template <IsDType D>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<const D, Rank<1>>> flat() const {
    HT_TRY(check_dtype(dtype_info<D>()));
    const auto count = HT_TRY(located(layout::count_elements(dims())));
    constexpr std::uint64_t alignment = is_packed<D> ? 1 : alignof(typename D::Element);
    return located(Tensor<const D, Rank<1>>::over(HT_TRY(plain_storage(alignment)), Rank<1>(count)));
  }

  /// Writes the values of the elements from `first` on, in row-major order, as many as `into` has room for.
  /// Blocks are decoded; I64 and U64 are rounded to F64. `unsupported_encoding` for values that are not real
  /// numbers and dtypes of users, `out_of_bounds`, and the errors of `copy_to`.
  [[nodiscard]] Result<void> read_values(std::span<double> into, std::int64_t first = 0) const;

  /// All elements as `D`, in row-major order in memory of their own, whatever is stored. `would_lose` where
  /// `D` does not hold every value of the stored dtype; blocks have values of F32. `unsupported_encoding` for
  /// user-defined dtypes unless `D` is the stored one.
  template <IsDType D>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<D, Rank<1>>> cast() const {
    const auto count = HT_TRY(located(layout::count_elements(dims())));
    return located(Tensor<D, Rank<1>>::over(HT_TRY(cast_to(dtype_info<D>())), Rank<1>(count)));
  }

 private:
  friend class Model;
  friend struct ModelAccess;
  struct Rows;  // of a slice
  struct InPlace {
    Storage storage;  // a splat's is one element
    std::uint64_t offset = 0;
  };

  AnyTensor(std::shared_ptr<const ModelState> state, std::size_t index) noexcept;

  [[nodiscard]] bool is_resident() const noexcept { return resident_.owner != nullptr; }
  /// The bytes of the whole tensor in place.
  [[nodiscard]] Result<io::MapDone> place() const;
  /// The part of those bytes that a slice has.
  [[nodiscard]] Result<Bytes> own_part(Bytes whole) const;
  [[nodiscard]] Result<void> check_contiguous() const;
  /// From the byte `first` of the relaid tensor on.
  [[nodiscard]] Result<void> copy_stored(MutableBytes into, const Relayout* relayout,
                                         std::uint64_t first) const;
  [[nodiscard]] Result<void> check_range(std::uint64_t begin, std::uint64_t count) const;
  [[nodiscard]] Result<void> check_dtype(const DTypeInfo& wanted) const;
  /// Also refuses big-endian blocks.
  [[nodiscard]] Result<void> check_encoding(EncodingTag wanted, std::string_view name) const;
  [[nodiscard]] Result<InPlace> in_place(const DTypeInfo& wanted) const;
  [[nodiscard]] Result<Storage> copied() const;
  [[nodiscard]] Result<Storage> plain_storage(std::uint64_t alignment) const;
  [[nodiscard]] Result<Storage> cast_to(const DTypeInfo& wanted) const;
  void clear_padding(MutableBytes into, std::uint64_t begin) const noexcept;
  void fill_strides(std::span<std::int64_t> strides) const noexcept;
  /// An error of bytes that cannot be used in place, with what to do about it.
  [[nodiscard]] Error not_in_place(Error error) const;
  /// Adds the file and the tensor to an error.
  [[nodiscard]] Error located(Error error) const;
  template <class T>
  [[nodiscard]] Result<T> located(Result<T> result) const {
    if (!result) return fail(located(std::move(result).error()));
    return result;
  }

  std::shared_ptr<const ModelState> state_;
  std::size_t index_ = 0;
  io::Memory resident_;               // empty unless the tensor was loaded into memory
  std::shared_ptr<const Rows> rows_;  // null for a whole tensor
};

}  // namespace ht::inline v1
