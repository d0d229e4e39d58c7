#include <fmt/format.h>

#include <map>
#include <memory>

#include "cli/rows.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

// No model nests its names like that; the rest of a name that has more dots is one part. This bounds the
// recursion, and the indentation, whatever a file calls its tensors.
constexpr std::size_t most_levels = 32;

struct Branch {
  std::map<std::string_view, std::unique_ptr<Branch>> children;
  std::uint64_t bytes = 0;
  std::size_t tensors = 0;
  const Row* leaf = nullptr;
};

void append_branch(std::string& out, const Branch& branch, std::string_view name,
                   std::size_t level) {  // NOLINT(misc-no-recursion): most_levels deep
  append_text(out, "{:{}}{}  ", "", level * 2, printable(name));
  if (branch.leaf != nullptr) {
    append_text(out, "{} {}  {}\n", dtype_cell(*branch.leaf), shape_cell(*branch.leaf),
                size_text(branch.leaf->entry.bytes));
  } else {
    append_text(out, "{} tensor{}  {}\n", branch.tensors, branch.tensors == 1 ? "" : "s",
                size_text(branch.bytes));
  }
  for (const auto& [child, below] : branch.children) append_branch(out, *below, child, level + 1);
}

void add(Branch& root, const Row& row) {
  Branch* at = &root;
  std::string_view rest = row.entry.name;
  for (std::size_t level = 1;; ++level) {
    const auto dot = level < most_levels ? rest.find('.') : std::string_view::npos;
    auto& child = at->children[rest.substr(0, dot)];
    if (!child) child = std::make_unique<Branch>();
    at = child.get();
    at->bytes = saturating_add(at->bytes, row.entry.bytes);
    ++at->tensors;
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  at->leaf = &row;
}

}  // namespace

std::string tree_text(const std::vector<Row>& rows) {
  Branch root;
  for (const auto& row : rows) add(root, row);
  std::string out;
  for (const auto& [name, branch] : root.children) append_branch(out, *branch, name, 0);
  return out;
}

}  // namespace ht::cli
