#include <gtest/gtest.h>

#include <array>
#include <htensor/convert/convert.hpp>
#include <htensor/dtype/dtypes.hpp>

#include "convert/plan/plan.hpp"

namespace ht::plan_test {
namespace {

struct TensorSpec {
  std::string name;
  DTypeTag dtype = F32::tag;
  std::vector<std::int64_t> dims{4, 8};
  std::uint64_t bytes = 128;
  EncodingTag encoding = EncodingTag::dense;
};

Catalog catalog(const std::vector<TensorSpec>& tensors,
                const std::vector<std::pair<std::string, std::string>>& texts = {},
                std::optional<std::uint32_t> number = {}) {
  CatalogBuilder builder("safetensors");
  std::uint64_t offset = 1000;
  for (const auto& [name, dtype, dims, bytes, encoding] : tensors) {
    EXPECT_TRUE(builder.add({.name = name,
                             .dtype = dtype,
                             .encoding = encoding,
                             .dims = dims,
                             .offset = offset,
                             .bytes = bytes}));
    offset += bytes;
  }
  for (const auto& [key, text] : texts) EXPECT_TRUE(builder.metadata().add(key, text));
  if (number) {
    EXPECT_TRUE(builder.metadata().add("number", *number));
  }
  return std::move(builder).build().value();
}

// Planning does no I/O and needs no files.
Result<ConversionPlan> planned(const Catalog& source, const std::filesystem::path& target,
                               const ConvertOptions& options = {}) {
  return plan_from(source, {}, target, options);
}

std::vector<std::string> names_in(const PlannedFile& file) {
  // Searches for each name in double quotes, as a JSON header contains it.
  const std::string text(reinterpret_cast<const char*>(file.header.data()), file.header.size());
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string name : {"a", "b", "c", "d"}) {
    if (const auto at = text.find("\"" + name + "\""); at != std::string::npos) found.emplace_back(at, name);
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (const auto& [at, name] : found) names.push_back(name);
  return names;
}

TEST(PlanConversion, maps_every_byte_to_its_source) {
  const auto source = catalog({{"a"}, {"b"}, {"c", F32::tag, {0, 3}, 0}});
  const auto plan = planned(source, "x.safetensors").value();
  EXPECT_EQ(plan.format, "safetensors");
  EXPECT_EQ(plan.tensors, 3U);
  EXPECT_TRUE(plan.losses.empty());
  ASSERT_EQ(plan.files.size(), 1U);
  const auto& file = plan.files[0];
  EXPECT_EQ(file.path, "x.safetensors");
  ASSERT_EQ(file.parts.size(), 2U) << "a tensor without bytes has no part";
  EXPECT_EQ(std::get<PartOrigin::Stored>(file.parts[1].from), (PartOrigin::Stored{0, 1128}));
  EXPECT_EQ(file.parts[1].offset, file.header.size() + 128);
  EXPECT_EQ(file.bytes, file.header.size() + 256);
  EXPECT_EQ(plan.bytes(), file.bytes);
}

TEST(PlanConversion, format_name_is_known) {
  EXPECT_EQ(planned(catalog({}), "x", {.format = "zip"}).error().rule(), "format_name_is_known");
  EXPECT_EQ(planned(catalog({}), "x", {.format = "irpa"}).value().format, "irpa");
}

TEST(PlanConversion, extension_names_a_format) {
  EXPECT_EQ(planned(catalog({}), "x.bin").error().rule(), "extension_names_a_format");
}

TEST(PlanConversion, filter_matches_a_tensor) {
  const auto source = catalog({{"a"}, {"b"}});
  EXPECT_EQ(names_in(planned(source, "x.safetensors", {.filter = "b*"}).value().files[0]),
            std::vector<std::string>{"b"});
  EXPECT_EQ(planned(source, "x.safetensors", {.filter = "z*"}).error().rule(), "filter_matches_a_tensor");
  EXPECT_EQ(planned(source, "x.safetensors", {.filter = "b["}).error().rule(), "bracket_is_closed");
  EXPECT_TRUE(planned(catalog({}), "x.safetensors")) << "a model without tensors is valid";
}

TEST(PlanConversion, rename_matches_a_tensor) {
  const auto source = catalog({{"model.a"}, {"model.c.weight"}});
  ConvertOptions options{.renames = {{"model.a", "b"}, {"model.*.weight", "*"}, {"other.*", "never"}}};
  EXPECT_EQ(planned(source, "x.safetensors", options).error().rule(), "rename_matches_a_tensor");
  options.renames.pop_back();
  EXPECT_EQ(names_in(planned(source, "x.safetensors", options).value().files[0]),
            (std::vector<std::string>{"b", "c"}));
}

TEST(PlanConversion, refuses_two_tensors_of_one_name) {
  const auto source = catalog({{"a"}, {"b"}});
  const auto plan = planned(source, "x.safetensors", {.renames = {{"a", "b"}}});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code(), ErrorCode::duplicate_tensor);
}

TEST(PlanConversion, has_the_canonical_order_of_a_format) {
  const auto source = catalog({{"d", U8::tag, {128}}, {"c"}, {"b", I64::tag, {16}}, {"a"}});
  EXPECT_EQ(names_in(planned(source, "x.safetensors", {.canonical = true}).value().files[0]),
            (std::vector<std::string>{"b", "a", "c", "d"}));
}

TEST(PlanConversion, aligns_every_tensor_in_canonical_order) {
  const auto source = catalog({{"a", Bool::tag, {3}, 3}, {"b", F64::tag, {1}, 8}, {"c", F16::tag, {3}, 6}});
  const auto file = planned(source, "x.safetensors", {.canonical = true}).value().files[0];
  ASSERT_EQ(file.parts.size(), 3U);
  EXPECT_EQ(file.parts[0].offset % 8, 0U);
  EXPECT_EQ(file.parts[1].offset % 2, 0U);
}

TEST(PlanConversion, canonical_order_uses_the_dtype_in_the_target) {
  const auto source = catalog({{"a", F4::tag, {4}, 2}, {"b", I4::tag, {4}, 2}});
  EXPECT_EQ(names_in(planned(source, "x.safetensors", {.canonical = true}).value().files[0]),
            (std::vector<std::string>{"b", "a"}));
}

TEST(PlanConversion, shard_names_can_be_found) {
  const auto source = catalog({{"a"}, {"b"}});
  for (const std::string format : {"gguf", "safetensors"}) {
    for (const auto& name : std::vector<std::string>{"m", "folder/", "m.bin", "m\xFF." + format}) {
      const auto plan = planned(source, name, {.format = format, .shard_bytes = 128});
      ASSERT_FALSE(plan) << name;
      EXPECT_EQ(plan.error().rule(), "shard_names_can_be_found") << name;
    }
    EXPECT_TRUE(planned(source, "m." + format, {.shard_bytes = 128}));
    EXPECT_TRUE(planned(source, "m", {.format = format, .shard_bytes = 1000}))
        << "a single file needs no shard name";
  }
}

TEST(PlanConversion, errors_name_the_target) {
  const auto refused = planned(catalog({{"a"}, {"b"}}), "x.npy");
  EXPECT_EQ(refused.error().path(), "x.npy");
}

TEST(PlanConversion, layout_keys_of_gguf_are_not_a_loss_and_split_keys_are_left_out) {
  CatalogBuilder builder("gguf");
  ASSERT_TRUE(
      builder.add({.name = "a", .dtype = F32::tag, .dims = std::array<std::int64_t, 1>{1}, .bytes = 4}));
  ASSERT_TRUE(builder.metadata().add("general.alignment", std::uint32_t{64}));
  ASSERT_TRUE(builder.metadata().add("split.tensors.count", std::int32_t{3}));
  const auto source = std::move(builder).build().value();
  EXPECT_TRUE(planned(source, "x.safetensors").value().losses.empty());
  const auto header = planned(source, "x.gguf").value().files[0].header;
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  EXPECT_EQ(text.find("split."), std::string_view::npos);
  EXPECT_NE(text.find("general.alignment"), std::string_view::npos);
}

TEST(PlanConversion, loses_the_note_of_an_untyped_tensor) {
  CatalogBuilder builder("irpa");
  ASSERT_TRUE(builder.add({.name = "a", .bytes = 4, .note = "hello"}));
  const auto plan = planned(std::move(builder).build().value(), "x.safetensors");
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->losses.size(), 2U);
}

