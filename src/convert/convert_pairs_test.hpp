// Converts models between formats and checks that tensors and metadata are preserved.
#pragma once

#include <algorithm>
#include <htensor/convert/convert.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/format/metadata.hpp>
#include <htensor/integrity/seal.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "convert/test_models_fixture.hpp"

namespace ht::testing {

/// Pseudorandom bytes, different for each seed.
inline std::string some_data(std::uint64_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  std::string data(static_cast<std::size_t>(bytes), '\0');
  for (auto& each : data) each = static_cast<char>(random());
  return data;
}

/// Names that break careless shells, paths, format strings and parsers.
inline std::vector<std::string> hostile_names() {
  return {"$(rm -rf .)",
          "`x`; & | > < !",
          "a b\tc\nd\re",
          "-rf",
          "../../etc/passwd",
          "/",
          "'\"\\",
          "*?[a-z]{x,y}~",
          "%s%n{}",
          "é漢字🙂\u202e",
          "e\u0301",
          std::string("nul\0inside", 10),
          "\x7f\x1b[31m",
          "htensor.metadat",
          "__metadata",
          std::string(300, 'n'),
          "blk.0.attn_q.weight"};
}

/// A converted model, and the losses that its plan listed.
struct ConvertedModel {
  Model model;
  std::set<std::string> lost_tensors;
  std::set<std::string> lost_keys;
};

class ConvertPairs : public TestModels {
 protected:
  /// Whether the format stores a single tensor, which is named after its file.
  static bool holds_one_tensor(std::string_view format) { return format == "ht" || format == "npy"; }

  static bool can_store(std::string_view format, const TestTensor& tensor) {
    CatalogBuilder builder(format);
    return builder.add({.name = tensor.name,
                        .dtype = tensor.dtype,
                        .encoding = tensor.encoding,
                        .dims = tensor.dims,
                        .order = tensor.order,
                        .byte_order = tensor.byte_order,
                        .bytes = tensor.data.size()}) &&
           encode(format, std::move(builder).build().value());
  }

  /// Converts the model; nullopt if the plan refuses.
  std::optional<ConvertedModel> converted(const Model& from, std::string_view format, const std::string& stem,
                                          const ConvertOptions& options = {}) {
    const auto target = folder_ / (stem + "." + std::string(format));
    const auto plan = plan_conversion(from, target, options);
    if (!plan) {
      EXPECT_EQ(plan.error().code(), ErrorCode::would_lose) << format << ": " << to_string(plan.error());
      EXPECT_FALSE(plan.error().hint().empty()) << to_string(plan.error());
      return std::nullopt;
    }
    std::set<std::string> tensors;
    std::set<std::string> keys;
    for (const auto& loss : plan->losses) (loss.is_tensor ? tensors : keys).insert(loss.name);
    const auto done = apply(*plan, from, {.if_exists = IfExists::replace, .lossy = true});
    if (!done) {
      ADD_FAILURE() << format << ": " << to_string(done.error());
      return std::nullopt;
    }
    auto model = Model::open(target);
    if (!model) {
      ADD_FAILURE() << "cannot read the written file: " << to_string(model.error());
      return std::nullopt;
    }
    return ConvertedModel{*std::move(model), std::move(tensors), std::move(keys)};
  }

  /// Checks that each tensor keeps its bytes, even if its type is lost, unless the format requires another
  /// byte or element order.
  static void expect_kept(const Model& a, const Model& b, const std::set<std::string>& lost_tensors,
                          const std::set<std::string>& lost_keys) {
    const Catalog& before = a.catalog();
    const Catalog& after = b.catalog();
    ASSERT_EQ(after.size(), before.size());
    const auto digests = ht::hash(a, {.per_tensor = true}).value().tensors;
    const auto others = ht::hash(b, {.per_tensor = true}).value().tensors;
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Entry entry = before[i];
      const auto found =
          holds_one_tensor(after.format()) ? std::optional<std::size_t>(0) : after.find(entry.name);
      ASSERT_TRUE(found) << entry.name << " is kept";
      const Entry other = after[*found];
      const bool is_reordered = entry.byte_order != other.byte_order || entry.order != other.order;
      if (!is_reordered) {
        EXPECT_EQ(digests[i], others[*found]) << entry.name;
      }
      if (lost_tensors.contains(std::string(entry.name))) continue;
      EXPECT_EQ(entry.dtype, other.dtype) << entry.name;
      EXPECT_EQ(entry.encoding, other.encoding) << entry.name;
      EXPECT_TRUE(std::ranges::equal(entry.dims, other.dims)) << entry.name;
      if (is_reordered) expect_reordered(a, b, entry.name);
    }
    std::size_t expected_keys = 0;
    for (const auto& [key, value] : before.metadata()) {
      if (lost_keys.contains(std::string(key))) continue;
      const auto other = after.metadata().find(key);
      // Keys that describe the layout of the old file are not kept.
      if (!other && describes_layout({key, value})) continue;
      ++expected_keys;
      ASSERT_TRUE(other) << key << " is kept";
      EXPECT_EQ(other->type(), value.type()) << key;
      EXPECT_TRUE(std::ranges::equal(other->bytes(), value.bytes())) << key;
    }
    EXPECT_EQ(after.metadata().size(), expected_keys) << "no key was added";
  }

  static void expect_reordered(const Model& a, const Model& b, std::string_view name) {
    const Entry entry = b.catalog()[b.catalog().find(name).value_or(0)];
    EXPECT_EQ(entry.byte_order, ByteOrder::little) << name;
    EXPECT_EQ(entry.order, ElementOrder::row_major) << name;
    const auto found = compared(a, b);
    EXPECT_TRUE(found.only_a.empty() && found.only_b.empty()) << "every tensor was compared";
    for (const auto& each : found.differ) EXPECT_NE(each.name, name) << each;
  }

  /// Converts from `a`'s format to the other format and back.
  void expect_round_trip(const Model& a, std::string_view other, const std::string& stem) {
    SCOPED_TRACE(std::string(a.catalog().format()) + " to " + std::string(other) + ": " + stem);
    const auto intermediate = converted(a, other, stem);
    if (!intermediate) return;
    expect_kept(a, intermediate->model, intermediate->lost_tensors, intermediate->lost_keys);
    const std::string format(a.catalog().format());
    // The file is written to another folder under the same name, because formats of a single tensor name the
    // tensor after the file.
    std::filesystem::create_directories(folder_ / "back");
    const auto back = converted(intermediate->model, format, "back/" + stem);
    ASSERT_TRUE(back) << "the converted model can be converted back";
    auto lost_tensors = intermediate->lost_tensors;
    lost_tensors.insert(back->lost_tensors.begin(), back->lost_tensors.end());
    auto lost_keys = intermediate->lost_keys;
    lost_keys.insert(back->lost_keys.begin(), back->lost_keys.end());
    expect_kept(a, back->model, lost_tensors, lost_keys);
  }
};

}  // namespace ht::testing
