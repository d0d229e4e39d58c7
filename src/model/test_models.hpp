// Builds files of models, and checks that several tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <htensor/format/format.hpp>
#include <htensor/model/model.hpp>
#include <initializer_list>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "format/safetensors/test_file.hpp"

namespace ht::testing {

/// Returns a safetensors file with these tensors, each U8 [4]. The data bytes of the file count up from 0.
/// `metadata` contains the members of a JSON object.
inline std::vector<std::byte> shard_file(std::initializer_list<std::string_view> names,
                                         std::string_view metadata = {}) {
  std::string json = "{\"__metadata__\":{" + std::string(metadata) + "}";
  std::size_t end = 0;
  for (const auto name : names) {
    json += ",\"" + std::string(name) + R"(":{"dtype":"U8","shape":[4],"data_offsets":[)";
    json += std::to_string(end) + "," + std::to_string(end + 4) + "]}";
    end += 4;
  }
  return safetensors_file(json + "}", end);
}

/// Returns an index that maps tensors to files.
inline std::string index_text(const std::vector<std::pair<std::string, std::string>>& map) {
  std::string json;
  for (const auto& [tensor, file] : map)
    json.append(json.empty() ? "" : ",").append("\"" + tensor + "\":\"" + file + "\"");
  return R"({"metadata":{"total_size":4},"weight_map":{)" + json + "}}";
}

/// Expects a failure with this code and rule and with a hint, and returns the Error.
template <class T>
Error refusal(const Result<T>& result, ErrorCode code, std::string_view rule) {
  if (result) {
    ADD_FAILURE() << "was accepted despite the rule " << rule;
    return Error(ErrorCode::internal);
  }
  const Error error = result.error();
  EXPECT_EQ(error.code(), code) << to_string(error);
  EXPECT_EQ(error.rule(), rule) << to_string(error);
  EXPECT_FALSE(error.hint().empty()) << to_string(error);
  return error;
}

template <class T>
void expect_refusal(const Result<T>& result, ErrorCode code, std::string_view rule) {
  static_cast<void>(refusal(result, code, rule));
}

inline bool message_contains(const Error& error, std::string_view words) {
  return error.message().find(words) != std::string_view::npos;
}

inline std::vector<std::string> names_of(const Catalog& catalog) {
  std::vector<std::string> names;
  for (const Entry& entry : catalog) names.emplace_back(entry.name);
  return names;
}

inline std::vector<std::byte> noise(std::size_t bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> words(bytes / 8 + 1);
  for (auto& word : words) word = random();
  const auto all = std::as_bytes(std::span(words)).first(bytes);
  return {all.begin(), all.end()};
}

/// Returns a file with F32 vectors of these numbers of elements, named "t0", "t1", …. A format with a single
/// tensor names the tensor after the file.
inline std::vector<std::byte> noise_file(std::string_view format, const std::vector<std::int64_t>& elements) {
  CatalogBuilder builder(format);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::string name = "t" + std::to_string(i);
    const std::int64_t dims[] = {elements[i]};
    EXPECT_TRUE(builder.add({.name = name,
                             .dtype = F32::tag,
                             .dims = dims,
                             .bytes = 4 * static_cast<std::uint64_t>(elements[i])}));
  }
  const auto catalog = std::move(builder).build().value();
  const auto encoded = encode(format, catalog).value();
  auto file = encoded.header;
  file.resize(static_cast<std::size_t>(encoded.file_bytes));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto data = noise(static_cast<std::size_t>(catalog[i].bytes), static_cast<unsigned>(i));
    std::ranges::copy(data, file.begin() + static_cast<std::ptrdiff_t>(*encoded.offsets[i]));
  }
  return file;
}

/// Opens a model and maps its files, which happens when their first tensors are used.
inline Result<Model> open_and_map(const std::filesystem::path& path, const OpenOptions& options) {
  auto model = HT_TRY(Model::open(path, options));
  for (const AnyTensor& tensor : model) HT_TRY(tensor.storage());
  return model;
}

}  // namespace ht::testing
