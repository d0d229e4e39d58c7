// meta: what a model says of itself, all of it or one value, and edits of it.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "cli/cli.hpp"
#include "cli/metadata_text.hpp"
#include "cli/options.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

struct Options {
  std::string path;
  std::string action;
  std::optional<std::string> key;
  std::optional<std::string> value;
  std::string type;
  std::uint64_t max_header = 0;
  bool grow = false;

  // What is wrong with what was given beside the action, or nothing.
  [[nodiscard]] std::string whats_wrong() const {
    const bool sets = action == "set";
    if (!action.empty() && !key) return fmt::format("{} needs a KEY", action);
    if (sets && !value) return "set needs a VALUE; one that begins with a dash comes last, behind --";
    if (!sets && value) return fmt::format("{} takes no VALUE", action);
    if (!sets && !type.empty()) return "--type is for set";
    if (!type.empty() && !value_type_named(type))
      return fmt::format("'{}' is no type such as string, bool, u32, f32 or array:i32", type);
    if (grow && !sets && action != "rm") return "--grow is for set and rm";
    return {};
  }
};

void print_json(const Metadata& metadata) {
  std::string out = R"({"metadata":)";
  append_json(out, metadata);
  print(out + "}\n");
}

Error no_such_key(const Options& options) {
  return Error(ErrorCode::not_found, "metadata_has_the_key",
               fmt::format("the metadata has no '{}'", *options.key))
      .at_path(options.path)
      .with_hint(fmt::format("htensor meta {} lists what there is", options.path));
}

// All of a value: what is asked for by name is not cut short.
std::string whole_text(const MetaValue& value) {
  if (const auto text = value.text()) return printable(*text);
  if (!value.array()) return value_text(value);
  std::string out;
  append_json(out, value);
  return out;
}

Result<Exit> get(const Options& options, const Common& common) {
  const auto model =
      HT_TRY(Model::open(options.path, {.catalog_only = true, .max_header_bytes = options.max_header}));
  const Metadata& metadata = model.catalog().metadata();
  const bool json = common.json || common.jsonl;
  if (options.action.empty()) {
    if (json) {
      print_json(metadata);
    } else {
      print(aligned_text(metadata));
    }
    return Exit::good;
  }
  const auto value = metadata.find(*options.key);
  if (!value) return answer_no(no_such_key(options), common);
  if (!json) {
    print(whole_text(*value) + "\n");
    return Exit::good;
  }
  Metadata one;
  HT_TRY(one.add(*options.key, *value));
  print_json(one);
  return Exit::good;
}

Result<Exit> edit(const Options& options, const Common& common) {
  const MetadataEdit edit{
      .key = *options.key, .value = options.value, .type = value_type_named(options.type)};
  WorkWithBar work(common);
  const auto done =
      edit_metadata(options.path, std::span(&edit, 1),
                    {.grow = options.grow, .max_header_bytes = options.max_header, .work = work.options()});
  if (!done && done.error().code() == ErrorCode::not_found) return answer_no(no_such_key(options), common);
  const Edited edited = HT_TRY(done);
  if (common.json || common.jsonl) {
    print_json(edited.metadata);
  } else if (!common.quiet) {
    print(fmt::format(
        "{}: {}{}\n", printable(options.path),
        !edited.changed ? "is just so already"
        : options.value ? fmt::format("'{}' is set", printable(*options.key))
                        : fmt::format("'{}' is gone", printable(*options.key)),
        edited.moved_by == 0 ? "" : fmt::format("; the data begins {} later", size_text(edited.moved_by))));
  }
  return Exit::good;
}

}  // namespace

Action register_meta(CLI::App& verb) {
  auto options = std::make_shared<Options>();
  add_path(verb, options->path);
  add_text(verb, options->action,
           {.name = "action",
            .type = "get|set|rm",
            .description = "One value, or an edit of a safetensors or GGUF file; all values unless given",
            .one_of = {"get", "set", "rm"}});
  add_text(verb, options->key, {.name = "key", .type = "KEY", .description = "The value's name"});
  add_text(
      verb, options->value,
      {.name = "value",
       .type = "VALUE",
       .description = "A text, a number, true or false, or a JSON list; behind -- it may begin with a dash"});
  add_text(
      verb, options->type,
      {.name = "--type",
       .type = "TYPE",
       .description = "string, bool, u8 to u64, i8 to i64, f32, f64 or array:TYPE; what the key has unless "
                      "given, and a string where it is new"});
  add_flag(verb, "--grow", options->grow,
           "Lets the data move where there is no room for the value before it");
  add_max_header(verb, options->max_header);
  add_check(verb, "action", [options] { return options->whats_wrong(); });
  return [options](const Common& common) {
    const bool edits = options->action == "set" || options->action == "rm";
    return edits ? edit(*options, common) : get(*options, common);
  };
}

}  // namespace ht::cli
