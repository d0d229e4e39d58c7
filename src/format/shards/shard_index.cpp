#include "format/shards/shard_index.hpp"
#include "base/utf8.hpp"
#include "format/catalog/packed_text.hpp"
#include "format/format_errors.hpp"
#include "format/json/json.hpp"

#include <algorithm>
#include <numeric>

namespace ht::inline v1 {
namespace {

using Failure = std::optional<Error>;

Error broken(ErrorCode code, std::string_view rule, std::string message,
             SourceLine where = SourceLine::here()) {
  return Error(code, rule, std::move(message), where).with_hint("download the index again");
}

Error broken_json(const json::Problem& problem) {
  return broken(ErrorCode::bad_header, "index_is_json",
                format_text("the index is not valid JSON at byte {}: {}", problem.offset, problem.message))
      .at_offset(problem.offset);
}

/// The weight_map in `PackedText`: for each tensor the length of its name, the name, and its file. The file
/// is stored as 0 if the previous tensor is in the same file, otherwise as the length of the file name plus 1
/// and the file name.
struct PackedMap {
  PackedText packed;
  std::size_t tensors = 0;
  std::size_t name_bytes = 0;
  /// The number of runs of adjacent tensors in the same file, and the total size of their file names.
  std::size_t runs = 0;
  std::size_t file_bytes = 0;
};

class IndexReader {
 public:
  explicit IndexReader(Bytes text) : document_(text), packer_(text.size()) {}

  Result<std::optional<PackedMap>> read() && {
    auto failure = document_.each<Error>(
        [&](std::string_view key, json::Value& value) { return read_member(key, value); }, broken_json);
    if (failure) return fail(*std::move(failure));
    if (!has_map_) return std::nullopt;
    map_.packed = std::move(packer_).finish();
    return std::move(map_);
  }

 private:
  Failure read_member(std::string_view key, json::Value& value) {
    if (key == "weight_map") {
      if (std::exchange(has_map_, true)) {
        return broken(ErrorCode::duplicate_key, "weight_map_occurs_once", "the index has two weight_maps");
      }
      if (!document_.is(value, json::Type::object))
        return broken(ErrorCode::bad_header, "weight_map_is_an_object", "the weight_map is not an object");
      return document_.each_field<Error>(
          value, [&](std::string_view tensor, json::Value& file) { return read_tensor(tensor, file); },
          broken_json);
    }
    if (const auto problem = document_.check(value)) return broken_json(*problem);
    return {};
  }

  Failure read_tensor(std::string_view tensor, json::Value& value) {
    const auto file = document_.text(value);
    if (!file) {
      return broken(ErrorCode::bad_header, "weight_map_names_files",
                    format_text("the weight_map has no file name for tensor '{}'", tensor))
          .at_tensor(tensor);
    }
    packer_.number(tensor.size());
    packer_.text(tensor);
    ++map_.tensors;
    map_.name_bytes += tensor.size();
    // Adjacent tensors are mostly in the same file.
    if (file_ == *file) {
      packer_.number(0);
      return {};
    }
    if (const auto fault = path_problem(*file); !fault.empty()) {
      return broken(ErrorCode::path_escapes, "shard_path_stays_in_the_folder",
                    format_text("the index has tensor '{}' in '{}', a path that {}", tensor, *file, fault))
          .at_tensor(tensor);
    }
    packer_.number(file->size() + 1);
    packer_.text(*file);
    ++map_.runs;
    map_.file_bytes += file->size();
    file_ = *file;
    return {};
  }

  json::Document document_;
  Packer packer_;
  PackedMap map_;
  std::optional<std::string_view> file_;
  bool has_map_ = false;
};

// Fills `files` with the distinct file names, sorted. Returns the index of each run's file in `files`. `runs`
// has the file name of each run, in order of appearance.
std::vector<std::uint32_t> number_files(const detail::NameStore& runs, std::vector<std::string>& files) {
  std::vector<std::uint32_t> order(runs.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto name = [&](std::uint32_t run) { return runs[run]; };
  std::ranges::sort(order, {}, name);
  std::size_t distinct = 0;
  for (std::size_t i = 0; i < order.size(); ++i) distinct += i == 0 || name(order[i]) != name(order[i - 1]);
  files.reserve(distinct);
  std::vector<std::uint32_t> number(runs.size());
  for (const auto run : order) {
    if (files.empty() || files.back() != name(run)) files.emplace_back(name(run));
    number[run] = static_cast<std::uint32_t>(files.size() - 1);
  }
  return number;
}

Result<ShardIndex> unpack(PackedMap map) {
  ShardIndex index;
  index.tensors.reserve(map.tensors, map.name_bytes);
  index.file_of.reserve(map.tensors);
  detail::NameStore runs;
  runs.reserve(map.runs, map.file_bytes);
  for (Unpacker in(map.packed.bytes()); !in.done();) {
    index.tensors.add(in.text(in.number()));
    if (const auto file = in.number(); file != 0) runs.add(in.text(file - 1));
    index.file_of.push_back(static_cast<std::uint32_t>(runs.size() - 1));
  }
  map = {};
  const auto number = number_files(runs, index.files);
  for (auto& file : index.file_of) file = number[file];
  if (const auto duplicate = index.tensors.build_index()) {
    return fail(broken(ErrorCode::duplicate_key, "weight_map_names_are_unique",
                       format_text("the index names tensor '{}' twice", index.tensors[*duplicate]))
                    .at_tensor(index.tensors[*duplicate]));
  }
  return index;
}

}  // namespace

bool may_be_shard_index(Bytes prefix) {
  const std::string_view text = as_text(prefix);
  const auto first = text.find_first_not_of(json::white_space);
  return first != std::string_view::npos && text[first] == '{';
}

Result<std::optional<ShardIndex>> parse_shard_index(Bytes text) {
  return without_bad_alloc([&]() -> Result<std::optional<ShardIndex>> {
    auto map = HT_TRY(IndexReader(text).read());
    if (!map) return std::nullopt;
    return HT_TRY(unpack(*std::move(map)));
  });
}

std::string encode_shard_index(const ShardIndex& index, std::uint64_t total_bytes) {
  std::string json = "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(total_bytes) +
                     "\n  },\n  \"weight_map\": {";
  for (std::size_t i = 0; i < index.tensors.size(); ++i) {
    json += i == 0 ? "\n    " : ",\n    ";
    append_json_string(json, index.tensors[i]);
    json += ": ";
    append_json_string(json, index.files[index.file_of[i]]);
  }
  return json += "\n  }\n}\n";
}

}  // namespace ht::inline v1
