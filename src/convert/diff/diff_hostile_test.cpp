// Empty, packed, huge and truncated tensors, user-defined dtypes, and comparisons that are stopped.
#include <algorithm>
#include <atomic>
#include <htensor/load/load.hpp>
#include <stop_token>

#include "convert/diff/diff_test.hpp"
#include "testing/faulty_port.hpp"

namespace ht::diff_hostile_test {
namespace {

using testing::Call;
using testing::Diff;
using testing::FaultyPort;
using testing::irpa_file;
using testing::stored;
using testing::tensor_note;

// Elements of a tensor that is compared in several runs.
constexpr std::int64_t large = 2'500'000;

std::string f32_data(std::int64_t elements) {
  std::string data(static_cast<std::size_t>(elements) * 4, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 % 61);
  return data;
}

TEST_F(Diff, empty_models_and_tensors_are_equal) {
  const auto none = make_model("a", "safetensors", {});
  expect_same(none, make_model("b", "gguf", {}));
  const auto empty = one("c", F32::tag, {3, 0}, "");
  expect_same(empty, one("d", F32::tag, {3, 0}, ""), 0.0);
  EXPECT_EQ(difference(empty, one("e", F32::tag, {0, 3}, "")).why, Differences::Kind::shape);
  EXPECT_EQ(brief(difference(empty, one("f", F16::tag, {3, 0}, ""))),
            (Differences::Tensor{"t", Differences::Kind::dtype, {}, 0.0}));
  EXPECT_EQ(compared(none, empty).only_b, (std::vector<std::string>{"t"}));
}

TEST_F(Diff, a_tensor_without_dimensions_has_one_element) {
  const auto a = one("a", F32::tag, {}, stored<float>({1}));
  expect_same(a, one("b", F32::tag, {}, stored<float>({1})));
  EXPECT_EQ(difference(a, one("c", F32::tag, {}, stored<float>({4}))).max_abs, 3.0);
  EXPECT_EQ(difference(a, one("d", F32::tag, {1}, stored<float>({1}))).why, Differences::Kind::shape);
}

TEST_F(Diff, ignores_padding_bits_of_the_last_byte) {
  const auto odd = [&](std::string_view name, DTypeTag dtype, std::int64_t count, std::string data) {
    return make_model(name, "ht", {{.name = "t", .dtype = dtype, .dims = {count}, .data = std::move(data)}});
  };
  // Codes of F4: 2 is 1.0, 4 is 2.0.
  const auto a = odd("a.ht", F4::tag, 3, "\x42\x02");
  expect_same(a, odd("b.ht", F4::tag, 3, "\x42\x72"));
  expect_same(a, odd("c.ht", F4::tag, 3, "\x42\x72"), 0.0);
  const auto d = odd("d.ht", F4::tag, 3, "\x42\x04");
  EXPECT_EQ(brief(difference(a, d)), (Differences::Tensor{"a", Differences::Kind::contents, 1, 1.0}));
  EXPECT_EQ(brief(difference(a, d, 0.5)), (Differences::Tensor{"a", Differences::Kind::contents, 1, 1.0}));
  expect_same(a, d, 1.0);
  // Three elements of 6 bits: the last one ends after two bits of the third byte.
  const auto e = odd("e.ht", F6_E3M2::tag, 3, std::string("\x00\x00\x01", 3));
  expect_same(e, odd("f.ht", F6_E3M2::tag, 3, std::string("\x00\x00\xFD", 3)));
  EXPECT_EQ(difference(e, odd("g.ht", F6_E3M2::tag, 3, std::string("\x00\x00\x03", 3))).first_byte, 2U);
  expect_same(odd("h.ht", I4::tag, 1, "\x0F"), odd("i.ht", I4::tag, 1, "\xFF"));
}

TEST_F(Diff, large_tensors_are_compared_in_runs) {
  auto data = f32_data(large);
  const auto a = one("a", F32::tag, {large}, data);
  expect_same(a, one("b", F32::tag, {large}, data));
  // Changes bytes in several runs, including the last byte.
  for (const std::size_t at : {std::size_t{9'000'001}, std::size_t{5'000'002}, data.size() - 1})
    data[at] ^= 1;
  const auto b = one("b", F32::tag, {large}, data);
  EXPECT_EQ(difference(a, b).first_byte, 5'000'002U);
  const auto gap = difference(a, b).max_abs.value();
  EXPECT_GT(gap, 0);
  expect_same(a, b, gap);
  EXPECT_EQ(difference(a, b, gap / 1e6).first_byte.value() % 4, 0U);
}

TEST_F(Diff, large_column_major_and_big_endian_tensors_are_compared_in_runs) {
  const std::int64_t rows = 1000;
  const std::int64_t columns = 1100;
  std::vector<float> by_rows(static_cast<std::size_t>(rows * columns));
  std::vector<float> by_columns(by_rows.size());
  for (std::size_t i = 0; i < by_rows.size(); ++i) {
    by_rows[i] = static_cast<float>(i);
    by_columns[i % 1100 * 1000 + i / 1100] =
        std::bit_cast<float>(__builtin_bswap32(std::bit_cast<std::uint32_t>(by_rows[i])));
  }
  const auto text = [](const std::vector<float>& numbers) {
    return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
  };
  const auto plain = one("a", F32::tag, {rows, columns}, text(by_rows));
  expect_same(plain, opened("t.npy", testing::npy_file(">f4", true, "(1000, 1100)", text(by_columns))));
  by_columns[1'099'998] = 0;  // in the last column, the row before the last
  const auto other = opened("t.npy", testing::npy_file(">f4", true, "(1000, 1100)", text(by_columns)));
  EXPECT_EQ(difference(plain, other).first_byte.value() / 4, 998U * 1100 + 1099);
}

TEST_F(Diff, splats_of_any_size_are_compared_by_pattern) {
  const auto splat = [&](std::string_view name, std::string pattern) {
    return opened(name, irpa_file({{.name = "t",
                                    .note = tensor_note("uint8", "[4611686018427387904]"),
                                    .length = std::uint64_t{1} << 62,
                                    .pattern = std::move(pattern)}}));
  };
  const auto a = splat("a", "abab");
  expect_same(a, splat("b", "ab"));
  EXPECT_EQ(brief(difference(a, splat("c", "abac"))),
            (Differences::Tensor{"t", Differences::Kind::contents, 3, 1.0}));
}

TEST_F(Diff, custom_dtypes_are_compared_by_bytes) {
  const DTypeInfo own{user_tag(3), "OWN", 24};
  const OpenOptions options{.dtypes = {own}};
  const auto with = [&](std::string_view name, std::string data, const OpenOptions& open_options) {
    return make_model(name, "ht", {{.name = "t", .dtype = own.tag, .dims = {2}, .data = std::move(data)}}, {},
                      open_options);
  };
  // The encoder does not know the width of the dtype and stores any number of bytes.
  const auto a = with("a.ht", "abcdef", options);
  expect_same(a, with("b.ht", "abcdef", options));
  EXPECT_EQ(brief(difference(a, with("c.ht", "abcdeX", options))),
            (Differences::Tensor{"a", Differences::Kind::contents, 5, {}}));
  EXPECT_EQ(difference(a, with("c.ht", "abcdeX", options), 1000.0).why, Differences::Kind::contents);
  // The other model has another dtype for the same tag.
  const OpenOptions others{.dtypes = {DTypeInfo{own.tag, "OTHER", 24}}};
  EXPECT_EQ(difference(a, with("d.ht", "abcdef", others)).why, Differences::Kind::dtype);
}

TEST_F(Diff, file_truncated_before_the_comparison_is_an_error) {
  for (const auto left : {std::uint64_t{4096}, std::uint64_t{100}}) {
    for (const std::int64_t elements : {std::int64_t{20}, large}) {
      const auto a = one("a", F32::tag, {elements}, f32_data(elements));
      const auto b = one("b", F32::tag, {elements}, f32_data(elements));
      std::filesystem::resize_file(folder_ / "b", left);
      for (const auto& found : {diff(a, b), diff(b, a), diff(b, b), diff(a, b, {.tolerance = 1.0})}) {
        ASSERT_FALSE(found);
        EXPECT_EQ(found.error().code(), ErrorCode::changed_underfoot) << to_string(found.error());
        EXPECT_EQ(found.error().path(), (folder_ / "b").string());
      }
    }
  }
}

TEST_F(Diff, file_truncated_during_the_comparison_is_an_error) {
  for (const std::int64_t elements : {std::int64_t{20'000}, large}) {
    FaultyPort port;
    const auto data = f32_data(elements);
    const std::vector<testing::TestTensor> tensors{
        {.name = "t", .dtype = F32::tag, .dims = {elements}, .data = data}};
    const auto a = make_model("a", "safetensors", tensors, {}, {.port = &port});
    const auto b = make_model("b", "safetensors", tensors, {}, {.port = &port});
    std::atomic<bool> cut = false;
    port.before_each([&](Call call, int) {
      if (call == Call::advise && !cut.exchange(true)) std::filesystem::resize_file(folder_ / "b", 4096);
    });
    const auto found = diff(a, b);
    port.before_each({});
    EXPECT_TRUE(cut);
    ASSERT_FALSE(found);
    EXPECT_TRUE(found.error().code() == ErrorCode::changed_underfoot ||
                found.error().code() == ErrorCode::read_failed)
        << to_string(found.error());
  }
}

TEST_F(Diff, loaded_tensors_are_compared_without_the_file) {
  const auto a = one("a", F32::tag, {large}, f32_data(large));
  const auto b = one("b", F32::tag, {large}, f32_data(large));
  ASSERT_TRUE(ht::load(b, {.strategy = io::Strategy::Kind::read}));
  std::filesystem::resize_file(folder_ / "b", 0);
  expect_same(a, b);
}

TEST_F(Diff, work_is_completed) {
  const auto a = one("a", F32::tag, {large}, f32_data(large));
  const auto b = one("b", F32::tag, {large}, f32_data(large));
  std::stop_source stop;
  stop.request_stop();
  const auto found = diff(a, b, {.work = {.stop = stop.get_token()}});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(found.error().rule(), "work_is_completed");
}

TEST_F(Diff, reports_progress) {
  const auto a = one("a", F32::tag, {large}, f32_data(large));
  Progress last;
  ASSERT_TRUE(diff(a, a, {.work = {.on_progress = [&](const Progress& progress) {
                            EXPECT_GE(progress.done_bytes, last.done_bytes);
                            last = progress;
                          }}}));
  EXPECT_EQ(last.done_bytes, static_cast<std::uint64_t>(large) * 4);
  EXPECT_EQ(last.total_bytes, last.done_bytes);
}

TEST_F(Diff, models_without_data_cannot_be_compared) {
  const auto a = one("a", F32::tag, {2}, stored<float>({1, 2}));
  const auto catalog = Model::open(folder_ / "a", {.catalog_only = true}).value();
  const auto found = diff(a, catalog);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), ErrorCode::bad_state);
  std::filesystem::resize_file(folder_ / "a", std::filesystem::file_size(folder_ / "a") - 1);
  const auto partial = Model::open(folder_ / "a", {.allow_incomplete = true}).value();
  const auto cut = diff(partial, partial);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code(), ErrorCode::truncated);
}

}  // namespace
}  // namespace ht::diff_hostile_test
