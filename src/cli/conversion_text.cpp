#include "cli/conversion_text.hpp"

#include "cli/table.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

// A part and where it comes from: one of the source's files, a pattern, memory.
struct PartText {
  std::string kind;
  std::string file;
  std::string offset;
};

PartText from_text(const PlannedPart& part, const Model& source) {
  if (const auto* const stored = std::get_if<StoredBytes>(&part.from)) {
    return {"file", source.files()[stored->file].string(), std::to_string(stored->offset)};
  }
  if (const auto* const turned = std::get_if<TurnedBytes>(&part.from)) {
    return {"turned", source.files()[turned->file].string(), std::to_string(turned->offset)};
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

}  // namespace

std::string plan_text(const ConversionPlan& plan, const Model& source) {
  std::string out;
  for (const auto& file : plan.files) {
    append_text(out, "{}: {} in all, {}\n", printable(file.path.string()), size_text(file.bytes),
                plan.format);
    std::vector<std::vector<std::string>> lines{{"", "offset", "bytes", "from", "at"}};
    lines.push_back({"", "0", std::to_string(file.header.size()), "made here: the header", ""});
    for (const auto& part : file.parts) {
      const auto from = from_text(part, source);
      std::string where = from.file.empty() ? "made here: a splat" : printable(from.file);
      if (from.kind == "turned") where += " (turned round)";
      lines.push_back(
          {"", std::to_string(part.offset), std::to_string(part.bytes), std::move(where), from.offset});
    }
    out += table(lines, {1, 2, 4});
  }
  for (const auto& loss : plan.losses) append_text(out, "would be lost: {}\n", printable(loss.why));
  return out;
}

std::string plan_json(const ConversionPlan& plan, const Model& source) {
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
  out += R"(,"losses":)";
  append_list(out, plan.losses, [&](const Loss& loss) {
    append_text(out, R"({{"name":{},"tensor":{},"why":{}}})", json_string(loss.name), loss.is_tensor,
                json_string(loss.why));
  });
  out += "}\n";
  return out;
}

std::string converted_text(const Converted& converted) {
  std::string out;
  for (const auto& path : converted.written) append_text(out, "{}\n", printable(path.string()));
  const auto& by = converted.copied_by;
  append_text(out, "{} written", size_text(converted.bytes));
  const std::pair<std::uint64_t, std::string_view> ways[] = {{by.reflink, "shared with the source"},
                                                             {by.direct, "past the page cache"},
                                                             {by.copy_file_range, "copied by the system"},
                                                             {by.read_write, "read and written"}};
  for (const auto& [bytes, way] : ways) {
    if (bytes != 0) append_text(out, ", {} {}", size_text(bytes), way);
  }
  out += '\n';
  if (converted.seal) append_text(out, "sealed by {}\n", printable(converted.seal->string()));
  return out;
}

std::string converted_json(const Converted& converted) {
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
      R"(,"bytes":{},"copied_by":{{"reflink":{},"direct":{},"copy_file_range":{},"read_write":{}}},"seal":{}}})",
      converted.bytes, by.reflink, by.direct, by.copy_file_range, by.read_write,
      converted.seal ? json_string(converted.seal->string()) : "null");
  out += '\n';
  return out;
}

}  // namespace ht::cli
