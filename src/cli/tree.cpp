#include <algorithm>
#include <tuple>

#include "cli/display_width.hpp"
#include "cli/rows.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

// Model names have far fewer parts; the rest of a name with more dots is one part. This bounds the recursion
// and the indentation, whatever names a file has.
constexpr std::size_t max_levels = 32;

// The part of the name that begins at this byte.
std::string_view part_at(std::string_view name, std::size_t begin, std::size_t level) {
  const auto rest = name.substr(begin);
  return level + 1 < max_levels ? rest.substr(0, rest.find('.')) : rest;
}

// Natural order part by part, so that names with a common beginning are neighbours.
bool is_before(std::string_view a, std::string_view b) {
  std::size_t begin = 0;
  for (std::size_t level = 0;; ++level) {
    const auto part_a = part_at(a, begin, level);
    const auto part_b = part_at(b, begin, level);
    if (const auto order = natural_order(part_a, part_b); order != 0) return order < 0;
    begin += part_a.size() + 1;
    // The tensor that has the name of a subtree comes before the tensors in it.
    if (begin > a.size() || begin > b.size()) return a.size() < b.size();
  }
}

// Tensors whose names have the same parts up to a level.
struct Subtree {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::string_view part;
  bool has_leaf = false;  // whether the first tensor has no further part
  std::uint64_t bytes = 0;
  std::tuple<bool, std::uint32_t, std::uint64_t> place{true, 0, 0};  // the first in the files; splats last
};

class Tree {
 public:
  Tree(OutputBuffer& out, const Rows& rows, std::string_view sort_key, std::size_t max_columns)
      : out_(out), rows_(rows), sort_key_(sort_key), max_columns_(max_columns), order_(rows.positions()) {
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) { return is_before(name(a), name(b)); });
  }

  // The subtrees of the tensors [begin, end), whose names are equal up to this byte.
  [[nodiscard]] Result<void> print(std::size_t begin, std::size_t end, std::size_t byte,
                                   std::size_t level) {  // NOLINT(misc-no-recursion): max_levels deep
    std::vector<Subtree> children;
    const bool is_sorted = sort_key_ == "size" || sort_key_ == "offset";
    for (std::size_t i = begin; i < end;) {
      const Subtree child = subtree_at(i, end, byte, level);
      i = child.end;
      if (is_sorted) {
        children.push_back(child);
      } else {
        HT_TRY(print(child, byte, level));
      }
    }
    // Natural order, in which the subtrees begin, decides between equal ones.
    if (sort_key_ == "size") {
      std::ranges::sort(children, {}, [](const Subtree& each) { return std::pair(~each.bytes, each.begin); });
    } else if (sort_key_ == "offset") {
      std::ranges::sort(children, {}, [](const Subtree& each) { return std::pair(each.place, each.begin); });
    }
    for (const auto& child : children) HT_TRY(print(child, byte, level));
    return {};
  }

  [[nodiscard]] Result<void> print() { return print(0, order_.size(), 0, 0); }

 private:
  [[nodiscard]] std::string_view name(std::uint32_t position) const { return rows_.at(position).entry.name; }

  [[nodiscard]] Subtree subtree_at(std::size_t begin, std::size_t end, std::size_t byte,
                                   std::size_t level) const {
    const auto first = name(order_[begin]);
    Subtree found{.begin = begin, .end = begin, .part = part_at(first, byte, level)};
    found.has_leaf = byte + found.part.size() == first.size();
    for (; found.end < end; ++found.end) {
      const Entry entry = rows_.at(order_[found.end]).entry;
      if (part_at(entry.name, byte, level) != found.part) break;
      found.bytes = saturating_add(found.bytes, entry.bytes);
      if (!entry.is_splat()) found.place = std::min(found.place, std::tuple(false, entry.file, entry.offset));
    }
    return found;
  }

  [[nodiscard]] Result<void> print(const Subtree& subtree, std::size_t byte,
                                   std::size_t level) {  // NOLINT(misc-no-recursion): max_levels deep
    if (interrupted()) return fail(interruption());
    print_line(subtree, level);
    return print(subtree.begin + (subtree.has_leaf ? 1 : 0), subtree.end, byte + subtree.part.size() + 1,
                 level + 1);
  }

  void print_line(const Subtree& subtree, std::size_t level) {
    const Row first = rows_.at(order_[subtree.begin]);
    const std::size_t count = subtree.end - subtree.begin;
    const std::string facts = fmt::format(
        "  {}  {}",
        subtree.has_leaf ? type_text(first) : fmt::format("{} tensor{}", count, count == 1 ? "" : "s"),
        size_text(subtree.has_leaf ? first.entry.bytes : subtree.bytes));
    std::string name = name_text(subtree.part);
    const std::size_t indent = 2 * level;
    const std::size_t taken = indent + facts.size();
    if (max_columns_ > 0 && taken + display_width(name) > max_columns_) {
      // A name in fewer columns than this is not recognisable, so the whole line is shortened then.
      constexpr std::size_t min_name = 8;
      name = shorten_middle(name, std::max(min_name, max_columns_ - std::min(taken, max_columns_)));
      out_ += shorten_middle(std::string(indent, ' ') + name + facts, max_columns_);
    } else {
      out_.append_spaces(indent);
      out_ += name;
      out_ += facts;
    }
    out_ += '\n';
  }

  OutputBuffer& out_;
  const Rows& rows_;
  std::string_view sort_key_;
  std::size_t max_columns_;
  std::vector<std::uint32_t> order_;
};

}  // namespace

Result<void> print_tree(OutputBuffer& out, const Rows& rows, std::string_view sort_key,
                        std::size_t max_columns) {
  return Tree(out, rows, sort_key, max_columns).print();
}

}  // namespace ht::cli
