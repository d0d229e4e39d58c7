// A tensor whose type is known at run time; a Model is a range of AnyTensor.
//
//   for (const ht::AnyTensor& t : model) upload(t.name(), t.type(), t.dims(), HT_TRY(t.bytes()));
//
//   const auto w = HT_TRY(model["wte.weight"]);
//   const std::array<ht::AnyTensor::Slice, 2> corner{{{.stop = 2}, {.stop = 64}}};     // [0, 2) × [0, 64)
//   std::vector<float> values(2 * 64);
//   const auto into = std::as_writable_bytes(std::span(values));
//   HT_TRY(w.read(into, corner, {.dtype = ht::F32::tag, .rounding = ht::Rounding()}));
//
// An AnyTensor is a handle like a Tensor: copies share the bytes, and it may outlive the model. After
// `ht::load` into the model's own memory, an AnyTensor that was looked up before the load still refers to the
// file. `bytes` returns stored bytes in place, `tensor` typed elements in place. `copy_to` and `cast` write
// dense row-major elements, for any stored byte order and element order, and for splats. A const AnyTensor is
// thread-safe.
//
// `slice` returns an AnyTensor that has some rows of another tensor. In the comments below, "the whole
// tensor" has all rows.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/io/strategy.hpp>
#include <htensor/tensor/block_tensor.hpp>
#include <htensor/tensor/tensor.hpp>
#include <htensor/values/cast.hpp>
#include <htensor/values/statistics.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

struct ModelState;
struct Relayout;
struct Selection;
struct ResultForm;

class AnyTensor {
 public:
  /// Valid while the model or any of its tensors exists.
  [[nodiscard]] std::string_view name() const noexcept { return entry().name; }
  /// The dtype or the encoding. Not `is_known` if the file states no type, or a type that neither the library
  /// nor `OpenOptions::dtypes` has.
  [[nodiscard]] ElementType type() const noexcept;
  /// The dimensions, outermost first. Empty for a scalar, and if the file does not state a type. Valid as
  /// long as this tensor.
  [[nodiscard]] std::span<const std::int64_t> dims() const noexcept;
  /// The strides in elements: element (i, j, …) is i × strides[0] + j × strides[1] + … elements after the
  /// first. All 0 for a splat. Empty unless the tensor is dense. `out_of_memory`.
  [[nodiscard]] Result<std::vector<std::int64_t>> strides() const;
  [[nodiscard]] ByteOrder byte_order() const noexcept { return entry().byte_order; }
  /// The size of all elements as stored; a splat counts as if expanded.
  [[nodiscard]] std::uint64_t byte_size() const noexcept;
  /// The position of the first element in the file, in bytes; for a result of `slice`, of its first element.
  /// 0 for a splat.
  [[nodiscard]] std::uint64_t offset() const noexcept;
  [[nodiscard]] bool is_splat() const noexcept { return entry().is_splat(); }
  /// Whether the stored bytes equal the output of `copy_to`: not a splat, row-major, little-endian.
  [[nodiscard]] bool is_plain() const noexcept;
  /// The catalog entry of the tensor, with its position in a file. For a result of `slice`, the entry of
  /// the whole tensor.
  [[nodiscard]] Entry entry() const noexcept;

  /// The stored bytes in place, valid as long as this tensor. Access to an unreadable page is an Error under
  /// `ht::guarded` and SIGBUS elsewhere. If a file is too large for the address space, the tensor's range
  /// stays mapped as long as the model.
  /// `unsupported_encoding` for a splat and for rows of a column-major tensor, which are not contiguous: use
  /// `copy_to`. `truncated` and `missing_shard` if the file is incomplete or missing, `bad_state` if the
  /// model was opened with `catalog_only`. `unsupported_strategy` for a source that cannot be mapped, until
  /// the tensor is loaded.
  [[nodiscard]] Result<Bytes> bytes() const&;
  [[nodiscard]] Result<Bytes> bytes() const&& = delete;
  /// The same bytes with their owner and their position in the file. If a file is too large for the address
  /// space, the tensor's range is unmapped with the last Storage.
  [[nodiscard]] Result<Storage> storage() const;
  /// The stored bytes in writable memory: private pages of the file, mapped once per file and copied when
  /// they are written. Writes are visible through every private storage of the model, but never in the file
  /// nor in `bytes`, `read` and other functions. Writes last as long as the model or a private storage of the
  /// file. After a load with the strategy `read`, the result is the model's own memory, and writes are
  /// visible everywhere. Bytes of a source that is not a file are copied once per tensor. Errors are those of
  /// `bytes`, and `changed_underfoot` if the file was truncated since it was opened and no longer contains
  /// the whole tensor. A private page that cannot be read becomes zero and stays zero, because private pages
  /// cannot be restored. From then on, guarded reads fail for that page and for all private pages of the file
  /// at higher offsets, because the library records only the lowest offset of such a page.
  [[nodiscard]] Result<Storage> private_storage() const;

