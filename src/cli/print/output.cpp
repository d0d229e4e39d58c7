#include "cli/print/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/options.hpp"
#include "cli/print/progress.hpp"
#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

// How the output for one of several paths is framed. A path without output gets no frame.
enum class Frame : std::uint8_t {
  none,
  heading,      // the path on a line of its own
  json_object,  // "path" becomes the object's first key, and its newline is left out
  json_lines,   // "path" becomes the first key of each line
};

// The block that is being printed.
struct Block {
  Frame frame = Frame::none;
  std::string opening{};
  bool has_printed = false;
  bool is_line_begun = false;
  bool is_object_open = false;  // the object was printed in part, and an error becomes its last key
};

Block block;
bool has_any_output = false;
bool ends_within_a_line = false;

// A write error is kept by the stream and reported once, at exit.
void write(std::string_view text) {
  if (text.empty()) return;  // its address may be null
  erase_progress();
  has_any_output = true;
  ends_within_a_line = !text.ends_with('\n');
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stdout));
}

void write_object_start(std::string_view& text) {
  // If the verb's object has a "path" key, that key comes before any nested object.
  if (text.substr(0, text.find('{', 1)).find(R"("path":)") != std::string_view::npos) return;
  text.remove_prefix(1);  // `opening` has the brace
  write(block.opening);
}

void write_object(std::string_view text) {
  if (!block.has_printed) write_object_start(text);
  // The only newline is the last one: JSON escapes newlines in strings.
  while (text.ends_with('\n')) text.remove_suffix(1);
  write(text);
}

void write_lines(std::string_view text) {
  while (!text.empty()) {
    if (!block.is_line_begun) write_object_start(text);
    const auto end = text.find('\n');
    block.is_line_begun = end == std::string_view::npos;
    const auto line = text.substr(0, block.is_line_begun ? text.size() : end + 1);
    write(line);
    text.remove_prefix(line.size());
  }
}

std::string opening_of(std::string_view path, Frame frame) {
  if (frame == Frame::none) return {};
  if (frame != Frame::heading) return fmt::format(R"({{"path":{},)", json_string(path));
  return fmt::format("{}{}:\n", has_any_output ? "\n" : "", printable(path));
}

Result<Exit> run_for_path(const std::string& path, const PathAction& action, const Common& common) {
  auto outcome = action(path, common);
  if (outcome || !outcome.error().path().empty()) return outcome;
  return fail(std::move(outcome).error().at_path(path));
}

Exit run_for_paths(const std::vector<std::string>& paths, const PathAction& action, Heading heading,
                   const Common& common) {
  const Frame frame = common.jsonl               ? Frame::json_lines
                      : common.json              ? Frame::json_object
                      : heading == Heading::path ? Frame::heading
                                                 : Frame::none;
  const bool is_document = frame == Frame::json_object;
  Exit worst = Exit::good;
  if (is_document) print(R"({"results":[)");
  for (const auto& path : paths) {
    if (is_document && &path != &paths.front()) print(",");
    block = {.frame = frame, .opening = opening_of(path, frame)};
    const auto outcome = is_interrupted() ? fail(interruption("this path was not processed").at_path(path))
                                          : run_for_path(path, action, common);
    const Exit status = outcome ? *outcome : report(outcome.error(), common.is_json());
    block = {.has_printed = true};
    worst = std::max(worst, status);
    if (status == Exit::interrupted) break;
  }
  if (is_document) print("]}\n");
  return worst;
}

// A path that fails here is kept: the verb reports the error.
std::vector<std::string> expand_folders(const std::vector<std::string>& paths) {
  std::vector<std::string> expanded;
  for (const auto& path : paths) {
    for (const auto& model : models_in(path).value_or(std::vector<std::filesystem::path>{path}))
      expanded.push_back(model.string());
  }
  return expanded;
}

}  // namespace