TEST(PlanConversion, alignment_within_format_limit) {
  const auto source = catalog({{"a"}});
  EXPECT_TRUE(planned(source, "a.npy", {.alignment = 8192}));
  const auto refused = planned(source, "a.npy", {.alignment = 16384});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().rule(), "alignment_within_format_limit");
}

TEST(PlanConversion, rename_changes_a_name) {
  const auto source = catalog({{"a"}, {"b"}});
  const auto plan = planned(source, "x.safetensors", {.renames = {{"*", "x.*"}, {"a", "c"}}});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().rule(), "rename_changes_a_name");
  EXPECT_TRUE(planned(source, "x.safetensors", {.renames = {{"a", "c"}, {"*", "x.*"}}}));
}

TEST(PlanConversion, splits_a_gguf_with_keys_of_an_earlier_split) {
  CatalogBuilder builder("gguf");
  for (const std::string name : {"a", "b"}) {
    ASSERT_TRUE(
        builder.add({.name = name, .dtype = F32::tag, .dims = std::array<std::int64_t, 1>{1}, .bytes = 4}));
  }
  ASSERT_TRUE(builder.metadata().add("split.count", std::uint16_t{0}));
  ASSERT_TRUE(builder.metadata().add("split.no", std::uint16_t{0}));
  const auto plan = planned(std::move(builder).build().value(), "x.gguf", {.shard_bytes = 4});
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_EQ(plan->files.size(), 2U);
}

