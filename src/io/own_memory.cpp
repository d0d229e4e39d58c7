#include "io/own_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <htensor/base/checked.hpp>

#include "base/out_of_memory.hpp"

namespace ht::inline v1::io {
namespace {

constexpr std::uint64_t large_page_bytes = std::uint64_t{2} << 20;

}  // namespace

void OwnMemory::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

Result<std::shared_ptr<OwnMemory>> OwnMemory::allocate(std::uint64_t bytes, Port& port) {
  const std::uint64_t alignment = bytes >= large_page_bytes ? large_page_bytes : port.page_bytes();
  const auto rounded = checked::align_up(std::max<std::uint64_t>(bytes, 1), alignment);
  if (!rounded || !checked::narrow<std::ptrdiff_t>(*rounded)) return fail(out_of_memory(bytes));
  std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(
      std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(*rounded))));
  if (!memory) return fail(out_of_memory(bytes));
  // Small pages do as well, only slower: a system without large ones refuses this.
  static_cast<void>(port.advise({memory.get(), *rounded}, Advice::huge_pages));
  return std::shared_ptr<OwnMemory>(new OwnMemory(std::move(memory), static_cast<std::size_t>(bytes), port));
}

bool OwnMemory::allocate_pages(std::uint64_t offset, std::uint64_t bytes) const {
  const std::uint64_t page = port_.page_bytes();
  const std::uint64_t first = offset / page * page;
  const std::uint64_t last = (offset + bytes + page - 1) / page * page;
  return port_.advise({memory_.get() + first, last - first}, Advice::allocate).has_value();
}

void OwnMemory::drop(Bytes part) noexcept {
  const std::uint64_t page = port_.page_bytes();
  const auto begin = static_cast<std::uint64_t>(part.data() - memory_.get());
  // Pages that a neighbour is on stay.
  const std::uint64_t first = (begin + page - 1) / page * page;
  const std::uint64_t last = (begin + part.size()) / page * page;
  // What the system does not take back now goes with the rest.
  if (first < last) static_cast<void>(port_.advise({memory_.get() + first, last - first}, Advice::drop));
}

}  // namespace ht::inline v1::io
