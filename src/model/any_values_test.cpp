#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <htensor/format/format.hpp>
#include <htensor/model/any_tensor.hpp>
#include <htensor/model/model.hpp>
#include <htensor/values/cast.hpp>

#include "dtype/block_numbers.hpp"
#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::any_values_test {
namespace {

using testing::expect_refusal;
using testing::irpa_file;
using testing::npy_file;
using testing::refusal;
using testing::stored;
using testing::write_file;

class AnyValues : public ::testing::Test {
 protected:
  AnyTensor open_tensor(const std::vector<std::byte>& file) {
    write_file(path_, file);
    auto model = Model::open(path_);
    EXPECT_TRUE(model) << to_string(model.error());
    return model.value().at(0).value();
  }

  // Returns the tensor of a GGUF file, with two rows of one block each.
  AnyTensor blocks(std::string_view encoding, const std::vector<std::byte>& data,
                   ByteOrder order = ByteOrder::little) {
    const auto found = find_encoding(encoding).value();
    const std::int64_t dims[] = {2, found.block_elements};
    CatalogBuilder builder("gguf");
    EXPECT_TRUE(builder.add(
        {.name = "t", .encoding = found.tag, .dims = dims, .byte_order = order, .bytes = data.size()}));
    const auto encoded = encode("gguf", std::move(builder).build().value());
    EXPECT_TRUE(encoded) << to_string(encoded.error());
    auto file = encoded->header;
    file.resize(static_cast<std::size_t>(encoded->file_bytes));
    std::ranges::copy(data, file.begin() + static_cast<std::ptrdiff_t>(encoded->offsets[0].value()));
    return open_tensor(file);
  }

