// A tensor: a view of bytes as elements of a dtype in a shape. It shares ownership of the bytes.
//
//   using Matrix = ht::Tensor<ht::F32, ht::Rank<2>>;
//   const auto x = HT_TRY(Matrix::of(ht::Rank<2>(2, 2), {1.0F, 2.0F, 3.0F, 4.0F}));    // new memory
//   x(0, 1) = 5.0F;                                          // unchecked in release builds
//   const float value = HT_TRY(x.at(0, 1));                  // always checked
//   const auto row = HT_TRY(x.select<0>(1));                 // a view: shares the bytes of x
//   for (const float y : x.transpose()) use(y);              // in row-major order of the transposed view
//   const ht::Tensor<const ht::F32, ht::Rank<2>> fixed = x;  // read-only
//
// A Tensor is a handle. Copies, slices and transposes share the bytes; destroying the last handle releases
// them. A const handle does not make the elements const: `Tensor<const D, …>` is the read-only type.
// `Tensor<D, …>` converts to `Tensor<const D, …>`, never back. Many threads may copy handles and read
// elements at once; the caller synchronizes writes.
//
// Lifetime: a tensor keeps its bytes alive, also those of a mapped file after the Model is destroyed.
// Pointers from `data`, spans from `bytes` and iterators do not: they are valid as long as any handle to the
// bytes exists.
//
// Cost: a handle has a Storage, a pointer, the dynamic extents and the strides, and no allocation of its own.
// Copying a handle costs an atomic increment. Views (`select`, `slice`, `reshape`, `broadcast`, `transpose`)
// copy no elements. `zeros`, `of`, `copy` and `cast` allocate memory and return `out_of_memory` if the system
// has none.
//
// Errors: functions that can fail return a Result, and their comment lists the codes. Functions that cannot
// fail return the value itself. A page of a mapped file that cannot be read is `read_failed`, or
// `changed_underfoot` if the file shrank, in `at` and `copy`; `operator()`, iterators and `data` do not check
// pages (base/fault.hpp).
//
// Edge cases: a tensor of rank 0 has one element, `x()`. A tensor with an extent of 0 has no elements: it may
// have any strides and a null `data`, loops over it end at once, and `bytes` is empty. Strides may be 0 or
// negative.
//
// Memory of the caller, and other orders of elements:
//
//   std::vector<float> buffer(6);                            // outlives all tensors over it
//   const auto lent = HT_TRY(ht::Storage::borrowed(std::as_writable_bytes(std::span(buffer))));
//   const auto y = HT_TRY(Matrix::over(lent, ht::Rank<2>(2, 3)));                // row-major: strides 3, 1
//   const auto z = HT_TRY(Matrix::strided(lent, ht::Rank<2>(2, 3), {1, 2}));     // column-major
//
// Pass a tensor by `const Tensor&`, return a tensor by value, and keep a copy of the handle, not a pointer
// from `data`, in an object that lives longer than the call.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <htensor/base/fault.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/device.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/tensor/shape.hpp>
#include <htensor/tensor/storage.hpp>
#include <initializer_list>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

// Iteration over the elements of strided views in row-major order: one by one, or in runs for inner loops.

namespace ht::inline v1 {

namespace detail {

/// Iterates over elements in row-major order. It holds extents and strides by value, so it may outlive its
/// Tensor; it does not keep the bytes alive. A step costs one addition within a row and up to `N` additions
/// at the end of a row. Loops over contiguous elements are faster over `data()`.
template <class Pointer, int N>
class ElementIterator {
 public:
  using Array = std::array<std::int64_t, static_cast<std::size_t>(N)>;
  using reference = decltype(*std::declval<const Pointer&>());
  using value_type = std::iter_value_t<Pointer>;
  using difference_type = std::int64_t;
  using iterator_category =
      std::conditional_t<std::is_reference_v<reference>, std::forward_iterator_tag, std::input_iterator_tag>;
  using iterator_concept = std::forward_iterator_tag;

  ElementIterator() = default;
  ElementIterator(Pointer first, const Array& extents, const Array& strides, std::int64_t position) noexcept
      : at_(first), extents_(extents), strides_(strides), position_(position) {}

  /// A reference to the element; for packed elements a proxy or a value. The end iterator must not be
  /// dereferenced.
  [[nodiscard]] reference operator*() const noexcept { return *at_; }

