#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "format/common.hpp"
#include "format/json.hpp"
#include "format/safetensors/safetensors.hpp"
#include "format/safetensors/safetensors_header.hpp"

namespace ht::inline v1::format_safetensors {
namespace {

constexpr std::string_view white_space = " \t\r\n";

struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Walks over a text that is known to be JSON. Whatever the text is, it stays within it.
class Walk {
 public:
  explicit Walk(std::string_view text) : text_(text) {}

  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  /// What comes next but for white space; at the end, nothing.
  char next() noexcept {
    at_ = std::min(text_.find_first_not_of(white_space, at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void pass() noexcept { at_ = std::min(at_ + 1, text_.size()); }
  void pass_string() noexcept {
    for (pass(); at_ < text_.size() && text_[at_] != '"'; pass()) {
      if (text_[at_] == '\\') pass();
    }
    pass();
  }
  void pass_value() noexcept {
    std::size_t depth = 0;
    do {
      const char c = next();
      if (c == '"') {
        pass_string();
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (c == '{' || c == '[' || c == '}' || c == ']' || c == ',' || c == ':') {
        pass();
      } else {
        at_ = std::min(text_.find_first_of(" \t\r\n,:]}", at_), text_.size());
      }
    } while (depth > 0 && at_ < text_.size());
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

// With its quotes, and with escapes where somebody wrote some.
bool is_metadata_key(std::string_view key) {
  if (key.find('\\') == std::string_view::npos) return key == R"("__metadata__")";
  const std::string object = "{" + std::string(key) + ":0}";
  json::Document document(bytes_of(object));
  return document
      .each<bool>(
          [](std::string_view read, json::Value&) -> std::optional<bool> {
            return read == "__metadata__" ? std::optional(true) : std::nullopt;
          },
          [](const json::Problem&) { return false; })
      .value_or(false);
}

// The member of the object that is its metadata, from the key on, if there is one.
std::optional<Stretch> find_metadata(std::string_view text) {
  Walk walk(text);
  walk.next();
  walk.pass();
  while (walk.next() == '"') {
    const std::size_t begin = walk.at();
    walk.pass_string();
    const bool is_it = is_metadata_key(text.substr(begin, walk.at() - begin));
    walk.next();
    walk.pass();
    walk.pass_value();
    if (is_it) return Stretch{begin, walk.at()};
    if (walk.next() != ',') break;
    walk.pass();
  }
  return std::nullopt;
}

// The member and the comma that goes with it.
Stretch with_comma(std::string_view text, const Stretch& member) {
  const auto after = text.find_first_not_of(white_space, member.end);
  if (after != std::string_view::npos && text[after] == ',') return {member.begin, after + 1};
  const auto before = text.find_last_not_of(white_space, member.begin - 1);
  if (before != std::string_view::npos && text[before] == ',') return {before, member.end};
  return member;
}

// The text with other metadata, without the white space that follows it.
Result<std::string> with_metadata(std::string_view text, const Metadata& metadata) {
  const auto object = text.find('{');
  const auto found = find_metadata(text);
  Stretch replaced = found.value_or(Stretch{object + 1, object + 1});
  if (found && metadata.empty()) replaced = with_comma(text, *found);
  std::string out(text.substr(0, replaced.begin));
  if (!metadata.empty()) HT_TRY(append_metadata(out, metadata));
  const auto next = text.find_first_not_of(white_space, replaced.end);
  if (!found && !metadata.empty() && text[next] != '}') out += ',';
  out += text.substr(replaced.end, text.find_last_not_of(white_space) + 1 - replaced.end);
  return out;
}

}  // namespace

Result<EditedHeader> edit(const HeaderEdit& edit) {
  const auto length = load_le<std::uint64_t>(edit.seen);
  const auto old = part(edit.seen, length_bytes, length);
  if (!old) return fail(Error(ErrorCode::internal));
  const std::string text =
      HT_TRY(with_metadata({reinterpret_cast<const char*>(old->data()), old->size()}, edit.metadata));
  EditedHeader header{.bytes = {}, .old_bytes = length_bytes + length};
  const auto begin = HT_TRY(data_begin_for(length_bytes + text.size(), header.old_bytes, edit));
  header.bytes.resize(static_cast<std::size_t>(begin), std::byte{' '});
  store_le(MutableBytes(header.bytes), begin - length_bytes);
  std::ranges::copy(bytes_of(text), header.bytes.begin() + length_bytes);
  return header;
}

}  // namespace ht::inline v1::format_safetensors