TEST(PlanConversion, leaves_out_header_padding) {
  const auto padded = catalog({{"a"}}, {{"htensor.pad", "    "}, {"name", "x"}});
  const auto plain = catalog({{"a"}}, {{"name", "x"}});
  EXPECT_EQ(planned(padded, "x.gguf").value().files[0].header,
            planned(plain, "x.gguf").value().files[0].header);
  const auto own_pad = catalog({{"a"}}, {{"htensor.pad", "mine"}, {"name", "x"}});
  EXPECT_NE(planned(own_pad, "x.gguf").value().files[0].header,
            planned(plain, "x.gguf").value().files[0].header);
}

TEST(PlanConversion, warns_of_a_gguf_that_llama_cpp_refuses) {
  const auto rules = [](const Catalog& source, std::string_view target) {
    const auto plan = planned(source, target, {.shard_bytes = 4}).value();
    std::vector<std::string> found;
    for (const auto& warning : plan.warnings) found.emplace_back(warning.rule());
    return found;
  };
  const std::string lengthy(64, 'n');
  const auto bad = catalog({{lengthy}, {"a"}});
  EXPECT_EQ(rules(bad, "x.gguf"),
            (std::vector<std::string>{"names_fit_ggml", "metadata_names_the_architecture"}));
  EXPECT_EQ(rules(bad, "x.safetensors"), std::vector<std::string>{});
  const auto good = catalog({{lengthy.substr(1)}, {"a"}}, {{"general.architecture", "llama"}});
  EXPECT_EQ(rules(good, "x.gguf"), std::vector<std::string>{});
}

TEST(PlanConversion, lists_every_loss) {
  const auto source = catalog({{"a"}, {"b", I4::tag, {256}, 128}}, {{"text", "stays"}}, 7);
  const auto plan = planned(source, "x.safetensors").value();
  ASSERT_EQ(plan.losses.size(), 2U);
  EXPECT_EQ(plan.losses[0].name, "number");
  EXPECT_FALSE(plan.losses[0].is_tensor);
  EXPECT_EQ(plan.losses[1].name, "b");
  EXPECT_TRUE(plan.losses[1].is_tensor);
  const std::string text(reinterpret_cast<const char*>(plan.files[0].header.data()),
                         plan.files[0].header.size());
  EXPECT_NE(text.find(R"("text":"stays")"), std::string::npos);
  EXPECT_NE(text.find(R"("b":{"dtype":"U8","shape":[128])"), std::string::npos);
}

TEST(PlanConversion, refuses_losses_that_cannot_be_allowed) {
  const auto two = catalog({{"a"}, {"b"}});
  EXPECT_EQ(planned(two, "x.npy").error().rule(), "npy_holds_one_tensor");
  EXPECT_TRUE(planned(two, "x.npy", {.filter = "a"}));
  const auto hidden = catalog({{"__metadata__"}});
  EXPECT_EQ(planned(hidden, "x.safetensors").error().rule(), "safetensors_name_is_not_reserved");
}

TEST(PlanConversion, format_has_shards) {
  const auto source = catalog({{"a"}, {"b"}});
  EXPECT_EQ(planned(source, "x.irpa", {.shard_bytes = 100}).error().rule(), "format_has_shards");
  EXPECT_EQ(planned(source, "x.safetensors", {.shard_bytes = 1000}).value().files.size(), 1U)
      << "all tensors fit into one file";
}

TEST(PlanConversion, shards_can_be_numbered) {
  std::vector<TensorSpec> many;
  for (int i = 0; i < 100'000; ++i) many.push_back({std::to_string(i), I8::tag, {1}, 1});
  EXPECT_EQ(planned(catalog(many), "x.gguf", {.shard_bytes = 1}).error().rule(), "shards_can_be_numbered");
}

TEST(PlanConversion, writes_shards_with_an_index) {
  const auto source = catalog({{"a"}, {"b"}, {"c"}, {"d", F32::tag, {100}, 400}}, {{"format", "pt"}});
  const auto plan = planned(source, "dir/m.safetensors", {.shard_bytes = 256}).value();
  ASSERT_EQ(plan.files.size(), 4U);
  EXPECT_EQ(plan.files[0].path, "dir/m-00001-of-00003.safetensors");
  EXPECT_EQ(names_in(plan.files[0]), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(names_in(plan.files[1]), std::vector<std::string>{"c"});
  EXPECT_EQ(names_in(plan.files[2]), std::vector<std::string>{"d"});
  EXPECT_EQ(plan.files[3].path, "dir/m.safetensors.index.json");
}

TEST(PlanConversion, aligns_data_to_share_blocks) {
  const auto source = catalog({{"a", F32::tag, {4096}, 16384}, {"b", F32::tag, {4096}, 16384}});
  for (const auto* const target : {"x.irpa", "x.safetensors"}) {
    const auto plan = planned(source, target, {.share_blocks = true}).value();
    for (const auto& part : plan.files[0].parts) {
      EXPECT_EQ(part.offset % 4096, std::get<PartOrigin::Stored>(part.from).offset % 4096) << target;
    }
  }
}

}  // namespace
}  // namespace ht::plan_test