  /// Goes to the next element in row-major order.
  ElementIterator& operator++() noexcept {
    ++position_;
    for (int d = N - 1; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      if (++index_[i] < extents_[i]) {
        at_ = at_ + strides_[i];
        return *this;
      }
      // Back to index 0 of this dimension; then increment the next outer dimension.
      at_ = at_ + strides_[i] * (1 - extents_[i]);
      index_[i] = 0;
    }
    return *this;
  }
  ElementIterator operator++(int) noexcept {
    ElementIterator before = *this;
    ++*this;
    return before;
  }

  /// Compares positions only: iterators of different tensors are not comparable.
  friend bool operator==(const ElementIterator& a, const ElementIterator& b) noexcept {
    return a.position_ == b.position_;
  }

 private:
  Pointer at_{};
  Array extents_{};
  Array strides_{};
  Array index_{};
  std::int64_t position_ = 0;
};

/// A run of elements that one loop visits, in `Views` views of the same shape. In view v it is the elements
/// `offsets[v] + i * strides[v]` for 0 ≤ i < `count`. A run whose strides are 1 is an array for kernels; a
/// broadcast operand has the stride 0.
template <std::size_t Views>
struct Run {
  std::int64_t count = 1;
  std::array<std::int64_t, Views> offsets{};
  std::array<std::int64_t, Views> strides{};

