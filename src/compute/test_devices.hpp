// Devices that a user could define: with memory that the host can read, and with memory that it cannot.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstring>
#include <functional>
#include <htensor/device/transfer.hpp>
#include <htensor/tensor/tensor.hpp>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace user {

// A device that allocates its own memory and counts the allocations.
struct Arena {
  using Slices = ht::SliceList<ht::slice::Core>;
  static constexpr std::string_view name = "Arena";
  static constexpr bool is_host_accessible = true;
  template <class D>
  static constexpr bool stores = !std::same_as<D, ht::C64>;

  static inline int allocations = 0;
  static ht::Result<ht::Storage> allocate(std::uint64_t bytes) {
    ++allocations;
    auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    const ht::MutableBytes span = *memory;
    return ht::Storage::owned_by(std::move(memory), span);
  }
};

// A device that stores every byte inverted, so that a direct read by the host returns wrong values. It only
// adds, in F32 and I32.
struct InvertingDevice {
  using Slices = ht::SliceList<ht::slice::Core>;
  static constexpr std::string_view name = "InvertingDevice";
  static constexpr bool is_host_accessible = false;
  template <class D>
  static constexpr bool stores = D::bits <= 32;
  template <class Slice, class D>
  static constexpr bool computes = std::same_as<D, ht::F32> || std::same_as<D, ht::I32>;

  using Memory = std::vector<std::byte>;
  static ht::Result<ht::Storage> allocate(std::uint64_t bytes) {
    auto memory = std::make_shared<Memory>(bytes, ~std::byte{0});
    const auto address = reinterpret_cast<std::uintptr_t>(memory->data());
    return ht::Storage::on_device(std::move(memory),
                                  {.device = std::string(name), .bytes = bytes, .address = address});
  }
  static ht::Result<void> copy_to_device(ht::Bytes from, const ht::Storage& to, std::uint64_t offset) {
    auto* const bytes = reinterpret_cast<std::byte*>(ht::placement::first_address(to) + offset);
    for (std::size_t i = 0; i < from.size(); ++i) bytes[i] = ~from[i];
    return {};
  }
  static ht::Result<void> copy_to_host(const ht::Storage& from, std::uint64_t offset, ht::MutableBytes into) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(ht::placement::first_address(from) + offset);
    for (std::size_t i = 0; i < into.size(); ++i) into[i] = ~bytes[i];
    return {};
  }
  template <class Out, class A, class B>
  static ht::Result<void> run(std::plus<> add, const ht::ComputeOptions& /*options*/, const Out& out,
                              const A& a, const B& b) {
    using Element = typename Out::Element;
    ht::detail::for_each_run(
        out.shape().extents(),
        [&](const ht::detail::Run<3>& run) {
          for (std::int64_t i = 0; i < run.count; ++i) {
            const auto x = inverted(a.data()[run.offsets[0] + i * run.strides[0]]);
            const auto y = inverted(b.data()[run.offsets[1] + i * run.strides[1]]);
            out.data()[run.offsets[2] + i * run.strides[2]] = inverted(static_cast<Element>(add(x, y)));
          }
        },
        a.strides(), b.strides(), out.strides());
    return {};
  }

 private:
  template <class Element>
  static Element inverted(Element element) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &element, sizeof(bits));
    bits = ~bits;
    std::memcpy(&element, &bits, sizeof(bits));
    return element;
  }
};

// A device with memory that the host can read, and with its own functions for two operations.
struct Accelerator {
  using Slices = ht::SliceList<ht::slice::Core>;
  static constexpr std::string_view name = "Accelerator";
  static constexpr bool is_host_accessible = true;
  template <class D>
  static constexpr bool stores = std::same_as<D, ht::F32>;
  template <class Slice, class D>
  static constexpr bool computes = std::same_as<D, ht::F32>;

  static ht::Result<ht::Storage> allocate(std::uint64_t bytes) { return Arena::allocate(bytes); }
  static ht::Result<void> copy_to_device(ht::Bytes from, const ht::Storage& to, std::uint64_t offset) {
    std::memcpy(reinterpret_cast<std::byte*>(ht::placement::first_address(to) + offset), from.data(),
                from.size());
    return {};
  }
  static ht::Result<void> copy_to_host(const ht::Storage& from, std::uint64_t offset, ht::MutableBytes into) {
    std::memcpy(into.data(), reinterpret_cast<const std::byte*>(ht::placement::first_address(from) + offset),
                into.size());
    return {};
  }

  static inline int sums = 0;
  template <class Out, class X>
  static ht::Result<void> run(ht::operation::Sum, const ht::ComputeOptions& /*options*/, const Out& out,
                              const X& x) {
    ++sums;
    out() = std::accumulate(x.begin(), x.end(), 0.F);
    return {};
  }
  static inline int copies = 0;
  template <class Out, class X>
  static ht::Result<void> run(ht::operation::Copy, const ht::ComputeOptions& /*options*/, const Out& out,
                              const X& x) {
    ++copies;
    std::copy(x.begin(), x.end(), out.begin());
    return {};
  }
};

}  // namespace user
