// ls: the tensors of a model, its metadata and totals.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <htensor/base/bytes.hpp>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/metadata_text.hpp"
#include "cli/print/progress.hpp"
#include "cli/print/rows.hpp"
#include "cli/print/statistics_text.hpp"
#include "cli/print/table.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

struct LsArguments {
  NameFilter filter;
  std::string sort;
  bool tree = false;
  bool allow_incomplete = false;
  bool metadata = false;
  bool no_metadata = false;
  bool stats = false;
};

// Number of elements, saturated on overflow; nullopt for an entry without a type.
std::optional<std::uint64_t> parameter_count(const Entry& entry) {
  if (!entry.is_typed()) return std::nullopt;
  std::uint64_t count = 1;
  for (const std::int64_t dim : entry.dims) {
    if (dim == 0) return 0;
    count = checked::multiply(count, static_cast<std::uint64_t>(dim)).value_or(UINT64_MAX);
  }
  return count;
}

class Totals {
 public:
  void add(const Row& row) {
    // Adjacent tensors mostly have the same dtype.
    if (last_ == nullptr || last_dtype_ != row.dtype) {
      last_dtype_ = row.dtype;
      last_ = &by_dtype_[row.dtype];
    }
    ++last_->tensors;
    last_->bytes = saturating_add(last_->bytes, row.entry.bytes);
    ++all_.tensors;
    all_.bytes = saturating_add(all_.bytes, row.entry.bytes);
    const auto more = parameter_count(row.entry);
    parameters_ = more && parameters_ ? std::optional(saturating_add(*parameters_, *more)) : std::nullopt;
  }

  [[nodiscard]] std::uint64_t bytes() const { return all_.bytes; }
  /// nullopt if a tensor has no type.
  [[nodiscard]] std::optional<std::uint64_t> parameters() const { return parameters_; }

  /// "2 tensors, 24 parameters, 96 bytes: 2 F32 (96 bytes)".
  void append_text_to(OutputBuffer& out) const {
    append_text(out, "{} tensor{}, ", all_.tensors, all_.tensors == 1 ? "" : "s");
    if (parameters_) {
      append_text(out, "{} parameter{}, ", count_text(*parameters_), *parameters_ == 1 ? "" : "s");
    } else {
      out += "parameters unknown, ";
    }
    out += byte_count_text(all_.bytes);
    std::string_view separator = ": ";
    for (const auto& [dtype, total] : by_dtype_) {
      append_text(out, "{}{} {} ({})", separator, total.tensors, dtype.empty() ? "untyped" : dtype,
                  byte_count_text(total.bytes));
      separator = ", ";
    }
    out += '\n';
  }

 private:
  struct Total {
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::string_view, Total> by_dtype_;
  std::string_view last_dtype_;
  Total* last_ = nullptr;
  Total all_;
  std::optional<std::uint64_t> parameters_ = 0;
};

// Statistics of the rows of a model, with one progress bar for all rows. Disabled unless requested.
class RowStatistics {
 public:
  static Result<RowStatistics> of(const Model& model, const Rows& rows, const LsArguments& options,
                                  const Common& common) {
    RowStatistics statistics(model);
    if (!options.stats) return statistics;
    statistics.bar_ = std::make_unique<WorkWithBar>(common);
    HT_TRY(rows.for_each(
        [&](const Row& row) { statistics.total_ = saturating_add(statistics.total_, row.entry.bytes); }));
    return statistics;
  }

  [[nodiscard]] bool is_on() const noexcept { return bar_ != nullptr; }

  // nullopt if the values are not real numbers.
  Result<std::optional<Statistics>> compute(const Row& row) {
    const auto tensor = HT_TRY(model_.at(row.position));
    WorkOptions work = bar_->options();
    work.on_progress = [&](const Progress& now) {
      bar_->update({.done_bytes = done_ + now.done_bytes,
                    .total_bytes = total_,
                    .elapsed = std::chrono::steady_clock::now() - begin_});
    };
    auto facts = ht::statistics(tensor, work);
    done_ = saturating_add(done_, row.entry.bytes);
    if (!facts && facts.error().code() == ErrorCode::unsupported_encoding) return std::nullopt;
    return std::optional(HT_TRY(std::move(facts)));
  }

 private:
  explicit RowStatistics(const Model& model) : model_(model) {}

