#include <htensor/model/model.hpp>

#include "c/c_test.hpp"
#include "format/gguf/gguf_test_file.hpp"
#include "format/safetensors/test_file.hpp"

namespace ht::c_convert_test {
namespace {

using testing::Handle;
using testing::sized;
using testing::text;

class CConvert : public testing::CApi {
 protected:
  Handle<const ht_conversion_report> convert(const Handle<ht_model>& model, std::string_view target,
                                             const ht_convert_options& options) {
    const ht_conversion_report* converted = nullptr;
    EXPECT_EQ(ht_model_convert(model.get(), path(target).c_str(), &options, &converted, failed_.out()), HT_OK)
        << failed_;
    return Handle<const ht_conversion_report>(converted);
  }
  ht_status try_convert(const Handle<ht_model>& model, std::string_view target,
                        const ht_convert_options& options) {
    return ht_model_convert(model.get(), path(target).c_str(), &options, nullptr, failed_.out());
  }
  Handle<const ht_differences> diff(const Handle<ht_model>& a, const Handle<ht_model>& b,
                                    const ht_diff_options* options = nullptr) {
    const ht_differences* found = nullptr;
    EXPECT_EQ(ht_diff(a.get(), b.get(), options, &found, failed_.out()), HT_OK) << failed_;
    return Handle<const ht_differences>(found);
  }
  // Opens a new safetensors file with the metadata "k": "v".
  Handle<ht_model> with_metadata() {
    testing::write_file(
        folder_ / "k.safetensors",
        testing::safetensors_file(
            R"({"__metadata__":{"k":"v"},"t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4));
    return open("k.safetensors");
  }
  std::string metadata_text(std::string_view file, const char* key) {
    const auto model = open(file);
    const ht_metadata_item* item = nullptr;
    if (ht_model_metadata_get(model.get(), key, 0, &item, nullptr) != HT_OK) return "(missing)";
    return text(item->value.as.text);
  }
};

TEST_F(CConvert, result_lists_the_files) {
  const auto model = small_model();
  auto options = sized<ht_convert_options>();
  options.seal = 1;
  const auto done = convert(model, "m.irpa", options);
  EXPECT_EQ(done->path, path("m.irpa"));
  ASSERT_EQ(done->file_count, 1U);
  EXPECT_EQ(done->files[0], path("m.irpa"));
  EXPECT_EQ(done->file_bytes[0], std::filesystem::file_size(path("m.irpa")));
  EXPECT_EQ(done->bytes, done->file_bytes[0]);
  EXPECT_EQ(done->seal, path("m.irpa.htseal"));
  EXPECT_EQ(done->stale_seal, nullptr);
  EXPECT_EQ(done->loss_count, 0U);
  EXPECT_EQ(done->removed_count, 0U);
  EXPECT_EQ(diff(model, open("m.irpa"))->same, 1);
  EXPECT_EQ(try_convert(model, "m.irpa", options), HT_ALREADY_EXISTS);
  options.force = 1;
  EXPECT_EQ(try_convert(model, "m.irpa", options), HT_OK) << failed_;
}

TEST_F(CConvert, options_select_rename_and_cast) {
  const auto model = small_model();
  const char* const only_w[] = {"w"};
  auto filter = sized<ht_filter>();
  filter.include = only_w;
  filter.include_count = 1;
  const ht_rename rename{"*", "model.*"};
  const ht_type_rule rule{"w", HT_BF16};
  auto options = sized<ht_convert_options>();
  options.format = "gguf";
  options.filter = &filter;
  options.renames = &rename;
  options.rename_count = 1;
  options.types = &rule;
  options.type_count = 1;
  EXPECT_EQ(try_convert(model, "m.bin", options), HT_WOULD_LOSE);
  options.round = 1;
  const auto done = convert(model, "m.bin", options);
  ASSERT_EQ(done->loss_count, 1U);
  EXPECT_EQ(done->losses[0]->kind, HT_LOSS_ROUNDING);
  EXPECT_EQ(done->losses[0]->is_allowed, 1);
  EXPECT_EQ(done->losses[0]->is_tensor, 1);
  const auto converted = open("m.bin");
  EXPECT_STREQ(ht_model_format(converted.get()), "gguf");
  ASSERT_EQ(ht_model_count(converted.get()), 1U);
  EXPECT_EQ(describe(get(converted, "model.w")).type, HT_BF16);
}

TEST_F(CConvert, tensors_are_quantized_and_dequantized) {
  const std::vector<std::int64_t> dims{2, 32};
  const std::vector<float> data(64, 0.5F);
  save("q.safetensors", {testing::dense("a.weight", HT_F32, dims, data)});
  auto options = sized<ht_convert_options>();
  const ht_type_rule rule{"*", HT_Q8_0};
  options.types = &rule;
  options.type_count = 1;
  options.lossy = 1;
  convert(open("q.safetensors"), "q.gguf", options);
  const auto quantized = open("q.gguf");
  EXPECT_EQ(describe(get(quantized, "a.weight")).type, HT_Q8_0);
  auto back = sized<ht_convert_options>();
  back.dequantize = HT_F16;
  back.round = 1;
  convert(quantized, "f16.safetensors", back);
  EXPECT_EQ(describe(get(open("f16.safetensors"), "a.weight")).type, HT_F16);
}

TEST_F(CConvert, dry_run_lists_losses_and_writes_nothing) {
  const auto model = with_metadata();
  auto options = sized<ht_convert_options>();
  options.format = "npy";
  EXPECT_EQ(try_convert(model, "t.npy", options), HT_WOULD_LOSE);
  options.dry_run = 1;
  const auto plan = convert(model, "t.npy", options);
  ASSERT_EQ(plan->loss_count, 1U);
  EXPECT_EQ(plan->losses[0]->kind, HT_LOSS_METADATA);
  EXPECT_EQ(plan->losses[0]->is_allowed, 0);
  EXPECT_EQ(text(plan->losses[0]->name), "k");
  EXPECT_STRNE(plan->losses[0]->why, "");
  EXPECT_GT(plan->bytes, 4U);
  EXPECT_FALSE(std::filesystem::exists(path("t.npy")));
  options.dry_run = 0;
  options.skip_metadata = 1;
  EXPECT_EQ(convert(model, "t.npy", options)->loss_count, 0U);
}

TEST_F(CConvert, shards_are_listed_and_replaced) {
  const auto model = small_model();
  auto options = sized<ht_convert_options>();
  options.shard_bytes = 16;
  const auto done = convert(model, "s.safetensors", options);
  EXPECT_EQ(done->path, path("s.safetensors.index.json"));
  EXPECT_EQ(done->file_count, 3U);
  EXPECT_EQ(diff(model, open("s.safetensors.index.json"))->same, 1);
  options.shard_bytes = 1 << 20;
  options.force = 1;
  EXPECT_EQ(convert(model, "s.safetensors", options)->removed_count, 3U);  // the shards and the index
}

TEST_F(CConvert, mlir_is_written) {
  const auto model = small_model();
  const std::string module = path("m.mlir");
  auto options = sized<ht_convert_options>();
  options.emit_mlir = module.c_str();
  options.scope = "weights";
  convert(model, "m.irpa", options);
  const auto bytes = testing::read_file(module);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_NE(text.find("\"weights\"::\"w\""), text.npos);
  options.force = 1;
  const std::string same = path("m.irpa");
  options.emit_mlir = same.c_str();
  EXPECT_EQ(try_convert(model, "m.irpa", options), HT_ALREADY_EXISTS);
}

TEST_F(CConvert, mlir_is_checked_before_the_first_write) {
  testing::write_file(
      folder_ / "e.safetensors",
      testing::safetensors_file(R"({"":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4));
  const std::string module = path("m.mlir");
  auto options = sized<ht_convert_options>();
  options.emit_mlir = module.c_str();
  EXPECT_EQ(try_convert(open("e.safetensors"), "m.irpa", options), HT_BAD_NAME);
  EXPECT_EQ(failed_.rule(), "symbol_has_a_name");
  EXPECT_FALSE(std::filesystem::exists(path("m.irpa")));
  EXPECT_FALSE(std::filesystem::exists(module));
}

TEST_F(CConvert, bad_options_are_refused) {
  const auto model = small_model();
  auto options = sized<ht_convert_options>();
  options.format = "unknown";
  EXPECT_EQ(try_convert(model, "m.x", options), HT_NOT_FOUND);
  options.format = nullptr;
  EXPECT_EQ(try_convert(model, "m.unknown", options), HT_NOT_FOUND);
  options.alignment = 3;
  EXPECT_EQ(try_convert(model, "m.gguf", options), HT_MISALIGNED);
  options = sized<ht_convert_options>();
  options.rename_count = 1;
  EXPECT_EQ(try_convert(model, "m.gguf", options), HT_BAD_STATE);
  const ht_type_rule rule{"*", static_cast<ht_type>(99)};
  options = sized<ht_convert_options>();
  options.types = &rule;
  options.type_count = 1;
  EXPECT_EQ(try_convert(model, "m.gguf", options), HT_BAD_DTYPE);
}

TEST_F(CConvert, differences_are_listed) {
  const auto a = small_model();
  auto changed = floats_;
  changed[5] = 7;
  save("b.safetensors", {testing::dense("w", HT_F32, two_by_three_, changed),
                         testing::dense("x", HT_F32, two_by_three_, floats_)});
  const auto b = open("b.safetensors");
  const auto found = diff(a, b);
  EXPECT_EQ(found->same, 0);
  EXPECT_EQ(found->same_tensors, 0);
  ASSERT_EQ(found->only_a_count, 1U);
  EXPECT_EQ(text(found->only_a[0]), "n");
  ASSERT_EQ(found->only_b_count, 1U);
  EXPECT_EQ(text(found->only_b[0]), "x");
  ASSERT_EQ(found->differ_count, 1U);
  EXPECT_EQ(text(found->differ[0]->name), "w");
  EXPECT_EQ(found->differ[0]->why, HT_DIFFERENT_CONTENTS);
  EXPECT_EQ(found->differ[0]->max_abs, 1);
  EXPECT_GE(found->differ[0]->first_byte, 20U);
  auto options = sized<ht_diff_options>();
  options.compare_values = 1;
  options.tolerance = 1;
  EXPECT_EQ(diff(a, b, &options)->differ_count, 0U);
  options.tolerance = -1;
  const ht_differences* none = nullptr;
  EXPECT_EQ(ht_diff(a.get(), b.get(), &options, &none, failed_.out()), HT_OUT_OF_BOUNDS);
  EXPECT_EQ(diff(a, with_metadata())->metadata_only_b_count, 1U);
}

TEST_F(CConvert, metadata_is_edited) {
  with_metadata();
  const ht_metadata_edit edits[] = {{{"k", 0}, nullptr, "changed"}, {{"new", 0}, nullptr, "text"}};
  const ht_edit_report* edited = nullptr;
  ASSERT_EQ(ht_edit_metadata(path("k.safetensors").c_str(), edits, 2, nullptr, &edited, failed_.out()), HT_OK)
      << failed_;
  EXPECT_EQ(edited->changed, 1);
  EXPECT_EQ(edited->seal, nullptr);
  ht_result_free(edited);
  EXPECT_EQ(metadata_text("k.safetensors", "k"), "changed");
  EXPECT_EQ(metadata_text("k.safetensors", "new"), "text");
  const ht_metadata_edit removal[] = {{{"k", 0}, nullptr, nullptr}};
  ASSERT_EQ(ht_edit_metadata(path("k.safetensors").c_str(), removal, 1, nullptr, nullptr, failed_.out()),
            HT_OK)
      << failed_;
  EXPECT_EQ(metadata_text("k.safetensors", "k"), "(missing)");
  EXPECT_EQ(ht_edit_metadata(path("k.safetensors").c_str(), removal, 1, nullptr, nullptr, failed_.out()),
            HT_NOT_FOUND);
}

TEST_F(CConvert, no_grow_refuses_metadata_that_does_not_fit) {
  with_metadata();
  const std::string large(10'000, 'x');
  const ht_metadata_edit edit{{"k", 0}, nullptr, large.c_str()};
  auto options = sized<ht_edit_options>();
  options.no_grow = 1;
  EXPECT_EQ(ht_edit_metadata(path("k.safetensors").c_str(), &edit, 1, &options, nullptr, failed_.out()),
            HT_HEADER_TOO_LARGE);
}

TEST_F(CConvert, metadata_is_set_to_values_of_every_type) {
  const auto file = testing::all_values(std::endian::little);
  testing::write_file(folder_ / "all.gguf", file.bytes());
  testing::GgufFile plain;
  plain.header(1, 0).tensor("t", {1}, 0, 0).pad().zeros(32);
  testing::write_file(folder_ / "plain.gguf", plain.bytes());
  const auto source = open("all.gguf");
  std::vector<ht_metadata_edit> edits;
  for (std::size_t i = 0; i < ht_model_metadata_count(source.get()); ++i) {
    const ht_metadata_item* item = nullptr;
    ASSERT_EQ(ht_model_metadata_at(source.get(), i, &item, failed_.out()), HT_OK);
    if (text(item->key) != "string") edits.push_back({item->key, &item->value, nullptr});
  }
  ASSERT_EQ(ht_edit_metadata(path("plain.gguf").c_str(), edits.data(), edits.size(), nullptr, nullptr,
                             failed_.out()),
            HT_OK)
      << failed_;
  const auto found = diff(source, open("plain.gguf"));
  EXPECT_EQ(found->metadata_only_a_count, 1U);
  EXPECT_EQ(found->metadata_only_b_count, 0U);
  EXPECT_EQ(found->metadata_differ_count, 1U) << text(found->metadata_differ[0]);
  EXPECT_EQ(text(found->metadata_differ[0]), "bool");  // the source stores 2 for true
}

}  // namespace
}  // namespace ht::c_convert_test
