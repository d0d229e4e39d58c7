#include "cli/conversion_text.hpp"

#include <algorithm>
#include <htensor/base/utf8.hpp>

#include "cli/table.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

using Path = std::filesystem::path;

// A part of a planned file and the origin of its bytes: a file of the source, a pattern, memory.
struct PartText {
  std::string kind;
  std::string file;
  std::string offset;
};

PartText from_text(const PlannedPart& part, const Model& source) {
  if (const auto* const stored = std::get_if<StoredBytes>(&part.from)) {
    return {"file", source.files()[stored->file].string(), std::to_string(stored->offset)};
  }
  if (const auto* const turned = std::get_if<RelaidBytes>(&part.from)) {
    return {"reordered", source.files()[turned->file].string(), std::to_string(turned->offset)};
  }
  return {std::holds_alternative<RepeatedBytes>(part.from) ? "splat" : "memory", "", ""};
}

template <class List, class Add>
void append_list(std::string& out, const List& list, const Add& add) {
  out += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i != 0) out += ',';
    add(list[i]);
  }
  out += ']';
}

void append_removed(std::string& out, std::string_view verb, const std::vector<Path>& paths) {
  if (paths.empty()) return;
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const auto& path : paths) names.push_back(printable(path.string()));
  append_text(out, "{} {} file{} of the replaced set: {}\n", verb, names.size(), names.size() == 1 ? "" : "s",
              name_list(names));
}

void append_losses_and_warnings(std::string& out, const ConversionPlan& plan) {
  out += R"(,"losses":)";
  append_list(out, plan.losses, [&](const Loss& loss) {
    append_text(out, R"({{"name":{},"kind":"{}","tensor":{},"why":{}}})", json_string(loss.name),
                loss.kind == LossKind::metadata ? "metadata" : "raw_bytes", loss.is_tensor,
                json_string(loss.why));
  });
  out += R"(,"warnings":)";
  append_list(out, plan.warnings, [&](const Error& warning) { out += "{" + json_members(warning) + "}"; });
}

std::string loss_text(const Loss& loss) {
  const std::string name = printable(loss.name);
  if (loss.kind == LossKind::raw_bytes) return fmt::format("kept as raw bytes: '{}' {}", name, loss.change);
  if (loss.is_tensor) return fmt::format("metadata dropped: the note of tensor '{}'", name);
  return fmt::format("metadata dropped: '{}'", name);
}

}  // namespace

std::string losses_text(std::span<const Loss> losses) {
  constexpr std::size_t max_lines = 10;
  std::string out;
  for (const auto& loss : losses.first(std::min(losses.size(), max_lines)))
    append_text(out, "{}\n", loss_text(loss));
  if (losses.size() > max_lines)
    append_text(out, "… and {} more; list them with --json\n", losses.size() - max_lines);
  return out;
}

std::string plan_text(const ConversionPlan& plan, const Model& source, const std::vector<Path>& removed) {
  std::string out;
  for (const auto& file : plan.files) {
    append_text(out, "{}: {}, {}\n", printable(file.path.string()), plan.format, size_text(file.bytes));
    std::vector<std::vector<std::string>> lines{{"", "offset", "bytes", "from", "at"}};
    lines.push_back({"", "0", std::to_string(file.header.size()), "header", ""});
    for (const auto& part : file.parts) {
      const auto from = from_text(part, source);
      std::string where = from.file.empty() ? from.kind : printable(from.file);
      if (from.kind == "reordered") where += " (reordered)";
      lines.push_back(
          {"", std::to_string(part.offset), std::to_string(part.bytes), std::move(where), from.offset});
    }
    out += table(lines, {1, 2, 4});
  }
  append_removed(out, "would remove", removed);
  for (const auto& loss : plan.losses) append_text(out, "{}\n", loss_text(loss));
  return out;
}

std::string plan_json(const ConversionPlan& plan, const Model& source, const std::vector<Path>& removed) {
  std::string out;
  append_text(out, R"({{"format":"{}","bytes":{},"tensors":{},"files":)", plan.format, plan.bytes(),
              plan.tensors);
  append_list(out, plan.files, [&](const PlannedFile& file) {
    append_text(out, R"({{"path":{},"bytes":{},"header_bytes":{},"parts":)", json_string(file.path.string()),
                file.bytes, file.header.size());
    append_list(out, file.parts, [&](const PlannedPart& part) {
      const auto [kind, path, offset] = from_text(part, source);
      append_text(out, R"({{"offset":{},"bytes":{},"from":"{}","file":{},"file_offset":{}}})", part.offset,
                  part.bytes, kind, path.empty() ? "null" : json_string(path),
                  offset.empty() ? "null" : offset);
    });
    out += '}';
  });
  out += R"(,"removed":)";
  append_list(out, removed, [&](const Path& path) { out += json_string(path.string()); });
  append_losses_and_warnings(out, plan);
  out += "}\n";
  return out;
}

std::string converted_text(const Converted& converted) {
  std::string out;
  for (const auto& path : converted.written) append_text(out, "{}\n", printable(path.string()));
  const auto& by = converted.copied_by;
  append_text(out, "{} written", size_text(converted.bytes));
  const std::pair<std::uint64_t, std::string_view> ways[] = {
      {by.reflink, "shared with the source"},
      {by.direct, "copied by direct I/O"},
      {by.copy_file_range, "copied by copy_file_range"},
      {by.read_write, "copied by read and write"}};
  for (const auto& [bytes, way] : ways) {
    if (bytes != 0) append_text(out, ", {} {}", size_text(bytes), way);
  }
  out += '\n';
  append_removed(out, "removed", converted.removed);
  if (converted.seal) append_text(out, "seal: {}\n", printable(converted.seal->string()));
  return out;
}

std::string converted_json(const Converted& converted, const ConversionPlan& plan) {
  const auto& by = converted.copied_by;
  std::string out = R"({"written":)";
  // One file is a text, several are a list.
  const auto add = [&](const std::filesystem::path& path) { out += json_string(path.string()); };
  if (converted.written.size() == 1) {
    add(converted.written[0]);
  } else {
    append_list(out, converted.written, add);
  }
  append_text(
      out,
      R"(,"bytes":{},"copied_by":{{"reflink":{},"direct":{},"copy_file_range":{},"read_write":{}}},"seal":{})",
      converted.bytes, by.reflink, by.direct, by.copy_file_range, by.read_write,
      converted.seal ? json_string(converted.seal->string()) : "null");
  out += R"(,"removed":)";
  append_list(out, converted.removed, add);
  append_losses_and_warnings(out, plan);
  out += "}\n";
  return out;
}

}  // namespace ht::cli
