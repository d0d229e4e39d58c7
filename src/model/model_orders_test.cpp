#include <bit>

#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::model_orders_test {
namespace {

using testing::expect_refusal;
using testing::irpa_file;
using testing::npy_file;
using testing::refusal;
using testing::stored;
using testing::tensor_note;
using testing::write_file;

// Tensors in both element orders and both byte orders, and splats.
class ModelOrders : public ::testing::Test {
 protected:
  Model open(const std::vector<std::byte>& file) {
    write_file(path_, file);
    auto model = Model::open(path_);
    EXPECT_TRUE(model) << to_string(model.error());
    return std::move(model).value();
  }
  Model open_splat(std::string_view dtype, std::string_view shape, std::uint64_t length,
                   std::string pattern) {
    return open(irpa_file(
        {{.name = "t", .note = tensor_note(dtype, shape), .length = length, .pattern = std::move(pattern)}}));
  }
  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t";
};

TEST_F(ModelOrders, column_major_tensor_is_strided_in_place_and_row_major_when_copied) {
  const auto model = open(npy_file("<f4", true, "(2, 3)", stored<float>({0, 10, 1, 11, 2, 12})));
  EXPECT_EQ(model.catalog()[0].order, ElementOrder::column_major);
  const auto in_place = model.tensor<F32, Rank<2>>("t").value();
  const auto copy = model.copy<F32, Shape<2, 3>>("t").value();
  const auto flat = model.flat<F32>("t").value();
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      const auto expected = static_cast<float>(10 * i + j);
      EXPECT_EQ(in_place(i, j), expected);
      EXPECT_EQ(copy(i, j), expected);
      EXPECT_EQ(flat(3 * i + j), expected);
    }
  }
  EXPECT_TRUE(std::holds_alternative<Storage::FileBacked>(in_place.storage().origin()));
  EXPECT_TRUE(std::holds_alternative<Storage::Owned>(flat.storage().origin()));
}

TEST_F(ModelOrders, column_major_of_one_dimension_or_no_element_needs_no_copy) {
  const auto model = open(npy_file("<f4", true, "(3,)", stored<float>({1, 2, 3})));
  const auto flat = model.flat<F32>("t").value();
  EXPECT_EQ(flat(2), 3);
  EXPECT_TRUE(std::holds_alternative<Storage::FileBacked>(flat.storage().origin()));
  const auto empty = open(npy_file("<f4", true, "(3, 0, 2)", ""));
  EXPECT_EQ((empty.tensor<F32, Rank<3>>("t").value().elements()), 0);
  EXPECT_EQ((empty.copy<F32, Rank<3>>("t").value().elements()), 0);
  EXPECT_EQ(empty.flat<F32>("t").value().elements(), 0);
}

TEST_F(ModelOrders, bytes_are_in_native_order) {
  const auto model = open(npy_file(">f4", false, "(2, 2)", stored<float>({1, 2, 3, 4}, true)));
  const auto in_place = model.tensor<F32, Rank<2>>("t");
  const auto error = refusal(in_place, ErrorCode::unsupported_encoding, "bytes_are_in_native_order");
  EXPECT_EQ(error.path(), path_.string());
  EXPECT_EQ(error.tensor(), "t");
  EXPECT_NE(error.hint().find("use copy"), std::string_view::npos);
  EXPECT_EQ((model.copy<F32, Rank<2>>("t").value()(1, 0)), 3);
  EXPECT_EQ(model.flat<F32>("t").value()(3), 4);
  EXPECT_EQ(model.storage("t")->bytes()[0], std::byte{0x3F});
}

TEST_F(ModelOrders, each_part_of_a_big_endian_complex_number_is_byte_swapped) {
  const auto model = open(npy_file(">c8", false, "(2,)", stored<float>({1, 2, 3, 4}, true)));
  const auto copy = model.copy<C64, Rank<1>>("t").value();
  EXPECT_EQ(copy(0), std::complex<float>(1, 2));
  EXPECT_EQ(copy(1), std::complex<float>(3, 4));
}

TEST_F(ModelOrders, big_endian_and_column_major_at_once_are_copied) {
  const auto model = open(npy_file(">i2", true, "(2, 2)", stored<std::int16_t>({0, 10, 1, 11}, true)));
  EXPECT_EQ((model.copy<I16, Rank<2>>("t").value()(1, 0)), 10);
  EXPECT_EQ(model.flat<I16>("t").value()(1), 1);
  EXPECT_EQ((model.tensor<I16, Rank<2>>("t").error().code()), ErrorCode::unsupported_encoding);
}

TEST_F(ModelOrders, splat_has_one_element_in_place_and_all_when_copied) {
  const auto model = open_splat("float32", "[2, 3]", 24, stored<float>({7}));
  ASSERT_TRUE(model.catalog()[0].is_splat());
  const auto in_place = model.tensor<F32, Shape<2, 3>>("t").value();
  EXPECT_EQ(in_place(0, 0), 7);
  EXPECT_EQ(in_place(1, 2), 7);
  EXPECT_EQ(in_place.storage().bytes().size(), 4U);
  auto copy = model.copy<F32, Rank<2>>("t").value();
  copy(0, 0) = 1;
  EXPECT_EQ(copy(1, 2), 7);
  EXPECT_EQ(model.flat<F32>("t").value()(5), 7);
}

