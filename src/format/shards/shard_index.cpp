#include "format/shards/shard_index.hpp"

#include <algorithm>
#include <htensor/base/confined_path.hpp>

#include "base/format_text.hpp"
#include "format/json.hpp"

namespace ht::inline v1 {
namespace {

using Failure = std::optional<Error>;

Error broken(ErrorCode code, std::string_view rule, std::string message,
             SourceLine where = SourceLine::here()) {
  return Error(code, rule, std::move(message), where)
      .with_hint("fetch the index again, or make it anew from its shards");
}

Error broken_json(const json::Problem& problem) {
  return broken(ErrorCode::bad_header, "index_is_json",
                format_text("the index is broken at byte {}: {}", problem.offset, problem.what))
      .at_offset(problem.offset);
}

class IndexReader {
 public:
  explicit IndexReader(Bytes text) : document_(text) {}

  Result<std::optional<ShardIndex>> read() && {
    auto failure = document_.each<Error>(
        [&](std::string_view key, json::Value& value) { return read_member(key, value); }, broken_json);
    if (failure) return fail(*std::move(failure));
    if (!has_map_) return std::nullopt;
    number_files();
    if (const auto duplicate = index_.tensors.index()) {
      return fail(broken(ErrorCode::duplicate_key, "weight_map_names_are_unique",
                         format_text("the index names tensor '{}' twice", index_.tensors[*duplicate]))
                      .at_tensor(index_.tensors[*duplicate]));
    }
    return std::move(index_);
  }

 private:
  Failure read_member(std::string_view key, json::Value& value) {
    simdjson::ondemand::json_type type{};
    const bool is_object =
        value.type().get(type) == simdjson::SUCCESS && type == simdjson::ondemand::json_type::object;
    if (key == "weight_map") {
      if (std::exchange(has_map_, true)) {
        return broken(ErrorCode::duplicate_key, "weight_map_is_there_once", "the index has two weight_maps");
      }
      if (!is_object)
        return broken(ErrorCode::bad_header, "weight_map_is_an_object", "the weight_map is no object");
      return document_.each_field<Error>(
          value, [&](std::string_view tensor, json::Value& file) { return read_tensor(tensor, file); },
          broken_json);
    }
    return check(value);
  }

  Failure read_tensor(std::string_view tensor, json::Value& value) {
    const auto file = document_.text(value);
    if (!file) {
      return broken(ErrorCode::bad_header, "weight_map_names_files",
                    format_text("the weight_map has no file name for tensor '{}'", tensor))
          .at_tensor(tensor);
    }
    // Neighbours mostly lie in the same file.
    if (files_.empty() || files_.back() != *file) {
      if (const auto fault = path_fault(*file); !fault.empty()) {
        return broken(ErrorCode::path_escapes, "shard_path_stays_in_the_folder",
                      format_text("the index has tensor '{}' in '{}', a path that {}", tensor, *file, fault))
            .at_tensor(tensor);
      }
      files_.push_back(*file);
    }
    index_.tensors.add(tensor);
    index_.file_of.push_back(static_cast<std::uint32_t>(files_.size() - 1));
    return {};
  }

  Failure check(json::Value& value) {
    if (const auto problem = document_.check(value)) return broken_json(*problem);
    return {};
  }

  // From the order of appearance to the sorted list.
  void number_files() {
    std::vector<std::string_view> sorted = files_;
    std::ranges::sort(sorted);
    sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
    std::vector<std::uint32_t> number(files_.size());
    for (std::size_t i = 0; i < files_.size(); ++i) {
      number[i] = static_cast<std::uint32_t>(std::ranges::lower_bound(sorted, files_[i]) - sorted.begin());
    }
    for (auto& file : index_.file_of) file = number[file];
    index_.files.assign(sorted.begin(), sorted.end());
  }

  json::Document document_;
  ShardIndex index_;
  std::vector<std::string_view> files_;  // in order of appearance; a file may be there more than once
  bool has_map_ = false;
};

}  // namespace

bool may_be_shard_index(Bytes prefix) {
  const std::string_view text(reinterpret_cast<const char*>(prefix.data()), prefix.size());
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

Result<std::optional<ShardIndex>> parse_shard_index(Bytes text) {
  return without_bad_alloc([&] { return IndexReader(text).read(); });
}

}  // namespace ht::inline v1
