#include <array>

#include "model/test_models.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::model_copy_test {
namespace {

using testing::expect_refusal;
using testing::safetensors_file;
using testing::write_file;

class ModelCopy : public ::testing::Test {
 protected:
  // Opens a file whose data bytes count up from 0. The data begins `misaligned_by` bytes after a multiple
  // of 8.
  Model open(std::string json, std::size_t data_bytes, std::size_t misaligned_by = 0) {
    while ((json.size() + 8) % 8 != misaligned_by) json += ' ';
    write_file(path_, safetensors_file(json, data_bytes));
    return Model::open(path_).value();
  }
  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t.safetensors";
};

constexpr std::string_view two_by_two = R"({"t":{"dtype":"U16","shape":[2,2],"data_offsets":[0,8]}})";

TEST_F(ModelCopy, misaligned_tensor_is_copied_and_not_used_in_place) {
  const auto model = open(std::string(two_by_two), 8, 1);
  const auto in_place = model.tensor<U16, Rank<2>>("t");
  ASSERT_FALSE(in_place);
  EXPECT_EQ(in_place.error().code(), ErrorCode::misaligned);
  EXPECT_NE(in_place.error().hint().find("use copy"), std::string_view::npos);
  EXPECT_EQ(in_place.error().path(), path_.string());
  EXPECT_EQ(in_place.error().tensor(), "t");
  auto copy = model.copy<U16, Shape<2, 2>>("t").value();
  EXPECT_EQ(copy(1, 1), 0x0706);
  EXPECT_TRUE(std::holds_alternative<Storage::Owned>(copy.storage().origin()));
  EXPECT_EQ(model.flat<U16>("t").value()(3), 0x0706);
}

TEST_F(ModelCopy, copy_allocates_and_flat_is_in_place_if_possible) {
  const auto model = open(std::string(two_by_two), 8);
  auto copy = model.copy<U16, Rank<2>>("t").value();
  copy(0, 0) = 9;
  EXPECT_EQ((model.tensor<U16, Rank<2>>("t").value()(0, 0)), 0x0100);
  const auto flat = model.flat<U16>("t").value();
  EXPECT_EQ(flat.elements(), 4);
  EXPECT_TRUE(std::holds_alternative<Storage::FileBacked>(flat.storage().origin()));
  EXPECT_EQ(flat.storage().bytes().data(), model.storage("t")->bytes().data());
}

TEST_F(ModelCopy, checks_dtype_and_shape) {
  const auto model = open(std::string(two_by_two), 8);
  EXPECT_EQ((model.copy<F16, Rank<2>>("t").error().code()), ErrorCode::dtype_mismatch);
  EXPECT_EQ((model.copy<U16, Rank<3>>("t").error().code()), ErrorCode::shape_mismatch);
  EXPECT_EQ((model.copy<U16, Shape<2, 3>>("t").error().rule()), "shape_matches_the_request");
  EXPECT_EQ(model.flat<U32>("t").error().code(), ErrorCode::dtype_mismatch);
  EXPECT_EQ(model.flat<U16>("no").error().code(), ErrorCode::not_found);
  EXPECT_EQ(model.storage("no").error().code(), ErrorCode::not_found);
}

TEST_F(ModelCopy, ranks_above_8_are_read_flat) {
  const auto model = open(R"({"t":{"dtype":"U8","shape":[2,1,1,1,1,1,1,1,1,3],"data_offsets":[0,6]}})", 6, 3);
  const auto flat = model.flat<U8>("t").value();
  EXPECT_EQ(flat.elements(), 6);
  EXPECT_EQ(flat(5), 5);
  EXPECT_EQ((model.tensor<U8, Rank<8>>("t").error().code()), ErrorCode::shape_mismatch);
}

TEST_F(ModelCopy, packed_elements_need_no_alignment) {
  for (const std::size_t misaligned_by : {0U, 1U}) {
    const auto model = open(R"({"t":{"dtype":"F4","shape":[2,4],"data_offsets":[0,4]}})", 4, misaligned_by);
    EXPECT_TRUE((model.tensor<F4, Rank<2>>("t")));
    const auto copy = model.copy<F4, Rank<2>>("t").value();
    EXPECT_EQ(copy.storage().bytes()[3], std::byte{3});
    EXPECT_EQ(model.flat<F4>("t").value().elements(), 8);
  }
}

TEST_F(ModelCopy, copies_of_a_tensor_without_elements_are_empty) {
  const auto model = open(R"({"t":{"dtype":"F64","shape":[3,0],"data_offsets":[0,0]}})", 0, 1);
  EXPECT_EQ((model.copy<F64, Rank<2>>("t").value().elements()), 0);
  EXPECT_EQ(model.flat<F64>("t").value().elements(), 0);
  EXPECT_TRUE(model.storage("t")->bytes().empty());
}

TEST_F(ModelCopy, raw_bytes_are_in_place_with_their_file_range) {
  const auto model = open(
      R"({"u":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"t":{"dtype":"U16","shape":[2],"data_offsets":[3,7]}})",
      7);
  const auto raw = model.storage("t").value();
  ASSERT_EQ(raw.bytes().size(), 4U);
  EXPECT_EQ(raw.bytes()[0], std::byte{3});
  const auto& origin = std::get<Storage::FileBacked>(raw.origin());
  EXPECT_EQ(origin.path, path_);
  EXPECT_EQ(origin.offset, std::filesystem::file_size(path_) - 4);
  EXPECT_EQ(origin.bytes, 4U);
}

TEST_F(ModelCopy, copies_outlive_model_and_file) {
  const auto copy = [&] { return open(std::string(two_by_two), 8).copy<U16, Rank<2>>("t").value(); }();
  const auto raw = [&] { return Model::open(path_)->storage("t").value(); }();
  std::filesystem::remove(path_);
  EXPECT_EQ(copy(1, 1), 0x0706);
  EXPECT_EQ(raw.bytes()[7], std::byte{7});
}

TEST_F(ModelCopy, catalog_only_tensors_are_not_copied) {
  open(std::string(two_by_two), 8);
  const auto model = Model::open(path_, {.catalog_only = true}).value();
  expect_refusal(model.storage("t"), ErrorCode::bad_state, "model_has_its_data");
  expect_refusal(model.copy<U16, Rank<2>>("t"), ErrorCode::bad_state, "model_has_its_data");
  expect_refusal(model.flat<U16>("t"), ErrorCode::bad_state, "model_has_its_data");
}

}  // namespace
}  // namespace ht::model_copy_test
