// Malformed files: each rule of the NPY parser has a test of the same name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "format/npy/npy.hpp"

namespace ht::format_npy::npy_hostile_test {
namespace {

constexpr std::uint64_t begin = 10;

std::string file_of(std::string_view dict, std::size_t data_bytes = 0, char version = 1) {
  std::string file = std::string("\x93NUMPY") + version + '\0';
  for (int shift = 0; shift < (version == 1 ? 16 : 32); shift += 8) {
    file.push_back(static_cast<char>(dict.size() >> shift));
  }
  return file.append(dict).append(data_bytes, '\0');
}

Error error_of(const std::string& file, const ParseOptions& options = {}) {
  auto parsed = format_npy::parse(bytes_of(file), file.size(), options);
  if (parsed) return Error(ErrorCode::internal, "test_expects_an_error", "it parsed: " + file);
  return std::move(parsed).error();
}

void expect_refusal(const Error& error, ErrorCode code, std::string_view rule, std::uint64_t offset) {
  EXPECT_EQ(error.code(), code) << to_string(error);
  EXPECT_EQ(error.rule(), rule) << to_string(error);
  EXPECT_EQ(error.offset(), offset) << to_string(error);
  EXPECT_FALSE(error.message().empty());
  EXPECT_FALSE(error.hint().empty()) << to_string(error);
}

void expect_bad_dict(const std::string& dict, ErrorCode code, std::string_view rule, std::size_t at) {
  SCOPED_TRACE(dict);
  expect_refusal(error_of(file_of(dict)), code, rule, begin + at);
}

// Dicts with a given shape or descr, and the offsets of shape and descr in the dict.
std::string with_shape(const std::string& shape) {
  return "{'descr': '<f4', 'fortran_order': False, 'shape':" + shape + ", }";
}
constexpr std::size_t shape_at = 49;
std::string with_descr(const std::string& descr) {
  return "{'descr': " + descr + ", 'fortran_order': False, 'shape': (1,), }";
}
constexpr std::size_t descr_at = 10;

std::string good_file() { return file_of(with_shape("(2, 3)"), 24); }

TEST(NpyHostile, the_valid_file_is_accepted) {
  EXPECT_TRUE(format_npy::parse(bytes_of(good_file()), good_file().size()));
  EXPECT_EQ(with_shape("X").find('X'), shape_at);
  EXPECT_EQ(with_descr("X").find('X'), descr_at);
}

TEST(NpyHostile, magic_is_numpy) {
  auto file = good_file();
  file[5] = 'y';
  expect_refusal(error_of(file), ErrorCode::bad_magic, "magic_is_numpy", 0);
}

TEST(NpyHostile, npy_version_is_1_2_or_3) {
  for (const auto& [major, minor] : {std::pair{0, 0}, {4, 0}, {255, 0}, {1, 1}, {3, 255}}) {
    auto file = good_file();
    file[6] = static_cast<char>(major);
    file[7] = static_cast<char>(minor);
    expect_refusal(error_of(file), ErrorCode::bad_version, "npy_version_is_1_2_or_3", 6);
  }
}

TEST(NpyHostile, header_is_complete) {
  for (const char version : {'\1', '\2', '\3'}) {
    const auto file = file_of(with_shape("()"), 0, version);
    for (std::size_t size = 0; size < file.size(); ++size) {
      for (const bool allow_incomplete : {false, true}) {
        expect_refusal(error_of(file.substr(0, size), {.allow_incomplete = allow_incomplete}),
                       ErrorCode::truncated, "header_is_complete", size);
      }
    }
  }
}

TEST(NpyHostile, npy_header_is_within_the_limit) {
  auto file = file_of(with_shape("()"), 4, 2);
  expect_refusal(error_of(file, {.max_header_bytes = 60}), ErrorCode::header_too_large,
                 "npy_header_is_within_the_limit", 8);
  EXPECT_TRUE(format_npy::parse(bytes_of(file), file.size(), {.max_header_bytes = file.size() - 4}));
  // The header is refused before its bytes are requested, for a file of any size.
  file[11] = '\x7F';
  const auto parsed = format_npy::parse(bytes_of(file), UINT64_MAX);
  ASSERT_FALSE(parsed);
  expect_refusal(parsed.error(), ErrorCode::header_too_large, "npy_header_is_within_the_limit", 8);
}

TEST(NpyHostile, npy_header_is_utf8) {
  const auto file = file_of(with_descr("'\xFF'"), 0, 3);
  expect_refusal(error_of(file), ErrorCode::bad_utf8, "npy_header_is_utf8", 12);
}

TEST(NpyHostile, npy_header_is_a_dict_literal) {
  const auto expect = [](const std::string& dict, std::size_t at) {
    expect_bad_dict(dict, ErrorCode::bad_header, "npy_header_is_a_dict_literal", at);
  };
  expect("", 0);
  expect("   ", 3);
  expect("[1]", 0);
  expect(std::string(200, '('), 0);
  expect("{", 1);
  expect("{,}", 1);
  expect("{descr: 1}", 1);
  expect("{'descr'}", 8);
  expect("{'descr' '<f4'}", 9);
  expect("{'descr': f4}", 10);
  expect("{'descr': '<f4' 'shape': ()}", 16);
  expect("{'descr': '<f4',, 'shape': ()}", 16);
  expect(with_shape("(2 3)"), shape_at + 3);
  expect("{'shape': (2", 12);
  expect("{'shape': (2}", 12);
  expect(std::string("{\0}", 3), 1);
}

TEST(NpyHostile, npy_header_ends_with_its_dict) {
  expect_bad_dict(with_shape("()") + " x", ErrorCode::bad_header, "npy_header_ends_with_its_dict", 55);
  expect_bad_dict(with_shape("()") + "}", ErrorCode::bad_header, "npy_header_ends_with_its_dict", 54);
  expect_bad_dict(with_shape("()") + '\0', ErrorCode::bad_header, "npy_header_ends_with_its_dict", 54);
}

TEST(NpyHostile, npy_header_has_all_keys) {
  for (const char* dict : {"{}", "{'descr': '<f4', }", "{'descr': '<f4', 'shape': ()}",
                           "{'fortran_order': True, 'shape': ()}"}) {
    expect_bad_dict(dict, ErrorCode::bad_header, "npy_header_has_all_keys", 0);
  }
}

TEST(NpyHostile, npy_header_keys_are_known) {
  expect_bad_dict("{'': 1}", ErrorCode::bad_header, "npy_header_keys_are_known", 1);
  expect_bad_dict("{'Descr': 1}", ErrorCode::bad_header, "npy_header_keys_are_known", 1);
  expect_bad_dict("{'descr': '<f4', 'x': 1}", ErrorCode::bad_header, "npy_header_keys_are_known", 17);
  // A message truncates a long key and converts it to UTF-8.
  const auto error = error_of(file_of("{'" + std::string(5000, '\xE9') + "': 1}"));
  EXPECT_LT(error.message().size(), 300U);
  EXPECT_NE(error.message().find("\xEF\xBF\xBD"), std::string_view::npos);
}

TEST(NpyHostile, npy_header_keys_are_unique) {
  expect_bad_dict("{'descr': '<f4', 'descr': '<f4'}", ErrorCode::duplicate_key, "npy_header_keys_are_unique",
                  17);
  expect_bad_dict("{'shape': (), 'shape': ()}", ErrorCode::duplicate_key, "npy_header_keys_are_unique", 14);
}

TEST(NpyHostile, npy_strings_are_closed_and_plain) {
  const auto expect = [](const std::string& dict, std::size_t at) {
    expect_bad_dict(dict, ErrorCode::bad_header, "npy_strings_are_closed_and_plain", at);
  };
  expect("{'", 2);
  expect("{'descr", 7);
  expect("{'descr\"", 8);
  expect("{'descr\n'", 7);
  expect("{'des\\x63r'", 5);
  expect(std::string("{'descr\0'", 9), 7);
  expect("{'descr': \"<f4'}", 16);
}

TEST(NpyHostile, npy_fortran_order_is_true_or_false) {
  for (const char* value : {"0", "1", "true", "FALSE", "None", "'True'", "Trueish", ""}) {
    expect_bad_dict("{'fortran_order': " + std::string(value) + ", 'descr': '<f4', 'shape': ()}",
                    ErrorCode::bad_header, "npy_fortran_order_is_true_or_false", 18);
  }
}

TEST(NpyHostile, npy_shape_is_a_tuple) {
  for (const char* shape : {"3", "(3)", "( 3 )", "[2, 3]", "None", "'(2, 3)'", "{}"}) {
    expect_bad_dict(with_shape(shape), ErrorCode::bad_shape, "npy_shape_is_a_tuple", shape_at);
  }
}

TEST(NpyHostile, npy_dims_are_whole_numbers) {
  for (const char* dim : {"", "x", "2.0", "2.", "1e3", "0x10", "1_000", "+3", "007", "00", "True", "(2,)",
                          "L", "3LL", "3l", "2j"}) {
    expect_bad_dict(with_shape("(5, " + std::string(dim) + ", 1)"), ErrorCode::bad_shape,
                    "npy_dims_are_whole_numbers", shape_at + 4);
  }
}

TEST(NpyHostile, dims_are_not_negative) {
  for (const char* dim : {"-1", "-9223372036854775808", "-0"}) {
    expect_bad_dict(with_shape("(5, " + std::string(dim) + ")"), ErrorCode::bad_shape,
                    "dims_are_not_negative", shape_at + 4);
  }
}

TEST(NpyHostile, dims_fit_63_bits) {
  for (const std::string& dim :
       {std::string("9223372036854775808"), std::string("18446744073709551616"), std::string(60'000, '9')}) {
    expect_refusal(error_of(file_of(with_shape("(" + dim + ",)"))), ErrorCode::size_overflow,
                   "dims_fit_63_bits", begin + shape_at + 1);
  }
}

TEST(NpyHostile, npy_rank_is_at_most_64) {
  std::string shape = "(";
  for (int i = 0; i < 65; ++i) shape += "1,";
  expect_bad_dict(with_shape(shape + ")"), ErrorCode::bad_shape, "npy_rank_is_at_most_64",
                  shape_at + 1 + 128);
}

TEST(NpyHostile, data_size_fits_63_bits) {
  // A dimension of 0 does not hide the overflow, because strides would overflow too.
  for (const char* shape :
       {"(9223372036854775807,)", "(4611686018427387904, 2)", "(0, 1099511627776, 1099511627776)"}) {
    expect_bad_dict(with_shape(shape), ErrorCode::size_overflow, "data_size_fits_63_bits", shape_at);
  }
}

TEST(NpyHostile, npy_dtype_has_no_fields) {
  for (const char* descr : {"[('a', '<f4')]", "[", "('<f4', (2,))"}) {
    expect_bad_dict(with_descr(descr), ErrorCode::bad_dtype, "npy_dtype_has_no_fields", descr_at);
  }
}

TEST(NpyHostile, npy_elements_are_not_pickled) {
  for (const char* descr : {"'|O'", "'O'", "'|O8'"}) {
    expect_bad_dict(with_descr(descr), ErrorCode::bad_dtype, "npy_elements_are_not_pickled", descr_at);
  }
}

TEST(NpyHostile, npy_dtype_is_known) {
  const auto expect_hint = [](const std::string& descr, std::string_view hint) {
    const auto error = error_of(file_of(with_descr("'" + descr + "'")));
    expect_refusal(error, ErrorCode::bad_dtype, "npy_dtype_is_known", begin + descr_at);
    EXPECT_NE(error.hint().find(hint), std::string_view::npos) << descr << ": " << error.hint();
  };
  expect_hint("<c16", "complex64");
  expect_hint("<c32", "complex64");
  expect_hint("<f16", "float64");
  expect_hint("<f12", "float64");
  expect_hint("|S5", "store text");
  expect_hint("<U12", "store text");
  expect_hint("<M8[ns]", "int64");
  expect_hint("<m8[s]", "int64");
  for (const char* descr : {"|V2", "<V2", "|V1", "V1"}) expect_hint(descr, "ml_dtypes");
  for (const char* descr :
       {"", "<", "|", "<<f4", "float32", "<f4 ", " <f4", "<F4", "f04", "<i16", "?", "!f4"}) {
    const auto error = error_of(file_of(with_descr("'" + std::string(descr) + "'")));
    expect_refusal(error, ErrorCode::bad_dtype, "npy_dtype_is_known", begin + descr_at);
  }
}

TEST(NpyHostile, npy_wide_dtypes_have_a_byte_order) {
  for (const char* descr : {"'|f4'", "'|i2'", "'|c8'"}) {
    expect_bad_dict(with_descr(descr), ErrorCode::bad_dtype, "npy_wide_dtypes_have_a_byte_order", descr_at);
  }
}

TEST(NpyHostile, data_is_complete) {
  const auto file = good_file();
  for (std::size_t size = file.size() - 24; size < file.size(); ++size) {
    expect_refusal(error_of(file.substr(0, size)), ErrorCode::truncated, "data_is_complete", size);
  }
}

TEST(NpyHostile, nothing_follows_the_data) {
  const auto file = good_file();
  for (const auto& more : {std::string(1, '\0'), file}) {
    for (const bool allow_incomplete : {false, true}) {
      expect_refusal(error_of(file + more, {.allow_incomplete = allow_incomplete}), ErrorCode::trailing_bytes,
                     "nothing_follows_the_data", file.size());
    }
  }
}

TEST(NpyHostile, file_with_a_changed_header_byte_is_refused_or_has_the_size_in_its_header) {
  const auto good = good_file();
  for (std::size_t at = 0; at < good.size() - 24; ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      auto file = good;
      file[at] = static_cast<char>(byte);
      const auto parsed = format_npy::parse(bytes_of(file), file.size());
      if (!parsed) continue;
      // An accepted file has exactly the bytes that its header describes.
      const Entry entry = std::get<Catalog>(*parsed)[0];
      ASSERT_EQ(entry.offset + entry.bytes, file.size()) << at << " " << byte;
    }
  }
}

}  // namespace
}  // namespace ht::format_npy::npy_hostile_test