Action for_each_path(CLI::App& verb, PathAction action, Heading heading, Folders folders) {
  auto paths = std::make_shared<std::vector<std::string>>();
  add_paths(verb, *paths);
  return [paths, action = std::move(action), heading, folders](const Common& common) -> Result<Exit> {
    if (folders == Folders::every_model) *paths = expand_folders(*paths);
    if (paths->size() > 1) return run_for_paths(*paths, action, heading, common);
    return run_for_path(paths->front(), action, common);
  };
}

bool is_line_open() noexcept { return ends_within_a_line && isatty(STDOUT_FILENO) != 0; }

void print(std::string_view text) {
  if (text.empty()) return;
  if (block.frame == Frame::json_object) {
    write_object(text);
  } else if (block.frame == Frame::json_lines) {
    write_lines(text);
  } else {
    if (!block.has_printed) write(block.opening);
    write(text);
  }
  block.has_printed = true;
}

void print_error(std::string_view text) {
  erase_progress();
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

void print_diagnostic(std::string_view line, std::string_view hint) {
  std::string text = fmt::format("htensor: {}\n", printable(line));
  if (!hint.empty()) append_text(text, "  hint: {}\n", printable(hint));
  print_error(text);
}

void print_diagnostic(const Error& error) { print_diagnostic(to_string(error), error.hint()); }

Exit report(const Error& error, bool json) {
  const bool follows_lines = block.has_printed && !ends_within_a_line;
  if (json && (!block.has_printed || block.is_object_open || follows_lines)) {
    print(fmt::format("{}\"error\":{{{}}}}}\n", block.is_object_open ? "," : "{", json_members(error)));
    block.is_object_open = false;
  } else {
    // Text, or JSON that is incomplete and cannot take the error.
    print_diagnostic(error);
  }
  return error.code() == ErrorCode::cancelled ? Exit::interrupted : Exit::failure;
}

Exit report_negative_answer(const Error& error, const Common& common) {
  static_cast<void>(report(error, common.is_json()));
  return Exit::negative_answer;
}

Error stale_seal_warning(const std::filesystem::path& seal) {
  const auto folder = seal.has_parent_path() ? seal.parent_path() : std::filesystem::path(".");
  return Error(ErrorCode::bad_seal, "seal_covers_the_new_file",
               "seal is out of date: it has the checksums of a file that was replaced")
      .at_path(seal.native())
      .with_hint(fmt::format("renew it: htensor seal --force {}", folder.native()));
}

void print_warnings(std::span<const Error> warnings, const Common& common) {
  if (common.quiet) return;
  for (const auto& warning : warnings) {
    print_error(
        fmt::format("warning: {}\n  hint: {}\n", printable(to_string(warning)), printable(warning.hint())));
  }
}

void end_list_early(OutputBuffer& out, bool is_json) {
  if (!block.has_printed) return out.discard();
  if (!is_json) return;
  out += ']';
  out.flush();
  block.is_object_open = true;
}

OutputBuffer& OutputBuffer::append_large(std::string_view text) {
  while (!text.empty()) {
    if (used_ == capacity) flush();
    const std::size_t part = std::min(text.size(), capacity - used_);
    text.copy(&buffer_[used_], part);
    used_ += part;
    text.remove_prefix(part);
  }
  return *this;
}

void OutputBuffer::flush() {
  const std::string_view text(buffer_.get(), used_);
  used_ = 0;
  if (into_ != nullptr) {
    into_->append(text);
  } else {
    print(text);
  }
}

OutputBuffer& OutputBuffer::operator+=(JsonText json) {
  if (!is_plain_json(json.text)) return *this += json_string(json.text);
  append('"', json.text, '"');
  return *this;
}

void append_shape(OutputBuffer& out, std::span<const std::int64_t> dims, std::string_view separator) {
  out += '[';
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out += separator;
    out += static_cast<std::uint64_t>(dims[i]);
  }
  out += ']';
}

void vappend_text(OutputBuffer& out, fmt::string_view format, fmt::format_args args) {
  fmt::memory_buffer text;
  fmt::vformat_to(std::back_inserter(text), format, args);
  out += std::string_view(text.data(), text.size());
}

}  // namespace ht::cli
