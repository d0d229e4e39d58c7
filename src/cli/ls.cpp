// ls: the tensors of a model, its metadata and totals.
#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cli/cli.hpp"
#include "cli/display_width.hpp"
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
  bool metadata = false;
  bool no_metadata = false;
  std::uint64_t max_header = 0;
};

class Totals {
 public:
  void add(const Row& row) {
    // Neighbours mostly have one dtype.
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
  /// nullopt where a tensor has no type.
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

std::vector<std::string> json_paths(const Model& model) {
  std::vector<std::string> paths;
  for (const auto& file : model.files()) paths.push_back(json_string(file.string()));
  return paths;
}

void append_json_row(OutputBuffer& out, const Row& row, const std::vector<std::string>& paths) {
  const Entry& entry = row.entry;
  out += R"({"name":)";
  append_json_string(out, entry.name);
  if (entry.is_typed()) {
    out += R"(,"dtype":")";
    out += row.dtype;
    out += R"(","shape":)";
    append_shape(out, entry.dims, ",");
  } else {
    out += R"(,"dtype":null,"shape":null)";
  }
  out += R"(,"bytes":)";
  out.append_number(entry.bytes);
  out += R"(,"offset":)";
  if (entry.is_splat()) {
    out += "null";
  } else {
    out.append_number(entry.offset);
  }
  out += R"(,"file":)";
  out += paths[entry.file];
  out += '}';
}

Result<void> print_json_lines(OutputBuffer& out, const Rows& rows, const Model& model) {
  const auto paths = json_paths(model);
  return rows.for_each([&](const Row& row) {
    append_json_row(out, row, paths);
    out += '\n';
  });
}

Result<void> print_json(OutputBuffer& out, const Rows& rows, const Model& model, bool with_metadata) {
  const auto paths = json_paths(model);
  append_text(out, R"({{"format":{},"files":[)", json_string(model.catalog().format()));
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (i > 0) out += ',';
    out += paths[i];
  }
  out += R"(],"tensors":[)";
  Totals totals;
  bool is_first = true;
  HT_TRY(rows.for_each([&](const Row& row) {
    if (!is_first) out += ',';
    is_first = false;
    append_json_row(out, row, paths);
    totals.add(row);
  }));
  out += R"(],"metadata":)";
  if (with_metadata) {
    append_json(out, model.catalog().metadata());
  } else {
    out += "null";
  }
  append_text(out, R"(,"total_bytes":{},"parameters":{}}})", totals.bytes(),
              totals.parameters() ? fmt::to_string(*totals.parameters()) : "null");
  out += '\n';
  return {};
}

Result<void> print_table(OutputBuffer& out, const Rows& rows, const Model& model, Totals& totals) {
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
    if (entry.is_splat()) {
      table.text("splat");
    } else {
      table.number(entry.offset);
    }
    if (!files.empty()) table.text(files[entry.file]);
  };
  HT_TRY(rows.for_each([&](const Row& row) {
    totals.add(row);
    add(row);
  }));
  table.start_printing();
  return rows.for_each(add);
}

Result<void> print_for_people(OutputBuffer& out, const Rows& rows, const Model& model, const Options& options,
                              bool quiet) {
  const bool with_metadata = options.metadata || (!quiet && !options.no_metadata);
  const std::size_t columns = terminal_columns(STDOUT_FILENO);
  if (with_metadata) append_lines(out, model.catalog().metadata(), options.metadata, columns);
  Totals totals;
  if (options.tree) {
    HT_TRY(print_tree(out, rows, options.sort, columns));
    if (!quiet) HT_TRY(rows.for_each([&](const Row& row) { totals.add(row); }));
  } else {
    HT_TRY(print_table(out, rows, model, totals));
  }
  if (quiet) return {};
  out += '\n';
  totals.append_text_to(out);
  return {};
}

Result<Exit> list(const Options& options, const Common& common) {
  const auto model = HT_TRY(Model::open(
      options.path,
      {.headers_only = options.headers_only, .catalog_only = true, .max_header_bytes = options.max_header}));
  auto rows = HT_TRY(Rows::of(model, options.filter));
  const bool is_json = common.json || common.jsonl;
  if (!options.tree || is_json) rows.sort(options.sort);
  OutputBuffer out;
  if (common.jsonl) {
    HT_TRY(print_json_lines(out, rows, model));
  } else if (common.json) {
    HT_TRY(print_json(out, rows, model, !options.no_metadata));
  } else {
    HT_TRY(print_for_people(out, rows, model, options, common.quiet));
  }
  return Exit::good;
}

}  // namespace

Action register_ls(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_filter(verb, options->filter);
  add_choice(verb, "--sort", options->sort, {"name", "size", "offset"},
             "Sort by name (2 before 10), size (largest first) or offset; default: file order, by name in a "
             "tree");
  add_flag(verb, "--tree", options->tree, "Show names as a tree of their parts, with subtotals");
  add_flag(verb, "--metadata", options->metadata,
           "Show metadata in full; default: long values are shortened");
  add_flag(verb, "--no-metadata", options->no_metadata, "Omit metadata (null in JSON)");
  add_flag(verb, "--headers-only", options->headers_only, "Also list a file whose data is incomplete");
  add_max_header(verb, options->max_header);
  add_check(verb, [options] {
    return options->metadata && options->no_metadata ? "--metadata excludes --no-metadata" : std::string();
  });
  return for_each_path(
      verb, options->path, [options](const Common& common) { return list(*options, common); }, Heading::path,
      Folders::every_model);
}

}  // namespace ht::cli
