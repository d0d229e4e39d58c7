// A tensor of a block encoding such as ggml's Q4_K. It shares ownership of the bytes.
//
//   const auto q = HT_TRY(model["blk.0.attn_q.weight"]);
//   const auto w = HT_TRY(q.tensor<ht::Q4_K, ht::Rank<2>>());   // BlockTensor<Q4_K, Rank<2>>, in place
//   const auto row = HT_TRY(ht::cast<ht::F32>(HT_TRY(w.slice(7, 8))));
//
// Rows are the innermost dimension; each row is a whole number of blocks. A BlockTensor is a read-only handle
// like `Tensor<const D, …>`: copies and slices share the bytes, and many threads may read it. Its values
// equal those that ggml decodes to F32: `cast` and `as` read them as F32 or F64, `cast_lossy` rounds them to
// other dtypes.
//
// Ownership: the handle keeps the bytes alive, also after the Model is destroyed. `data` and `bytes` are
// valid as long as a handle to the same bytes exists. Copying a handle costs an atomic increment.
//
// An element has no address, because a block is decoded as a whole. There are no mutable block tensors, no
// strides and no transpose: `slice` and `select` take whole rows, and `cast<F32>` gives a Tensor for
// everything else.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/device.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/tensor/shape.hpp>
#include <htensor/tensor/storage.hpp>
#include <utility>

namespace ht::inline v1 {

namespace placement {

/// The size of a tensor of blocks in bytes. `bad_shape` if a row is not a whole number of blocks,
/// `size_overflow`. Rows of 0 elements are valid.
[[nodiscard]] Result<std::uint64_t> bytes_of_blocks(layout::Extents extents, const Encoding& encoding);

/// `out_of_bounds` unless all blocks, starting at the byte `offset`, are inside the storage.
[[nodiscard]] Result<void> check_blocks(const Storage& storage, layout::Extents extents, std::uint64_t offset,
                                        const Encoding& encoding);

}  // namespace placement

/// A view of rows of blocks, in the order of the file. The type states the encoding; `AnyTensor::tensor`
/// returns `dtype_mismatch` if the file has another one. Many threads may use the same object.
template <IsEncoding E, IsShape S>
  requires(S::rank >= 1)
class BlockTensor {
 public:
  using EncodingType = E;
  /// The dtype of the values.
  using DType = F32;
  using ShapeType = S;
  using Device = Host;
  static constexpr int rank = S::rank;
  static constexpr Encoding encoding{E::tag, E::name, E::block_elements, E::block_bytes};

  /// A view of blocks in `storage`, in row-major order, starting at a byte offset of any alignment. Shares
  /// ownership of `storage`. `bad_shape` if a row is not a whole number of blocks, `size_overflow`,
  /// `out_of_bounds` if the storage is too small. Block contents are not checked: every byte pattern decodes
  /// to some values.
  [[nodiscard]] static Result<BlockTensor> over(Storage storage, S shape, std::uint64_t offset = 0) {
    HT_TRY(placement::check_blocks(storage, shape.extents(), offset, encoding));
    const std::byte* const data = storage.bytes().empty() ? nullptr : storage.bytes().data() + offset;
    return BlockTensor(std::move(storage), data, shape);
  }

  /// The shape in elements, not in blocks. `elements()` is 0 if an extent is 0.
  [[nodiscard]] const S& shape() const noexcept { return shape_; }
  [[nodiscard]] std::int64_t extent(int dimension) const noexcept { return shape_.extent(dimension); }
  [[nodiscard]] std::int64_t elements() const noexcept { return shape_.elements(); }
  /// The owner of the bytes, which may be larger than this tensor.
  [[nodiscard]] const Storage& storage() const noexcept { return storage_; }
  /// The first block. Null if the storage is empty. Reads of a mapped file may fail: see base/fault.hpp.
  [[nodiscard]] const std::byte* data() const noexcept { return data_; }
  /// All blocks. Deleted for temporaries, which may be the last owner of the bytes. The view does not own the
  /// bytes.
  [[nodiscard]] Bytes bytes() const& noexcept {
    return {data_, static_cast<std::size_t>(bytes_of(elements()))};
  }
  [[nodiscard]] Bytes bytes() const&& = delete;

  /// The indices [begin, end) of the outermost dimension. Shares the bytes. `out_of_bounds`. Decodes nothing
  /// and reads no bytes. An empty range is valid.
  template <class Rows = S>
    requires(Rows::rank >= 2)
  [[nodiscard]] auto slice(std::int64_t begin, std::int64_t end) const
      -> Result<BlockTensor<E, detail::ShapeFrom<detail::with_dynamic<Rows, 0>()>>> {
    using Part = BlockTensor<E, detail::ShapeFrom<detail::with_dynamic<Rows, 0>()>>;
    auto extents = shape_.extents();
    const auto count = HT_TRY(layout::count_slice(extents[0], begin, end, 1));
    const auto* const first = count == 0 ? data_ : data_ + bytes_of(begin * elements_per_index());
    extents[0] = count;
    return Part(storage_, first, Part::ShapeType::assume(extents));
  }

  /// The tensor of rank - 1 at `index` of the outermost dimension. Shares the bytes. `out_of_bounds`. For
  /// rank 2, the result is one row.
  template <class Rows = S>
    requires(Rows::rank >= 2)
  [[nodiscard]] auto select(std::int64_t index) const
      -> Result<BlockTensor<E, detail::ShapeFrom<detail::without<Rows, 0>()>>> {
    using Lower = BlockTensor<E, detail::ShapeFrom<detail::without<Rows, 0>()>>;
    HT_TRY(layout::check_index(std::array{index}, std::array{shape_.extent(0)}));
    typename Lower::ShapeType::Array extents{};
    for (std::size_t i = 0; i < extents.size(); ++i) extents[i] = shape_.extents()[i + 1];
    const auto* const first = elements() == 0 ? data_ : data_ + bytes_of(index * elements_per_index());
    return Lower(storage_, first, Lower::ShapeType::assume(extents));
  }

 private:
  template <IsEncoding OtherE, IsShape OtherS>
    requires(OtherS::rank >= 1)
  friend class BlockTensor;

  BlockTensor(Storage storage, const std::byte* data, S shape) noexcept
      : storage_(std::move(storage)), data_(data), shape_(shape) {}

  // The number of elements at one index of the outermost dimension.
  [[nodiscard]] std::int64_t elements_per_index() const noexcept {
    return shape_.extent(0) == 0 ? 0 : elements() / shape_.extent(0);
  }
  [[nodiscard]] static std::int64_t bytes_of(std::int64_t elements) noexcept {
    return elements / E::block_elements * E::block_bytes;
  }

  Storage storage_;
  const std::byte* data_;
  [[no_unique_address]] S shape_;
};

}  // namespace ht::inline v1
