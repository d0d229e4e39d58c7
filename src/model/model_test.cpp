#include <gtest/gtest.h>

#include <algorithm>
#include <htensor/model/model.hpp>
#include <numeric>
#include <thread>

#include "format/ht/ht.hpp"
#include "format/safetensors/test_file.hpp"
#include "model/model_access.hpp"
#include "model/test_models.hpp"
#include "testing/library_types.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::model_test {
namespace {

using testing::TemporaryFolder;
using testing::write_file;

// A user-defined dtype.
struct Byte {
  using Family = Byte;
  using Element = std::uint8_t;
  static constexpr std::string_view name = "BYTE";
  static constexpr int bits = 8;
  static constexpr DTypeTag tag = user_tag(0);
};

// Writes a .ht file whose data bytes count up from 0.
void write_ht(const std::filesystem::path& path, DTypeInfo dtype, std::vector<std::int64_t> dims) {
  const auto header = format_ht::make_header(dtype, dims).value();
  const auto bytes = format_ht::encode(header);
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  for (std::uint64_t i = 0; i < header.data_bytes; ++i) file.push_back(static_cast<std::byte>(i));
  write_file(path, file);
}

class ModelTest : public ::testing::Test {
 protected:
  void SetUp() override { write_ht(path_, dtype_info<U16>(), {2, 3}); }
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "weights.ht";
};

TEST_F(ModelTest, opens_and_returns_the_tensor_in_place) {
  const auto model = Model::open(path_);
  ASSERT_TRUE(model) << to_string(model.error());
  const auto tensor = model->tensor<U16, Rank<2>>("weights");
  ASSERT_TRUE(tensor) << to_string(tensor.error());
  EXPECT_EQ(tensor->extent(0), 2);
  EXPECT_EQ(tensor->extent(1), 3);
  EXPECT_EQ((*tensor)(0, 0), 0x0100);
  EXPECT_EQ((*tensor)(1, 2), 0x0b0a);
  const auto& origin = std::get<Storage::FileBacked>(tensor->storage().origin());
  EXPECT_EQ(origin.path, path_);
  EXPECT_EQ(origin.offset, 128U);
  EXPECT_EQ(origin.bytes, 12U);
}

TEST_F(ModelTest, cast_dtypes_are_built_in) {
  write_ht(path_, dtype_info<Byte>(), {2, 3});
  const auto model = Model::open(path_, {.dtypes = {dtype_info<Byte>()}}).value();
  EXPECT_TRUE(model["weights"]->cast<Byte>());
  testing::expect_refusal(model["weights"]->cast<F32>(), ErrorCode::unsupported_encoding,
                          "cast_dtypes_are_built_in");
}

TEST_F(ModelTest, lists_the_catalog) {
  const auto model = Model::open(path_).value();
  ASSERT_EQ(model.catalog().size(), 1U);
  EXPECT_EQ(model.catalog()[0].name, "weights");
  EXPECT_EQ(model.catalog().format(), "ht");
  EXPECT_EQ(model.files(), std::vector{path_});
  EXPECT_EQ(model.dtype(model.catalog()[0].dtype)->name, "U16");
}

TEST_F(ModelTest, model_has_its_data) {
  const auto model = Model::open(path_, {.catalog_only = true}).value();
  EXPECT_EQ(model.catalog().size(), 1U);
  const auto tensor = model.tensor<U16, Rank<2>>("weights");
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code(), ErrorCode::bad_state);
  EXPECT_EQ(tensor.error().rule(), "model_has_its_data");
  EXPECT_EQ(tensor.error().message(), "model was opened with `catalog_only`, without its data");
  EXPECT_EQ(tensor.error().message(), ModelAccess::check_all_exist(model).error().message());
}

TEST_F(ModelTest, accepts_static_shapes_that_fit) {
  const auto model = Model::open(path_).value();
  EXPECT_TRUE((model.tensor<U16, Shape<2, 3>>("weights")));
  EXPECT_TRUE((model.tensor<U16, Shape<dynamic, 3>>("weights")));
}

TEST_F(ModelTest, flat_returns_all_elements) {
  const auto elements = Model::open(path_).value().flat<U16>("weights");
  ASSERT_TRUE(elements);
  EXPECT_EQ(elements->elements(), 6);
  EXPECT_EQ((*elements)(5), 0x0b0a);
}

TEST_F(ModelTest, tensor_outlives_the_model_and_the_file) {
  auto tensor = [&] { return Model::open(path_).value().tensor<U16, Rank<2>>("weights").value(); }();
  std::filesystem::remove(path_);
  EXPECT_EQ(tensor(1, 2), 0x0b0a);
}

