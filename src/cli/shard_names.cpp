#include "cli/shard_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

namespace ht::cli {
namespace {

namespace fs = std::filesystem;

// The string at the front, without its quotes; removes it from `rest`.
std::string_view take_string(std::string_view& rest) {
  std::size_t end = 1;
  while (end < rest.size() && rest[end] != '"') end += rest[end] == '\\' ? 2 : 1;
  end = std::min(end, rest.size());
  const auto text = rest.substr(1, end - 1);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return text;
}

// Five digits: all writers of shards use them.
std::optional<unsigned> number_at(std::string_view text) {
  constexpr std::size_t digits = 5;
  if (text.size() < digits) return std::nullopt;
  unsigned number = 0;
  for (const char digit : text.substr(0, digits)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = number * 10 + static_cast<unsigned>(digit - '0');
  }
  return number;
}

std::optional<fs::path> index_at(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    if (path.extension() == ".json") return path;
    return std::nullopt;
  }
  if (auto usual = path / "model.safetensors.index.json"; fs::exists(usual, ignored)) return usual;
  for (const auto& file : fs::directory_iterator(path, ignored)) {
    if (file.path().filename().string().ends_with(".index.json")) return file.path();
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> files_of_index(std::string_view text) {
  std::set<std::string> files;
  int depth = 0;
  bool in_map = false;
  bool is_value = false;
  std::string_view key;
  while (!text.empty()) {
    if (text.front() == '"') {
      const auto string = take_string(text);
      if (!is_value) key = string;
      // File names with escapes do not occur in practice.
      if (is_value && in_map && depth == 2 && string.find('\\') == std::string_view::npos)
        files.emplace(string);
      continue;
    }
    switch (text.front()) {
      case '{':
        in_map = in_map || (depth == 1 && key == "weight_map");
        ++depth;
        is_value = false;
        break;
      case '}':
        --depth;
        in_map = in_map && depth >= 2;
        break;
      case ':': is_value = true; break;
      case ',': is_value = false; break;
      default: break;
    }
    text.remove_prefix(1);
  }
  return {files.begin(), files.end()};
}

std::vector<std::string> files_of_numbering(const std::string& name) {
  constexpr std::string_view middle = "-of-";
  const auto at = name.rfind(middle);
  if (at == std::string::npos || at < 6 || name[at - 6] != '-') return {};
  const std::string_view view = name;
  const auto count = number_at(view.substr(at + middle.size()));
  if (!number_at(view.substr(at - 5)) || !count) return {};
  std::vector<std::string> files;
  for (unsigned i = 1; i <= *count; ++i)
    files.push_back(fmt::format("{}{:05}{}", view.substr(0, at - 5), i, view.substr(at)));
  return files;
}

std::vector<fs::path> shard_paths(const fs::path& path) {
  std::error_code ignored;
  std::vector<std::string> names;
  fs::path folder = path.parent_path();
  if (const auto index = index_at(path)) {
    folder = index->parent_path();
    std::ifstream file(*index, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    names = files_of_index(text);
  } else if (fs::is_directory(path, ignored)) {
    folder = path;
    for (const auto& file : fs::directory_iterator(path, ignored)) {
      if (names.empty()) names = files_of_numbering(file.path().filename().string());
    }
  } else {
    names = files_of_numbering(path.filename().string());
  }
  std::vector<fs::path> paths;
  paths.reserve(names.size());
  for (const auto& name : names) paths.push_back(folder / name);
  return paths;
}

}  // namespace ht::cli
