// diff: what differs between two models, whatever formats they are in.
#include <fmt/format.h>

#include <htensor/base/json_text.hpp>
#include <memory>
#include <optional>

#include "cli/cli.hpp"
#include "cli/metadata_text.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/rows.hpp"
#include "cli/table.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string a;
  std::string b;
  std::optional<double> tolerance;
  std::uint64_t max_header = 0;
  bool ignore_metadata = false;
};

using Names = std::vector<std::string>;
using Cells = std::vector<std::vector<std::string>>;

// The inside of an object.
std::string json_members(const TensorDifference& tensor) {
  std::string out =
      fmt::format(R"("name":{},"why":"{}","max_abs":)", json_string(tensor.name), to_string(tensor.why));
  if (tensor.max_abs) {
    detail::append_number(out, *tensor.max_abs, true);
  } else {
    out += "null";
  }
  append_text(out, R"(,"first_byte":{})", tensor.first_byte ? fmt::to_string(*tensor.first_byte) : "null");
  return out;
}

std::string json_list(const Names& names) {
  std::string out;
  for (const auto& name : names) {
    out += out.empty() ? '[' : ',';
    append_json_string(out, name);
  }
  return out.empty() ? "[]" : out + "]";
}

std::string json_text(const Differences& found) {
  std::string differ;
  for (const auto& tensor : found.differ) {
    append_text(differ, "{}{{{}}}", differ.empty() ? "" : ",", json_members(tensor));
  }
  return fmt::format(
      R"({{"same":{},"only_a":{},"only_b":{},"differ":[{}],"metadata":{{"only_a":{},"only_b":{},"differ":{}}}}})"
      "\n",
      found.same(), json_list(found.only_a), json_list(found.only_b), differ,
      json_list(found.metadata.only_a), json_list(found.metadata.only_b), json_list(found.metadata.differ));
}

// A line for each difference, which says what kind it is of.
std::string jsonl_text(const Differences& found) {
  std::string out;
  const auto add = [&](std::string_view kind, const Names& names) {
    for (const auto& name : names)
      append_text(out, "{{\"kind\":\"{}\",\"name\":{}}}\n", kind, json_string(name));
  };
  add("only_a", found.only_a);
  add("only_b", found.only_b);
  for (const auto& tensor : found.differ)
    append_text(out, "{{\"kind\":\"differ\",{}}}\n", json_members(tensor));
  add("metadata_only_a", found.metadata.only_a);
  add("metadata_only_b", found.metadata.only_b);
  add("metadata_differ", found.metadata.differ);
  return out;
}

// What one of the models has under a name, for people.
class Described {
 public:
  static Result<Described> of(const Model& model) {
    auto rows = HT_TRY(rows_of(model));
    return Described(model, std::move(rows));
  }

  [[nodiscard]] std::string tensor(std::string_view name) const {
    // One that is alone in its file and named by it need not have the name of that in the other.
    const auto& row = rows_[model_.catalog().find(name).value_or(0)];
    if (!row.entry.is_typed()) return fmt::format("{} bytes", row.entry.bytes);
    return dtype_cell(row) + " " + shape_cell(row);
  }

  [[nodiscard]] std::string value(std::string_view key) const {
    const auto value = model_.catalog().metadata().find(key);
    return value ? fmt::format("{} {}", to_string(value->type()), value_text(*value)) : "-";
  }

 private:
  Described(const Model& model, std::vector<Row> rows) : model_(model), rows_(std::move(rows)) {}

  const Model& model_;
  std::vector<Row> rows_;
};

std::string tensors_text(const Differences& found, const Described& a, const Described& b) {
  if (found.same_tensors()) return "";
  Cells cells{{"tensor", "differs in", "A", "B", "max |a-b|", "first byte"}};
  for (const auto& name : found.only_a) {
    cells.push_back({printable(name), "only in A", a.tensor(name), "-", "-", "-"});
  }
  for (const auto& name : found.only_b) {
    cells.push_back({printable(name), "only in B", "-", b.tensor(name), "-", "-"});
  }
  for (const auto& [name, why, first_byte, max_abs] : found.differ) {
    std::string gap = max_abs ? "" : "-";
    if (max_abs) detail::append_number(gap, *max_abs, false);
    cells.push_back({printable(name), std::string(to_string(why)), a.tensor(name), b.tensor(name), gap,
                     first_byte ? fmt::to_string(*first_byte) : "-"});
  }
  return table(cells, {4, 5}) + "\n";
}

std::string metadata_text(const MetadataDifferences& found, const Described& a, const Described& b) {
  if (found.none()) return "";
  Cells cells{{"metadata", "differs in", "A", "B"}};
  const auto add = [&](const Names& keys, const char* what) {
    for (const auto& key : keys) cells.push_back({printable(key), what, a.value(key), b.value(key)});
  };
  add(found.only_a, "only in A");
  add(found.only_b, "only in B");
  add(found.differ, "value");
  return table(cells, {}) + "\n";
}

std::string summary(const Differences& found, const Options& options) {
  std::string out;
  const auto add = [&](std::size_t count, std::string_view what) {
    if (count != 0) append_text(out, "{}{} {}", out.empty() ? "" : ", ", count, what);
  };
  add(found.only_a.size(), "only in A");
  add(found.only_b.size(), "only in B");
  add(found.differ.size(), found.differ.size() == 1 ? "differs" : "differ");
  const auto& [only_a, only_b, differ] = found.metadata;
  const std::size_t keys = only_a.size() + only_b.size() + differ.size();
  add(keys, keys == 1 ? "metadata key" : "metadata keys");
  return fmt::format("A {}, B {}: {}\n", printable(options.a), printable(options.b),
                     found.same() ? "the same" : out);
}

Result<Exit> diff(const Options& options, const Common& common) {
  const OpenOptions how{.max_header_bytes = options.max_header};
  const auto a = HT_TRY(Model::open(options.a, how));
  const auto b = HT_TRY(Model::open(options.b, how));
  WorkWithBar work(common);
  auto found = HT_TRY(ht::diff(a, b, {.tolerance = options.tolerance, .work = work.options()}));
  if (options.ignore_metadata) found.metadata = {};
  if (common.jsonl) {
    print(jsonl_text(found));
  } else if (common.json) {
    print(json_text(found));
  } else if (!common.quiet) {
    const auto of_a = HT_TRY(Described::of(a));
    const auto of_b = HT_TRY(Described::of(b));
    print(tensors_text(found, of_a, of_b) + metadata_text(found.metadata, of_a, of_b) +
          summary(found, options));
  }
  return found.same() ? Exit::good : Exit::answer_is_no;
}

}  // namespace

Action register_diff(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->a, "A");
  add_path(verb, options->b, "B");
  add_real(verb, "--tolerance", options->tolerance,
           "How far numbers may be apart; floating-point dtypes need not be the same then");
  add_flag(verb, "--ignore-metadata", options->ignore_metadata, "Compare the tensors alone");
  add_max_header(verb, options->max_header);
  return [options](const Common& common) { return diff(*options, common); };
}

}  // namespace ht::cli
