#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <htensor/model/model.hpp>
#include <numeric>

#include "c/c_test.hpp"
#include "format/gguf/gguf_test_file.hpp"
#include "format/safetensors/test_file.hpp"
#include "model/test_formats.hpp"
#include "testing/library_types.hpp"

namespace ht::c_tensor_test {
namespace {

using testing::Handle;
using testing::sized;
using testing::write_file;

class CTensor : public testing::CApi {
 protected:
  Handle<ht_tensor> only_tensor_of(const std::vector<std::byte>& file) {
    write_file(folder_ / "t", file);
    ht_model* model = nullptr;
    EXPECT_EQ(ht_model_open(path("t").c_str(), nullptr, &model, failed_.out()), HT_OK) << failed_;
    const Handle<ht_model> owner(model);
    ht_tensor* tensor = nullptr;
    EXPECT_EQ(ht_model_at(model, 0, &tensor, failed_.out()), HT_OK) << failed_;
    return Handle<ht_tensor>(tensor);
  }
  Handle<ht_tensor> column_major() {
    return only_tensor_of(
        testing::npy_file("<i4", true, "(2, 3)", testing::stored<std::int32_t>({1, 4, 2, 5, 3, 6})));
  }
  Handle<ht_tensor> rows(const Handle<ht_tensor>& tensor, std::int64_t begin, std::int64_t end) {
    ht_tensor* found = nullptr;
    EXPECT_EQ(ht_tensor_rows(tensor.get(), begin, end, &found, failed_.out()), HT_OK) << failed_;
    return Handle<ht_tensor>(found);
  }
  // Two rows. Each is one Q8_0 block with the scale 0.5 and the numbers 0 to 31.
  Handle<ht_tensor> blocks() {
    testing::GgufFile file;
    file.header(1, 0).tensor("q", {32, 2}, 8, 0).pad();
    for (int row = 0; row < 2; ++row) {
      file.number(std::uint16_t{0x3800});
      for (int i = 0; i < 32; ++i) file.number(static_cast<std::int8_t>(i));
    }
    return only_tensor_of(file.pad().bytes());
  }
};

TEST_F(CTensor, rows_have_their_own_dims_bytes_and_offset) {
  const auto model = small_model();
  const auto tensor = get(model, "w");
  const auto row = rows(tensor, 1, 2);
  const auto info = describe(row);
  EXPECT_EQ(info.dims[0], 1);
  EXPECT_EQ(info.byte_size, 12U);
  EXPECT_EQ(info.offset, describe(tensor).offset + 12);
  EXPECT_EQ(info.index, 0U);
  EXPECT_EQ(describe(rows(row, 0, 1)).offset, info.offset);
  ht_tensor* found = nullptr;
  EXPECT_EQ(ht_tensor_rows(tensor.get(), 1, 3, &found, failed_.out()), HT_OUT_OF_BOUNDS);
  const auto q = blocks();
  EXPECT_EQ(describe(rows(q, 1, 2)).offset, describe(q).offset + 34);
}

TEST_F(CTensor, offset_of_rows_is_exact_beyond_2_to_61_bytes) {
  const auto header = testing::safetensors_file(
      R"({"t":{"dtype":"U8","shape":[3,2305843009213693952],"data_offsets":[0,6917529027641081856]}})", 0);
  const int file = ::memfd_create("large", MFD_CLOEXEC);
  ASSERT_EQ(::pwrite(file, header.data(), header.size(), 0), static_cast<::ssize_t>(header.size()));
  ASSERT_EQ(::ftruncate(file, static_cast<::off_t>(header.size()) + 3 * (std::int64_t{1} << 61)), 0);
  ht_model* opened = nullptr;
  EXPECT_EQ(ht_model_open_fd(file, nullptr, &opened, failed_.out()), HT_OK) << failed_;
  const Handle<ht_model> model(opened);
  ::close(file);
  const auto tensor = get(model, "t");
  const auto offset = describe(tensor).offset;
  EXPECT_EQ(offset, header.size());
  EXPECT_EQ(describe(rows(tensor, 1, 2)).offset, offset + (std::uint64_t{1} << 61));
  EXPECT_EQ(describe(rows(tensor, 2, 3)).offset, offset + (std::uint64_t{1} << 62));
}

TEST_F(CTensor, offset_of_column_major_rows_is_that_of_their_first_element) {
  const auto tensor = column_major();
  const auto row = rows(tensor, 1, 2);
  EXPECT_EQ(describe(row).offset, describe(tensor).offset + 4);
  EXPECT_EQ(describe(row).byte_size, 12U);
}

TEST_F(CTensor, strides_are_in_elements) {
  const auto tensor = column_major();
  std::int64_t strides[2] = {};
  ASSERT_EQ(ht_tensor_strides(tensor.get(), strides, 2, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(strides[0], 1);
  EXPECT_EQ(strides[1], 2);
}

TEST_F(CTensor, tensor_with_strides_is_dense) {
  std::int64_t strides[2] = {};
  EXPECT_EQ(ht_tensor_strides(blocks().get(), strides, 2, failed_.out()), HT_UNSUPPORTED_ENCODING);
  EXPECT_EQ(failed_.rule(), "tensor_with_strides_is_dense");
}

TEST_F(CTensor, argument_has_the_rank_of_the_tensor) {
  const auto tensor = column_major();
  std::int64_t one[1] = {};
  EXPECT_EQ(ht_tensor_strides(tensor.get(), one, 1, failed_.out()), HT_SHAPE_MISMATCH);
  EXPECT_EQ(failed_.rule(), "argument_has_the_rank_of_the_tensor");
  double value = 0;
  EXPECT_EQ(ht_tensor_value(tensor.get(), one, 1, &value, failed_.out()), HT_SHAPE_MISMATCH);
  const ht_slice slice{0, 1, 1};
  EXPECT_EQ(ht_tensor_read(tensor.get(), &slice, 1, nullptr, &value, 8, failed_.out()), HT_SHAPE_MISMATCH);
}

TEST_F(CTensor, data_is_in_place) {
  const auto model = small_model();
  const auto tensor = get(model, "w");
  const void* data = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(ht_tensor_data(tensor.get(), &data, &bytes, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(bytes, 24U);
  EXPECT_EQ(std::memcmp(data, floats_.data(), 24), 0);
  const void* second_data = nullptr;
  ASSERT_EQ(ht_tensor_data(get(model, "w").get(), &second_data, nullptr, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(second_data, data);
}

TEST_F(CTensor, private_data_is_writable_and_changes_neither_the_file_nor_other_functions) {
  const auto model = small_model();
  ASSERT_EQ(ht_model_seal(model.get(), nullptr, nullptr, failed_.out()), HT_OK) << failed_;
  const auto before = testing::read_file(path("m.safetensors"));
  const auto tensor = get(model, "w");
  void* data = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(ht_tensor_private_data(tensor.get(), &data, &bytes, failed_.out()), HT_OK) << failed_;
  ASSERT_EQ(bytes, 24U);
  EXPECT_EQ(static_cast<float*>(data)[5], 6);
  static_cast<float*>(data)[5] = 7;
  void* second_data = nullptr;
  ASSERT_EQ(ht_tensor_private_data(get(model, "w").get(), &second_data, nullptr, failed_.out()), HT_OK)
      << failed_;
  EXPECT_EQ(second_data, data);
  const void* shared = nullptr;
  ASSERT_EQ(ht_tensor_data(tensor.get(), &shared, nullptr, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(static_cast<const float*>(shared)[5], 6);
  const std::int64_t index[] = {1, 2};
  double value = 0;
  ASSERT_EQ(ht_tensor_value(tensor.get(), index, 2, &value, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(value, 6);
  EXPECT_EQ(ht_model_verify(model.get(), nullptr, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(ht_tensor_verify(tensor.get(), failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(testing::read_file(path("m.safetensors")), before);
}

TEST_F(CTensor, private_data_outlives_the_model_and_leaves_the_callers_bytes_unchanged) {
  small_model();
  const auto file = testing::read_file(path("m.safetensors"));
  ht_model* model = nullptr;
  ASSERT_EQ(ht_model_open_bytes(file.data(), file.size(), nullptr, nullptr, nullptr, &model, failed_.out()),
            HT_OK);
  ht_tensor* whole = nullptr;
  ASSERT_EQ(ht_model_get(model, "w", 0, &whole, failed_.out()), HT_OK);
  const auto row = rows(Handle<ht_tensor>(whole), 1, 2);
  ht_model_free(model);
  void* data = nullptr;
  ASSERT_EQ(ht_tensor_private_data(row.get(), &data, nullptr, failed_.out()), HT_OK) << failed_;
  static_cast<float*>(data)[0] = 9;
  EXPECT_EQ(testing::read_file(path("m.safetensors")), file);
}

TEST_F(CTensor, copy_is_row_major_and_little_endian) {
  const auto big_endian = testing::stored<std::int32_t>({1, 4, 2, 5, 3, 6}, true);
  for (const bool is_big_endian : {false, true}) {
    const auto tensor =
        is_big_endian ? only_tensor_of(testing::npy_file(">i4", true, "(2, 3)", big_endian)) : column_major();
    ASSERT_EQ(describe(tensor).is_big_endian, is_big_endian ? 1 : 0);
    std::int32_t values[6] = {};
    ASSERT_EQ(ht_tensor_copy_to(tensor.get(), 0, values, sizeof values, failed_.out()), HT_OK) << failed_;
    EXPECT_EQ(std::vector(values, values + 6), (std::vector{1, 2, 3, 4, 5, 6}));
    ASSERT_EQ(ht_tensor_copy_to(tensor.get(), 20, values, 4, failed_.out()), HT_OK) << failed_;
    EXPECT_EQ(values[0], 6);
    EXPECT_EQ(ht_tensor_copy_to(tensor.get(), 21, values, 4, failed_.out()), HT_OUT_OF_BOUNDS);
    EXPECT_EQ(ht_tensor_copy_to(tensor.get(), 24, nullptr, 0, failed_.out()), HT_OK);
  }
}

TEST_F(CTensor, slices_are_read_in_any_direction) {
  const auto tensor = column_major();
  const ht_slice slices[] = {{1, -1, -1}, {0, 3, 2}};
  std::int32_t values[4] = {};
  ASSERT_EQ(ht_tensor_read(tensor.get(), slices, 2, nullptr, values, sizeof values, failed_.out()), HT_OK)
      << failed_;
  EXPECT_EQ(std::vector(values, values + 4), (std::vector{4, 6, 1, 3}));
  const ht_slice step_of_0[] = {{0, 1, 0}, {1, 3, 0}};
  double doubles[2] = {};
  ASSERT_EQ(ht_tensor_read_f64(tensor.get(), step_of_0, 2, doubles, 2, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(doubles[1], 3);
  EXPECT_EQ(ht_tensor_read(tensor.get(), slices, 2, nullptr, values, 15, failed_.out()), HT_SIZE_MISMATCH);
  const ht_slice outside[] = {{0, 3, 1}, {0, 3, 1}};
  EXPECT_EQ(ht_tensor_read(tensor.get(), outside, 2, nullptr, values, 16, failed_.out()), HT_OUT_OF_BOUNDS);
}

TEST_F(CTensor, blocks_are_decoded) {
  const auto tensor = blocks();
  const ht_slice slices[] = {{1, 2, 1}, {30, 32, 1}};
  float values[2] = {};
  ASSERT_EQ(ht_tensor_read_f32(tensor.get(), slices, 2, values, 2, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(values[0], 15);
  EXPECT_EQ(values[1], 15.5F);
  const std::int64_t index[] = {0, 3};
  double value = 0;
  ASSERT_EQ(ht_tensor_value(tensor.get(), index, 2, &value, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(value, 1.5);
  std::uint8_t stored[34] = {};
  const ht_slice row[] = {{1, 2, 1}, {0, 32, 1}};
  ASSERT_EQ(ht_tensor_read(tensor.get(), row, 2, nullptr, stored, 34, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(stored[1], 0x38);
}

TEST_F(CTensor, values_are_rounded_only_on_request) {
  const auto model = small_model();
  const auto tensor = get(model, "n");
  float values[2] = {};
  EXPECT_EQ(ht_tensor_read_f32(tensor.get(), nullptr, 0, values, 2, failed_.out()), HT_WOULD_LOSE);
  auto options = sized<ht_read_options>();
  options.type = HT_F32;
  options.rounding = HT_ROUND_NEAREST_EVEN;
  ASSERT_EQ(ht_tensor_read(tensor.get(), nullptr, 0, &options, values, 8, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(values[1], 0x1p53F);
  double doubles[2] = {};
  ASSERT_EQ(ht_tensor_read_f64(tensor.get(), nullptr, 0, doubles, 2, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(doubles[0], -1);
  EXPECT_EQ(doubles[1], 0x1p53);
  options.type = HT_I8;
  options.rounding = HT_ROUND_TOWARD_ZERO;
  std::int8_t small[2] = {};
  ASSERT_EQ(ht_tensor_read(tensor.get(), nullptr, 0, &options, small, 2, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(small[1], 127);
}

TEST_F(CTensor, packed_elements_are_unpacked) {
  const std::vector<std::uint8_t> packed{0x21, 0x03};
  const std::vector<std::int64_t> three{3};
  save("p.ht", {testing::dense("p", HT_U4, three, packed)});
  const auto tensor = get(open("p.ht"), "p");
  auto options = sized<ht_read_options>();
  options.unpack = 1;
  std::uint8_t values[3] = {};
  ASSERT_EQ(ht_tensor_read(tensor.get(), nullptr, 0, &options, values, 3, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(values[0] + 10 * values[1] + 100 * values[2], 321);
}

TEST_F(CTensor, type_is_known) {
  const auto tensor = column_major();
  auto options = sized<ht_read_options>();
  options.type = static_cast<ht_type>(100);
  std::int32_t values[6] = {};
  EXPECT_EQ(ht_tensor_read(tensor.get(), nullptr, 0, &options, values, 24, failed_.out()), HT_BAD_DTYPE);
  EXPECT_EQ(failed_.rule(), "type_is_known");
}

TEST_F(CTensor, type_to_read_is_a_dtype) {
  const auto tensor = column_major();
  auto options = sized<ht_read_options>();
  options.type = HT_Q8_0;
  std::int32_t values[6] = {};
  EXPECT_EQ(ht_tensor_read(tensor.get(), nullptr, 0, &options, values, 24, failed_.out()), HT_BAD_DTYPE);
  EXPECT_EQ(failed_.rule(), "type_to_read_is_a_dtype");
  std::uint8_t stored[68] = {};
  EXPECT_EQ(ht_tensor_read(blocks().get(), nullptr, 0, &options, stored, 68, failed_.out()), HT_OK)
      << failed_;
}

TEST_F(CTensor, read_and_value_agree_for_every_real_dtype) {
  std::vector<std::uint8_t> noise(128);
  std::iota(noise.begin(), noise.end(), std::uint8_t{3});
  const std::vector<std::int64_t> dims{4, 4};
  for (const auto& dtype : library_dtypes()) {
    if (dtype.tag == Bool::tag || dtype.tag == C64::tag) continue;
    noise.resize(static_cast<std::size_t>(16 * dtype.bits / 8));
    const std::string name = std::string(dtype.name) + ".ht";
    save(name, {testing::dense(dtype.name.data(), static_cast<ht_type>(dtype.tag), dims, noise)});
    noise.resize(128);
    const auto tensor = get(open(name), dtype.name.data());
    double values[6] = {};
    const ht_slice slices[] = {{3, 0, -1}, {0, 4, 2}};
    ASSERT_EQ(ht_tensor_read_f64(tensor.get(), slices, 2, values, 6, failed_.out()), HT_OK) << failed_;
    for (std::int64_t i = 0; i < 6; ++i) {
      const std::int64_t index[] = {3 - i / 2, i % 2 * 2};
      double value = 0;
      ASSERT_EQ(ht_tensor_value(tensor.get(), index, 2, &value, failed_.out()), HT_OK) << failed_;
      EXPECT_TRUE(values[i] == value || (std::isnan(values[i]) && std::isnan(value))) << dtype.name;
    }
  }
}

TEST_F(CTensor, value_at_an_index_outside_the_tensor_is_out_of_bounds) {
  const auto tensor = column_major();
  const std::int64_t index[] = {2, 0};
  double value = 7;
  EXPECT_EQ(ht_tensor_value(tensor.get(), index, 2, &value, failed_.out()), HT_OUT_OF_BOUNDS);
  EXPECT_EQ(value, 7);
}

TEST_F(CTensor, statistics_cover_all_elements) {
  const auto tensor = column_major();
  auto found = sized<ht_statistics>();
  ASSERT_EQ(ht_tensor_statistics(tensor.get(), nullptr, &found, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(found.count, 6U);
  EXPECT_EQ(found.min, 1);
  EXPECT_EQ(found.max, 6);
  EXPECT_EQ(found.argmax, 5U);
  EXPECT_EQ(found.sum, 21);
  EXPECT_EQ(found.mean, 3.5);
  EXPECT_NEAR(found.norm, std::sqrt(91.0), 1e-12);
  EXPECT_NEAR(found.standard_deviation, std::sqrt(35.0 / 12), 1e-12);
}

}  // namespace
}  // namespace ht::c_tensor_test
