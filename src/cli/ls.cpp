#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "cli/cli.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  std::string filter;
  std::string sort = "file";
  bool tree = false;
  bool headers_only = false;
};

struct Row {
  Entry entry;
  std::string_view dtype;
  std::size_t position;  // in file order, which breaks ties
};

Result<std::vector<Row>> chosen_rows(const Model& model, const Options& options) {
  const Catalog& catalog = model.catalog();
  std::vector<Row> rows;
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    const Entry entry = catalog[i];
    // The pattern language of shells, which people know.
    const bool wanted =
        options.filter.empty() || fnmatch(options.filter.c_str(), std::string(entry.name).c_str(), 0) == 0;
    if (wanted) rows.push_back({entry, HT_TRY(model.dtype(entry.dtype)).name, i});
  }
  const auto sort_by = [&](auto key) {
    std::ranges::sort(rows, {}, [&](const Row& row) { return std::pair(key(row), row.position); });
  };
  if (options.sort == "name") sort_by([](const Row& row) { return row.entry.name; });
  if (options.sort == "offset")
    sort_by([](const Row& row) { return std::pair(row.entry.file, row.entry.offset); });
  // The largest first: that is what one looks for.
  if (options.sort == "size") sort_by([](const Row& row) { return ~row.entry.bytes; });
  return rows;
}

std::uint64_t total_bytes(const std::vector<Row>& rows) {
  std::uint64_t total = 0;
  for (const auto& row : rows) total += row.entry.bytes;
  return total;
}

std::string json_row(const Row& row, const Model& model) {
  return fmt::format(R"({{"name":{},"dtype":{},"shape":{},"bytes":{},"offset":{},"file":{}}})",
                     json_string(row.entry.name), json_string(row.dtype), json_shape(row.entry.dims),
                     row.entry.bytes, row.entry.offset, json_string(model.files()[row.entry.file].string()));
}

void print_jsonl(const std::vector<Row>& rows, const Model& model) {
  for (const auto& row : rows) print(json_row(row, model) + "\n");
}

void print_json(const std::vector<Row>& rows, const Model& model) {
  print(fmt::format(R"({{"format":{},"files":[)", json_string(model.catalog().format())));
  std::string_view comma;
  for (const auto& file : model.files()) {
    print(comma);
    print(json_string(file.string()));
    comma = ",";
  }
  print(R"(],"tensors":[)");
  comma = "";
  for (const auto& row : rows) {
    print(comma);
    print(json_row(row, model));
    comma = ",";
  }
  print(fmt::format(R"(],"metadata":{{}},"total_bytes":{}}})"
                    "\n",
                    total_bytes(rows)));
}

void print_table(const std::vector<Row>& rows, const Model& model) {
  std::vector<std::vector<std::string>> cells{{"name", "dtype", "shape", "bytes", "offset"}};
  const bool many_files = model.files().size() > 1;
  if (many_files) cells[0].emplace_back("file");
  for (const auto& row : rows) {
    cells.push_back({printable(row.entry.name), std::string(row.dtype), shape_text(row.entry.dims),
                     size_text(row.entry.bytes), std::to_string(row.entry.offset)});
    if (many_files) cells.back().push_back(printable(model.files()[row.entry.file].filename().string()));
  }
  std::vector<std::size_t> widths(cells[0].size());
  for (const auto& line : cells) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], character_count(line[i]));
  }
  for (const auto& line : cells) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool number = i == 3 || i == 4;
      text += fmt::format(fmt::runtime(number ? "{:>{}}  " : "{:<{}}  "), line[i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    print(text + "\n");
  }
}

// Names cut at their dots.
struct Branch {
  std::map<std::string, std::unique_ptr<Branch>, std::less<>> children;
  std::uint64_t bytes = 0;
  std::size_t tensors = 0;
  const Row* leaf = nullptr;
};

void print_branch(const Branch& branch, const std::string& name, std::size_t depth) {
  std::string what;
  if (branch.leaf != nullptr) {
    what = fmt::format("{} {}  {}", branch.leaf->dtype, shape_text(branch.leaf->entry.dims),
                       size_text(branch.bytes));
  } else {
    what = fmt::format("{} tensors  {}", branch.tensors, size_text(branch.bytes));
  }
  print(fmt::format("{:{}}{}  {}\n", "", depth * 2, printable(name), what));
  for (const auto& [child, below] : branch.children) print_branch(*below, child, depth + 1);
}

void print_tree(const std::vector<Row>& rows) {
  Branch root;
  for (const auto& row : rows) {
    Branch* at = &root;
    std::string_view rest = row.entry.name;
    while (true) {
      const auto dot = rest.find('.');
      auto& child = at->children[std::string(rest.substr(0, dot))];
      if (!child) child = std::make_unique<Branch>();
      at = child.get();
      at->bytes += row.entry.bytes;
      ++at->tensors;
      if (dot == std::string_view::npos) break;
      rest.remove_prefix(dot + 1);
    }
    at->leaf = &row;
  }
  for (const auto& [name, branch] : root.children) print_branch(*branch, name, 0);
}

void print_totals(const std::vector<Row>& rows) {
  std::map<std::string_view, std::pair<std::size_t, std::uint64_t>> by_dtype;
  for (const auto& row : rows) {
    auto& [count, bytes] = by_dtype[row.dtype];
    ++count;
    bytes += row.entry.bytes;
  }
  std::string parts;
  for (const auto& [dtype, total] : by_dtype) {
    parts +=
        fmt::format("{}{} {} ({})", parts.empty() ? "" : ", ", total.first, dtype, size_text(total.second));
  }
  print(fmt::format("\n{} tensor{}, {}{}{}\n", rows.size(), rows.size() == 1 ? "" : "s",
                    size_text(total_bytes(rows)), parts.empty() ? "" : ": ", parts));
}

Result<Exit> list(const Options& options, const Common& common) {
  const auto model =
      HT_TRY(Model::open(options.path, {.headers_only = options.headers_only, .catalog_only = true}));
  const auto rows = HT_TRY(chosen_rows(model, options));
  if (common.jsonl) {
    print_jsonl(rows, model);
  } else if (common.json) {
    print_json(rows, model);
  } else {
    if (options.tree) {
      print_tree(rows);
    } else {
      print_table(rows, model);
    }
    if (!common.quiet) print_totals(rows);
  }
  return Exit::good;
}

}  // namespace

Action register_ls(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  verb.add_option("path", options->path, "The file")->required()->type_name("PATH");
  verb.add_option("--filter", options->filter, "Only tensors whose name matches, as a shell matches files")
      ->type_name("GLOB");
  verb.add_option("--sort", options->sort, "By name, size (largest first) or offset; else in file order")
      ->check(CLI::IsMember({"name", "size", "offset"}))
      ->type_name("KEY");
  verb.add_flag("--tree", options->tree, "As a tree of the names' parts");
  verb.add_flag("--headers-only", options->headers_only, "Also list a file whose data is not all there");
  return [options](const Common& common) { return list(*options, common); };
}

}  // namespace ht::cli