TEST_F(ModelOrders, splat_repeats_a_shorter_and_a_longer_pattern) {
  EXPECT_EQ((open_splat("uint32", "[2]", 8, "\x01").tensor<U32, Rank<1>>("t").value()(1)), 0x01010101U);
  EXPECT_EQ((open_splat("uint8", "[8]", 8, "\x05\x05\x05\x05").tensor<U8, Rank<1>>("t").value()(7)), 5);
}

TEST_F(ModelOrders, splat_repeats_one_element) {
  const auto model = open_splat("uint8", "[8]", 8, "\x01\x02\x03\x04");
  const auto in_place = model.tensor<U8, Rank<1>>("t");
  const auto error = refusal(in_place, ErrorCode::unsupported_encoding, "splat_repeats_one_element");
  EXPECT_EQ(error.path(), path_.string());
  EXPECT_EQ((model.copy<U8, Rank<1>>("t").value()(5)), 2);
  EXPECT_EQ(model.flat<U8>("t").value()(6), 3);
}

TEST_F(ModelOrders, splat_elements_are_whole_bytes) {
  const auto model = open_splat("float4_e2m1fn", "[8]", 4, "\x22");
  const auto error = refusal(model.tensor<F4, Rank<1>>("t"), ErrorCode::unsupported_encoding,
                             "splat_elements_are_whole_bytes");
  EXPECT_EQ(error.message(), "tensor 't': a splat of F4, 4 bits per element, cannot be used in place");
  EXPECT_EQ(static_cast<float>(model.copy<F4, Rank<1>>("t").value()(7)), 1);
}

TEST_F(ModelOrders, splat_has_no_stored_bytes) {
  const auto model = open_splat("float32", "[2]", 8, stored<float>({7}));
  const auto error =
      refusal(model.storage("t"), ErrorCode::unsupported_encoding, "splat_has_no_stored_bytes");
  EXPECT_EQ(error.tensor(), "t");
}

TEST_F(ModelOrders, splat_too_large_for_memory_is_used_in_place) {
  const auto model = open_splat("uint8", "[4611686018427387904]", std::uint64_t{1} << 62, "\x07");
  EXPECT_EQ((model.tensor<U8, Rank<1>>("t").value()(std::int64_t{1} << 61)), 7);
  EXPECT_EQ((model.copy<U8, Rank<1>>("t").error().code()), ErrorCode::out_of_memory);
  EXPECT_EQ(model.flat<U8>("t").error().code(), ErrorCode::out_of_memory);
}

// A user-defined format of one column-major tensor, F4 [2, 3], whose 3 bytes are the whole file.
Result<ParseResult> parse_columns(const FileParts& /*seen*/, std::uint64_t file_bytes,
                                  const ParseOptions& /*options*/) {
  const std::int64_t dims[] = {2, 3};
  CatalogBuilder builder("columns");
  HT_TRY(builder.add({.name = "t",
                      .dtype = F4::tag,
                      .dims = dims,
                      .order = ElementOrder::column_major,
                      .bytes = file_bytes}));
  return std::move(builder).build();
}

TEST_F(ModelOrders, column_major_packed_elements_are_read_but_not_copied) {
  write_file(path_, std::string_view("\x41\x52\x63"));
  const Format format{.name = "columns",
                      .extension = ".columns",
                      .looks_like = [](Bytes, std::uint64_t) { return true; },
                      .parse = parse_columns};
  const auto model = Model::open(path_, {.formats = {format}}).value();
  const auto tensor = model.at(0).value();
  std::vector<std::byte> bytes(3);
  for (const auto& refused : {tensor.copy_to(bytes), statistics(tensor).map([](const auto&) {})}) {
    const auto error =
        refusal(refused, ErrorCode::unsupported_encoding, "column_major_elements_are_whole_bytes");
    EXPECT_EQ(error.message(), "tensor 't' is column-major: 3 bytes are not 6 elements of whole bytes");
    EXPECT_EQ(error.path(), path_.native());
  }
  expect_refusal(tensor.copy<F4, Rank<2>>(), ErrorCode::unsupported_encoding,
                 "column_major_elements_are_whole_bytes");
  ASSERT_TRUE(tensor.read(bytes));
  EXPECT_TRUE(std::ranges::equal(bytes, bytes_of("\x21\x43\x65"))) << "the rows 1 2 3 and 4 5 6";
}

TEST_F(ModelOrders, dtype_is_known) {
  const auto model = open(irpa_file({{.name = "t", .length = 4}}, "abcd"));
  const auto tensor = model.tensor<U8, Rank<1>>("t");
  expect_refusal(tensor, ErrorCode::dtype_mismatch, "dtype_is_known");
  EXPECT_EQ(model.storage("t")->bytes()[3], std::byte{'d'});
}

}  // namespace
}  // namespace ht::model_orders_test
