// meta: lists the metadata of a model, prints one value, edits values.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "base/utf8.hpp"
#include "cli/cli.hpp"
#include "cli/options.hpp"
#include "cli/print/metadata_text.hpp"
#include "cli/print/progress.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

struct MetaArguments {
  std::string path;
  std::string action;
  std::vector<std::string> words;  // after the action: keys, or keys and values
  std::optional<std::string> from;
  std::string type;
  bool no_grow = false;

  /// The mismatch between arguments and action; empty if they match.
  [[nodiscard]] std::string usage_error() const {
    const bool sets = action == "set";
    if (action == "get" && words.size() != 1) return "get takes one KEY";
    if (action == "rm" && words.empty()) return "rm takes one KEY or more";
    if (sets && from && words.size() != 1) return "set with --from takes one KEY and no VALUE";
    if (sets && !from && (words.empty() || words.size() % 2 != 0))
      return "set takes pairs of KEY and VALUE; put -- before a value that starts with a dash";
    if (!sets && from) return "--from requires set";
    if (!sets && !type.empty()) return "--type requires set";
    if (!type.empty() && !value_type_named(type))
      return fmt::format("'{}' is not a type; use string, bool, u8 to u64, i8 to i64, f32, f64 or array:TYPE",
                         type);
    if (no_grow && !sets && action != "rm") return "--no-grow requires set or rm";
    return {};
  }
};

Result<Exit> print_json(const Metadata& metadata) {
  OutputBuffer out;
  out += R"({"metadata":)";
  append_json(out, metadata);
  out += "}\n";
  return Exit::good;
}

// A value in full: a string as its own bytes, an array as a JSON list.
std::string whole_text(const MetaValue& value) {
  if (const auto text = value.text()) return std::string(*text);
  if (!value.array()) return value_text(value);
  std::string out;
  OutputBuffer buffer(out);
  append_json(buffer, value);
  buffer.flush();
  return out;
}

// Prints the value of one key or, without an action, all keys and values.
Result<Exit> list_or_get(const MetaArguments& options, const Common& common) {
  const auto model =
      HT_TRY(Model::open(options.path, {.catalog_only = true, .max_header_bytes = common.max_header}));
  const Metadata& metadata = model.catalog().metadata();
  if (options.action.empty()) {
    if (common.is_json()) return print_json(metadata);
    print(aligned_text(metadata, terminal_columns(STDOUT_FILENO)));
    return Exit::good;
  }
  const std::string& key = options.words.front();
  const auto value = metadata.find(key);
  if (!value || is_padding({key, *value})) {
    return fail(Error(ErrorCode::not_found, "metadata_has_the_key",
                      fmt::format("the metadata has no key '{}'", printable(key)))
                    .at_path(options.path)
                    .with_hint(fmt::format("list the keys: htensor meta {}", options.path)));
  }
  if (common.is_json()) {
    Metadata one;
    HT_TRY(one.add(key, *value));
    return print_json(one);
  }
  // Prints exactly the value unless stdout is a terminal, so that `set KEY --from FILE` restores it.
  const auto text = whole_text(*value);
  print(isatty(STDOUT_FILENO) != 0 ? printable(text) + "\n" : text);
  return Exit::good;
}

Error too_large(const std::string& path, std::uint64_t max_bytes) {
  return Error(ErrorCode::header_too_large, "value_file_fits_a_header",
               fmt::format("value has more than {} bytes, the limit of a header", max_bytes))
      .at_path(path)
      .with_hint("name a file that holds one value, or raise the limit with --max-header");
}

Result<std::string> read_value(const std::string& path, std::uint64_t max_bytes) {
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(path, unknown);
  if (!unknown && bytes > max_bytes) return fail(too_large(path, max_bytes));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  std::string value;
  std::array<char, 65536> piece{};
  std::size_t count = 0;
  while (file && value.size() <= max_bytes &&
         (count = std::fread(piece.data(), 1, piece.size(), file.get())) > 0) {
    if (is_interrupted()) return fail(interruption("nothing changed"));
    value.append(piece.data(), count);
  }
  if (!file || std::ferror(file.get()) != 0) {
    const std::error_code cause(errno, std::generic_category());
    return fail(Error(ErrorCode::read_failed, "value_file_can_be_read",
                      fmt::format("cannot read the value: {}", cause.message()))
                    .at_path(path)
                    .with_cause(cause)
                    .with_hint("name a file that holds the value"));
  }
  if (value.size() > max_bytes) return fail(too_large(path, max_bytes));
  return value;
}

Result<std::vector<MetadataEdit>> edits_of(const MetaArguments& options, const Common& common) {
  std::vector<MetadataEdit> edits;
  const auto type = value_type_named(options.type);
  if (options.action == "rm") {
    for (const auto& key : options.words) edits.push_back({.key = key});
  } else if (options.from) {
    constexpr std::uint64_t default_max_bytes = std::uint64_t{256} << 20;
    auto value = HT_TRY(read_value(*options.from, std::max(common.max_header, default_max_bytes)));
    edits.push_back({.key = options.words.front(), .value = std::move(value), .type = type});
  } else {
    for (std::size_t i = 0; i < options.words.size(); i += 2)
      edits.push_back({.key = options.words[i], .value = options.words[i + 1], .type = type});
  }
  return edits;
}

std::string edited_text(const MetaArguments& options, const std::vector<MetadataEdit>& edits,
                        const EditReport& edited) {
  if (!edited.changed) return fmt::format("{}: unchanged\n", printable(options.path));
  std::vector<std::string> names;
  names.reserve(edits.size());
  for (const auto& edit : edits) names.push_back(fmt::format("'{}'", printable(edit.key)));
  const std::string moved =
      edited.moved_by == 0 ? "" : fmt::format("; data moved by {}", byte_count_text(edited.moved_by));
  return fmt::format("{}: {} {}{}\n", printable(options.path), options.action == "set" ? "set" : "removed",
                     name_list(names), moved);
}

Result<Exit> edit(const MetaArguments& options, const Common& common) {
  const auto edits = HT_TRY(edits_of(options, common));
  WorkWithBar work(common);
  const EditReport edited = HT_TRY(edit_metadata(
      options.path, edits,
      {.grow = !options.no_grow, .max_header_bytes = common.max_header, .work = work.options()}));
  if (common.is_json()) return print_json(edited.metadata);
  if (!common.quiet) print(edited_text(options, edits, edited));
  return Exit::good;
}

}  // namespace

Action register_meta(CLI::App& verb) {
  auto options = std::make_shared<MetaArguments>();
  add_path(verb, options->path);
  add_choice(verb, "action", options->action, {"get", "set", "rm"},
             "get: print one value; set, rm: edit a safetensors or GGUF file; default: list all values");
  add_arguments(verb, "KEY [VALUE]...", options->words,
                "get: one key; rm: keys; set: pairs of key and value. A value is text, a number, true, false "
                "or a JSON list; put -- before a value that starts with a dash");
  add_text(verb, "--from FILE", options->from, "set: read the value from FILE, byte for byte");
  add_text(verb, "--type TYPE", options->type,
           "set: string, bool, u8 to u64, i8 to i64, f32, f64 or array:TYPE; default: the type of the "
           "existing key, string for a new key");
  add_flag(verb, "--no-grow", options->no_grow, "set, rm: refuse an edit that would move the data");
  add_check(verb, [options] { return options->usage_error(); });
  return [options](const Common& common) {
    const bool edits = options->action == "set" || options->action == "rm";
    return edits ? edit(*options, common) : list_or_get(*options, common);
  };
}

}  // namespace ht::cli