  /// Whether the elements of the run are adjacent in all views.
  [[nodiscard]] bool is_contiguous() const noexcept {
    return std::ranges::all_of(strides, [](std::int64_t stride) { return stride == 1; });
  }
};

/// Calls `visit(run)` for all elements of views that have the same extents, in row-major order, with runs as
/// long as the strides of all views allow. Contiguous views are one run. Does nothing for extents without
/// elements; one run of one element for rank 0. `visit` is called on the calling thread.
template <std::size_t N, class Visit, class... Strides>
void for_each_run(const std::array<std::int64_t, N>& extents, Visit visit, const Strides&... of_views) {
  constexpr std::size_t views = sizeof...(of_views);
  const std::array<std::array<std::int64_t, N>, views> strides{of_views...};
  if (std::ranges::find(extents, 0) != extents.end()) return;
  Run<views> run;
  run.strides.fill(1);
  std::size_t outer = N;  // the outer loop below iterates over dimensions [0, outer)
  for (; outer > 0; --outer) {
    const std::size_t d = outer - 1;
    if (extents[d] == 1) continue;
    bool extends = true;
    for (std::size_t v = 0; v < views; ++v) {
      if (run.count == 1) run.strides[v] = strides[v][d];
      extends = extends && strides[v][d] == run.strides[v] * run.count;
    }
    if (!extends) break;
    run.count *= extents[d];
  }
  std::array<std::int64_t, N> index{};
  while (true) {
    visit(std::as_const(run));
    std::size_t d = outer;
    for (; d > 0; --d) {
      const bool is_last = ++index[d - 1] == extents[d - 1];
      for (std::size_t v = 0; v < views; ++v)
        run.offsets[v] += strides[v][d - 1] * (is_last ? 1 - extents[d - 1] : 1);
      if (!is_last) break;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace detail

/// The host cannot read the device's memory, and the device copies tensors of type T. `copy`, `contiguous`
/// and `copy_into` require this of a device whose memory the host cannot read.
template <class Dev, class T>
concept CopiesOnDevice = !HostAccessible<Dev> && Computes<Dev, slice::Core, typename T::DType> &&
                         placement::CanAllocate<Dev> && HasOperation<Dev, operation::Copy, T, T>;

/// A handle to elements of the dtype D (read-only if D is const) in a shape S on the device Dev. There is no
/// default constructor. A `D` that the device does not store does not compile.
///
///   void fill(const ht::Tensor<ht::F32, ht::Rank<1>>& x);         // writes; x may be a view
///   float total(const ht::Tensor<const ht::F32, ht::Rank<1>>& x); // reads; mutable tensors convert
///
/// A tensor on a device that the host cannot access has no `operator()`, `at`, iterators and `bytes`: use
/// `to_host` (htensor/device/transfer.hpp).
template <class D, class S, class Dev = Host>
  requires Compatible<Dev, D> && IsShape<S> && HasElements<D>
class Tensor {
 public:
  /// The dtype without const, the shape, the device, and the C++ type of one element.
  using DType = std::remove_const_t<D>;
  using ShapeType = S;
  using Device = Dev;
  using Element = typename DType::Element;
  /// A plain pointer, or a PackedPointer for elements of fewer than 8 bits (dtype/packed.hpp).
  using Pointer = ElementPointer<D>;
  using Array = typename S::Array;
  /// The number of dimensions, and whether the elements are read-only.
  static constexpr int rank = S::rank;
  static constexpr bool read_only = std::is_const_v<D>;

  /// A tensor in new memory on the device, all bits zero. `options` selects the queue of a device with
  /// queues. `bad_shape` for a negative extent, `size_overflow` for more than 2^63-1 bytes, `out_of_memory`.
  /// Large host tensors take physical memory when they are written. In F8_E8M0, which has no zero, all bits
  /// zero is 2^-127.
  [[nodiscard]] static Result<Tensor> zeros(S shape = {}, const ComputeOptions& options = {})
    requires(!read_only && placement::CanAllocate<Dev>)
  {
    const auto extents = shape.extents();
    const auto bytes = HT_TRY(placement::dense_bytes(extents, DType::bits));
    auto storage = HT_TRY(placement::allocate<Dev>(bytes, options));
    return over(std::move(storage), shape);
  }

  /// A tensor in new memory with a copy of `values`, in row-major order. `size_mismatch` unless there is one
  /// value for each element. Also the errors of `zeros`.
  [[nodiscard]] static Result<Tensor> of(S shape, std::span<const Element> values)
    requires(!read_only && HostAccessible<Dev> && placement::CanAllocate<Dev>)
  {
    HT_TRY(placement::check_value_count(shape.extents(), values.size()));
    auto tensor = HT_TRY(zeros(shape));
    std::size_t next = 0;
    for (auto&& element : tensor) element = values[next++];
    return tensor;
  }
  /// The same with values in braces: `of({}, {1.0F})` for rank 0.
  [[nodiscard]] static Result<Tensor> of(S shape, std::initializer_list<Element> values)
    requires(!read_only && HostAccessible<Dev> && placement::CanAllocate<Dev>)
  {
    return of(shape, std::span(values.begin(), values.size()));
  }

  /// A view of dense row-major elements in `storage`, starting at a byte offset. Fails unless the bytes are
  /// in the storage, aligned, and writable if the tensor is mutable. `out_of_bounds`, `misaligned`,
  /// `bad_state` for a mutable tensor over read-only bytes and for a host tensor over device memory;
  /// `bad_shape`, `size_overflow`. Copies nothing and shares ownership of `storage`.
  [[nodiscard]] static Result<Tensor> over(Storage storage, S shape, std::uint64_t offset = 0) {
    const auto extents = shape.extents();
    HT_TRY(layout::count_elements(extents));
    Array strides{};
    layout::fill_row_major_strides(extents, strides);
    return strided(std::move(storage), shape, strides, offset);
  }

  /// The same with any strides, counted in elements. `offset` is the byte position of element (0, 0, …) in
  /// the storage. Strides may be negative or 0: the bytes that the elements reach must be inside the storage.
  /// Elements of a mutable tensor should not share an address: several indices would then write one element.
  /// Errors are those of `over`.
  [[nodiscard]] static Result<Tensor> strided(Storage storage, S shape, const Array& strides,
                                              std::uint64_t offset = 0) {
    const auto extents = shape.extents();
    HT_TRY(placement::check({.storage = storage,
                             .extents = extents,
                             .strides = strides,
                             .offset = offset,
                             .bits = DType::bits,
                             .alignment = is_packed<DType> ? 1 : alignof(Element),
                             .writes = !read_only,
                             .on_device = !HostAccessible<Dev>}));
    const auto pointer = placement::element_pointer<D>(storage, offset);
    return Tensor(std::move(storage), pointer, shape, strides);
  }

  /// Converts a mutable tensor to a read-only tensor, and a static shape to a dynamic shape. Implicit, and
  /// copies no elements. The other direction of the shape is `with_shape`, which checks the extents.
  template <class Other, class OtherS>
    requires(std::same_as<D, const Other> || std::same_as<D, Other>) && ShapeFits<OtherS, S> &&
                (!std::same_as<Tensor<Other, OtherS, Dev>, Tensor<D, S, Dev>>)
  Tensor(const Tensor<Other, OtherS, Dev>& other)  // NOLINT(google-explicit-constructor)
      : storage_(other.storage_),
        data_(other.data_),
        shape_(S::assume(other.shape_.extents())),
        strides_(other.strides_) {}

  /// A read-only tensor does not convert to a mutable tensor; use `copy()`. The memory behind a read-only
  /// tensor may be a mapped file that must not change.
  template <class OtherS>
    requires(!read_only)
  Tensor(const Tensor<const D, OtherS, Dev>&) = delete;

  /// The extents as a Shape.
  [[nodiscard]] const S& shape() const noexcept { return shape_; }
  /// The distances between neighbours of each dimension, in elements.
  [[nodiscard]] const Array& strides() const noexcept { return strides_; }
  /// One extent. `dimension` is in [0, rank): other numbers are undefined behaviour.
  [[nodiscard]] std::int64_t extent(int dimension) const noexcept { return shape_.extent(dimension); }
  /// The number of elements: the product of the extents.
  [[nodiscard]] std::int64_t elements() const noexcept { return shape_.elements(); }
  /// The owner of the bytes, which may be larger than this view.
  [[nodiscard]] const Storage& storage() const noexcept { return storage_; }
  /// The address of element (0, 0, …). On a device, an address of that device. May be null only if there are
  /// no elements.
  [[nodiscard]] Pointer data() const noexcept { return data_; }
  /// Whether the elements are adjacent in row-major order, so that `data()` can be used as an array.
  [[nodiscard]] bool is_contiguous() const noexcept {
    return layout::is_row_major(shape_.extents(), strides_);
  }

  /// The element at this index. Debug builds assert that the index is valid; `at` always checks. A reference
  /// for elements of whole bytes. For packed elements, a proxy that can be assigned if the tensor is mutable,
  /// else the value. An invalid index in a release build is undefined behaviour.
  template <std::integral... Is>
    requires(sizeof...(Is) == rank && HostAccessible<Dev>)
  [[nodiscard]] decltype(auto) operator()(Is... index) const noexcept {
    assert(layout::check_index(Array{static_cast<std::int64_t>(index)...}, shape_.extents()));
    return data_[offset_of({static_cast<std::int64_t>(index)...})];
  }

  /// The value of the element at this index. `out_of_bounds`, or the Error of a mapped page that cannot be
  /// read. Costs a comparison per dimension, and for mapped files a guarded section: use `copy` or `cast` for
  /// many elements.
  template <std::integral... Is>
    requires(sizeof...(Is) == rank && HostAccessible<Dev>)
  [[nodiscard]] Result<Element> at(Is... index) const {
    HT_TRY(layout::check_index(Array{layout::to_index(index)...}, shape_.extents()));
    const auto offset = offset_of({static_cast<std::int64_t>(index)...});
    if (!storage_.may_be_mapped()) return data_[offset];
    const auto touched = placement::bytes_between<D>(data_, {offset, offset});
    return guarded(touched, [&]() -> Element { return data_[offset]; });
  }

  /// Iterates over the elements in row-major order, for any strides. Reads of mapped pages are not guarded
  /// (see base/fault.hpp). The forward iterators hold extents and strides by value.
  [[nodiscard]] auto begin() const noexcept
    requires HostAccessible<Dev>
  {
    return detail::ElementIterator<Pointer, rank>(data_, shape_.extents(), strides_, 0);
  }
  [[nodiscard]] auto end() const noexcept
    requires HostAccessible<Dev>
  {
    return detail::ElementIterator<Pointer, rank>(data_, shape_.extents(), strides_, elements());
  }

  /// The tensor of rank - 1 at `index` of a dimension. Shares the bytes. `out_of_bounds`. Negative indices do
  /// not count from the end.
  template <int Dimension>
    requires(Dimension >= 0 && Dimension < rank)
  [[nodiscard]] auto select(std::int64_t index) const
      -> Result<Tensor<D, detail::ShapeFrom<detail::without<S, Dimension>()>, Dev>> {
    using Lower = Tensor<D, detail::ShapeFrom<detail::without<S, Dimension>()>, Dev>;
    HT_TRY(layout::check_index(std::array{index}, std::array{shape_.extent(Dimension)}));
    const auto all = shape_.extents();
    typename Lower::Array extents{};
    typename Lower::Array strides{};
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const std::size_t from = i < static_cast<std::size_t>(Dimension) ? i : i + 1;
      extents[i] = all[from];
      strides[i] = strides_[from];
    }
    // A tensor without elements may have strides that lead outside of the storage.
    const auto move = elements() == 0 ? 0 : index * strides_[static_cast<std::size_t>(Dimension)];
    return Lower(storage_, data_ + move, Lower::ShapeType::assume(extents), strides);
  }

  /// The indices begin, begin + step, … of a dimension, excluding `end`. With a negative step, `end` may be
  /// -1, which includes index 0. Shares the bytes. `out_of_bounds`. An empty range is valid.
  /// `x.slice<0>(n - 1, -1, -1)` reverses the n elements of a dimension.
  template <int Dimension>
    requires(Dimension >= 0 && Dimension < rank)
  [[nodiscard]] auto slice(std::int64_t begin, std::int64_t end, std::int64_t step = 1) const
      -> Result<Tensor<D, detail::ShapeFrom<detail::with_dynamic<S, Dimension>()>, Dev>> {
    using Part = Tensor<D, detail::ShapeFrom<detail::with_dynamic<S, Dimension>()>, Dev>;
    constexpr auto at = static_cast<std::size_t>(Dimension);
    auto extents = shape_.extents();
    const auto count = HT_TRY(layout::count_slice(extents[at], begin, end, step));
    auto strides = strides_;
    // Strides that no element uses were not checked, and the product could overflow.
    if (count > 1 && elements() > 0) strides[at] *= step;
    const auto move = elements() == 0 || count == 0 ? 0 : begin * strides_[at];
    extents[at] = count;
    return Part(storage_, data_ + move, Part::ShapeType::assume(extents), strides);
  }

  /// The same elements in another shape, without a copy. `bad_shape` if the new shape needs a copy.
  /// `shape_mismatch` if the number of elements differs. A contiguous tensor can take every shape with
  /// this number of elements; call `contiguous` on other tensors first.
  template <IsShape NewShape>
  [[nodiscard]] Result<Tensor<D, NewShape, Dev>> reshape(NewShape shape = {}) const {
    typename NewShape::Array strides{};
    HT_TRY(layout::reshape_strides(shape_.extents(), strides_, shape.extents(), strides));
    return Tensor<D, NewShape, Dev>(storage_, data_, shape, strides);
  }

  /// The elements repeated to a larger shape: extents of 1 become any extent, and outer dimensions are added.
  /// No data is copied: strides of repeated dimensions are 0. The view is read-only, because several indices
  /// refer to one element. `shape_mismatch` if an extent is neither 1 nor equal to that of `shape`.
  ///
  ///   const auto sum = HT_TRY(x + HT_TRY(bias.broadcast(x.shape())));   // [m, n] + [n]
  ///
  /// A view of rank 0 repeats its element everywhere. `size_overflow` if the new shape has more than 2^63-1
  /// elements. Operators read broadcast views at full speed, but do not make them: `x + bias` of different
  /// shapes is a `shape_mismatch` or does not compile.
  template <IsShape NewShape>
    requires BroadcastableTo<S, NewShape>
  [[nodiscard]] Result<Tensor<const DType, NewShape, Dev>> broadcast(NewShape shape = {}) const {
    typename NewShape::Array strides{};
    HT_TRY(layout::broadcast_strides(shape_.extents(), strides_, shape.extents(), strides));
    return Tensor<const DType, NewShape, Dev>(storage_, data_, shape, strides);
  }

  /// The same tensor with another shape type. `shape_mismatch` if the extents contradict the type. Use it to
  /// give static extents to a tensor from a file, so that later operations are checked at compile time.
  template <IsShape NewShape>
  [[nodiscard]] Result<Tensor<D, NewShape, Dev>> with_shape() const
    requires ShapesMayMatch<S, NewShape>
  {
    const auto shape = HT_TRY(NewShape::from(shape_.extents()));
    return Tensor<D, NewShape, Dev>(storage_, data_, shape, strides_);
  }

  /// The tensor with two dimensions swapped. Copies no data. The last two dimensions by default;
  /// `x.transpose<0, 2>()` swaps others.
  template <int A = rank - 2, int B = rank - 1>
    requires(A >= 0 && A < rank && B >= 0 && B < rank)
  [[nodiscard]] auto transpose() const noexcept {
    using Swapped = Tensor<D, detail::ShapeFrom<detail::with_swapped<S, A, B>()>, Dev>;
    auto extents = shape_.extents();
    auto strides = strides_;
    std::swap(extents[static_cast<std::size_t>(A)], extents[static_cast<std::size_t>(B)]);
    std::swap(strides[static_cast<std::size_t>(A)], strides[static_cast<std::size_t>(B)]);
    return Swapped(storage_, data_, Swapped::ShapeType::assume(extents), strides);
  }

  /// The tensor itself if it is contiguous in row-major order, else a contiguous copy. The result may share
  /// the bytes: writes to it are then visible in this tensor. Errors are those of `copy`.
  [[nodiscard]] Result<Tensor> contiguous(const ComputeOptions& options = {}) const
    requires(HostAccessible<Dev> && placement::CanAllocate<Dev>) || CopiesOnDevice<Dev, Tensor>
  {
    if (is_contiguous()) return *this;
    return Tensor(HT_TRY(copy(options)));
  }

  /// A contiguous copy in new memory. The device copies if the host cannot read the elements. The copy is
  /// mutable, also of a read-only tensor. `out_of_memory`; `read_failed` or `changed_underfoot` for an
  /// unreadable page. On the host, the calling thread copies, in runs as long as the strides allow.
  [[nodiscard]] Result<Tensor<DType, S, Dev>> copy(const ComputeOptions& options = {}) const
    requires CopiesOnDevice<Dev, Tensor>
  {
    auto fresh = HT_TRY(Tensor<DType, S, Dev>::zeros(shape_, options));
    HT_TRY(Dev::run(operation::Copy{}, options, fresh, *this));
    return fresh;
  }
  [[nodiscard]] Result<Tensor<DType, S, Dev>> copy(const ComputeOptions& options = {}) const
    requires HostAccessible<Dev> && placement::CanAllocate<Dev>
  {
    auto fresh = HT_TRY(Tensor<DType, S, Dev>::zeros(shape_, options));
    auto to = fresh.data();
    const auto touched = HT_TRY(placement::touched_bytes<D>(data_, shape_.extents(), strides_));
    HT_TRY(guarded(touched, [&] {
      const auto copy_run = [&](const detail::Run<1>& run) {
        const auto from = data_ + run.offsets[0];
        if constexpr (!is_packed<DType>) {
          if (run.is_contiguous()) {
            to = std::copy_n(from, run.count, to);
            return;
          }
        }
        for (std::int64_t i = 0; i < run.count; ++i) to[i] = static_cast<Element>(from[i * run.strides[0]]);
        to = to + run.count;
      };
      detail::for_each_run(shape_.extents(), copy_run, strides_);
    }));
    return fresh;
  }

  /// The bytes of all elements. Unused bits of the last byte are unspecified. Deleted for temporaries, which
  /// may be the last owner of the bytes. `bad_state` unless the tensor is contiguous and starts on a byte
  /// boundary. Guard reads of a mapped file with `ht::guarded`.
  [[nodiscard]] Result<Bytes> bytes() const&
    requires HostAccessible<Dev>
  {
    return placement::dense_view<D>(data_, shape_.extents(), strides_);
  }
  [[nodiscard]] Result<Bytes> bytes() const&& = delete;

 private:
  template <class OtherD, class OtherS, class OtherDev>
    requires Compatible<OtherDev, OtherD> && IsShape<OtherS> && HasElements<OtherD>
  friend class Tensor;

  Tensor(Storage storage, Pointer data, S shape, const Array& strides) noexcept
      : storage_(std::move(storage)), data_(data), shape_(shape), strides_(strides) {}

  // The caller has checked the index and the strides, so that nothing overflows.
  [[nodiscard]] std::int64_t offset_of(const Array& index) const noexcept {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * strides_[i];
    return offset;
  }

  Storage storage_;
  Pointer data_;
  [[no_unique_address]] S shape_;
  Array strides_;
};

}  // namespace ht::inline v1
