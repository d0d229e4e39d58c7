// diff: the differences between two models of any formats.
#include <fmt/format.h>

#include <htensor/base/utf8.hpp>
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

// The inside of an object.
void append_members(OutputBuffer& out, const TensorDifference& tensor) {
  out += R"("name":)";
  append_json_string(out, tensor.name);
  append_text(out, R"(,"why":"{}","max_abs":)", to_string(tensor.why));
  if (tensor.max_abs) {
    detail::append_number(out, *tensor.max_abs, true);
  } else {
    out += "null";
  }
  append_text(out, R"(,"first_byte":{})", tensor.first_byte ? fmt::to_string(*tensor.first_byte) : "null");
}

void append_list(OutputBuffer& out, std::string_view key, const Names& names) {
  append_text(out, R"("{}":[)", key);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, names[i]);
  }
  out += ']';
}

void print_json(OutputBuffer& out, const Differences& found) {
  append_text(out, R"({{"same":{},)", found.same());
  append_list(out, "only_a", found.only_a);
  out += ',';
  append_list(out, "only_b", found.only_b);
  out += R"(,"differ":[)";
  for (std::size_t i = 0; i < found.differ.size(); ++i) {
    out += i > 0 ? ",{" : "{";
    append_members(out, found.differ[i]);
    out += '}';
  }
  out += R"(],"metadata":{)";
  append_list(out, "only_a", found.metadata.only_a);
  out += ',';
  append_list(out, "only_b", found.metadata.only_b);
  out += ',';
  append_list(out, "differ", found.metadata.differ);
  out += "}}\n";
}

// A line for each difference, with its kind.
void print_json_lines(OutputBuffer& out, const Differences& found) {
  const auto add = [&](std::string_view kind, const Names& names) {
    for (const auto& name : names) {
      append_text(out, R"({{"kind":"{}","name":)", kind);
      append_json_string(out, name);
      out += "}\n";
    }
  };
  add("only_a", found.only_a);
  add("only_b", found.only_b);
  for (const auto& tensor : found.differ) {
    out += R"({"kind":"differ",)";
    append_members(out, tensor);
    out += "}\n";
  }
  add("metadata_only_a", found.metadata.only_a);
  add("metadata_only_b", found.metadata.only_b);
  add("metadata_differ", found.metadata.differ);
}

// Describes tensors and values of one of the models for people.
class Described {
 public:
  explicit Described(const Model& model) : model_(model), rows_(model) {}

  [[nodiscard]] std::string tensor(std::string_view name) const {
    // A tensor that is alone in its file and named by it is compared under the name of the other one.
    const Row row = rows_.at(model_.catalog().find(name).value_or(0));
    if (!row.entry.is_typed()) return byte_count_text(row.entry.bytes);
    return fmt::format("{} {}", row.dtype, shape_text(row.entry.dims));
  }

  [[nodiscard]] std::string value(std::string_view key) const {
    const auto value = model_.catalog().metadata().find(key);
    return value ? fmt::format("{} {}", to_string(value->type()), value_text(*value)) : "-";
  }

 private:
  const Model& model_;
  Rows rows_;
};

void print_tensors(OutputBuffer& out, const Differences& found, const Described& a, const Described& b) {
  if (found.same_tensors()) return;
  Table table(out, {{.title = "tensor", .shortens = true},
                    {.title = "differs in"},
                    {.title = "A"},
                    {.title = "B"},
                    {.title = "max |a-b|", .right = true},
                    {.title = "first byte", .right = true}});
  const auto add = [&](std::string_view name, std::string_view why, std::string_view in_a,
                       std::string_view in_b, std::string_view gap = "-", std::string_view first_byte = "-") {
    table.name(name);
    for (const auto& text : {why, in_a, in_b, gap, first_byte}) table.text(text);
  };
  table.print([&] {
    for (const auto& name : found.only_a) add(name, "only in A", a.tensor(name), "-");
    for (const auto& name : found.only_b) add(name, "only in B", "-", b.tensor(name));
    for (const auto& [name, why, first_byte, max_abs] : found.differ) {
      std::string gap = max_abs ? "" : "-";
      if (max_abs) detail::append_number(gap, *max_abs, false);
      add(name, to_string(why), a.tensor(name), b.tensor(name), gap,
          first_byte ? fmt::to_string(*first_byte) : "-");
    }
  });
  out += '\n';
}

void print_metadata(OutputBuffer& out, const MetadataDifferences& found, const Described& a,
                    const Described& b) {
  if (found.none()) return;
  Table table(out, {{.title = "metadata", .shortens = true},
                    {.title = "differs in"},
                    {.title = "A", .shortens = true},
                    {.title = "B", .shortens = true}});
  const auto add = [&](const Names& keys, std::string_view why) {
    for (const auto& key : keys) {
      table.name(key);
      table.text(why);
      table.text(a.value(key));
      table.text(b.value(key));
    }
  };
  table.print([&] {
    add(found.only_a, "only in A");
    add(found.only_b, "only in B");
    add(found.differ, "value");
  });
  out += '\n';
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
  OutputBuffer out;
  if (common.jsonl) {
    print_json_lines(out, found);
  } else if (common.json) {
    print_json(out, found);
  } else if (!common.quiet) {
    const Described of_a(a);
    const Described of_b(b);
    print_tensors(out, found, of_a, of_b);
    print_metadata(out, found.metadata, of_a, of_b);
    out += summary(found, options);
  }
  return found.same() ? Exit::good : Exit::answer_is_no;
}

}  // namespace

Action register_diff(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->a, "A");
  add_path(verb, options->b, "B");
  add_real(verb, "--tolerance", options->tolerance,
           "Largest allowed |a-b|; also allows different floating-point dtypes");
  add_flag(verb, "--ignore-metadata", options->ignore_metadata, "Compare tensors only");
  add_max_header(verb, options->max_header);
  return [options](const Common& common) { return diff(*options, common); };
}

}  // namespace ht::cli