  // Noise as two Q4_0 blocks, each of which begins with the scale 1.
  static std::vector<std::byte> noise_of_q4_0() {
    auto data = testing::noise(36, 3);
    for (const std::size_t block : {0U, 18U}) {
      data[block] = std::byte{0};
      data[block + 1] = std::byte{0x3C};
    }
    return data;
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t";
};

template <class Range>
std::vector<double> doubles(const Range& values) {
  std::vector<double> result;
  for (const auto value : values) result.push_back(static_cast<double>(value));
  return result;
}

TEST_F(AnyValues, blocks_are_decoded) {
  const auto tensor = blocks("Q4_0", noise_of_q4_0());
  const auto typed = tensor.tensor<Q4_0, Rank<2>>().value();
  EXPECT_EQ(typed.bytes().data(), tensor.bytes()->data());
  const auto expected = doubles(cast<F32>(typed).value());
  EXPECT_EQ(doubles(tensor.cast<F32>().value()), expected);
  EXPECT_EQ(doubles(tensor.cast<F64>().value()), expected);
  EXPECT_TRUE(std::ranges::any_of(expected, [](double value) { return value != 0; }));
  // Decodes only the second row.
  const auto second = tensor.slice(1, 2).value();
  EXPECT_EQ(doubles(second.cast<F32>().value()), std::vector<double>(expected.begin() + 32, expected.end()));
  EXPECT_EQ(doubles(cast<F32>(typed.slice(1, 2).value()).value()), doubles(second.cast<F32>().value()));
  EXPECT_EQ(doubles(cast<F32>(typed.select(1).value()).value()), doubles(second.cast<F32>().value()));
}

TEST_F(AnyValues, blocks_convert_only_to_dtypes_that_hold_f32) {
  const auto tensor = blocks("Q4_0", noise_of_q4_0());
  const auto error = refusal(tensor.cast<BF16>(), ErrorCode::would_lose, "cast_keeps_every_value");
  EXPECT_TRUE(testing::message_contains(error, "Q4_0")) << error.message();
  const auto rounded = cast_lossy<BF16>(tensor.tensor<Q4_0, Rank<2>>().value()).value();
  EXPECT_EQ(rounded.elements(), 64);
}

TEST_F(AnyValues, encoding_matches_the_request) {
  const auto tensor = blocks("Q4_0", noise_of_q4_0());
  const auto error =
      refusal(tensor.tensor<Q8_0, Rank<2>>(), ErrorCode::dtype_mismatch, "encoding_matches_the_request");
  EXPECT_TRUE(testing::message_contains(error, "Q4_0 [2, 32] but Q8_0")) << error.message();
  EXPECT_EQ((tensor.tensor<Q4_0, Rank<1>>().error().code()), ErrorCode::shape_mismatch);
  const auto dense = open_tensor(npy_file("<f4", false, "(2,)", stored<float>({1, 2})));
  expect_refusal(dense.tensor<Q4_0, Rank<1>>(), ErrorCode::dtype_mismatch, "encoding_matches_the_request");
}

TEST_F(AnyValues, blocks_are_equal_in_either_byte_order) {
  for (int tag = 1; tag <= UINT8_MAX; ++tag) {
    const auto encoding = find_encoding(static_cast<EncodingTag>(tag));
    if (!encoding) continue;
    SCOPED_TRACE(encoding->name);
    const auto data = testing::noise(std::size_t{2} * encoding->block_bytes, 5);
    auto swapped = data;
    for (const std::size_t block : {std::size_t{0}, std::size_t{encoding->block_bytes}}) {
      for (const auto& number : numbers_of_block(encoding->tag))
        std::ranges::reverse(std::span(swapped).subspan(block + number.offset, number.bytes));
    }
    const auto little = blocks(encoding->name, data).cast<F32>().value();
    const auto big_tensor = blocks(encoding->name, swapped, ByteOrder::big);
    const auto big = big_tensor.cast<F32>().value();
    // Compares bits, because some of the noise decodes to NaN.
    EXPECT_TRUE(std::ranges::equal(little.bytes().value(), big.bytes().value()));
  }
}

TEST_F(AnyValues, blocks_are_in_native_order) {
  const auto tensor = blocks("Q4_0", noise_of_q4_0(), ByteOrder::big);
  expect_refusal(tensor.tensor<Q4_0, Rank<2>>(), ErrorCode::unsupported_encoding,
                 "blocks_are_in_native_order");
}

TEST_F(AnyValues, can_be_read_from_any_element_on) {
  const auto tensor = blocks("Q4_0", noise_of_q4_0());
  const auto all = doubles(tensor.cast<F32>().value());
  for (std::size_t first = 0; first <= all.size(); first += 7) {
    for (std::size_t count = 0; first + count <= all.size(); count += 9) {
      std::vector<double> part(count, -1);
      ASSERT_TRUE(tensor.read_values(part, static_cast<std::int64_t>(first)));
      EXPECT_TRUE(std::ranges::equal(part, std::span(all).subspan(first, count))) << first << " " << count;
    }
  }
}

TEST_F(AnyValues, values_are_within_the_tensor) {
  const auto tensor = open_tensor(npy_file("<f4", false, "(3,)", stored<float>({1, 2, 3})));
  std::vector<double> three(3);
  EXPECT_TRUE(tensor.read_values(three));
  const auto outside = tensor.read_values(three, 1);
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().rule(), "values_are_within_the_tensor");
  EXPECT_FALSE(tensor.read_values(three, -1));
}

TEST_F(AnyValues, have_statistics_in_every_order) {
  const auto orders = {npy_file("<i2", false, "(3, 2)", stored<std::int16_t>({1, 2, 3, 4, 5, -6})),
                       npy_file("<i2", true, "(3, 2)", stored<std::int16_t>({1, 3, 5, 2, 4, -6})),
                       npy_file(">i2", false, "(3, 2)", stored<std::int16_t>({1, 2, 3, 4, 5, -6}, true)),
                       npy_file(">i2", true, "(3, 2)", stored<std::int16_t>({1, 3, 5, 2, 4, -6}, true))};
  for (const auto& file : orders) {
    const auto found = statistics(open_tensor(file)).value();
    EXPECT_EQ(found.count, 6U);
    EXPECT_EQ(found.sum, 9.0);
    EXPECT_EQ(found.min, -6.0);
    EXPECT_EQ(found.argmin, 5U);
    EXPECT_EQ(found.max, 5.0);
    EXPECT_EQ(found.argmax, 4U);
  }
}

TEST_F(AnyValues, splats_count_as_if_stored) {
  const auto tensor = open_tensor(irpa_file({{.name = "t",
                                              .note = testing::tensor_note("float32", "[100]"),
                                              .length = 400,
                                              .pattern = stored<float>({0.5F})}},
                                            ""));
  const auto found = statistics(tensor).value();
  EXPECT_EQ(found.count, 100U);
  EXPECT_EQ(found.sum, 50.0);
  EXPECT_EQ(found.standard_deviation(), 0.0);
  EXPECT_EQ(histogram(tensor, {.low = 0, .high = 1, .bins = 2})->counts,
            (std::vector<std::uint64_t>{0, 100}));
}

TEST_F(AnyValues, values_are_real_numbers) {
  const auto complex = open_tensor(npy_file("<c8", false, "(1,)", stored<float>({1, 2})));
  expect_refusal(statistics(complex), ErrorCode::unsupported_encoding, "values_are_real_numbers");
  const auto untyped = open_tensor(irpa_file({{.name = "t", .length = 5}}, "hello"));
  expect_refusal(statistics(untyped), ErrorCode::unsupported_encoding, "values_are_real_numbers");
}

}  // namespace
}  // namespace ht::any_values_test
