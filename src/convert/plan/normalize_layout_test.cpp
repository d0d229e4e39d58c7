#include "convert/plan/plan.hpp"
#include "model/relayout.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <htensor/integrity/seal.hpp>

#include "convert/convert_pairs_test.hpp"

namespace ht::normalize_layout_test {
namespace {

using testing::refusal;
using testing::some_data;
using testing::stored;

Entry big_blocks(const Encoding& encoding, std::span<const std::int64_t> dims) {
  return {.name = "t",
          .encoding = encoding.tag,
          .dims = dims,
          .byte_order = ByteOrder::big,
          .bytes = block_bytes(dims, encoding).value()};
}

std::string reordered(const Entry& entry, std::string data, std::size_t first = 0,
                      std::size_t count = std::string::npos) {
  const auto relayout = relayout_of(entry).value();
  std::string to(std::min(count, data.size() - first), '?');
  const auto read = [&](std::uint64_t nth, MutableBytes units) -> Result<void> {
    copy_units(units, bytes_of(data), *relayout, nth);
    return {};
  };
  EXPECT_TRUE(relayout_into({reinterpret_cast<std::byte*>(to.data()), to.size()}, *relayout, first, read));
  return to;
}

TEST(Relayout, reads_few_units_of_a_column_major_tensor_at_once) {
  constexpr std::size_t units = 3 * max_scattered_units + 5;
  std::vector<std::byte> to(2 * units - 1);
  Relayout relayout{.unit_bytes = 2, .numbers = {}, .column_major = {units, 1}};
  std::size_t calls = 0;
  const auto read = [&](std::uint64_t, MutableBytes bytes) -> Result<void> {
    EXPECT_LE(bytes.size(), 2 * max_scattered_units);
    return ++calls == 3 ? fail(Error(ErrorCode::cancelled)) : Result<void>();
  };
  EXPECT_EQ(relayout_into(to, relayout, 1, read).error().code(), ErrorCode::cancelled);
  EXPECT_EQ(calls, 3U);
  relayout.column_major.clear();
  EXPECT_TRUE(
      relayout_into(std::span(to).first(2 * (units - 1)), relayout, 0, [](std::uint64_t, MutableBytes bytes) {
        EXPECT_EQ(bytes.size(), 2 * (units - 1)) << "row-major units are adjacent";
        return Result<void>();
      }));
}

TEST(Relayout, is_null_for_row_major_little_endian_tensors) {
  const std::int64_t matrix[] = {2, 2};
  const std::int64_t none[] = {0, 2};
  const Entry plain{.name = "t", .dtype = F32::tag, .dims = matrix, .bytes = 16};
  EXPECT_EQ(relayout_of(plain).value(), nullptr);
  auto bytes = plain;
  bytes.dtype = U8::tag;
  bytes.bytes = 4;
  bytes.byte_order = ByteOrder::big;
  EXPECT_EQ(relayout_of(bytes).value(), nullptr) << "elements of one byte have no byte order";
  auto row = plain;
  row.dims = std::span(matrix).first(1);
  row.bytes = 8;
  row.order = ElementOrder::column_major;
  EXPECT_EQ(relayout_of(row).value(), nullptr) << "one dimension has one order";
  auto empty = plain;
  empty.dims = none;
  empty.bytes = 0;
  empty.byte_order = ByteOrder::big;
  EXPECT_EQ(relayout_of(empty).value(), nullptr);
}

TEST(Relayout, byte_swaps_elements_of_every_size) {
  const std::int64_t two[] = {2};
  const auto entry = [&](DTypeTag dtype, std::uint64_t bytes) {
    return Entry{.name = "t", .dtype = dtype, .dims = two, .byte_order = ByteOrder::big, .bytes = bytes};
  };
  EXPECT_EQ(reordered(entry(BF16::tag, 4), "abcd"), "badc");
  EXPECT_EQ(reordered(entry(F32::tag, 8), "abcdefgh"), "dcbahgfe");
  EXPECT_EQ(reordered(entry(I64::tag, 16), "abcdefghijklmnop"), "hgfedcbaponmlkji");
  EXPECT_EQ(reordered(entry(C64::tag, 16), "abcdefghijklmnop"), "dcbahgfelkjiponm")
      << "each element has two numbers";
}

TEST(Relayout, transposes_column_major_tensors) {
  const std::int64_t dims[] = {2, 3};
  Entry entry{.name = "t",
              .dtype = I16::tag,
              .dims = dims,
              .order = ElementOrder::column_major,
              .byte_order = ByteOrder::big,
              .bytes = 12};
  EXPECT_EQ(reordered(entry, stored<std::int16_t>({1, 4, 2, 5, 3, 6}, true)),
            stored<std::int16_t>({1, 2, 3, 4, 5, 6}));
  entry.byte_order = ByteOrder::little;
  EXPECT_EQ(reordered(entry, stored<std::int16_t>({1, 4, 2, 5, 3, 6})),
            stored<std::int16_t>({1, 2, 3, 4, 5, 6}));
}

// The offsets of the scales are those of ggml's structs.
TEST(Relayout, byte_swaps_only_the_scales_of_blocks) {
  struct Case {
    std::string_view encoding;
    std::vector<std::size_t> f16_offsets;
  };
  const Case cases[] = {{"Q4_0", {0}},      {"Q4_1", {0, 2}},   {"Q8_0", {0}},
                        {"Q2_K", {80, 82}}, {"Q4_K", {0, 2}},   {"Q5_K", {0, 2}},
                        {"Q6_K", {208}},    {"IQ4_XS", {0, 2}}, {"TQ1_0", {52}}};
  for (const auto& [name, f16_offsets] : cases) {
    SCOPED_TRACE(name);
    const auto encoding = find_encoding(name).value();
    const std::int64_t dims[] = {3, encoding.block_elements};
    const auto data = some_data(std::uint64_t{3} * encoding.block_bytes, 7);
    auto expected = data;
    for (std::size_t block = 0; block < data.size(); block += encoding.block_bytes) {
      for (const auto at : f16_offsets) std::swap(expected[block + at], expected[block + at + 1]);
    }
    EXPECT_EQ(reordered(big_blocks(encoding, dims), data), expected);
  }
  // Blocks that contain only bytes are the same in both byte orders.
  const auto bytes = find_encoding("MXFP4").value();
  const std::int64_t dims[] = {3, bytes.block_elements};
  EXPECT_EQ(relayout_of(big_blocks(bytes, dims)).value(), nullptr);
}

RC_GTEST_PROP(Relayout, any_range_equals_the_same_range_of_the_whole, ()) {
  const auto encoding = find_encoding(*rc::gen::element<std::string_view>("Q4_0", "Q6_K")).value();
  const std::int64_t rows[] = {2, encoding.block_elements};
  const std::int64_t cube[] = {3, 4, 5};
  const Entry columns{.name = "t",
                      .dtype = F32::tag,
                      .dims = cube,
                      .order = ElementOrder::column_major,
                      .byte_order = ByteOrder::big,
                      .bytes = 240};
  const Entry entry = *rc::gen::arbitrary<bool>() ? columns : big_blocks(encoding, rows);
  const auto data = some_data(entry.bytes, 3);
  const auto first = *rc::gen::inRange<std::size_t>(0, data.size());
  const auto count = *rc::gen::inRange<std::size_t>(0, data.size() - first + 1);
  RC_ASSERT(reordered(entry, data, first, count) == reordered(entry, data).substr(first, count));
}

class ConvertRelayout : public testing::ConvertPairs {
 protected:
  // Larger than a piece of the copy, with rows that are split between pieces.
  Model large_columns() {
    return opened("t.npy", testing::npy_file(">f4", true, "(1500, 1001)", some_data(6'006'000, 5)));
  }
};

TEST_F(ConvertRelayout, large_tensors_are_equal_at_any_offset) {
  const auto columns = large_columns();
  for (const std::string to : {"safetensors", "irpa", "gguf", "ht"}) {
    const auto target = folder_ / ("t." + to);
    const auto done = convert(columns, target, {}, {.seal = true});
    ASSERT_TRUE(done) << to_string(done.error());
    EXPECT_EQ(done->copied_by.direct + done->copied_by.read_write, 6'006'000U);
    const auto model = Model::open(target).value();
    EXPECT_TRUE(ht::verify(model)) << to;
    expect_same(columns, model);
  }
}

TEST_F(ConvertRelayout, normalizes_the_layout_on_request) {
  const auto encoding = find_encoding("Q4_K").value();
  const auto gguf = make_model(
      "big.gguf", "gguf",
      {{.name = "odd", .dtype = I8::tag, .dims = {3}, .data = "abc", .byte_order = ByteOrder::big},
       {.name = "f", .dtype = F64::tag, .dims = {2}, .data = some_data(16, 1), .byte_order = ByteOrder::big},
       {.name = "q",
        .dims = {2, 256},
        .data = some_data(288, 2),
        .encoding = encoding.tag,
        .byte_order = ByteOrder::big}});
  const auto little = converted(gguf, "gguf", "little", {.normalize_layout = true}).value();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(little.model.catalog()[i].byte_order, ByteOrder::little);
  expect_same(gguf, little.model);
  const auto rows = converted(large_columns(), "npy", "rows", {.normalize_layout = true}).value();
  EXPECT_EQ(rows.model.catalog()[0].order, ElementOrder::row_major);
  EXPECT_EQ(rows.model.catalog()[0].byte_order, ByteOrder::little);
  expect_same(large_columns(), rows.model);
}

TEST_F(ConvertRelayout, gguf_has_one_byte_order) {
  const std::int64_t one[] = {1};
  CatalogBuilder builder("gguf");
  for (const auto order : {ByteOrder::big, ByteOrder::little}) {
    ASSERT_TRUE(builder.add({.name = order == ByteOrder::big ? "big" : "little",
                             .dtype = F32::tag,
                             .dims = one,
                             .byte_order = order,
                             .bytes = 4}));
  }
  const auto plan = plan_from(std::move(builder).build().value(), {}, "x.gguf", {});
  ASSERT_TRUE(plan) << to_string(plan.error());
  EXPECT_TRUE(std::holds_alternative<PartOrigin::Reordered>(plan->files[0].parts[0].from));
  EXPECT_TRUE(std::holds_alternative<PartOrigin::Stored>(plan->files[0].parts[1].from));
}

TEST_F(ConvertRelayout, normalizes_tensors_that_become_raw_bytes) {
  const auto encoding = find_encoding("Q4_0").value();
  const auto gguf = make_model("big.gguf", "gguf",
                               {{.name = "q",
                                 .dims = {1, 32},
                                 .data = "xy" + std::string(16, 'q'),
                                 .encoding = encoding.tag,
                                 .byte_order = ByteOrder::big}});
  const auto intermediate = converted(gguf, "safetensors", "q").value();
  EXPECT_TRUE(intermediate.lost_tensors.contains("q"));
  const auto plain =
      make_model("plain", "safetensors",
                 {{.name = "q", .dtype = U8::tag, .dims = {18}, .data = "yx" + std::string(16, 'q')}});
  expect_same(intermediate.model, plain);
}

TEST_F(ConvertRelayout, byte_swaps_tensors_that_become_raw_bytes_once) {
  const auto numbers =
      opened("t.npy", testing::npy_file(">u4", true, "(2, 2)", stored<std::uint32_t>({1, 3, 2, 4}, true)));
  const auto intermediate = converted(numbers, "gguf", "t").value();
  EXPECT_TRUE(intermediate.lost_tensors.contains("t"));
  const auto raw = intermediate.model.storage("t").value();
  EXPECT_TRUE(std::ranges::equal(raw.bytes(), bytes_of(stored<std::uint32_t>({1, 2, 3, 4}))));
}

TEST_F(ConvertRelayout, reports_a_source_truncated_after_planning) {
  const auto columns = large_columns();
  const auto plan = plan_conversion(columns, folder_ / "x.irpa").value();
  std::filesystem::resize_file(folder_ / "t.npy", 4096);
  const auto done = apply(plan, columns);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::changed_underfoot) << to_string(done.error());
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"t.npy"}));
}

}  // namespace
}  // namespace ht::normalize_layout_test