  /// Fills `into` with bytes of the dense, row-major, little-endian form of the tensor, from byte `begin` of
  /// that form on. Splats are expanded; blocks are not decoded. `unsupported_encoding` for big-endian blocks
  /// that cannot be byte-swapped and for column-major elements that are not whole bytes; `out_of_bounds`
  /// beyond the end.
  [[nodiscard]] Result<void> copy_to(MutableBytes into, std::uint64_t begin = 0) const;

  /// The elements `start`, `start + step`, … before `stop` of a dimension. Negative positions do not count
  /// from the end: with a negative step, a `stop` of -1 includes position 0.
  struct Slice {
    std::int64_t start = 0;
    std::int64_t stop = 0;
    std::int64_t step = 1;
  };

  struct ReadOptions {
    /// The dtype to write; `invalid` keeps the stored type. For a dtype, blocks are decoded to F32, and the
    /// F32 values are converted to the dtype.
    DTypeTag dtype = DTypeTag::invalid;
    /// How to round values that the dtype does not hold. nullopt allows no rounding: such a dtype is
    /// `would_lose`. Stochastic rounding depends on the index of the element in the result.
    std::optional<Rounding> rounding{};
    /// Writes each element whose size is not a multiple of 8 bits into bytes of its own: its stored bits,
    /// then zeros. `dtype` must not name another dtype.
    bool unpack = false;
    WorkOptions work{};
  };

  /// Fills `into` with the selected elements: dense, row-major, in this machine's byte order. `slices` has
  /// one entry per dimension, or none to select all elements. Runs on all processors, and reads only the
  /// selected elements or the blocks that contain them. `size_mismatch` unless `into` has the size of the
  /// result; `shape_mismatch` for another number of slices, `out_of_bounds`, `would_lose`; `bad_dtype` for an
  /// unknown tag; `dtype_mismatch` for `unpack` with another dtype; `unsupported_encoding` for blocks as
  /// stored unless whole blocks are selected, and for values of unknown and user-defined dtypes. Also the
  /// errors of `copy_to`, and `cancelled`.
  [[nodiscard]] Result<void> read(MutableBytes into, std::span<const Slice> slices,
                                  const ReadOptions& options) const;
  [[nodiscard]] Result<void> read(MutableBytes into, std::span<const Slice> slices = {}) const {
    return read(into, slices, ReadOptions());
  }

  /// Returns `count` stored bytes from `begin` on. If the tensor was loaded or its file is mapped as a whole,
  /// the result is in place, and the rules of `bytes` apply. Otherwise, and for mapped files under
  /// FaultPolicy::off, the bytes are read into `buffer`. Errors are those of `bytes`, and `out_of_bounds`.
  [[nodiscard]] Result<Bytes> view(std::uint64_t begin, std::uint64_t count,
                                   std::vector<std::byte>& buffer) const&;
  [[nodiscard]] Result<Bytes> view(std::uint64_t begin, std::uint64_t count,
                                   std::vector<std::byte>& buffer) const&& = delete;

  /// Returns the rows [begin, end) of the outermost dimension; shares the bytes. `out_of_bounds`;
  /// `bad_shape` for a scalar and for an unknown type; `misaligned` if the rows do not begin at a byte
  /// boundary or are not whole blocks. With packed elements, the last byte of `bytes` may contain bits of the
  /// next row.
  [[nodiscard]] Result<AnyTensor> slice(std::int64_t begin, std::int64_t end) const;

  /// Typed elements in place, exactly as stored. `dtype_mismatch` and `shape_mismatch` name the stored type
  /// and shape. `misaligned` and `unsupported_encoding` if the bytes cannot be used in place: use `copy`. A
  /// column-major tensor has column-major strides, a splat has strides of 0.
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

  /// The blocks of the tensor in place, if it has this encoding: see tensor/block_tensor.hpp. Big-endian
  /// blocks are `unsupported_encoding`: use `cast`.
  template <IsEncoding E, IsShape S>
    requires(S::rank >= 1)
  [[nodiscard]] Result<BlockTensor<E, S>> tensor() const {
    HT_TRY(check_encoding(E::tag, E::name));
    const auto shape = HT_TRY(located(S::from(dims())));
    return located(BlockTensor<E, S>::over(HT_TRY(storage()), shape));
  }

  /// A copy in new memory: aligned, row-major, in this machine's byte order.
  template <IsDType D, IsShape S>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<D, S>> copy() const {
    HT_TRY(check_dtype(dtype_info<D>()));
    const auto shape = HT_TRY(located(S::from(dims())));
    return located(Tensor<D, S>::over(HT_TRY(copied()), shape));
  }

  /// All elements in row-major order, as a tensor of rank 1: in place if they are stored in that form, else a
  /// copy.
  template <IsDType D>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<const D, Rank<1>>> flat() const {
    HT_TRY(check_dtype(dtype_info<D>()));
    const auto count = HT_TRY(located(layout::count_elements(dims())));
    constexpr std::uint64_t alignment = is_packed<D> ? 1 : alignof(typename D::Element);
    return located(Tensor<const D, Rank<1>>::over(HT_TRY(plain_storage(alignment)), Rank<1>(count)));
  }

