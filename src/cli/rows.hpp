// The tensors that a verb is about: those of a model that a pattern names.
#pragma once

#include <cstdint>
#include <htensor/htensor.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ht::cli {

struct Row {
  Entry entry;
  /// The dtype or block encoding; empty where the file does not say.
  std::string_view dtype;
  std::size_t position;  // in file order, which breaks ties
};

/// The tensors whose names match, in file order. `not_found` where the filter matches no tensor.
[[nodiscard]] Result<std::vector<Row>> rows_of(const Model& model, const NameFilter& filter = {});

/// By "name", "size" (the largest first) or "offset" (splats, which have none, last); else as they are.
void sort_rows(std::vector<Row>& rows, std::string_view key);

/// A header of a file whose data need not be there can name more bytes than 64 bits count; then it is as
/// many as they can.
[[nodiscard]] std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept;
[[nodiscard]] std::uint64_t total_bytes(const std::vector<Row>& rows) noexcept;

/// "F32", or "-" where it is not known; "[4, 8]" or "-".
[[nodiscard]] std::string dtype_cell(const Row& row);
[[nodiscard]] std::string shape_cell(const Row& row);

/// As a tree of the names' parts, which stand between dots, with what is below each.
[[nodiscard]] std::string tree_text(const std::vector<Row>& rows);

}  // namespace ht::cli