TEST_F(ModelTest, tensor_exists) {
  const auto tensor = Model::open(path_).value().tensor<U16, Rank<2>>("wieghts");
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code(), ErrorCode::not_found);
  EXPECT_EQ(tensor.error().rule(), "tensor_exists");
  EXPECT_EQ(tensor.error().path(), path_.string());
  EXPECT_NE(tensor.error().hint().find("'weights'"), std::string_view::npos);
  const auto other = Model::open(path_).value().tensor<U16, Rank<2>>("zzz");
  EXPECT_NE(other.error().hint().find("only tensor is 'weights'"), std::string_view::npos);
  testing::write_file(folder_ / "empty.safetensors", testing::safetensors_file("{}", 0));
  const auto empty = Model::open(folder_ / "empty.safetensors").value();
  EXPECT_EQ(empty["a"].error().hint(), "open another file: the model has 0 tensors");
}

TEST_F(ModelTest, dtype_matches_the_request) {
  const auto tensor = Model::open(path_).value().tensor<BF16, Rank<2>>("weights");
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.error().code(), ErrorCode::dtype_mismatch);
  EXPECT_EQ(tensor.error().rule(), "dtype_matches_the_request");
  EXPECT_EQ(tensor.error().tensor(), "weights");
  EXPECT_NE(tensor.error().message().find("U16 [2, 3]"), std::string_view::npos);
  EXPECT_NE(tensor.error().message().find("BF16"), std::string_view::npos);
}

TEST_F(ModelTest, reports_the_stored_shape) {
  const auto model = Model::open(path_).value();
  const auto rank = model.tensor<U16, Rank<3>>("weights");
  const auto extent = model.tensor<U16, Shape<2, 4>>("weights");
  for (const auto* error : {&rank.error(), &extent.error()}) {
    EXPECT_EQ(error->code(), ErrorCode::shape_mismatch);
    EXPECT_EQ(error->rule(), "shape_matches_the_request");
    EXPECT_NE(error->message().find("[2, 3]"), std::string_view::npos);
    EXPECT_EQ(error->path(), path_.string());
    EXPECT_EQ(error->tensor(), "weights");
  }
}

TEST_F(ModelTest, every_dtype_of_the_library_opens) {
  for (const auto& dtype : library_dtypes()) {
    write_ht(folder_ / "t.ht", dtype, {3, 5});
    const auto model = Model::open(folder_ / "t.ht").value();
    const auto count = visit_dtype(model.catalog()[0].dtype, [&]<class D>(D) -> Result<std::int64_t> {
      EXPECT_EQ(D::name, dtype.name);
      const auto tensor = HT_TRY(model.tensor<D, Rank<2>>("t"));
      return tensor.elements();
    });
    EXPECT_EQ(count, 15) << dtype.name;
  }
}

TEST_F(ModelTest, rank_0_and_zero_dimensions_open) {
  write_ht(folder_ / "scalar.ht", dtype_info<U8>(), {});
  write_ht(folder_ / "none.ht", dtype_info<F64>(), {3, 0});
  EXPECT_EQ((Model::open(folder_ / "scalar.ht").value().tensor<U8, Rank<0>>("scalar").value()()), 0);
  EXPECT_EQ((Model::open(folder_ / "none.ht").value().tensor<F64, Rank<2>>("none").value().elements()), 0);
}

TEST_F(ModelTest, user_dtype_is_read_if_passed) {
  write_ht(path_, dtype_info<Byte>(), {4});
  EXPECT_EQ(Model::open(path_).error().code(), ErrorCode::bad_dtype);
  const auto model = Model::open(path_, {.dtypes = {dtype_info<Byte>()}});
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ((model->tensor<Byte, Rank<1>>("weights").value()(3)), 3);
  EXPECT_EQ(model->dtype(Byte::tag)->name, "BYTE");
}

TEST_F(ModelTest, invalid_utf8_in_a_name_is_replaced) {
  write_ht(folder_ / "a\xFF.ht", dtype_info<U8>(), {1});
  const auto model = Model::open(folder_ / "a\xFF.ht").value();
  EXPECT_EQ(model.catalog()[0].name, "a\xEF\xBF\xBD");
}

TEST_F(ModelTest, is_used_from_many_threads) {
  const auto model = Model::open(path_).value();
  std::vector<int> sums(4, 0);
  std::vector<std::thread> threads;
  for (auto& sum : sums) {
    threads.emplace_back([&] {
      const auto tensor = model.tensor<U16, Rank<2>>("weights").value();
      for (const auto x : tensor) sum += x;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(std::ranges::all_of(sums, [&](int sum) { return sum == sums[0] && sum > 0; }));
}

}  // namespace
}  // namespace ht::model_test
