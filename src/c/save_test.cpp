#include <cmath>
#include <htensor/model/model.hpp>
#include <limits>

#include "c/c_test.hpp"
#include "format/gguf/gguf_test_file.hpp"
#include "model/test_formats.hpp"

namespace ht::c_save_test {
namespace {

using testing::dense;
using testing::Handle;
using testing::sized;
using testing::text;

class CSave : public testing::CApi {
 protected:
  ht_status try_save(const std::vector<ht_tensor_to_save>& tensors,
                     const ht_save_options* options = nullptr) {
    return ht_save(path("out.safetensors").c_str(), tensors.data(), tensors.size(), options, nullptr,
                   failed_.out());
  }
  std::vector<float> read(const Handle<ht_tensor>& tensor) {
    std::vector<float> values(6);
    EXPECT_EQ(ht_tensor_read_f32(tensor.get(), nullptr, 0, values.data(), 6, failed_.out()), HT_OK)
        << failed_;
    return values;
  }
};

TEST_F(CSave, result_lists_the_file) {
  const auto tensor = dense("w", HT_F32, two_by_three_, floats_);
  const ht_conversion_report* saved = nullptr;
  ASSERT_EQ(ht_save(path("w.safetensors").c_str(), &tensor, 1, nullptr, &saved, failed_.out()), HT_OK)
      << failed_;
  const Handle<const ht_conversion_report> owner(saved);
  EXPECT_EQ(saved->path, path("w.safetensors"));
  ASSERT_EQ(saved->file_count, 1U);
  EXPECT_EQ(saved->file_bytes[0], std::filesystem::file_size(path("w.safetensors")));
  EXPECT_EQ(saved->bytes, saved->file_bytes[0]);
  EXPECT_EQ(ht_save(path("w.safetensors").c_str(), &tensor, 1, nullptr, nullptr, failed_.out()),
            HT_ALREADY_EXISTS);
}

TEST_F(CSave, wrong_size_duplicate_name_and_unknown_type_are_refused) {
  auto tensor = dense("w", HT_F32, two_by_three_, floats_);
  tensor.bytes = 20;
  EXPECT_EQ(try_save({tensor}), HT_SIZE_MISMATCH);
  tensor.bytes = 24;
  EXPECT_EQ(try_save({tensor, tensor}), HT_DUPLICATE_TENSOR);
  tensor.type = static_cast<ht_type>(77);
  EXPECT_EQ(try_save({tensor}), HT_BAD_DTYPE);
  EXPECT_FALSE(std::filesystem::exists(path("out.safetensors")));
}

TEST_F(CSave, strides_are_followed) {
  const std::vector<float> columns{1, 4, 2, 5, 3, 6};
  const std::int64_t strides[] = {1, 2};
  auto tensor = dense("w", HT_F32, two_by_three_, columns);
  tensor.strides = strides;
  save("s.safetensors", {tensor});
  EXPECT_EQ(read(get(open("s.safetensors"), "w")), floats_);
  const std::vector<float> backwards{6, 5, 4, 3, 2, 1};
  const std::int64_t negative[] = {-3, -1};
  tensor = dense("w", HT_F32, two_by_three_, backwards);
  tensor.data = backwards.data() + 5;
  tensor.strides = negative;
  save("n.safetensors", {tensor});
  EXPECT_EQ(read(get(open("n.safetensors"), "w")), floats_);
}

TEST_F(CSave, strided_size_matches_the_shape) {
  const std::int64_t strides[] = {1, 2};
  auto tensor = dense("w", HT_F32, two_by_three_, floats_);
  tensor.strides = strides;
  tensor.bytes = 12;
  EXPECT_EQ(try_save({tensor}), HT_SIZE_MISMATCH);
  EXPECT_EQ(failed_.rule(), "strided_size_matches_the_shape");
}

TEST_F(CSave, strided_elements_are_whole_bytes) {
  const std::vector<std::uint8_t> packed{0x21, 0x43};
  const std::vector<std::int64_t> dims{2, 2};
  const std::int64_t strides[] = {1, 2};
  auto tensor = dense("p", HT_U4, dims, packed);
  tensor.strides = strides;
  EXPECT_EQ(try_save({tensor}), HT_UNSUPPORTED_ENCODING);
  EXPECT_EQ(failed_.rule(), "strided_elements_are_whole_bytes");
}

TEST_F(CSave, array_of_structs_of_a_later_version_is_read) {
  struct Later {
    ht_tensor_to_save known;
    std::uint64_t field;
  };
  std::vector<Later> tensors{{dense("a", HT_F32, two_by_three_, floats_), 0},
                             {dense("b", HT_F32, two_by_three_, floats_), 0}};
  for (auto& tensor : tensors) tensor.known.size = sizeof(Later);
  ASSERT_EQ(ht_save(path("l.safetensors").c_str(), &tensors[0].known, 2, nullptr, nullptr, failed_.out()),
            HT_OK)
      << failed_;
  EXPECT_EQ(read(get(open("l.safetensors"), "b")), floats_);
}

TEST_F(CSave, tensors_of_a_model_are_saved) {
  const auto model = small_model();
  const auto w = get(model, "w");
  ht_tensor* row = nullptr;
  ASSERT_EQ(ht_tensor_rows(w.get(), 1, 2, &row, failed_.out()), HT_OK) << failed_;
  const Handle<ht_tensor> owner(row);
  auto whole = sized<ht_tensor_to_save>();
  whole.name = {"whole", 0};
  whole.tensor = w.get();
  auto part = sized<ht_tensor_to_save>();
  part.name = {"part", 0};
  part.tensor = row;
  testing::write_file(folder_ / "t.npy", testing::npy_file(">f4", true, "(2, 3)",
                                                           testing::stored<float>({1, 4, 2, 5, 3, 6}, true)));
  const auto other = get(open("t.npy"), "t");
  auto relaid = sized<ht_tensor_to_save>();
  relaid.name = {"relaid", 0};
  relaid.tensor = other.get();
  save("t.safetensors", {whole, part, relaid});
  const auto saved = open("t.safetensors");
  EXPECT_EQ(read(get(saved, "whole")), floats_);
  EXPECT_EQ(read(get(saved, "relaid")), floats_);
  EXPECT_EQ(describe(get(saved, "part")).dims[0], 1);
}

TEST_F(CSave, splat_of_a_model_is_saved) {
  testing::write_file(
      folder_ / "s.irpa",
      testing::irpa_file(
          {{.name = "s", .note = testing::tensor_note("uint8", "[8]"), .length = 8, .pattern = "ab"}}));
  const auto splat = get(open("s.irpa"), "s");
  auto tensor = sized<ht_tensor_to_save>();
  tensor.name = {"s", 0};
  tensor.tensor = splat.get();
  save("s.safetensors", {tensor});
  char bytes[8] = {};
  ASSERT_EQ(ht_tensor_copy_to(get(open("s.safetensors"), "s").get(), 0, bytes, 8, failed_.out()), HT_OK)
      << failed_;
  EXPECT_EQ(std::string(bytes, 8), "abababab");
}

TEST_F(CSave, metadata_of_every_type_round_trips) {
  testing::write_file(folder_ / "all.gguf", testing::all_values(std::endian::little).bytes());
  const auto source = open("all.gguf");
  std::vector<ht_metadata_item> items;
  for (std::size_t i = 0; i < ht_model_metadata_count(source.get()); ++i) {
    const ht_metadata_item* item = nullptr;
    ASSERT_EQ(ht_model_metadata_at(source.get(), i, &item, failed_.out()), HT_OK);
    if (text(item->key) != "bool") items.push_back(*item);  // stored as 2, saved as 1
  }
  auto options = sized<ht_save_options>();
  options.metadata = items.data();
  options.metadata_count = items.size();
  const auto tensor = dense("t", HT_F32, two_by_three_, floats_);
  save("back.gguf", {tensor}, &options);
  const ht_differences* found = nullptr;
  const auto back = open("back.gguf");
  ASSERT_EQ(ht_diff(source.get(), back.get(), nullptr, &found, failed_.out()), HT_OK) << failed_;
  const Handle<const ht_differences> owner(found);
  EXPECT_EQ(found->metadata_only_a_count, 1U);
  EXPECT_EQ(found->metadata_only_b_count + found->metadata_differ_count, 0U);
}

TEST_F(CSave, number_fits_its_type) {
  const auto tensor = dense("t", HT_F32, two_by_three_, floats_);
  ht_metadata_item item{{"k", 0}, {HT_VALUE_U8, HT_VALUE_U8, 0, {256}}};
  auto options = sized<ht_save_options>();
  options.metadata = &item;
  options.metadata_count = 1;
  EXPECT_EQ(try_save({tensor}, &options), HT_DTYPE_MISMATCH);
  EXPECT_EQ(failed_.rule(), "number_fits_its_type");
  item.value.type = HT_VALUE_BOOL;
  item.value.as.u64 = 2;
  EXPECT_EQ(try_save({tensor}, &options), HT_DTYPE_MISMATCH);
  item.value.type = HT_VALUE_I16;
  item.value.as.i64 = -32769;
  EXPECT_EQ(try_save({tensor}, &options), HT_DTYPE_MISMATCH);
  item.value.type = HT_VALUE_ARRAY;
  item.value.count = 1;
  item.value.as.items = nullptr;
  EXPECT_EQ(try_save({tensor}, &options), HT_BAD_STATE);
}

TEST_F(CSave, number_beyond_the_range_of_f32_is_refused) {
  const auto tensor = dense("t", HT_F32, two_by_three_, floats_);
  ht_metadata_item item{{"k", 0}, {HT_VALUE_F32, HT_VALUE_U8, 0, {}}};
  auto options = sized<ht_save_options>();
  options.metadata = &item;
  options.metadata_count = 1;
  for (const double number : {1e300, -1e300, 3.4028236e38}) {
    item.value.as.f64 = number;
    EXPECT_EQ(try_save({tensor}, &options), HT_DTYPE_MISMATCH) << number;
    EXPECT_EQ(failed_.rule(), "number_fits_its_type") << number;
  }
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double max = std::numeric_limits<float>::max();
  int files = 0;
  for (const double number : {0.1, max, -max, infinity, -infinity, std::nan("")}) {
    item.value.as.f64 = number;
    const auto name = std::to_string(files++) + ".gguf";
    save(name, {tensor}, &options);
    const auto saved = open(name);
    const ht_metadata_item* read = nullptr;
    ASSERT_EQ(ht_model_metadata_get(saved.get(), "k", 0, &read, failed_.out()), HT_OK) << failed_;
    EXPECT_EQ(std::isnan(read->value.as.f64), std::isnan(number));
    if (!std::isnan(number)) {
      EXPECT_EQ(read->value.as.f64, static_cast<double>(static_cast<float>(number)));
    }
  }
}

TEST_F(CSave, items_have_the_type_of_their_array) {
  const auto tensor = dense("t", HT_F32, two_by_three_, floats_);
  const ht_value inner{HT_VALUE_U8, HT_VALUE_U8, 0, {1}};
  ht_metadata_item item{{"k", 0}, {HT_VALUE_ARRAY, HT_VALUE_ARRAY, 1, {}}};
  item.value.as.items = &inner;
  auto options = sized<ht_save_options>();
  options.metadata = &item;
  options.metadata_count = 1;
  EXPECT_EQ(try_save({tensor}, &options), HT_DTYPE_MISMATCH);
  EXPECT_EQ(failed_.rule(), "items_have_the_type_of_their_array");
}

TEST_F(CSave, arrays_are_nested_at_most_8_deep) {
  const auto tensor = dense("t", HT_F32, two_by_three_, floats_);
  ht_metadata_item item{{"k", 0}, {HT_VALUE_ARRAY, HT_VALUE_ARRAY, 1, {}}};
  item.value.as.items = &item.value;  // contains itself
  auto options = sized<ht_save_options>();
  options.metadata = &item;
  options.metadata_count = 1;
  EXPECT_EQ(try_save({tensor}, &options), HT_BAD_STATE);
  EXPECT_EQ(failed_.rule(), "arrays_are_nested_at_most_8_deep");
}

TEST_F(CSave, conversion_applies_to_saved_tensors) {
  const auto tensor = dense("w", HT_F32, two_by_three_, floats_);
  const ht_type_rule rule{"w", HT_F16};
  auto convert = sized<ht_convert_options>();
  convert.types = &rule;
  convert.type_count = 1;
  auto options = sized<ht_save_options>();
  options.convert = &convert;
  EXPECT_EQ(try_save({tensor}, &options), HT_WOULD_LOSE);
  convert.round = 1;
  const ht_conversion_report* saved = nullptr;
  ASSERT_EQ(ht_save(path("h.safetensors").c_str(), &tensor, 1, &options, &saved, failed_.out()), HT_OK)
      << failed_;
  const Handle<const ht_conversion_report> owner(saved);
  ASSERT_EQ(saved->loss_count, 1U);
  EXPECT_EQ(text(saved->losses[0]->name), "w");
  EXPECT_EQ(describe(get(open("h.safetensors"), "w")).type, HT_F16);
}

TEST_F(CSave, empty_metadata_is_written_on_request) {
  const auto tensor = dense("w", HT_F32, two_by_three_, floats_);
  auto convert = sized<ht_convert_options>();
  auto options = sized<ht_save_options>();
  options.convert = &convert;
  const auto has_metadata = [&](const std::string& name) {
    const auto target = path(name);
    EXPECT_EQ(ht_save(target.c_str(), &tensor, 1, &options, nullptr, failed_.out()), HT_OK) << failed_;
    const auto file = testing::read_file(target);
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    return text.find(R"("__metadata__":{})") != std::string_view::npos;
  };
  EXPECT_FALSE(has_metadata("none.safetensors"));
  convert.empty_metadata = 1;
  EXPECT_TRUE(has_metadata("empty.safetensors"));
}

TEST_F(CSave, dry_run_writes_nothing) {
  const auto tensor = dense("w", HT_F32, two_by_three_, floats_);
  auto convert = sized<ht_convert_options>();
  convert.dry_run = 1;
  auto options = sized<ht_save_options>();
  options.convert = &convert;
  const ht_conversion_report* plan = nullptr;
  ASSERT_EQ(ht_save(path("d.safetensors").c_str(), &tensor, 1, &options, &plan, failed_.out()), HT_OK)
      << failed_;
  const Handle<const ht_conversion_report> owner(plan);
  EXPECT_GT(plan->bytes, 24U);
  EXPECT_FALSE(std::filesystem::exists(path("d.safetensors")));
}

TEST_F(CSave, dry_run_checks_the_target) {
  const auto tensor = dense("w", HT_F32, two_by_three_, floats_);
  auto convert = sized<ht_convert_options>();
  auto options = sized<ht_save_options>();
  options.convert = &convert;
  const auto target = path("d.safetensors");
  ASSERT_EQ(ht_save(target.c_str(), &tensor, 1, &options, nullptr, failed_.out()), HT_OK) << failed_;
  convert.dry_run = 1;
  EXPECT_EQ(ht_save(target.c_str(), &tensor, 1, &options, nullptr, failed_.out()), HT_ALREADY_EXISTS);
  EXPECT_EQ(ht_save(path("none/d.safetensors").c_str(), &tensor, 1, &options, nullptr, failed_.out()),
            HT_WRITE_FAILED);
}

TEST_F(CSave, dry_run_lists_the_files_of_a_set_that_a_save_removes) {
  const std::array tensors{dense("a", HT_F32, two_by_three_, floats_),
                           dense("b", HT_F32, two_by_three_, floats_)};
  auto convert = sized<ht_convert_options>();
  convert.shard_bytes = 24;
  auto options = sized<ht_save_options>();
  options.convert = &convert;
  const auto target = path("d.safetensors");
  ASSERT_EQ(ht_save(target.c_str(), tensors.data(), 2, &options, nullptr, failed_.out()), HT_OK) << failed_;
  convert.force = 1;
  convert.dry_run = 1;
  const ht_conversion_report* plan = nullptr;
  ASSERT_EQ(ht_save(target.c_str(), tensors.data(), 1, &options, &plan, failed_.out()), HT_OK) << failed_;
  const Handle<const ht_conversion_report> planned(plan);
  convert.dry_run = 0;
  const ht_conversion_report* saved = nullptr;
  ASSERT_EQ(ht_save(target.c_str(), tensors.data(), 1, &options, &saved, failed_.out()), HT_OK) << failed_;
  const Handle<const ht_conversion_report> done(saved);
  ASSERT_GT(saved->removed_count, 0U);
  ASSERT_EQ(plan->removed_count, saved->removed_count);
  for (std::size_t i = 0; i < plan->removed_count; ++i) EXPECT_STREQ(plan->removed[i], saved->removed[i]);
}

struct Buffer {
  std::vector<std::byte> bytes;
  int calls = 0;
};
void* grow(void* context, std::size_t bytes) {
  auto& buffer = *static_cast<Buffer*>(context);
  ++buffer.calls;
  buffer.bytes.resize(bytes);
  return buffer.bytes.data();
}

TEST_F(CSave, memory_has_the_bytes_of_the_file) {
  const std::vector<ht_tensor_to_save> tensors{dense("w", HT_F32, two_by_three_, floats_),
                                               dense("n", HT_I64, two_, longs_)};
  for (const char* const format : {"safetensors", "gguf", "irpa"}) {
    auto convert = sized<ht_convert_options>();
    convert.format = format;
    auto options = sized<ht_save_options>();
    options.convert = &convert;
    Buffer buffer;
    ASSERT_EQ(ht_save_to_memory(tensors.data(), tensors.size(), &options, grow, &buffer, failed_.out()),
              HT_OK)
        << failed_;
    EXPECT_EQ(buffer.calls, 1);
    save(format, tensors, &options);
    EXPECT_EQ(buffer.bytes, testing::read_file(path(format))) << format;
  }
}

TEST_F(CSave, save_to_memory_needs_a_format_and_memory_and_refuses_seal_shards_and_mlir) {
  const auto tensor = dense("w", HT_F32, two_by_three_, floats_);
  Buffer buffer;
  EXPECT_EQ(ht_save_to_memory(&tensor, 1, nullptr, grow, &buffer, failed_.out()), HT_BAD_STATE);
  auto convert = sized<ht_convert_options>();
  convert.format = "safetensors";
  auto options = sized<ht_save_options>();
  options.convert = &convert;
  const auto none = [](void*, std::size_t) -> void* { return nullptr; };
  EXPECT_EQ(ht_save_to_memory(&tensor, 1, &options, none, nullptr, failed_.out()), HT_OUT_OF_MEMORY);
  convert.seal = 1;
  EXPECT_EQ(ht_save_to_memory(&tensor, 1, &options, grow, &buffer, failed_.out()), HT_BAD_STATE);
  convert.seal = 0;
  convert.shard_bytes = 8;
  EXPECT_EQ(ht_save_to_memory(&tensor, 1, &options, grow, &buffer, failed_.out()), HT_BAD_STATE);
  convert.shard_bytes = 0;
  convert.emit_mlir = "x.mlir";
  EXPECT_EQ(ht_save_to_memory(&tensor, 1, &options, grow, &buffer, failed_.out()), HT_BAD_STATE);
  EXPECT_EQ(buffer.calls, 0);
}

TEST_F(CSave, dry_run_needs_a_target) {
  const auto tensor = dense("w", HT_F32, two_by_three_, floats_);
  Buffer buffer;
  auto convert = sized<ht_convert_options>();
  convert.format = "safetensors";
  convert.dry_run = 1;
  auto options = sized<ht_save_options>();
  options.convert = &convert;
  EXPECT_EQ(ht_save_to_memory(&tensor, 1, &options, grow, &buffer, failed_.out()), HT_BAD_STATE);
  EXPECT_EQ(failed_.rule(), "dry_run_needs_a_target");
  EXPECT_EQ(buffer.calls, 0);
}

TEST_F(CSave, mlir_module_needs_a_model) {
  const auto tensor = dense("w", HT_F32, two_by_three_, floats_);
  auto convert = sized<ht_convert_options>();
  convert.emit_mlir = "x.mlir";
  auto options = sized<ht_save_options>();
  options.convert = &convert;
  EXPECT_EQ(try_save({tensor}, &options), HT_BAD_STATE);
  EXPECT_EQ(failed_.rule(), "mlir_module_needs_a_model");
  EXPECT_FALSE(std::filesystem::exists(path("out.safetensors")));
}

}  // namespace
}  // namespace ht::c_save_test