  /// Fills `into` with the values of the elements from row-major index `first` on. Blocks are decoded; I64
  /// and U64 are rounded to F64. `unsupported_encoding` for values that are not real numbers and for
  /// user-defined dtypes, `out_of_bounds`, and the errors of `copy_to`.
  [[nodiscard]] Result<void> read_values(std::span<double> into, std::int64_t first = 0) const;

  /// All elements converted to `D`, in row-major order in new memory. Blocks are decoded to F32, and the F32
  /// values are converted to `D`. `would_lose` if `D` does not hold every value of the stored dtype, or of
  /// F32 for blocks. `unsupported_encoding` for user-defined dtypes unless `D` is the stored dtype.
  template <IsDType D>
    requires Compatible<Host, D>
  [[nodiscard]] Result<Tensor<D, Rank<1>>> cast() const {
    const auto count = HT_TRY(located(layout::count_elements(dims())));
    return located(Tensor<D, Rank<1>>::over(HT_TRY(cast_to(dtype_info<D>())), Rank<1>(count)));
  }

 private:
  friend class Model;
  friend struct ModelAccess;
  struct Rows;  // of a result of `slice`
  struct InPlace {
    Storage storage;  // of a splat: one element
    std::uint64_t offset = 0;
  };

  AnyTensor(std::shared_ptr<const ModelState> state, std::size_t index) noexcept;

  /// The first row. The tensor must be a result of `slice`.
  [[nodiscard]] std::int64_t first_row() const noexcept;
  [[nodiscard]] bool is_resident() const noexcept { return resident_.owner != nullptr; }
  /// Returns the bytes of the whole tensor in place; maps them if they are not in memory.
  [[nodiscard]] Result<io::Strategy::MapDone> whole_in_place() const;
  /// Returns the bytes of this tensor; `whole` are the bytes of the whole tensor, which may have more rows.
  [[nodiscard]] Result<Bytes> slice_bytes(Bytes whole) const;
  [[nodiscard]] Result<void> check_contiguous() const;
  /// Copies from byte `first` of the row-major little-endian form on. `relayout` is null if the stored bytes
  /// have that form.
  [[nodiscard]] Result<void> copy_stored(MutableBytes into, const Relayout* relayout,
                                         std::uint64_t first) const;
  [[nodiscard]] Result<void> check_range(std::uint64_t begin, std::uint64_t count) const;
  [[nodiscard]] Result<void> check_dtype(const DTypeInfo& requested) const;
  /// Also fails for big-endian blocks.
  [[nodiscard]] Result<void> check_encoding(EncodingTag requested, std::string_view name) const;
  [[nodiscard]] Result<InPlace> in_place(const DTypeInfo& requested) const;
  [[nodiscard]] Result<Storage> copied() const;
  [[nodiscard]] Result<Storage> plain_storage(std::uint64_t alignment) const;
  [[nodiscard]] Result<Storage> cast_to(const DTypeInfo& requested) const;
  /// Fails unless values of the stored type can be converted to the dtype.
  [[nodiscard]] Result<void> check_conversion(const DTypeInfo& requested, bool may_round) const;
  /// The type that `read` writes.
  [[nodiscard]] Result<ElementType> result_type(const ReadOptions& options) const;
  [[nodiscard]] Result<Selection> select(std::span<const Slice> slices) const;
  [[nodiscard]] Result<void> read_stored(MutableBytes into, const Selection& selection,
                                         const ResultForm& result, const WorkOptions& work) const;
  /// Clears the bits of the last byte that belong to the next row, if this tensor is a slice of rows that end
  /// within a byte. No effect unless `into`, which begins with byte `begin`, includes the last byte.
  void clear_bits_of_next_row(MutableBytes into, std::uint64_t begin) const noexcept;
  void fill_strides(std::span<std::int64_t> strides) const noexcept;
  /// Adds a hint to an error about bytes that cannot be used in place.
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

// Statistics and histograms of tensors whose type is known at run time (values/statistics.hpp has the rules).
//
//   for (const ht::AnyTensor& t : model) print(t.name(), HT_TRY(ht::statistics(t)));
//
// Stored bytes are read once, in place if the file is mapped; memory use does not depend on the tensor's
// size. All block encodings and all dtypes of the library except C64 are supported, in either byte order.
// Splats count as if expanded.

/// Returns the statistics of all elements. Runs on all processors. `unsupported_encoding` if the elements are
/// not real numbers, `cancelled`, and the errors of `AnyTensor::copy_to`.
[[nodiscard]] Result<Statistics> statistics(const AnyTensor& tensor, const WorkOptions& work = {});

/// Returns the histogram of all elements. Errors of `statistics`, and `bad_shape` for an invalid range.
[[nodiscard]] Result<Histogram> histogram(const AnyTensor& tensor, const Histogram::Range& range,
                                          const WorkOptions& work = {});

}  // namespace ht::inline v1
