// A fixture for tests of MLIR modules: opens files and returns the globals of their modules.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <htensor/convert/save.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "model/test_formats.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::testing {

/// Inlines every tensor.
inline constexpr auto inline_all = std::numeric_limits<std::uint64_t>::max();

class MlirTest : public ::testing::Test {
 protected:
  Model open(const std::vector<std::byte>& file, const OpenOptions& options = {}) {
    write_file(path_, file);
    auto model = Model::open(path_, options);
    EXPECT_TRUE(model) << to_string(model.error());
    return std::move(model).value();
  }
  // The module without its first and last line.
  std::string globals(const std::vector<std::byte>& file, const MlirOptions& options = {}) {
    const auto text = mlir_text(open(file), options);
    EXPECT_TRUE(text) << to_string(text.error());
    const std::string begin = "module {\n";
    const std::string end = "}\n";
    EXPECT_THAT(*text, ::testing::StartsWith(begin));
    EXPECT_THAT(*text, ::testing::EndsWith(end));
    return text->substr(begin.size(), text->size() - begin.size() - end.size());
  }
  // The inlined value of the only tensor, "t", with its type.
  std::string inlined(const std::vector<std::byte>& file) {
    const std::string line = globals(file, {.inline_below = inline_all});
    const std::string begin = "  util.global private @t = ";
    EXPECT_THAT(line, ::testing::StartsWith(begin));
    return line.substr(begin.size(), line.size() - begin.size() - 1);
  }
  std::string inlined_entry(std::string_view dtype, std::string_view shape, std::string_view bytes) {
    return inlined(
        irpa_file({{.name = "t", .note = tensor_note(dtype, shape), .length = bytes.size()}}, bytes));
  }
  std::string inlined_splat(std::string_view dtype, std::string_view shape, std::uint64_t length,
                            std::string pattern) {
    return inlined(irpa_file(
        {{.name = "t", .note = tensor_note(dtype, shape), .length = length, .pattern = std::move(pattern)}}));
  }
  // The global of a tensor with this name and one byte.
  std::string named(std::string_view name, const MlirOptions& options = {}) {
    return globals(irpa_file({{.name = std::string(name), .length = 1}}, "x"), options);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t";
};

}  // namespace ht::testing
