// diff: the differences between two models of any formats.
#include <fmt/format.h>

#include <memory>
#include <optional>

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

struct DiffArguments {
  std::string a;
  std::string b;
  std::optional<double> tolerance;
  bool ignore_metadata = false;
};

using Names = std::vector<std::string>;

std::string json_number(const std::optional<double>& value) {
  if (!value) return "null";
  std::string text;
  detail::append_number(text, *value, true);
  return text;
}

// The members of a JSON object, without its braces.
std::string difference_members(const Differences::Tensor& tensor) {
  return fmt::format(R"("name":{},"why":"{}","max_abs":{},"rms":{},"cosine":{},"first_byte":{})",
                     json_string(tensor.name), to_string(tensor.why), json_number(tensor.max_abs),
                     json_number(tensor.rms), json_number(tensor.cosine), json_or_null(tensor.first_byte));
}

void print_json(OutputBuffer& out, const Differences& found) {
  const auto names = [](const Names& list) { return json_list(list, json_string); };
  const auto& [only_a, only_b, differ] = found.metadata;
  append_text(
      out,
      R"({{"same":{},"only_a":{},"only_b":{},"differ":{},"metadata":{{"only_a":{},"only_b":{},"differ":{}}}}})",
      found.is_same(), names(found.only_a), names(found.only_b),
      json_list(found.differ, [](const auto& tensor) { return "{" + difference_members(tensor) + "}"; }),
      names(only_a), names(only_b), names(differ));
  out += '\n';
}

// One line for each difference, with its kind.
void print_json_lines(OutputBuffer& out, const Differences& found) {
  const auto add = [&](std::string_view kind, const Names& names) {
    for (const auto& name : names) out.append(R"({"kind":")", kind, R"(","name":)", JsonText{name}, "}\n");
  };
  add("only_a", found.only_a);
  add("only_b", found.only_b);
  for (const auto& tensor : found.differ)
    out.append(R"({"kind":"differ",)", difference_members(tensor), "}\n");
  add("metadata_only_a", found.metadata.only_a);
  add("metadata_only_b", found.metadata.only_b);
  add("metadata_differ", found.metadata.differ);
}

std::string describe_tensor(const Model& model, const Rows& rows, std::string_view name) {
  // A `.ht` or `.npy` file has one tensor, which is named after the file. diff compares the tensors of two
  // such files even if the names differ, and reports the name in A. So a name that B lacks means the only
  // tensor of B, at position 0.
  const Row row = rows.at(model.catalog().find(name).value_or(0));
  return row.entry.is_typed() ? type_text(row) : byte_count_text(row.entry.bytes);
}

std::string describe_value(const Model& model, std::string_view key) {
  const auto value = model.catalog().metadata().find(key);
  return value ? fmt::format("{} {}", to_string(value->type()), value_text(*value)) : "-";
}

void print_tensors(OutputBuffer& out, const Differences& found, const Model& a, const Model& b) {
  if (found.has_same_tensors()) return;
  Table table(out, {{.title = "tensor", .shortens = true},
                    {.title = "differs in"},
                    {.title = "A"},
                    {.title = "B"},
                    {.title = "max |a-b|", .right = true},
                    {.title = "rms", .right = true},
                    {.title = "cosine", .right = true},
                    {.title = "first byte", .right = true}});
  const auto add = [&](std::string_view name, std::string_view why, std::string_view of_a,
                       std::string_view of_b, const Differences::Tensor& difference = {}) {
    table.name(name);
    for (const auto& text : {why, of_a, of_b}) table.text(text);
    for (const auto& number : {difference.max_abs, difference.rms, difference.cosine})
      table.text(number ? short_number_text(*number) : "-");
    table.text(difference.first_byte ? fmt::to_string(*difference.first_byte) : "-");
  };
  const auto in_a = [&, rows = Rows(a)](std::string_view name) { return describe_tensor(a, rows, name); };
  const auto in_b = [&, rows = Rows(b)](std::string_view name) { return describe_tensor(b, rows, name); };
  table.print([&] {
    for (const auto& name : found.only_a) add(name, "only in A", in_a(name), "-");
    for (const auto& name : found.only_b) add(name, "only in B", "-", in_b(name));
    for (const auto& each : found.differ)
      add(each.name, to_string(each.why), in_a(each.name), in_b(each.name), each);
  });
  out += '\n';
}

void print_metadata(OutputBuffer& out, const Differences::Metadata& found, const Model& a, const Model& b) {
  if (found.is_same()) return;
  Table table(out, {{.title = "metadata", .shortens = true},
                    {.title = "differs in"},
                    {.title = "A", .shortens = true},
                    {.title = "B", .shortens = true}});
  const auto add = [&](const Names& keys, std::string_view why) {
    for (const auto& key : keys) {
      table.name(key);
      table.text(why);
      table.text(describe_value(a, key));
      table.text(describe_value(b, key));
    }
  };
  table.print([&] {
    add(found.only_a, "only in A");
    add(found.only_b, "only in B");
    add(found.differ, "value");
  });
  out += '\n';
}

std::string summary(const Differences& found, const DiffArguments& options) {
  std::string out;
  const auto add = [&](std::size_t count, std::string_view label) {
    if (count != 0) append_text(out, "{}{} {}", out.empty() ? "" : ", ", count, label);
  };
  add(found.only_a.size(), "only in A");
  add(found.only_b.size(), "only in B");
  add(found.differ.size(), found.differ.size() == 1 ? "differs" : "differ");
  const auto& [only_a, only_b, differ] = found.metadata;
  const std::size_t keys = only_a.size() + only_b.size() + differ.size();
  add(keys, keys == 1 ? "metadata key" : "metadata keys");
  return fmt::format("A {}, B {}: {}\n", printable(options.a), printable(options.b),
                     found.is_same() ? "the same" : out);
}

Result<Exit> diff(const DiffArguments& options, const Common& common) {
  const OpenOptions open_options{.max_header_bytes = common.max_header};
  const auto a = HT_TRY(Model::open(options.a, open_options));
  const auto b = HT_TRY(Model::open(options.b, open_options));
  WorkWithBar work(common);
  auto found = HT_TRY(ht::diff(a, b, {.tolerance = options.tolerance, .work = work.options()}));
  if (options.ignore_metadata) {
    found.metadata = {};
    std::erase_if(found.differ, [](const auto& tensor) { return tensor.why == Differences::Kind::note; });
  }
  OutputBuffer out;
  if (common.jsonl) {
    print_json_lines(out, found);
  } else if (common.json) {
    print_json(out, found);
  } else if (!common.quiet) {
    print_tensors(out, found, a, b);
    print_metadata(out, found.metadata, a, b);
    out += summary(found, options);
  }
  return found.is_same() ? Exit::good : Exit::negative_answer;
}

}  // namespace

Action register_diff(CLI::App& verb) {
  auto options = std::make_shared<DiffArguments>();
  add_path(verb, options->a, "A");
  add_path(verb, options->b, "B");
  add_real(verb, "--tolerance", options->tolerance,
           "Largest allowed |a-b|; also allows different floating-point dtypes and encodings");
  add_flag(verb, "--ignore-metadata", options->ignore_metadata, "Compare tensors only");
  return [options](const Common& common) { return diff(*options, common); };
}

}  // namespace ht::cli
