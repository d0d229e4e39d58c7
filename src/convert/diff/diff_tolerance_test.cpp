#include <cmath>
#include <limits>

#include "convert/diff/diff_test.hpp"

namespace ht::diff_tolerance_test {
namespace {

using testing::Diff;
using testing::refusal;
using testing::stored;

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST_F(Diff, elements_within_the_tolerance_are_equal) {
  const auto a = one("a", F32::tag, {3}, stored<float>({1, 2, 3}));
  const auto b = one("b", F32::tag, {3}, stored<float>({1.25F, 2, 2.5F}));
  expect_same(a, b, 0.5);
  EXPECT_EQ(brief(difference(a, b, 0.375)), (Differences::Tensor{"t", Differences::Kind::contents, 8, 0.5}));
  EXPECT_EQ(brief(difference(a, b, 0.0)), (Differences::Tensor{"t", Differences::Kind::contents, 0, 0.5}));
}

TEST_F(Diff, tolerance_of_zero_accepts_equal_values) {
  expect_same(one("a", F32::tag, {2}, stored<float>({0.0F, 1})),
              one("b", F32::tag, {2}, stored<float>({-0.0F, 1})), 0.0);
}

TEST_F(Diff, infinity_equals_only_itself) {
  const auto a = one("a", F32::tag, {2}, stored<float>({infinity, -infinity}));
  expect_same(a, one("b", F64::tag, {2}, stored<double>({double{infinity}, double{-infinity}})), 0.0);
  const auto c = one("c", F32::tag, {2}, stored<float>({infinity, infinity}));
  const auto d = one("d", F32::tag, {2}, stored<float>({infinity, -3e38F}));
  EXPECT_EQ(brief(difference(a, c, 1e300)),
            (Differences::Tensor{"t", Differences::Kind::contents, 4, infinity}));
  EXPECT_EQ(difference(a, d, 1e300).max_abs, infinity);
}

TEST_F(Diff, floating_dtypes_may_differ_within_a_tolerance) {
  const auto wide = one("a", F64::tag, {2}, stored<double>({1, 2.001}));
  const auto half = one("b", F16::tag, {2}, stored<std::uint16_t>({0x3C00, 0x4000}));
  const auto brain = one("c", BF16::tag, {2}, stored<std::uint16_t>({0x3F80, 0x4000}));
  const auto small = one("d", F8_E4M3::tag, {2}, stored<std::uint8_t>({0x38, 0x40}));
  for (const auto* const other : {&half, &brain, &small}) {
    expect_same(wide, *other, 0.01);
    const auto far = difference(wide, *other, 0.0001);
    EXPECT_EQ(far.why, Differences::Kind::contents);
    EXPECT_EQ(far.first_byte, 8U);
    EXPECT_NEAR(far.max_abs.value(), 0.001, 1e-9);
  }
  expect_same(half, brain, 0.0);
  // A tolerance does not allow an integer dtype and a floating-point dtype.
  const auto whole = one("e", I32::tag, {2}, stored<std::int32_t>({1, 2}));
  EXPECT_EQ(brief(difference(whole, half, 1.0)),
            (Differences::Tensor{"t", Differences::Kind::dtype, {}, 0.0}));
  const auto shaped = one("f", F32::tag, {1, 2}, stored<float>({1, 2}));
  EXPECT_EQ(difference(shaped, half, 1.0).why, Differences::Kind::shape);
  EXPECT_EQ(difference(shaped, half).why, Differences::Kind::dtype);
}

TEST_F(Diff, integers_and_booleans_are_numbers) {
  expect_same(one("a", U8::tag, {2}, std::string("\xFF\x00", 2)), one("b", U8::tag, {2}, "\xFE\x01"), 1.0);
  const auto yes = one("c", Bool::tag, {1}, "\x01");
  EXPECT_EQ(difference(yes, one("d", Bool::tag, {1}, std::string(1, '\0'))).max_abs, 1.0);
  // Another byte that also means true.
  EXPECT_EQ(difference(yes, one("e", Bool::tag, {1}, "\x02")).max_abs, 0.0);
}

// Blocks of Q4_0: a scale and 16 bytes, whose low halves are the first 16 elements.
TEST_F(Diff, blocks_are_compared_by_their_values) {
  const auto blocks = [&](std::string_view name, char last) {
    // The scale 0x3C00 is 1. The byte 0x88 has two zeros, 0x89 a one and a zero.
    return make_model(name, "gguf",
                      {{.name = "t",
                        .dims = {1, 32},
                        .data = std::string("\x00\x3C", 2) + std::string(15, '\x89') + last,
                        .encoding = find_encoding("Q4_0").value().tag}});
  };
  const auto a = blocks("a", '\x89');
  const auto b = blocks("b", '\x8B');
  expect_same(a, b, 2.0);
  expect_same(a, blocks("c", '\x89'), 0.5);
  const auto found = difference(a, b, 0.5);
  EXPECT_EQ(found.why, Differences::Kind::contents);
  EXPECT_EQ(found.max_abs, 2.0);
  EXPECT_EQ(found.rms, std::sqrt(4.0 / 32));
  // 16 ones against 15 ones and a three; the other 16 are zeros.
  EXPECT_NEAR(found.cosine.value(), 18.0 / (4 * std::sqrt(24.0)), 1e-12);
  // Without a tolerance, bytes decide, and the distance is still reported.
  EXPECT_EQ(difference(a, b).first_byte, 17U);
  EXPECT_EQ(difference(a, b).max_abs, 2.0);
}

TEST_F(Diff, encodings_are_compared_with_dense_tensors) {
  const auto blocks = make_model("a", "gguf",
                                 {{.name = "t",
                                   .dims = {1, 32},
                                   .data = std::string("\x00\x3C", 2) + std::string(16, '\x79'),
                                   .encoding = find_encoding("Q4_0").value().tag}});
  std::string floats;
  for (int i = 0; i < 32; ++i) floats += stored<float>({i < 16 ? 1.0F : -1.0F});
  const auto same =
      make_model("b", "safetensors", {{.name = "t", .dtype = F32::tag, .dims = {1, 32}, .data = floats}});
  expect_same(blocks, same, 0.0);
  const auto found = difference(blocks, same);
  EXPECT_EQ(found.why, Differences::Kind::dtype);
  EXPECT_EQ(found.max_abs, 0.0);
  EXPECT_EQ(found.rms, 0.0);
  EXPECT_NEAR(found.cosine.value(), 1.0, 1e-12);
}

TEST_F(Diff, blocks_of_the_other_byte_order_are_byte_swapped) {
  const auto blocks = [&](std::string_view name, std::string_view encoding, ByteOrder order,
                          const std::string& scale) {
    const auto found = find_encoding(encoding).value();
    return make_model(name, "gguf",
                      {{.name = "t",
                        .dims = {1, found.block_elements},
                        .data = scale + std::string(found.block_bytes - scale.size(), 'q'),
                        .encoding = found.tag,
                        .byte_order = order}});
  };
  const auto big = blocks("a", "Q4_0", ByteOrder::big, "xy");
  expect_same(big, blocks("b", "Q4_0", ByteOrder::big, "xy"));
  expect_same(big, blocks("c", "Q4_0", ByteOrder::little, "yx"));
  EXPECT_EQ(difference(big, blocks("d", "Q4_0", ByteOrder::little, "xy")).first_byte, 0U);
  // The 32-bit word after the scale of Q5_0 is byte-swapped, too.
  expect_same(blocks("e", "Q5_0", ByteOrder::big, "xyabcd"),
              blocks("f", "Q5_0", ByteOrder::little, "yxdcba"));
}

TEST_F(Diff, tolerance_is_finite_and_not_negative) {
  const auto a = one("a", U8::tag, {1}, "x");
  for (const double wrong :
       {-1.0, -std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    const auto error = refusal(diff(a, a, {.tolerance = wrong}), ErrorCode::out_of_bounds,
                               "tolerance_is_finite_and_not_negative");
  }
  EXPECT_TRUE(diff(a, a, {.tolerance = -0.0}));
}

}  // namespace
}  // namespace ht::diff_tolerance_test
