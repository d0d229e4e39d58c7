// The tensors of a model that a verb works on.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/format/names.hpp>
#include <htensor/htensor.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cli/cli.hpp"

namespace ht::cli {

struct Row {
  Entry entry;
  /// The dtype or block encoding; empty if the file has none.
  std::string_view dtype;
  std::size_t position;  // in file order
};

/// The tensors of a model whose names match a filter. A view of the model's catalog: rows are created while
/// they are visited. Only a sorted order takes memory, 4 bytes per tensor.
class Rows {
 public:
  /// All tensors. The model must outlive the rows.
  explicit Rows(const Model& model) : model_(model) {}
  /// The tensors whose names match. `not_found` if the filter matches no tensor.
  [[nodiscard]] static Result<Rows> of(const Model& model, const NameFilter& filter);

  /// Sorts by "name" (natural order), "size" (largest first) or "offset" (splats last); other keys mean file
  /// order.
  void sort(std::string_view key);

  /// Calls `visit(row)` for each row, until a visit that returns a Result fails. `cancelled` when the user
  /// interrupts the program.
  template <class Visit>
  [[nodiscard]] Result<void> for_each(const Visit& visit) const {
    const auto visit_row = [&](const Row& row) -> Result<void> {
      if constexpr (std::is_void_v<decltype(visit(row))>) {
        visit(row);
        return {};
      } else {
        return visit(row);
      }
    };
    const std::size_t count = is_sorted_ ? order_.size() : model_.catalog().size();
    for (std::size_t i = 0; i < count; ++i) {
      if (i % 4096 == 0 && is_interrupted()) return fail(interruption());
      if (is_sorted_) {
        HT_TRY(visit_row(at(order_[i])));
      } else if (const Row row = at(i); filter_.matches(row.entry.name)) {
        HT_TRY(visit_row(row));
      }
    }
    return {};
  }

  /// The row at this position in file order, whether it matches or not.
  [[nodiscard]] Row at(std::size_t position) const;
  /// The positions of all rows in file order, to be sorted.
  [[nodiscard]] std::vector<std::uint32_t> positions() const;

 private:
  const Model& model_;
  NameFilter filter_;
  std::vector<std::uint32_t> order_;
  bool is_sorted_ = false;
  // By tag, filled lazily: a lookup in the model for each tensor would take longer than printing.
  mutable std::array<std::string_view, 256> dtypes_{};
  mutable std::array<std::string_view, 256> encodings_{};
};

/// The sum, saturated on overflow: with missing data allowed, headers can declare more bytes than 64 bits can
/// count.
[[nodiscard]] std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept;

/// "F32 [4, 8]", "-" for an entry without a type.
[[nodiscard]] std::string type_text(const Row& row);

}  // namespace ht::cli
