// Other dtypes for the same values, never with a silent loss.
//
// `upcast` widens within a family, `cast` goes wherever every finite value fits, and `as` is `cast`
// as a view that converts each element when it is read. What would lose anything does not compile.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <htensor/tensor/tensor.hpp>
#include <iterator>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

namespace detail {

/// One element as another dtype that holds its value.
template <class From, class To>
[[nodiscard]] constexpr typename To::Element convert_element(typename From::Element value) noexcept {
  using Target = typename To::Element;
  if constexpr (std::same_as<From, To>) {
    return value;
  } else if constexpr (To::number.kind == NumberKind::complex) {
    return Target(convert_element<From, F32>(value));
  } else if constexpr (requires { static_cast<Target>(value); }) {
    return static_cast<Target>(value);
  } else {
    // A small type to a small one of another family, a user's among them: a double holds either.
    return static_cast<Target>(static_cast<double>(value));
  }
}

template <class To, class D, class S, class Dev>
[[nodiscard]] Result<Tensor<To, S, Dev>> convert_all(const Tensor<D, S, Dev>& tensor) {
  using From = std::remove_const_t<D>;
  auto result = HT_TRY(Tensor<To, S, Dev>::zeros(tensor.shape()));
  auto to = result.data();
  const auto convert = [](auto&& element) {
    return convert_element<From, To>(static_cast<typename From::Element>(element));
  };
  const auto touched =
      HT_TRY(placement::touched_bytes<D>(tensor.data(), tensor.shape().extents(), tensor.strides()));
  HT_TRY(guarded(touched, [&] {
    const auto convert_run = [&](const Run<1>& run) {
      const auto from = tensor.data() + run.offsets[0];
      // The compiler vectorizes a loop without strides.
      if (run.is_contiguous()) {
        for (std::int64_t i = 0; i < run.count; ++i) to[i] = convert(from[i]);
      } else {
        for (std::int64_t i = 0; i < run.count; ++i) to[i] = convert(from[i * run.strides[0]]);
      }
      to = to + run.count;
    };
    for_each_run(tensor.shape().extents(), convert_run, tensor.strides());
  }));
  return result;
}

}  // namespace detail

/// The same values in a wider dtype of the same family, in new memory.
template <class To, class D, class S, class Dev>
  requires UpcastableTo<std::remove_const_t<D>, To> && Compatible<Dev, To> && HostAccessible<Dev> &&
           placement::CanAllocate<Dev>
[[nodiscard]] Result<Tensor<To, S, Dev>> upcast(const Tensor<D, S, Dev>& tensor) {
  return detail::convert_all<To>(tensor);
}

/// The same values in any dtype that holds them all, in new memory.
template <class To, class D, class S, class Dev>
  requires LosslessTo<std::remove_const_t<D>, To> && Compatible<Dev, To> && HostAccessible<Dev> &&
           placement::CanAllocate<Dev>
[[nodiscard]] Result<Tensor<To, S, Dev>> cast(const Tensor<D, S, Dev>& tensor) {
  return detail::convert_all<To>(tensor);
}

/// A tensor read as another dtype: nothing is copied, each element is converted when it is read.
template <class To, class D, class S, class Dev>
  requires LosslessTo<std::remove_const_t<D>, To> && Compatible<Dev, To> && HostAccessible<Dev> &&
           placement::CanAllocate<Dev>
class AsView {
 public:
  using DType = To;
  using Stored = std::remove_const_t<D>;
  using Element = typename To::Element;
  static constexpr int rank = S::rank;

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

  explicit AsView(Tensor<const Stored, S, Dev> tensor) noexcept : tensor_(std::move(tensor)) {}

  /// What is behind the view; a kernel reads it and widens on the way.
  [[nodiscard]] const Tensor<const Stored, S, Dev>& stored() const noexcept { return tensor_; }
  [[nodiscard]] const S& shape() const noexcept { return tensor_.shape(); }
  [[nodiscard]] std::int64_t elements() const noexcept { return tensor_.elements(); }

  template <std::integral... Is>
    requires(sizeof...(Is) == rank)
  [[nodiscard]] Element operator()(Is... index) const noexcept {
    return detail::convert_element<Stored, To>(tensor_(index...));
  }
  template <std::integral... Is>
    requires(sizeof...(Is) == rank)
  [[nodiscard]] Result<Element> at(Is... index) const {
    return detail::convert_element<Stored, To>(HT_TRY(tensor_.at(index...)));
  }
  /// The elements in row-major order, converted as they are read. Like those of a tensor, they are not
  /// guarded against pages that cannot be read.
  [[nodiscard]] auto begin() const noexcept { return Iterator(tensor_.begin()); }
  [[nodiscard]] auto end() const noexcept { return Iterator(tensor_.end()); }
  /// The view made real: what `cast` gives.
  [[nodiscard]] Result<Tensor<To, S, Dev>> copy() const { return cast<To>(tensor_); }

 private:
  Tensor<const Stored, S, Dev> tensor_;
};

/// A lazy `cast`.
template <class To, class D, class S, class Dev>
  requires LosslessTo<std::remove_const_t<D>, To> && Compatible<Dev, To> && HostAccessible<Dev> &&
           placement::CanAllocate<Dev>
[[nodiscard]] auto as(const Tensor<D, S, Dev>& tensor) noexcept {
  return AsView<To, D, S, Dev>(tensor);
}

}  // namespace ht::inline v1
