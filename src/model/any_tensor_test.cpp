#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <htensor/format/format.hpp>
#include <htensor/model/model.hpp>
#include <numeric>
#include <ranges>

#include "model/model_access.hpp"
#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::any_tensor_test {
namespace {

using testing::expect_refusal;
using testing::irpa_file;
using testing::npy_file;
using testing::refusal;
using testing::stored;
using testing::tensor_note;
using testing::write_file;

static_assert(std::ranges::random_access_range<const Model>);
static_assert(std::is_nothrow_copy_constructible_v<AnyTensor>);

class AnyTensors : public ::testing::Test {
 protected:
  Model open(const std::vector<std::byte>& file) {
    write_file(path_, file);
    auto model = Model::open(path_);
    EXPECT_TRUE(model) << to_string(model.error());
    return std::move(model).value();
  }
  AnyTensor open_tensor(const std::vector<std::byte>& file) { return open(file).at(0).value(); }

  static std::string copied(const AnyTensor& tensor) {
    std::string text(static_cast<std::size_t>(tensor.byte_size()), '?');
    const auto result = tensor.copy_to({reinterpret_cast<std::byte*>(text.data()), text.size()});
    EXPECT_TRUE(result) << to_string(result.error());
    return text;
  }
  static std::string text_of(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static std::vector<std::int64_t> dims_of(const AnyTensor& tensor) {
    return {tensor.dims().begin(), tensor.dims().end()};
  }

  // Files with the same values of a [3, 2] tensor, row-major and column-major, in both byte orders.
  static std::vector<std::vector<std::byte>> same_in_all_orders() {
    return {npy_file("<i2", false, "(3, 2)", stored<std::int16_t>({1, 2, 3, 4, 5, 6})),
            npy_file("<i2", true, "(3, 2)", stored<std::int16_t>({1, 3, 5, 2, 4, 6})),
            npy_file(">i2", false, "(3, 2)", stored<std::int16_t>({1, 2, 3, 4, 5, 6}, true)),
            npy_file(">i2", true, "(3, 2)", stored<std::int16_t>({1, 3, 5, 2, 4, 6}, true))};
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t";
};

TEST_F(AnyTensors, are_yielded_by_iterating_a_model) {
  const auto model = open(testing::noise_file("safetensors", {10, 100, 3}));
  EXPECT_EQ(model.size(), 3U);
  std::vector<std::string> names;
  std::uint64_t bytes = 0;
  for (const AnyTensor& tensor : model) {
    names.emplace_back(tensor.name());
    bytes += tensor.bytes().value().size();
    EXPECT_EQ(tensor.type().name, "F32");
    EXPECT_EQ(tensor.type().bits, 32);
    EXPECT_TRUE(tensor.is_plain());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"t0", "t1", "t2"}));
  EXPECT_EQ(bytes, 4U * 113);
  EXPECT_EQ(std::ranges::distance(model), 3);
}

TEST_F(AnyTensors, are_found_by_name_and_index) {
  const auto model = open(testing::noise_file("safetensors", {10, 100}));
  EXPECT_EQ(model.find("t1"), 1U);
  EXPECT_EQ(model.find("t9"), std::nullopt);
  EXPECT_EQ(model["t1"]->name(), "t1");
  EXPECT_EQ(model.at(1)->name(), "t1");
  EXPECT_EQ(refusal(model["t9"], ErrorCode::not_found, "tensor_exists").path(), path_.native());
}

TEST_F(AnyTensors, index_is_below_size) {
  const auto model = open(testing::noise_file("safetensors", {10}));
  expect_refusal(model.at(1), ErrorCode::out_of_bounds, "index_is_below_size");
}

TEST_F(AnyTensors, outlive_their_model) {
  const auto tensor = open_tensor(testing::noise_file("safetensors", {1000}));
  const auto slice = tensor.slice(10, 20).value();
  std::filesystem::remove(path_);
  EXPECT_EQ(tensor.bytes()->size(), 4000U);
  EXPECT_EQ(slice.name(), "t0");
  EXPECT_EQ(slice.bytes()->data(), tensor.bytes()->data() + 40);
}

TEST_F(AnyTensors, have_strides_of_every_order) {
  using Strides = std::vector<std::int64_t>;
  const auto files = same_in_all_orders();
  EXPECT_EQ(open_tensor(files[0]).strides().value(), (Strides{2, 1}));
  EXPECT_EQ(open_tensor(files[1]).strides().value(), (Strides{1, 3}));
  EXPECT_EQ(open_tensor(files[2]).byte_order(), ByteOrder::big);
  const auto note = tensor_note("int16", "[3, 2]");
  const auto splat = open_tensor(irpa_file({{.name = "t", .note = note, .length = 12, .pattern = "ab"}}));
  EXPECT_EQ(splat.strides().value(), (Strides{0, 0}));
  EXPECT_EQ(open_tensor(irpa_file({{.name = "t", .length = 5}}, "hello")).strides().value(), Strides{});
  const auto q4_k =
      R"(TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [288], "encoding": "Q4_K", "logical_shape": [2, 256]})";
  const auto blocks =
      open_tensor(irpa_file({{.name = "t", .note = q4_k, .length = 288}}, std::string(288, 'b')));
  EXPECT_EQ(blocks.strides().value(), Strides{});
}

// A user-defined format of one tensor [4, 4] in 16 bytes, of a dtype that the caller did not pass.
Result<ParseResult> parse_unknown_dtype(const FileParts& /*seen*/, std::uint64_t /*file_bytes*/,
                                        const ParseOptions& /*options*/) {
  const std::int64_t dims[] = {4, 4};
  CatalogBuilder builder("unknown");
  HT_TRY(builder.add({.name = "t", .dtype = user_tag(9), .dims = dims, .bytes = 16}));
  return std::move(builder).build();
}

TEST_F(AnyTensors, have_no_strides_and_are_not_sliced_if_the_dtype_is_unknown) {
  write_file(path_, "0123456789abcdef");
  const Format format{.name = "unknown",
                      .extension = ".unknown",
                      .looks_like = [](Bytes, std::uint64_t) { return true; },
                      .parse = parse_unknown_dtype};
  const auto model = Model::open(path_, {.formats = {format}}).value();
  const auto tensor = model.at(0).value();
  EXPECT_EQ(dims_of(tensor), (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(tensor.strides().value(), std::vector<std::int64_t>{});
  EXPECT_EQ(copied(tensor), "0123456789abcdef");
  const auto error = refusal(tensor.slice(1, 3), ErrorCode::bad_shape, "sliced_tensors_have_rows");
  EXPECT_TRUE(testing::message_contains(error, "unknown dtype")) << error.message();
}

TEST_F(AnyTensors, are_copied_row_major_and_little_endian) {
  const auto expected = stored<std::int16_t>({1, 2, 3, 4, 5, 6});
  for (const auto& file : same_in_all_orders()) {
    const auto tensor = open_tensor(file);
    EXPECT_EQ(copied(tensor), expected);
    for (std::size_t begin = 0; begin <= expected.size(); ++begin) {
      for (std::size_t count = 0; begin + count <= expected.size(); ++count) {
        std::vector<std::byte> part(count);
        ASSERT_TRUE(tensor.copy_to(part, begin));
        EXPECT_EQ(text_of(part), expected.substr(begin, count)) << begin;
        const auto viewed = text_of(tensor.view(begin, count, part).value());
        const auto bytes = text_of(tensor.bytes().value());
        EXPECT_EQ(viewed, bytes.substr(begin, count)) << "the stored bytes";
      }
    }
  }
}

TEST_F(AnyTensors, copied_bytes_are_within_the_tensor) {
  const auto tensor = open_tensor(same_in_all_orders()[0]);
  std::vector<std::byte> into(13);
  expect_refusal(tensor.copy_to(into), ErrorCode::out_of_bounds, "copied_bytes_are_within_the_tensor");
  expect_refusal(tensor.copy_to(std::span(into).first(2), 11), ErrorCode::out_of_bounds,
                 "copied_bytes_are_within_the_tensor");
  expect_refusal(tensor.copy_to(std::span(into).first(2), UINT64_MAX), ErrorCode::out_of_bounds,
                 "copied_bytes_are_within_the_tensor");
}

TEST_F(AnyTensors, splat_is_expanded_from_any_byte_on) {
  const auto note = tensor_note("uint8", "[12]");
  const auto tensor = open_tensor(irpa_file({{.name = "t", .note = note, .length = 12, .pattern = "abcd"}}));
  EXPECT_TRUE(tensor.is_splat());
  EXPECT_FALSE(tensor.is_plain());
  EXPECT_EQ(copied(tensor), "abcdabcdabcd");
  std::vector<std::byte> part(6);
  ASSERT_TRUE(tensor.copy_to(part, 3));
  EXPECT_EQ(text_of(part), "dabcda");
  EXPECT_EQ(copied(tensor.slice(2, 9).value()), "cdabcda");
}

TEST_F(AnyTensors, slice_of_a_packed_splat_has_no_bits_of_the_next_row) {
  write_file(path_, "a splat");
  const Format format{
      .name = "splat",
      .extension = ".splat",
      .looks_like = [](Bytes, std::uint64_t) { return true; },
      .parse = [](const FileParts&, std::uint64_t, const ParseOptions&) -> Result<ParseResult> {
        const std::int64_t dims[] = {3, 3};
        CatalogBuilder builder("splat");
        HT_TRY(builder.add(
            {.name = "t", .dtype = F4::tag, .dims = dims, .bytes = 5, .splat = bytes_of("\x22")}));
        return std::move(builder).build();
      }};
  const auto model = Model::open(path_, {.formats = {format}}).value();
  const auto row = model.at(0)->slice(0, 1).value();
  EXPECT_EQ(copied(row), "\x22\x02");
  std::vector<std::byte> read(2);
  ASSERT_TRUE(row.read(read));
  EXPECT_EQ(text_of(read), "\x22\x02");
}

TEST_F(AnyTensors, splat_has_no_stored_bytes) {
  const auto tensor = open_tensor(irpa_file({{.name = "t", .length = 8, .pattern = "a"}}));
  const auto error = refusal(tensor.bytes(), ErrorCode::unsupported_encoding, "splat_has_no_stored_bytes");
  EXPECT_NE(error.hint().find("copy_to"), std::string_view::npos);
}

TEST_F(AnyTensors, are_sliced_by_rows_in_every_order) {
  for (const auto& file : same_in_all_orders()) {
    const auto tensor = open_tensor(file);
    const auto rows = tensor.slice(1, 3).value();
    EXPECT_EQ(dims_of(rows), (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(rows.byte_size(), 8U);
    EXPECT_EQ(copied(rows), stored<std::int16_t>({3, 4, 5, 6}));
    EXPECT_EQ(copied(rows.slice(1, 2).value()), stored<std::int16_t>({5, 6}));
    EXPECT_EQ(copied(rows.slice(1, 1).value()), "");
    if (tensor.byte_order() == ByteOrder::big) continue;
    const auto typed = rows.tensor<I16, Rank<2>>().value();
    EXPECT_TRUE(std::ranges::equal(typed, std::vector<std::int16_t>{3, 4, 5, 6}));
    EXPECT_TRUE(std::ranges::equal(rows.flat<I16>().value(), std::vector<std::int16_t>{3, 4, 5, 6}));
  }
}

TEST_F(AnyTensors, offset_is_the_position_of_the_first_element_in_the_file) {
  for (const auto& file : same_in_all_orders()) {
    const auto tensor = open_tensor(file);
    const auto element_at = [&](const AnyTensor& part) {
      const auto bytes = Bytes(file).subspan(static_cast<std::size_t>(part.offset()), 2);
      return tensor.byte_order() == ByteOrder::big ? load_be<std::int16_t>(bytes)
                                                   : load_le<std::int16_t>(bytes);
    };
    EXPECT_EQ(tensor.offset(), tensor.entry().offset);
    EXPECT_EQ(element_at(tensor), 1);
    const auto rows = tensor.slice(1, 3).value();
    EXPECT_EQ(element_at(rows), 3);
    EXPECT_EQ(element_at(rows.slice(1, 2).value()), 5);
  }
  const auto note = tensor_note("uint8", "[12]");
  const auto splat = open_tensor(irpa_file({{.name = "t", .note = note, .length = 12, .pattern = "ab"}}));
  EXPECT_EQ(splat.offset(), 0U);
  EXPECT_EQ(splat.slice(2, 9)->offset(), 0U);
}

TEST_F(AnyTensors, rows_are_contiguous) {
  const auto tensor = open_tensor(same_in_all_orders()[1]);
  const auto rows = tensor.slice(1, 3).value();
  expect_refusal(rows.bytes(), ErrorCode::unsupported_encoding, "rows_are_contiguous");
}

TEST_F(AnyTensors, slices_are_within_bounds) {
  const auto tensor = open_tensor(same_in_all_orders()[0]);
  EXPECT_EQ(tensor.slice(2, 4).error().code(), ErrorCode::out_of_bounds);
  EXPECT_EQ(tensor.slice(-1, 2).error().code(), ErrorCode::out_of_bounds);
  EXPECT_EQ(tensor.slice(2, 1).error().code(), ErrorCode::out_of_bounds);
  EXPECT_EQ(tensor.slice(1, 3)->slice(0, 3).error().code(), ErrorCode::out_of_bounds);
}

TEST_F(AnyTensors, sliced_tensors_have_rows) {
  const auto scalar = open_tensor(npy_file("<f4", false, "()", stored<float>({1})));
  expect_refusal(scalar.slice(0, 1), ErrorCode::bad_shape, "sliced_tensors_have_rows");
}

TEST_F(AnyTensors, rows_are_whole_bytes_and_blocks) {
  const auto tensor =
      open_tensor(testing::safetensors_file(R"({"t":{"dtype":"F4","shape":[4,3],"data_offsets":[0,6]}})", 6));
  expect_refusal(tensor.slice(1, 2), ErrorCode::misaligned, "rows_are_whole_bytes_and_blocks");
  EXPECT_EQ(copied(tensor.slice(2, 4).value()), copied(tensor).substr(3));
  EXPECT_EQ(copied(tensor.slice(1, 1).value()), "");
  // The high 4 bits of the last byte belong to the next row and are 0 in the copy.
  const auto first = copied(tensor.slice(0, 1).value());
  EXPECT_EQ(first, std::string({copied(tensor)[0], static_cast<char>(copied(tensor)[1] & 0xF)}));
}

TEST_F(AnyTensors, are_cast_to_dtypes_that_hold_their_values) {
  for (const auto& file : same_in_all_orders()) {
    const auto tensor = open_tensor(file);
    const auto floats = tensor.cast<F32>().value();
    EXPECT_TRUE(std::ranges::equal(floats, std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_TRUE(std::ranges::equal(tensor.cast<I16>().value(), std::vector<std::int16_t>{1, 2, 3, 4, 5, 6}));
    EXPECT_TRUE(std::ranges::equal(tensor.slice(2, 3)->cast<F64>().value(), std::vector<double>{5, 6}));
  }
}

TEST_F(AnyTensors, large_tensors_are_cast_in_pieces) {
  std::string data;  // more than the elements of one job
  for (int i = 0; i < 300'001; ++i) data += stored<std::int16_t>({static_cast<std::int16_t>(i % 30'000)});
  const auto tensor = open_tensor(npy_file("<i2", false, "(300001,)", data));
  const auto wide = tensor.cast<I32>().value();
  for (int i = 0; i < 300'001; ++i) ASSERT_EQ(wide(i), i % 30'000);
}

TEST_F(AnyTensors, cast_keeps_every_value) {
  const auto tensor = open_tensor(same_in_all_orders()[0]);
  const auto error = refusal(tensor.cast<BF16>(), ErrorCode::would_lose, "cast_keeps_every_value");
  EXPECT_EQ(error.tensor(), "t");
  EXPECT_NE(error.message().find("I16"), std::string_view::npos);
}

TEST_F(AnyTensors, cast_type_is_known) {
  const auto untyped = open_tensor(irpa_file({{.name = "t", .length = 5}}, "hello"));
  expect_refusal(untyped.cast<F32>(), ErrorCode::unsupported_encoding, "cast_type_is_known");
}

TEST_F(AnyTensors, dtype_is_known) {
  const auto untyped = open_tensor(irpa_file({{.name = "t", .length = 5}}, "hello"));
  EXPECT_FALSE(untyped.type().is_known());
  EXPECT_EQ(copied(untyped), "hello");
  const auto error = refusal(untyped.tensor<F32, Rank<1>>(), ErrorCode::dtype_mismatch, "dtype_is_known");
  EXPECT_NE(error.hint().find("bytes"), std::string_view::npos);
}

TEST_F(AnyTensors, dtype_is_dense) {
  const auto note =
      R"(TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [288], "encoding": "Q4_K", "logical_shape": [2, 256]})";
  const auto blocks =
      open_tensor(irpa_file({{.name = "t", .note = note, .length = 288}}, std::string(288, 'b')));
  EXPECT_TRUE(blocks.type().is_block_encoded());
  EXPECT_EQ(blocks.type().name, "Q4_K");
  EXPECT_EQ(blocks.type().block_elements, 256U);
  EXPECT_EQ(blocks.slice(1, 2)->bytes()->data(), blocks.bytes()->data() + 144);
  const auto error = refusal(blocks.copy<F32, Rank<2>>(), ErrorCode::dtype_mismatch, "dtype_is_dense");
  EXPECT_NE(error.message().find("Q4_K [2, 256] but F32 was requested"), std::string_view::npos);
}

TEST_F(AnyTensors, blocks_are_sliced_whole) {
  const auto note =
      R"(TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [288], "encoding": "Q4_K", "logical_shape": [512]})";
  const auto blocks =
      open_tensor(irpa_file({{.name = "t", .note = note, .length = 288}}, std::string(288, 'b')));
  EXPECT_EQ(blocks.slice(256, 512)->byte_size(), 144U);
  expect_refusal(blocks.slice(0, 100), ErrorCode::misaligned, "rows_are_whole_bytes_and_blocks");
  expect_refusal(blocks.slice(100, 512), ErrorCode::misaligned, "rows_are_whole_bytes_and_blocks");
}

TEST_F(AnyTensors, unknown_shapes_are_not_sliced) {
  const auto untyped = open_tensor(irpa_file({{.name = "t", .length = 5}}, "hello"));
  const auto error = refusal(untyped.slice(0, 1), ErrorCode::bad_shape, "sliced_tensors_have_rows");
  EXPECT_TRUE(testing::message_contains(error, "unknown shape"));
}

TEST_F(AnyTensors, dtype_matches_the_request) {
  const auto tensor = open_tensor(same_in_all_orders()[0]);
  const auto error =
      refusal(tensor.tensor<F32, Rank<2>>(), ErrorCode::dtype_mismatch, "dtype_matches_the_request");
  EXPECT_NE(error.message().find("I16 [3, 2] but F32 was requested"), std::string_view::npos);
  EXPECT_NE(error.hint().find("request I16"), std::string_view::npos);
}

TEST_F(AnyTensors, pages_are_fetched_for_a_part) {
  constexpr std::uint64_t begin = 100'000;
  constexpr std::uint64_t count = 200'000;
  write_file(path_, testing::noise_file("safetensors", {10, 100'000}));
  testing::FaultyPort port;
  const auto model = Model::open(path_, {.port = &port}).value();
  const auto tensor = model.at(1).value();
  ASSERT_TRUE(ModelAccess::fetch(tensor, begin, count));
  const auto regions = port.advised_regions();
  ASSERT_EQ(regions.size(), 1U);
  const Bytes part = tensor.bytes()->subspan(begin, count);
  EXPECT_LE(regions[0].data, part.data());
  EXPECT_GE(regions[0].data + regions[0].bytes, part.data() + count);
  EXPECT_LE(regions[0].bytes, count + 2 * port.page_bytes());
}

TEST_F(AnyTensors, pages_of_a_small_part_are_fetched_at_first_touch) {
  write_file(path_, testing::noise_file("safetensors", {10, 100'000}));
  testing::FaultyPort port;
  const auto model = Model::open(path_, {.port = &port}).value();
  EXPECT_TRUE(ModelAccess::fetch(model.at(1).value(), 399'999, 1));
  EXPECT_TRUE(port.advised_regions().empty());
}

TEST_F(AnyTensors, catalog_only_tensors_have_no_bytes) {
  write_file(path_, testing::noise_file("safetensors", {10}));
  const auto model = Model::open(path_, {.catalog_only = true}).value();
  EXPECT_EQ(model.at(0)->byte_size(), 40U);
  expect_refusal(model.at(0)->bytes(), ErrorCode::bad_state, "model_has_its_data");
}

}  // namespace
}  // namespace ht::any_tensor_test
