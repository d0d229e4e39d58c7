#include "cli/elements.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "cli/text.hpp"

namespace ht::cli {
namespace {

// The bytes of elements, and after how many of them they repeat, if any is asked for.
struct Stored {
  Storage storage;
  std::int64_t period;
};

Result<Stored> stored(const Entry& entry, const Storage& raw, int bits) {
  const auto count = HT_TRY(layout::count_elements(entry.dims));
  if (!entry.is_splat()) return Stored{raw, count};
  // As many patterns as end with a whole element.
  const std::size_t repeats = std::lcm(entry.splat.size() * 8, static_cast<std::size_t>(bits)) / 8;
  auto storage = HT_TRY(Storage::owned(repeats));
  const MutableBytes bytes = HT_TRY(storage.writable_bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = entry.splat[i % entry.splat.size()];
  return Stored{std::move(storage), static_cast<std::int64_t>(repeats * 8 / static_cast<std::size_t>(bits))};
}

template <class D>
Result<AppendElement> packed_appender(const Stored& from, bool json) {
  auto elements = HT_TRY((Tensor<const D, Rank<1>>::over(from.storage, Rank<1>(from.period))));
  return [elements, period = from.period, json](fmt::memory_buffer& out, std::int64_t i) {
    append_element<D>(out, elements(i % period), json);
  };
}

template <class D>
AppendElement whole_appender(const Stored& from, bool reversed, bool json) {
  using Element = typename D::Element;
  return [from, reversed, json](fmt::memory_buffer& out, std::int64_t i) {
    std::array<std::byte, sizeof(Element)> bytes{};
    const auto at = static_cast<std::size_t>(i % from.period) * sizeof(Element);
    std::ranges::copy(from.storage.bytes().subspan(at, sizeof(Element)), bytes.begin());
    if (reversed) {
      // A complex number is two.
      constexpr std::size_t number =
          D::number.kind == NumberKind::complex ? sizeof(Element) / 2 : sizeof(Element);
      for (std::size_t n = 0; n < bytes.size(); n += number)
        std::ranges::reverse(std::span(bytes).subspan(n, number));
    }
    Element element{};
    std::memcpy(&element, bytes.data(), sizeof(Element));
    append_element<D>(out, element, json);
  };
}

}  // namespace

Result<AppendElement> element_appender(const Entry& entry, const Storage& raw, bool json) {
  return visit_dtype(entry.dtype, [&]<class D>(D) -> Result<AppendElement> {
    const auto from = HT_TRY(stored(entry, raw, D::bits));
    if constexpr (is_packed<D>) {
      return packed_appender<D>(from, json);
    } else {
      // A splat's pattern is in this machine's order in every file.
      return whole_appender<D>(from, entry.byte_order == ByteOrder::big && !entry.is_splat(), json);
    }
  });
}

}  // namespace ht::cli
