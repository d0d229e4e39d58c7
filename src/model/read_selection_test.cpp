// AnyTensor::read against a reference that reads one element at a time.
#include "model/read_selection.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <htensor/model/model.hpp>
#include <optional>

#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::read_selection_test {
namespace {

using testing::expect_refusal;
using testing::irpa_file;
using testing::npy_file;
using testing::refusal;
using testing::stored;
using testing::write_file;
using Slice = AnyTensor::Slice;
using ReadOptions = AnyTensor::ReadOptions;

// A user-defined dtype with elements of 12 bits.
constexpr DTypeInfo user_dtype{user_tag(7), "U12", 12};

// A format with one tensor of any type and order. The file has only data; the test sets the catalog entry.
struct OneTensor {
  static constexpr std::string_view magic = "one tensor";
  static constexpr std::uint64_t data_offset = 64;
  static inline Entry entry;

  static bool looks_like(Bytes prefix, std::uint64_t /*file_bytes*/) {
    return prefix.size() >= magic.size() && std::ranges::equal(prefix.first(magic.size()), bytes_of(magic));
  }
  static Result<ParseResult> parse(const FileParts& /*seen*/, std::uint64_t /*file_bytes*/,
                                   const ParseOptions& /*options*/) {
    CatalogBuilder builder("one");
    HT_TRY(builder.add(entry));
    return HT_TRY(std::move(builder).build());
  }
  static Result<EncodedFile> encode(const Catalog& /*catalog*/, const EncodeOptions& /*layout*/) {
    return fail(Error(ErrorCode::internal));
  }
  static std::vector<std::byte> file_of(Bytes data) {
    std::vector<std::byte> file(data_offset);
    std::ranges::copy(bytes_of(magic), file.begin());
    file.insert(file.end(), data.begin(), data.end());
    return file;
  }
  static OpenOptions options(FaultPolicy faults = FaultPolicy::guarded) {
    return {.dtypes = {user_dtype},
            .formats = {{.name = "one",
                         .extension = ".one",
                         .looks_like = looks_like,
                         .parse = parse,
                         .encode = encode}},
            .faults = faults};
  }
};

class Reads : public ::testing::Test {
 protected:
  AnyTensor open_tensor(const std::vector<std::byte>& file, const OpenOptions& options = {}) {
    write_file(path_, file);
    auto model = Model::open(path_, options);
    EXPECT_TRUE(model) << to_string(model.error());
    return model.value().at(0).value();
  }
  AnyTensor open_entry(Entry entry, Bytes data, const OpenOptions& options = OneTensor::options()) {
    entry.name = "t";
    if (!entry.is_splat()) entry.offset = OneTensor::data_offset;
    OneTensor::entry = entry;
    return open_tensor(OneTensor::file_of(data), options);
  }
  // A tensor [4, 3] with the values 0 to 11.
  AnyTensor numbers() {
    return open_tensor(
        npy_file("<i2", false, "(4, 3)", stored<std::int16_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})));
  }
  static std::vector<std::byte> memory_for_floats(std::size_t count) {
    return std::vector<std::byte>(count * 4);
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t";
};

template <class T>
std::vector<T> read_as(const AnyTensor& tensor, std::span<const Slice> slices, std::size_t count,
                       const ReadOptions& options = {}) {
  std::vector<T> values(count);
  const auto done = tensor.read(std::as_writable_bytes(std::span(values)), slices, options);
  EXPECT_TRUE(done) << to_string(done.error());
  return values;
}

template <class T>
std::vector<T> read_as(const AnyTensor& tensor, std::initializer_list<Slice> slices, std::size_t count,
                       const ReadOptions& options = {}) {
  return read_as<T>(tensor, std::span(slices.begin(), slices.size()), count, options);
}