  const Model& model_;
  std::unique_ptr<WorkWithBar> bar_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

std::vector<std::string> json_paths_of(const Model& model) {
  std::vector<std::string> paths;
  for (const auto& file : model.files()) paths.push_back(json_path(file));
  return paths;
}

// Appends the separator and the row, or nothing if the values cannot be read. "stats" is null if the values
// are not real numbers.
Result<void> append_json_row(OutputBuffer& out, std::string_view separator, const Row& row,
                             const std::vector<std::string>& paths, RowStatistics& statistics) {
  std::optional<Statistics> facts;
  if (statistics.is_on()) facts = HT_TRY(statistics.compute(row));
  const Entry& entry = row.entry;
  out.append(separator, R"({"name":)", JsonText{entry.name});
  if (entry.is_typed()) {
    out.append(R"(,"dtype":")", row.dtype, R"(","shape":)");
    append_shape(out, entry.dims, ",");
  } else {
    out += R"(,"dtype":null,"shape":null)";
  }
  const auto offset = entry.is_splat() ? std::nullopt : std::optional(entry.offset);
  out.append(R"(,"bytes":)", entry.bytes, R"(,"offset":)", offset, R"(,"file":)", paths[entry.file]);
  if (statistics.is_on()) {
    out += R"(,"stats":)";
    facts ? append_json_statistics(out, *facts) : static_cast<void>(out += "null");
  }
  out += '}';
  return {};
}

Result<void> print_json_lines(OutputBuffer& out, const Rows& rows, const Model& model,
                              RowStatistics& statistics) {
  const auto paths = json_paths_of(model);
  return rows.for_each([&](const Row& row) -> Result<void> {
    HT_TRY(append_json_row(out, "", row, paths, statistics));
    out += '\n';
    return {};
  });
}

Result<void> print_json(OutputBuffer& out, const Rows& rows, const Model& model, bool with_metadata,
                        RowStatistics& statistics) {
  const auto paths = json_paths_of(model);
  append_text(out, R"({{"format":{},"files":{},"tensors":[)", json_string(model.catalog().format()),
              json_list(model.files(), json_path));
  Totals totals;
  std::string_view separator;
  HT_TRY(rows.for_each([&](const Row& row) -> Result<void> {
    totals.add(row);
    return append_json_row(out, std::exchange(separator, ","), row, paths, statistics);
  }));
  out += R"(],"metadata":)";
  if (with_metadata) {
    append_json(out, model.catalog().metadata());
  } else {
    out += "null";
  }
  out.append(R"(,"total_bytes":)", totals.bytes(), R"(,"parameters":)", totals.parameters(), "}\n");
  return {};
}

Result<void> print_table(OutputBuffer& out, const Rows& rows, const Model& model, Totals& totals,
                         RowStatistics& statistics) {
  std::vector<Column> columns{{.title = "name", .shortens = true},
                              {.title = "dtype"},
                              {.title = "shape"},
                              {.title = "bytes", .right = true},
                              {.title = "offset", .right = true}};
  std::vector<std::string> files;
  if (model.files().size() > 1) {
    columns.push_back({.title = "file", .shortens = true});
    for (const auto& file : model.files()) files.push_back(file.filename().string());
  }
  // In the order of the rows. The values are read once, although the rows are visited twice.
  std::vector<std::optional<Statistics>> facts;
  if (statistics.is_on()) {
    for (const std::string_view title : {"min", "max", "mean", "std", "zeros", "NaN", "Inf"})
      columns.push_back({.title = title, .right = true});
    HT_TRY(rows.for_each([&](const Row& row) -> Result<void> {
      facts.push_back(HT_TRY(statistics.compute(row)));
      return {};
    }));
  }
  std::size_t next = 0;
  Table table(out, columns);
  const auto add = [&](const Row& row) {
    const Entry& entry = row.entry;
    table.name(entry.name);
    if (entry.is_typed()) {
      table.text(row.dtype);
      table.shape(entry.dims);
    } else {
      table.text("-");
      table.text("-");
    }
    table.size(entry.bytes);
    entry.is_splat() ? table.text("splat") : table.number(entry.offset);
    if (!files.empty()) table.text(files[entry.file]);
    if (facts.empty()) return;
    const auto& own = facts[next++ % facts.size()];
    for (const auto& number : {own ? own->min : 0, own ? own->max : 0, own ? own->mean() : 0,
                               own ? own->standard_deviation() : 0}) {
      table.text(own ? short_number_text(number) : "-");
    }
    for (const auto count : {own ? own->zeros : 0, own ? own->nans : 0, own ? own->infinities : 0})
      own ? table.number(count) : table.text("-");
  };
  HT_TRY(rows.for_each([&](const Row& row) {
    totals.add(row);
    add(row);
  }));
  table.start_printing();
  return rows.for_each(add);
}

// The parts of a name beyond this level count as one part, which limits recursion and indentation for any
// file. Names of models have far fewer parts.
constexpr std::size_t max_levels = 32;

// The part of the name that begins at byte `begin`.
std::string_view part_at(std::string_view name, std::size_t begin, std::size_t level) {
  const auto rest = name.substr(begin);
  return level + 1 < max_levels ? rest.substr(0, rest.find('.')) : rest;
}

// Natural order part by part, so that names with a common prefix are adjacent.
bool is_before(std::string_view a, std::string_view b) {
  std::size_t begin = 0;
  for (std::size_t level = 0;; ++level) {
    const auto part_a = part_at(a, begin, level);
    const auto part_b = part_at(b, begin, level);
    if (const auto order = natural_order(part_a, part_b); order != 0) return order < 0;
    begin += part_a.size() + 1;
    // A tensor with the name of a subtree comes before the tensors of the subtree.
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
  // The place of the first tensor in file order; splats are last.
  std::tuple<bool, std::uint32_t, std::uint64_t> place{true, 0, 0};
};

// The rows as a tree of the parts of their names, which are separated by dots, with the totals of each
// subtree. Siblings are in natural order, or by "size" (largest first) or "offset". Lines wider than
// `max_columns` are shortened; 0 means unlimited.
class Tree {
 public:
  Tree(OutputBuffer& out, const Rows& rows, std::string_view sort_key, std::size_t max_columns)
      : out_(out), rows_(rows), sort_key_(sort_key), max_columns_(max_columns), order_(rows.positions()) {
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) { return is_before(name(a), name(b)); });
  }

