#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <htensor/model/model.hpp>

#include "c/c_test.hpp"
#include "format/gguf/gguf_test_file.hpp"
#include "format/safetensors/test_file.hpp"
#include "model/test_formats.hpp"
#include "testing/shared_folder.hpp"

namespace ht::c_model_test {
namespace {

using testing::Handle;
using testing::sized;
using testing::text;
using testing::write_file;

class CModel : public testing::CApi {
 protected:
  Handle<ht_model> open_bytes(const std::vector<std::byte>& file) {
    ht_model* model = nullptr;
    EXPECT_EQ(ht_model_open_bytes(
                  file.data(), file.size(), [](void* count) { ++*static_cast<int*>(count); }, &released_,
                  nullptr, &model, failed_.out()),
              HT_OK)
        << failed_;
    return Handle<ht_model>(model);
  }
  const ht_metadata_item* item(const Handle<ht_model>& model, const char* key) {
    const ht_metadata_item* found = nullptr;
    EXPECT_EQ(ht_model_metadata_get(model.get(), key, 0, &found, failed_.out()), HT_OK) << failed_;
    return found;
  }

  int released_ = 0;
};

TEST_F(CModel, lists_tensors_in_file_order) {
  const auto model = small_model();
  EXPECT_STREQ(ht_model_format(model.get()), "safetensors");
  ASSERT_EQ(ht_model_file_count(model.get()), 1U);
  EXPECT_EQ(ht_model_file(model.get(), 0), path("m.safetensors"));
  EXPECT_EQ(ht_model_file(model.get(), 1), nullptr);
  ASSERT_EQ(ht_model_count(model.get()), 2U);
  auto info = sized<ht_tensor_info>();
  ASSERT_EQ(ht_model_describe(model.get(), 0, &info, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(text(info.name), "w");
  EXPECT_EQ(std::strlen(info.name.data), 1U);
  EXPECT_EQ(info.index, 0U);
  EXPECT_EQ(info.type, HT_F32);
  EXPECT_STREQ(info.type_name, "F32");
  EXPECT_EQ(info.bits, 32U);
  EXPECT_EQ(info.block_elements, 1U);
  EXPECT_EQ(info.block_bytes, 0U);
  ASSERT_EQ(info.rank, 2U);
  EXPECT_EQ(info.dims[0], 2);
  EXPECT_EQ(info.dims[1], 3);
  EXPECT_EQ(info.is_plain, 1);
  EXPECT_EQ(info.is_column_major + info.is_big_endian + info.is_splat, 0);
  EXPECT_EQ(info.byte_size, 24U);
  EXPECT_EQ(info.file, path("m.safetensors"));
  const auto same = Model::open(path("m.safetensors")).value();
  EXPECT_EQ(info.offset, same.catalog()[0].offset);
  EXPECT_EQ(info.note.size, 0U);
  std::size_t index = 9;
  EXPECT_EQ(ht_model_find(model.get(), "n", 0, &index), 1);
  EXPECT_EQ(index, 1U);
  EXPECT_EQ(ht_model_find(model.get(), "nnn", 1, nullptr), 1);
  EXPECT_EQ(ht_model_find(model.get(), "x", 0, &index), 0);
  EXPECT_EQ(index, 1U);
}

TEST_F(CModel, unknown_tensor_is_not_found_with_the_most_similar_name) {
  const auto model = small_model();
  ht_tensor* tensor = nullptr;
  EXPECT_EQ(ht_model_get(model.get(), "ww", 0, &tensor, failed_.out()), HT_NOT_FOUND);
  EXPECT_STREQ(ht_error_hint(failed_.get()), "did you mean 'w'?");
  EXPECT_EQ(tensor, nullptr);
}

TEST_F(CModel, blocks_and_orders_are_described) {
  write_file(folder_ / "t.npy",
             testing::npy_file(">f4", true, "(2, 3)", testing::stored<float>({1, 2, 3, 4, 5, 6}, true)));
  const auto big = open("t.npy");
  const auto of_big = get(big, "t");
  const auto info = describe(of_big);
  EXPECT_EQ(info.is_big_endian, 1);
  EXPECT_EQ(info.is_column_major, 1);
  EXPECT_EQ(info.is_plain, 0);
  testing::GgufFile file;
  file.header(1, 0).tensor("q", {32, 2}, 8, 0).pad().zeros(96);
  write_file(folder_ / "q.gguf", file.bytes());
  const auto blocks = open("q.gguf");
  const auto of_blocks = describe(get(blocks, "q"));
  EXPECT_EQ(of_blocks.type, HT_Q8_0);
  EXPECT_STREQ(of_blocks.type_name, "Q8_0");
  EXPECT_EQ(of_blocks.bits, 0U);
  EXPECT_EQ(of_blocks.block_elements, 32U);
  EXPECT_EQ(of_blocks.block_bytes, 34U);
}

TEST_F(CModel, splats_and_untyped_entries_are_described) {
  write_file(folder_ / "s.irpa", testing::irpa_file({{.name = "s", .length = 8, .pattern = "ab"}}));
  const auto tensor = get(open("s.irpa"), "s");
  const auto info = describe(tensor);
  EXPECT_EQ(info.is_splat, 1);
  EXPECT_EQ(std::string_view(static_cast<const char*>(info.splat), info.splat_bytes), "ab");
  EXPECT_EQ(info.file, nullptr);
  EXPECT_EQ(info.byte_size, 8U);
  EXPECT_EQ(info.type, HT_TYPE_UNKNOWN);
  EXPECT_STREQ(info.type_name, "");
  EXPECT_EQ(info.rank, 0U);
}

TEST_F(CModel, bytes_are_released_after_the_last_handle) {
  small_model();
  const auto file = testing::read_file(path("m.safetensors"));
  auto model = open_bytes(file);
  auto tensor = get(model, "w");
  ht_tensor* rows = nullptr;
  ASSERT_EQ(ht_tensor_rows(tensor.get(), 1, 2, &rows, failed_.out()), HT_OK) << failed_;
  const Handle<ht_tensor> last(rows);
  model.reset();
  tensor.reset();
  EXPECT_EQ(released_, 0);
  const void* data = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(ht_tensor_data(last.get(), &data, &bytes, failed_.out()), HT_OK) << failed_;
  ASSERT_EQ(bytes, 12U);
  EXPECT_EQ(static_cast<const float*>(data)[0], 4);
  EXPECT_EQ(text(describe(last).name), "w");
  ht_tensor_free(const_cast<Handle<ht_tensor>&>(last).release());
  EXPECT_EQ(released_, 1);
}

TEST_F(CModel, bytes_are_released_before_a_failed_open_returns) {
  ht_model* model = nullptr;
  const auto count = [](void* context) { ++*static_cast<int*>(context); };
  EXPECT_EQ(ht_model_open_bytes("no model", 8, count, &released_, nullptr, &model, nullptr), HT_BAD_MAGIC);
  EXPECT_EQ(released_, 1);
  EXPECT_EQ(ht_model_open_bytes(nullptr, 0, count, &released_, nullptr, nullptr, nullptr), HT_BAD_STATE);
  EXPECT_EQ(released_, 2);
  const ht_open_options without_size{};
  EXPECT_EQ(ht_model_open_bytes("x", 1, count, &released_, &without_size, &model, nullptr), HT_BAD_STATE);
  EXPECT_EQ(released_, 3);
}

TEST_F(CModel, opens_a_descriptor_and_leaves_it_to_the_caller) {
  small_model();
  const int fd = ::open(path("m.safetensors").c_str(), O_RDONLY);
  ht_model* model = nullptr;
  ASSERT_EQ(ht_model_open_fd(fd, nullptr, &model, failed_.out()), HT_OK) << failed_;
  const Handle<ht_model> owner(model);
  EXPECT_EQ(::close(fd), 0);
  float value = 0;
  ASSERT_EQ(ht_tensor_copy_to(get(owner, "w").get(), 20, &value, 4, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(value, 6);
  EXPECT_EQ(ht_model_open_fd(-1, nullptr, &model, failed_.out()), HT_OPEN_FAILED);
}

TEST_F(CModel, opens_several_models_as_one) {
  small_model();
  save("b.safetensors", {testing::dense("b", HT_F32, two_by_three_, floats_)});
  const std::string a = path("m.safetensors");
  const std::string b = path("b.safetensors");
  const char* const both[] = {a.c_str(), b.c_str()};
  ht_model* model = nullptr;
  ASSERT_EQ(ht_model_open_merged(both, 2, nullptr, &model, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(ht_model_count(model), 3U);
  EXPECT_EQ(ht_model_file_count(model), 2U);
  ht_model_free(model);
  const char* const same[] = {a.c_str(), a.c_str()};
  EXPECT_EQ(ht_model_open_merged(same, 2, nullptr, &model, failed_.out()), HT_DUPLICATE_TENSOR);
}

TEST_F(CModel, merged_models_have_a_path) {
  ht_model* model = nullptr;
  EXPECT_EQ(ht_model_open_merged(nullptr, 0, nullptr, &model, failed_.out()), HT_BAD_STATE);
  EXPECT_EQ(failed_.rule(), "merged_models_have_a_path");
  EXPECT_STREQ(ht_error_hint(failed_.get()), "pass at least one path");
  EXPECT_EQ(model, nullptr);
}

TEST_F(CModel, tensors_outlive_the_model) {
  auto model = small_model();
  const auto tensor = get(model, "w");
  const auto info = describe(tensor);
  model.reset();
  EXPECT_EQ(text(info.name), "w");
  EXPECT_EQ(info.file, path("m.safetensors"));
  const void* data = nullptr;
  ASSERT_EQ(ht_tensor_data(tensor.get(), &data, nullptr, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(static_cast<const float*>(data)[5], 6);
}

TEST_F(CModel, names_may_contain_nul) {
  const std::string name("a\0b", 3);
  auto tensor = testing::dense("", HT_F32, two_by_three_, floats_);
  tensor.name = testing::to_ht_string(name);
  save("nul.safetensors", {tensor});
  const auto model = open("nul.safetensors");
  EXPECT_EQ(ht_model_find(model.get(), name.data(), 3, nullptr), 1);
  EXPECT_EQ(ht_model_find(model.get(), name.data(), 0, nullptr), 0);
  auto info = sized<ht_tensor_info>();
  ASSERT_EQ(ht_model_describe(model.get(), 0, &info, failed_.out()), HT_OK);
  EXPECT_EQ(text(info.name), name);
  EXPECT_EQ(info.name.data[3], '\0');
}

TEST_F(CModel, catalog_only_has_no_bytes) {
  small_model();
  auto options = sized<ht_open_options>();
  options.catalog_only = 1;
  const auto model = open("m.safetensors", &options);
  const void* data = nullptr;
  EXPECT_EQ(ht_tensor_data(get(model, "w").get(), &data, nullptr, failed_.out()), HT_BAD_STATE);
}

TEST_F(CModel, max_header_bytes_limits_the_header) {
  small_model();
  auto options = sized<ht_open_options>();
  options.max_header_bytes = 16;
  ht_model* model = nullptr;
  EXPECT_EQ(ht_model_open(path("m.safetensors").c_str(), &options, &model, nullptr), HT_HEADER_TOO_LARGE);
}

TEST_F(CModel, metadata_has_every_type) {
  write_file(folder_ / "all.gguf", testing::all_values(std::endian::little).bytes());
  const auto model = open("all.gguf");
  ASSERT_EQ(ht_model_metadata_count(model.get()), 15U);
  EXPECT_EQ(item(model, "u8")->value.as.u64, 200U);
  EXPECT_EQ(item(model, "i8")->value.as.i64, -100);
  EXPECT_EQ(item(model, "u16")->value.as.u64, 60'000U);
  EXPECT_EQ(item(model, "i16")->value.as.i64, -30'000);
  EXPECT_EQ(item(model, "u32")->value.as.u64, 4'000'000'000U);
  EXPECT_EQ(item(model, "i32")->value.as.i64, -7);
  EXPECT_EQ(item(model, "f32")->value.as.f64, 1.5);
  EXPECT_EQ(item(model, "bool")->value.as.u64, 1U);
  EXPECT_EQ(text(item(model, "string")->value.as.text), "any \xFF bytes");
  EXPECT_EQ(item(model, "u64")->value.as.u64, UINT64_MAX);
  EXPECT_EQ(item(model, "i64")->value.as.i64, INT64_MIN);
  EXPECT_EQ(item(model, "f64")->value.as.f64, -2.5);
  const ht_value& numbers = item(model, "numbers")->value;
  ASSERT_EQ(numbers.type, HT_VALUE_ARRAY);
  ASSERT_EQ(numbers.item_type, HT_VALUE_I16);
  ASSERT_EQ(numbers.count, 3U);
  EXPECT_EQ(static_cast<const std::int16_t*>(numbers.as.items)[1], -2);
  const ht_value& strings = item(model, "strings")->value;
  ASSERT_EQ(strings.count, 3U);
  EXPECT_EQ(text(static_cast<const ht_string*>(strings.as.items)[0]), "a");
  EXPECT_STREQ(static_cast<const ht_string*>(strings.as.items)[1].data, "");
  EXPECT_STREQ(static_cast<const ht_string*>(strings.as.items)[2].data, "long");
  const ht_value& nested = item(model, "nested")->value;
  ASSERT_EQ(nested.item_type, HT_VALUE_ARRAY);
  const auto* const inner = static_cast<const ht_value*>(nested.as.items);
  EXPECT_EQ(static_cast<const std::uint32_t*>(inner[0].as.items)[0], 5U);
  EXPECT_STREQ(static_cast<const ht_string*>(inner[1].as.items)[0].data, "in");
  EXPECT_EQ(static_cast<const ht_value*>(inner[2].as.items)[0].item_type, HT_VALUE_BOOL);
  EXPECT_EQ(static_cast<const ht_value*>(inner[2].as.items)[0].count, 0U);
}

TEST_F(CModel, metadata_is_found_by_index_and_key) {
  write_file(folder_ / "all.gguf", testing::all_values(std::endian::little).bytes());
  const auto model = open("all.gguf");
  for (std::size_t i = 0; i < ht_model_metadata_count(model.get()); ++i) {
    const ht_metadata_item* at = nullptr;
    ASSERT_EQ(ht_model_metadata_at(model.get(), i, &at, failed_.out()), HT_OK) << failed_;
    EXPECT_EQ(item(model, at->key.data), at);
  }
  const ht_metadata_item* missing = nullptr;
  EXPECT_EQ(ht_model_metadata_get(model.get(), "missing", 0, &missing, failed_.out()), HT_NOT_FOUND);
  EXPECT_EQ(missing, nullptr);
}

TEST_F(CModel, padding_is_not_listed) {
  testing::GgufFile file;
  file.header(1, 3).pair("a", MetaType::u8, std::uint8_t{1});
  file.key("htensor.pad", MetaType::string).text("   ");
  file.pair("b", MetaType::u8, std::uint8_t{2}).tensor("t", {1}, 0, 0).pad().zeros(32);
  write_file(folder_ / "pad.gguf", file.bytes());
  const auto model = open("pad.gguf");
  ASSERT_EQ(ht_model_metadata_count(model.get()), 2U);
  const ht_metadata_item* second = nullptr;
  ASSERT_EQ(ht_model_metadata_at(model.get(), 1, &second, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(text(second->key), "b");
  EXPECT_EQ(ht_model_metadata_get(model.get(), "htensor.pad", 0, &second, nullptr), HT_NOT_FOUND);
}

TEST_F(CModel, metadata_array_may_have_150000_strings) {
  testing::GgufFile file;
  file.header(0, 1).key("tokens", MetaType::array).array(MetaType::string, 150'000);
  for (int i = 0; i < 150'000; ++i) file.text(std::to_string(i));
  write_file(folder_ / "tokens.gguf", file.pad().bytes());
  const auto model = open("tokens.gguf");
  const auto* const tokens = static_cast<const ht_string*>(item(model, "tokens")->value.as.items);
  for (int i = 0; i < 150'000; i += 999) EXPECT_EQ(tokens[i].data, std::to_string(i));
}

TEST_F(CModel, open_returns_the_status_of_the_cpp_function_over_the_corpus) {
  HT_SHARED_OR_SKIP(folder, "corpus");
  int tried = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (!file.is_regular_file()) continue;
    ++tried;
    const auto expected = Model::open(file.path());
    ht_model* model = nullptr;
    const auto status = ht_model_open(file.path().c_str(), nullptr, &model, failed_.out());
    EXPECT_EQ(status, expected ? 0 : static_cast<int>(expected.error().code())) << file.path();
    if (!expected) {
      EXPECT_EQ(ht_error_text(failed_.get()), to_string(expected.error()));
    }
    if (status == HT_OK) {
      EXPECT_EQ(ht_model_count(model), expected->size());
    }
    ht_model_free(model);
  }
  EXPECT_GT(tried, 50);
}

}  // namespace
}  // namespace ht::c_model_test