TEST_F(Reads, select_rows_columns_and_steps) {
  const auto tensor = numbers();
  using Values = std::vector<std::int16_t>;
  EXPECT_EQ(read_as<std::int16_t>(tensor, {{1, 3}, {0, 3}}, 6), (Values{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(read_as<std::int16_t>(tensor, {{0, 4}, {1, 2}}, 4), (Values{1, 4, 7, 10}));
  EXPECT_EQ(read_as<std::int16_t>(tensor, {{3, -1, -2}, {2, -1, -2}}, 4), (Values{11, 9, 5, 3}));
  EXPECT_EQ(read_as<std::int16_t>(tensor, {{2, 2}, {0, 3}}, 0), Values{});
  EXPECT_EQ(read_as<float>(tensor, {{0, 4, 3}, {2, 3}}, 2, {.dtype = F32::tag}), (std::vector<float>{2, 11}));
  EXPECT_EQ(read_as<std::int16_t>(tensor.slice(1, 3).value(), {{1, 2}, {0, 2}}, 2), (Values{6, 7}));
  EXPECT_EQ(read_as<std::int16_t>(tensor, {}, 12)[11], 11);
}

TEST_F(Reads, one_slice_per_dimension) {
  const auto tensor = numbers();
  auto out = memory_for_floats(1);
  const Slice one[] = {{0, 1}};
  const auto error = refusal(tensor.read(out, one), ErrorCode::shape_mismatch, "one_slice_per_dimension");
  EXPECT_TRUE(testing::message_contains(error, "[4, 3]: has 2 dimensions but 1 slices")) << error.message();
  EXPECT_EQ(error.tensor(), "t");
}

TEST_F(Reads, slices_are_within_the_dimensions) {
  const auto tensor = numbers();
  auto out = memory_for_floats(1);
  const Slice rows[] = {{0, 5}, {0, 3}};
  expect_refusal(tensor.read(out, rows), ErrorCode::out_of_bounds, "slice_is_within_bounds");
  const Slice zero_step[] = {{0, 4, 0}, {0, 3}};
  expect_refusal(tensor.read(out, zero_step), ErrorCode::out_of_bounds, "slice_step_is_valid");
  const Slice wrapped[] = {{0, 4}, {-1, 3}};
  expect_refusal(tensor.read(out, wrapped), ErrorCode::out_of_bounds, "slice_is_within_bounds");
}

TEST_F(Reads, memory_has_the_size_of_the_result) {
  auto out = memory_for_floats(3);
  const auto error =
      refusal(numbers().read(out), ErrorCode::size_mismatch, "memory_has_the_size_of_the_result");
  EXPECT_TRUE(testing::message_contains(error, "24 bytes but the memory has 12")) << error.message();
}

TEST_F(Reads, keep_every_value_unless_rounded) {
  const auto tensor = numbers();
  std::vector<std::byte> out(12);
  expect_refusal(tensor.read(out, {}, {.dtype = F8_E4M3::tag}), ErrorCode::would_lose,
                 "cast_keeps_every_value");
  EXPECT_TRUE(tensor.read(out, {}, {.dtype = F8_E4M3::tag, .rounding = Rounding{}}));
  expect_refusal(tensor.read(out, {}, {.dtype = user_tag(60)}), ErrorCode::bad_dtype, "dtype_tag_is_known");
}

TEST_F(Reads, values_are_real_numbers) {
  const auto complex = open_tensor(npy_file("<c8", false, "(1,)", stored<float>({1, 2})));
  auto out = memory_for_floats(1);
  expect_refusal(complex.read(out, {}, {.dtype = F32::tag, .rounding = Rounding{}}),
                 ErrorCode::unsupported_encoding, "values_are_real_numbers");
}

TEST_F(Reads, unpacked_elements_keep_their_dtype) {
  const std::int64_t dims[] = {5};
  const std::byte data[] = {std::byte{0x21}, std::byte{0x43}, std::byte{0xF5}};
  const auto tensor = open_entry({.dtype = U4::tag, .dims = dims, .bytes = 3}, data);
  std::vector<std::byte> out(5);
  expect_refusal(tensor.read(out, {}, {.dtype = U8::tag, .unpack = true}), ErrorCode::dtype_mismatch,
                 "unpacked_elements_keep_their_dtype");
  EXPECT_EQ(read_as<std::uint8_t>(tensor, {}, 5, {.unpack = true}),
            (std::vector<std::uint8_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(read_as<std::uint8_t>(tensor, {{4, -1, -2}}, 3, {.dtype = U4::tag, .unpack = true}),
            (std::vector<std::uint8_t>{5, 3, 1}));
  // Unused bits of the last byte are 0.
  EXPECT_EQ(read_as<std::uint8_t>(tensor, {{2, 5}}, 2), (std::vector<std::uint8_t>{0x43, 0x05}));
}

TEST_F(Reads, stored_blocks_are_read_whole) {
  const std::int64_t dims[] = {3, 64};
  const auto data = testing::noise(std::size_t{6} * 18, 1);
  const auto tensor = open_entry({.encoding = Q4_0::tag, .dims = dims, .bytes = data.size()}, data);
  const Slice half[] = {{0, 3}, {0, 16}};
  std::vector<std::byte> out(18);
  const auto error =
      refusal(tensor.read(out, half), ErrorCode::unsupported_encoding, "stored_blocks_are_read_whole");
  EXPECT_TRUE(testing::message_contains(error, "blocks of 32 elements")) << error.message();
  const auto second = read_as<std::byte>(tensor, {{2, -1, -2}, {32, 64}}, 36);
  EXPECT_TRUE(std::equal(second.begin(), second.begin() + 18, data.begin() + 90));
  EXPECT_TRUE(std::equal(second.begin() + 18, second.end(), data.begin() + 18));
}

TEST_F(Reads, elements_are_within_the_stored_bytes) {
  const std::int64_t dims[] = {100};
  const auto tensor = open_entry({.dtype = F32::tag, .dims = dims, .bytes = 8}, testing::noise(8, 1));
  auto out = memory_for_floats(100);
  expect_refusal(tensor.read(out), ErrorCode::size_mismatch, "elements_are_within_the_stored_bytes");
}

TEST_F(Reads, unknown_types_are_read_whole) {
  const auto untyped = open_tensor(irpa_file({{.name = "t", .length = 5}}, "hello"));
  std::string text(5, '?');
  EXPECT_TRUE(untyped.read(std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "hello");
  auto out = memory_for_floats(1);
  expect_refusal(untyped.read(out, {}, {.dtype = F32::tag}), ErrorCode::unsupported_encoding,
                 "cast_type_is_known");
}

TEST_F(Reads, selected_elements_have_a_known_dtype) {
  const std::int64_t dims[] = {4, 4};
  const auto tensor =
      open_entry({.dtype = user_tag(9), .dims = dims, .bytes = 16}, bytes_of("0123456789abcdef"));
  const Slice rows[] = {{1, 3}, {0, 4}};
  const auto error =
      refusal(tensor.read({}, rows), ErrorCode::unsupported_encoding, "selected_elements_have_a_known_dtype");
  EXPECT_EQ(error.tensor(), "t");
  std::string text(16, '?');
  EXPECT_TRUE(tensor.read(std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "0123456789abcdef");
}

TEST_F(Reads, can_be_cancelled_and_report_progress) {
  const auto tensor = open_tensor(testing::noise_file("safetensors", {1'000'000}));
  auto out = memory_for_floats(1'000'000);
  Progress last;
  EXPECT_TRUE(tensor.read(out, {}, {.work = {.on_progress = [&](const Progress& now) { last = now; }}}));
  EXPECT_EQ(last.done_bytes, out.size());
  EXPECT_EQ(last.total_bytes, out.size());
  std::stop_source source;
  source.request_stop();
  const auto stopped = tensor.read(out, {}, {.work = {.stop = source.get_token()}});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
}

TEST_F(Reads, fail_where_a_mapped_file_was_truncated) {
  const auto tensor = open_tensor(testing::noise_file("safetensors", {1'000'000}));
  ASSERT_TRUE(tensor.bytes());
  std::filesystem::resize_file(path_, 5000);
  auto out = memory_for_floats(1'000'000);
  EXPECT_EQ(tensor.read(out).error().code(), ErrorCode::changed_underfoot);
}

// Returns the bits of element `index` of a dense form.
std::uint64_t bits_at(Bytes bytes, std::uint64_t index, int bits) {
  std::uint64_t value = 0;
  for (int bit = 0; bit < bits; ++bit) {
    const std::uint64_t at = index * static_cast<std::uint64_t>(bits) + static_cast<std::uint64_t>(bit);
    value |=
        std::uint64_t{(std::to_integer<unsigned>(bytes[static_cast<std::size_t>(at / 8)]) >> (at % 8)) & 1U}
        << bit;
  }
  return value;
}

std::vector<std::byte> packed(const std::vector<std::uint64_t>& codes, int bits) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(bytes_for(codes.size(), bits).value()));
  for (std::size_t i = 0; i < codes.size(); ++i) {
    for (int bit = 0; bit < bits; ++bit) {
      const std::size_t at = i * static_cast<std::size_t>(bits) + static_cast<std::size_t>(bit);
      bytes[at / 8] |= static_cast<std::byte>(((codes[i] >> bit) & 1U) << (at % 8));
    }
  }
  return bytes;
}

std::int64_t between(std::int64_t first, std::int64_t last) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::int64_t>(first, last + 1));
}

struct Drawn {
  ElementType type{};
  std::vector<std::int64_t> dims;
  ElementOrder order = ElementOrder::row_major;
  ByteOrder byte_order = ByteOrder::little;
  std::vector<std::byte> data;
  std::vector<std::byte> pattern;
  std::vector<Slice> slices;
};

ElementType draw_type() {
  const auto kind = between(0, 3);
  if (kind == 0) {
    for (;;) {
      const auto found = find_encoding(static_cast<EncodingTag>(between(1, 255)));
      if (found) return detail::element_type_of(*found);
    }
  }
  if (kind == 1 && between(0, 4) == 0)
    return {.dtype = user_dtype.tag, .name = user_dtype.name, .bits = user_dtype.bits};
  const auto found = find_dtype(static_cast<DTypeTag>(between(1, 24))).value();
  return {.dtype = found.tag, .name = found.name, .bits = found.bits};
}

Slice draw_slice(std::int64_t extent) {
  if (between(0, 2) == 0) return {0, extent, 1};
  if (between(0, 1) == 0) {
    const auto start = between(0, extent);
    return {start, between(start, extent), between(1, 3)};
  }
  const auto start = between(-1, extent - 1);
  return {start, between(-1, start), between(-3, -1)};
}

Drawn draw() {
  Drawn drawn;
  drawn.type = draw_type();
  const auto rank = between(drawn.type.is_block_encoded() ? 1 : 0, 4);
  for (std::int64_t i = 0; i < rank; ++i)
    drawn.dims.push_back(between(between(0, 9) == 0 ? 0 : 1, i + 1 == rank ? 70 : 6));
  if (drawn.type.is_block_encoded()) drawn.dims.back() = between(0, 3) * drawn.type.block_elements;
  const auto elements = element_count(drawn.dims).value();
  drawn.data = testing::noise(static_cast<std::size_t>(values::stored_bytes(drawn.type, elements)),
                              static_cast<unsigned>(between(0, 1000)));
  if (drawn.type.is_dense() && between(0, 2) == 0) drawn.order = ElementOrder::column_major;
  if ((drawn.type.is_block_encoded() || drawn.type.bits % 8 == 0) && between(0, 2) == 0)
    drawn.byte_order = ByteOrder::big;
  const std::size_t pattern = std::size_t{1} << between(0, 4);
  if (!drawn.data.empty() && between(0, 4) == 0 && drawn.data.size() % pattern == 0) {
    drawn.pattern.assign(drawn.data.begin(), drawn.data.begin() + static_cast<std::ptrdiff_t>(pattern));
    drawn.order = ElementOrder::row_major;
    drawn.byte_order = ByteOrder::little;
  }
  for (const auto dim : drawn.dims) drawn.slices.push_back(draw_slice(dim));
  return drawn;
}

// Positions of the selected elements in the row-major form.
std::vector<std::uint64_t> positions_of(const Drawn& drawn) {
  std::vector<std::uint64_t> positions{0};
  for (std::size_t i = 0; i < drawn.dims.size(); ++i) {
    std::vector<std::uint64_t> next;
    const auto& [start, stop, step] = drawn.slices[i];
    for (const auto before : positions) {
      for (auto at = start; step > 0 ? at < stop : at > stop; at += step)
        next.push_back(before * static_cast<std::uint64_t>(drawn.dims[i]) + static_cast<std::uint64_t>(at));
    }
    positions = next;
  }
  return positions;
}

// The dense row-major little-endian form of the tensor, one element after the other.
std::vector<std::byte> row_major(const Drawn& drawn) {
  if (!drawn.pattern.empty()) {
    std::vector<std::byte> expanded(drawn.data.size());
    for (std::size_t i = 0; i < expanded.size(); ++i) expanded[i] = drawn.pattern[i % drawn.pattern.size()];
    return expanded;
  }
  auto data = drawn.data;
  const Entry entry{.dtype = drawn.type.dtype,
                    .encoding = drawn.type.encoding,
                    .dims = drawn.dims,
                    .byte_order = drawn.byte_order,
                    .bytes = data.size()};
  if (const auto relayout = relayout_of(entry).value()) swap_numbers(data, *relayout);
  if (drawn.order == ElementOrder::row_major || drawn.dims.size() < 2) return data;
  const auto elements = static_cast<std::uint64_t>(element_count(drawn.dims).value());
  std::vector<std::uint64_t> codes(elements);
  for (std::uint64_t i = 0; i < elements; ++i) {
    std::uint64_t rest = i;
    std::vector<std::uint64_t> index(drawn.dims.size());
    for (std::size_t d = drawn.dims.size(); d-- > 0;) {
      index[d] = rest % static_cast<std::uint64_t>(drawn.dims[d]);
      rest /= static_cast<std::uint64_t>(drawn.dims[d]);
    }
    std::uint64_t place = 0;
    std::uint64_t stride = 1;
    for (std::size_t d = 0; d < drawn.dims.size(); ++d) {
      place += index[d] * stride;
      stride *= static_cast<std::uint64_t>(drawn.dims[d]);
    }
    codes[i] = bits_at(data, place, drawn.type.bits);
  }
  return packed(codes, drawn.type.bits);
}

std::vector<std::byte> converted(const ElementType& from, const std::vector<std::byte>& stored_elements,
                                 const ElementType& to, std::int64_t count, const Rounding& rounding) {
  std::vector<std::byte> result(static_cast<std::size_t>(values::stored_bytes(to, count)));
  values::convert_values({.from = from, .to = to, .rounding = rounding}, stored_elements.data(),
                         result.data(), count);
  return result;
}

std::vector<std::byte> expected_of(const Drawn& drawn, const ResultForm& result) {
  const auto positions = positions_of(drawn);
  const auto count = static_cast<std::int64_t>(positions.size());
  auto plain = row_major(drawn);
  ElementType type = drawn.type;
  if (type.is_block_encoded()) {
    const auto f32 = detail::element_type_of<F32>();
    plain = converted(type, plain, f32, element_count(drawn.dims).value(), {});
    type = f32;
  }
  std::vector<std::uint64_t> codes;
  codes.reserve(positions.size());
  for (const auto position : positions) codes.push_back(bits_at(plain, position, type.bits));
  if (result.unpack) return packed(codes, (type.bits + 7) / 8 * 8);
  return converted(type, packed(codes, type.bits), result.type, count, result.rounding);
}

RC_GTEST_FIXTURE_PROP(Reads, equal_a_reference_for_all_types_orders_and_slices, ()) {
  const Drawn drawn = draw();
  Entry entry{.dtype = drawn.type.dtype,
              .encoding = drawn.type.encoding,
              .dims = drawn.dims,
              .order = drawn.order,
              .byte_order = drawn.byte_order,
              .bytes = drawn.data.size(),
              .splat = drawn.pattern};
  const auto faults = between(0, 1) == 0 ? FaultPolicy::off : FaultPolicy::guarded;
  const auto tensor = open_entry(entry, drawn.data, OneTensor::options(faults));
  ResultForm result{.type = drawn.type.is_block_encoded() ? detail::element_type_of<F32>() : drawn.type,
                    .rounding = {.mode = static_cast<Rounding::Mode>(between(0, 2)), .seed = 7}};
  const auto target = find_dtype(static_cast<DTypeTag>(between(1, 24))).value();
  const ElementType converted_to{.dtype = target.tag, .name = target.name, .bits = target.bits};
  if (between(0, 1) == 0 && values::can_convert(drawn.type, converted_to)) result.type = converted_to;
  result.unpack = drawn.type.is_dense() && result.type.dtype == drawn.type.dtype && between(0, 1) == 0;
  const auto expected = expected_of(drawn, result);
  std::vector<std::byte> read(expected.size(), std::byte{0xAA});
  const auto done = tensor.read(
      read, drawn.slices, {.dtype = result.type.dtype, .rounding = result.rounding, .unpack = result.unpack});
  if (!done) RC_LOG() << to_string(done.error());
  RC_LOG() << drawn.type.name << " to " << result.type.name << " unpack " << result.unpack;
  RC_ASSERT(done.has_value());
  RC_ASSERT(read == expected);
}

RC_GTEST_FIXTURE_PROP(Reads, equal_slices_of_larger_tensors, ()) {
  // More than one job, and runs that are split between jobs.
  const std::int64_t rows = between(600, 900);
  const std::int64_t dims[] = {rows, 1024};
  const bool is_block_encoded = between(0, 1) == 0;
  const ElementType type =
      is_block_encoded ? detail::element_type_of<Q4_K>() : detail::element_type_of<F16>();
  const auto data = testing::noise(static_cast<std::size_t>(values::stored_bytes(type, rows * 1024)), 3);
  const auto faults = between(0, 1) == 0 ? FaultPolicy::off : FaultPolicy::guarded;
  const auto tensor =
      open_entry({.dtype = type.dtype, .encoding = type.encoding, .dims = dims, .bytes = data.size()}, data,
                 OneTensor::options(faults));
  const auto all = read_as<float>(tensor, {}, static_cast<std::size_t>(rows * 1024), {.dtype = F32::tag});
  const auto column = between(0, 700);
  const Slice slices[] = {{rows - 1, -1, -1}, {column, 1024, between(1, 2)}};
  std::vector<float> expected;
  for (std::int64_t row = rows - 1; row >= 0; --row) {
    for (std::int64_t i = column; i < 1024; i += slices[1].step)
      expected.push_back(all[static_cast<std::size_t>(row * 1024 + i)]);
  }
  const auto read = read_as<float>(tensor, slices, expected.size(), {.dtype = F32::tag});
  RC_ASSERT(std::memcmp(read.data(), expected.data(), expected.size() * 4) == 0);
}

}  // namespace
}  // namespace ht::read_selection_test