  // Prints the subtrees of the tensors [begin, end), whose names are equal up to this byte.
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
    // Ties keep natural order, which is the order of `begin`.
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
    if (is_interrupted()) return fail(interruption());
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
      // A shorter name is not recognisable, so the whole line is shortened instead.
      constexpr std::size_t min_name = 8;
      name = shorten_middle(name, std::max(min_name, max_columns_ - std::min(taken, max_columns_)));
      out_ += shorten_middle(std::string(indent, ' ') + name + facts, max_columns_);
    } else {
      out_.append_spaces(indent);
      out_.append(name, facts);
    }
    out_ += '\n';
  }

  OutputBuffer& out_;
  const Rows& rows_;
  std::string_view sort_key_;
  std::size_t max_columns_;
  std::vector<std::uint32_t> order_;
};

Result<void> print_human(OutputBuffer& out, const Rows& rows, const Model& model, const LsArguments& options,
                         bool quiet, RowStatistics& statistics) {
  const bool with_metadata = options.metadata || (!quiet && !options.no_metadata);
  const std::size_t columns = terminal_columns(STDOUT_FILENO);
  if (with_metadata) append_lines(out, model.catalog().metadata(), options.metadata, columns);
  Totals totals;
  if (options.tree) {
    HT_TRY(Tree(out, rows, options.sort, columns).print());
    if (!quiet) HT_TRY(rows.for_each([&](const Row& row) { totals.add(row); }));
  } else {
    HT_TRY(print_table(out, rows, model, totals, statistics));
  }
  if (quiet) return {};
  out += '\n';
  totals.append_text_to(out);
  return {};
}

Result<Exit> list(const std::string& path, const LsArguments& options, const Common& common) {
  const auto model = HT_TRY(Model::open(path, {.allow_incomplete = options.allow_incomplete,
                                               .catalog_only = !options.stats,
                                               .max_header_bytes = common.max_header}));
  auto rows = HT_TRY(Rows::of(model, options.filter));
  const bool is_json = common.is_json();
  if (!options.tree || is_json) rows.sort(options.sort);
  auto statistics = HT_TRY(RowStatistics::of(model, rows, options, common));
  OutputBuffer out;
  auto printed = common.jsonl  ? print_json_lines(out, rows, model, statistics)
                 : common.json ? print_json(out, rows, model, !options.no_metadata, statistics)
                               : print_human(out, rows, model, options, common.quiet, statistics);
  if (!printed && !common.jsonl) end_list_early(out, common.json);
  HT_TRY(std::move(printed));
  return Exit::good;
}

}  // namespace

Action register_ls(CLI::App& verb) {
  auto options = std::make_shared<LsArguments>();
  add_filter(verb, options->filter);
  add_choice(verb, "--sort", options->sort, {"name", "size", "offset"},
             "Sort by name (2 before 10), size (largest first) or offset; default: file order, by name in a "
             "tree");
  add_flag(verb, "--tree", options->tree, "Show names as a tree of their parts, with subtotals");
  add_flag(verb, "--metadata", options->metadata,
           "Show metadata in full; default: long values are shortened");
  add_flag(verb, "--no-metadata", options->no_metadata, "Omit metadata (null in JSON)");
  add_flag(verb, "--headers-only", options->allow_incomplete,
           "Also list a model with complete headers and incomplete data, such as a partial download");
  add_flag(verb, "--stats", options->stats,
           "Read all values: min, max, mean, std, zeros, NaN and Inf of each tensor");
  add_check(verb, [options]() -> std::string {
    if (options->metadata && options->no_metadata) return "--metadata cannot be combined with --no-metadata";
    if (options->stats && options->tree) return "--stats cannot be combined with --tree";
    if (options->stats && options->allow_incomplete) return "--stats cannot be combined with --headers-only";
    return {};
  });
  const auto list_path = [options](const auto& path, const Common& common) {
    return list(path, *options, common);
  };
  return for_each_path(verb, list_path, Heading::path, Folders::every_model);
}

}  // namespace ht::cli
