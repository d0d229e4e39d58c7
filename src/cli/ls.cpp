#include <fmt/format.h>

#include <htensor/base/json_text.hpp>
#include <map>
#include <memory>
#include <vector>

#include "cli/cli.hpp"
#include "cli/metadata_text.hpp"
#include "cli/options.hpp"
#include "cli/rows.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  NameFilter filter;
  std::string sort;
  bool tree = false;
  bool headers_only = false;
  std::uint64_t max_header = 0;
};

std::vector<std::string> json_paths(const Model& model) {
  std::vector<std::string> paths;
  for (const auto& file : model.files()) paths.push_back(json_string(file.string()));
  return paths;
}

void append_row(std::string& out, const Row& row, const std::vector<std::string>& paths) {
  const Entry& entry = row.entry;
  out += R"({"name":)";
  append_json_string(out, entry.name);
  out += R"(,"dtype":)";
  if (entry.is_typed()) {
    append_text(out, R"("{}","shape":{})", row.dtype, json_shape(entry.dims));
  } else {
    out += R"(null,"shape":null)";
  }
  append_text(out, R"(,"bytes":{},"offset":)", entry.bytes);
  if (entry.is_splat()) {
    out += "null";
  } else {
    append_text(out, "{}", entry.offset);
  }
  append_text(out, R"(,"file":{}}})", paths[entry.file]);
}

std::string jsonl_text(const std::vector<Row>& rows, const Model& model) {
  const auto paths = json_paths(model);
  std::string out;
  for (const auto& row : rows) {
    append_row(out, row, paths);
    out += '\n';
  }
  return out;
}

std::string json_text(const std::vector<Row>& rows, const Model& model) {
  const auto paths = json_paths(model);
  std::string out = fmt::format(R"({{"format":{},"files":[{}],"tensors":[)",
                                json_string(model.catalog().format()), fmt::join(paths, ","));
  bool first = true;
  for (const auto& row : rows) {
    if (!first) out += ',';
    first = false;
    append_row(out, row, paths);
  }
  out += R"(],"metadata":)";
  append_json(out, model.catalog().metadata());
  append_text(out, R"(,"total_bytes":{}}})", total_bytes(rows));
  return out += '\n';
}

std::string table_text(const std::vector<Row>& rows, const Model& model) {
  const bool with_files = model.files().size() > 1;
  std::vector<std::string> files;
  for (const auto& file : model.files()) files.push_back(printable(file.filename().string()));
  std::vector<std::vector<std::string>> lines{{"name", "dtype", "shape", "bytes", "offset"}};
  lines.reserve(rows.size() + 1);
  if (with_files) lines.back().emplace_back("file");
  for (const auto& row : rows) {
    lines.push_back({printable(row.entry.name), dtype_cell(row), shape_cell(row), size_text(row.entry.bytes),
                     row.entry.is_splat() ? "splat" : std::to_string(row.entry.offset)});
    if (with_files) lines.back().push_back(files[row.entry.file]);
  }
  return table(lines, {3, 4});
}

std::string totals_text(const std::vector<Row>& rows) {
  std::map<std::string, std::pair<std::size_t, std::uint64_t>> by_dtype;
  for (const auto& row : rows) {
    auto& [count, bytes] = by_dtype[row.dtype.empty() ? "untyped" : std::string(row.dtype)];
    ++count;
    bytes = saturating_add(bytes, row.entry.bytes);
  }
  std::string parts;
  for (const auto& [dtype, total] : by_dtype) {
    parts +=
        fmt::format("{}{} {} ({})", parts.empty() ? "" : ", ", total.first, dtype, size_text(total.second));
  }
  return fmt::format("\n{} tensor{}, {}{}{}\n", rows.size(), rows.size() == 1 ? "" : "s",
                     size_text(total_bytes(rows)), parts.empty() ? "" : ": ", parts);
}

Result<Exit> list(const Options& options, const Common& common) {
  const auto model = HT_TRY(Model::open(
      options.path,
      {.headers_only = options.headers_only, .catalog_only = true, .max_header_bytes = options.max_header}));
  auto rows = HT_TRY(rows_of(model, options.filter));
  sort_rows(rows, options.sort);
  if (common.jsonl) {
    print(jsonl_text(rows, model));
  } else if (common.json) {
    print(json_text(rows, model));
  } else {
    const auto metadata = common.quiet ? std::string() : metadata_text(model.catalog().metadata());
    if (!metadata.empty()) print(metadata + "\n");
    print(options.tree ? tree_text(rows) : table_text(rows, model));
    if (!common.quiet) print(totals_text(rows));
  }
  return Exit::good;
}

}  // namespace

Action register_ls(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_filter(verb, options->filter);
  add_text(verb, options->sort,
           {.name = "--sort",
            .type = "KEY",
            .description = "By name, size (largest first) or offset; else in file order",
            .one_of = {"name", "size", "offset"}});
  add_flag(verb, "--tree", options->tree, "As a tree of the names' parts");
  add_flag(verb, "--headers-only", options->headers_only, "Also list a file whose data is not all there");
  add_max_header(verb, options->max_header);
  return for_each_path(verb, options->path,
                       [options](const Common& common) { return list(*options, common); });
}

}  // namespace ht::cli
