// Writes, opens and compares models of any format with given tensors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <htensor/convert/diff.hpp>
#include <htensor/format/format.hpp>
#include <htensor/model/model.hpp>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::inline v1 {

inline std::ostream& operator<<(std::ostream& out, const Differences::Tensor& difference) {
  out << difference.name << " " << to_string(difference.why);
  if (difference.first_byte) out << " at " << *difference.first_byte;
  if (difference.max_abs) out << " by " << *difference.max_abs;
  return out;
}

}  // namespace ht::inline v1

namespace ht::testing {

struct TestTensor {
  std::string name;
  DTypeTag dtype = DTypeTag::invalid;
  std::vector<std::int64_t> dims{};
  std::string data{};
  EncodingTag encoding = EncodingTag::dense;
  ByteOrder byte_order = ByteOrder::little;
  ElementOrder order = ElementOrder::row_major;
};

class TestModels : public ::testing::Test {
 protected:
  using SetMetadata = std::function<Result<void>(Metadata&)>;

  /// Writes a model to a file of the folder and opens it. A format of a single tensor names the tensor after
  /// the file.
  Model make_model(std::string_view name, std::string_view format, const std::vector<TestTensor>& tensors,
                   const SetMetadata& set = {}, const OpenOptions& options = {}) {
    CatalogBuilder builder(format);
    if (set) {
      EXPECT_TRUE(set(builder.metadata()));
    }
    for (const auto& [tensor, dtype, dims, data, encoding, byte_order, order] : tensors) {
      EXPECT_TRUE(builder.add({.name = tensor,
                               .dtype = dtype,
                               .encoding = encoding,
                               .dims = dims,
                               .order = order,
                               .byte_order = byte_order,
                               .bytes = data.size()}));
    }
    const auto encoded = encode(format, std::move(builder).build().value());
    if (!encoded) ADD_FAILURE() << to_string(encoded.error());
    auto file = encoded->header;
    file.resize(static_cast<std::size_t>(encoded->file_bytes));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].data.empty()) continue;
      std::ranges::copy(bytes_of(tensors[i].data),
                        file.begin() + static_cast<std::ptrdiff_t>(encoded->offsets[i].value()));
    }
    return opened(name, file, options);
  }

  Model opened(std::string_view name, const std::vector<std::byte>& file, const OpenOptions& options = {}) {
    // Models that have opened an old file of this name keep it.
    std::filesystem::remove(folder_ / name);
    write_file(folder_ / name, file);
    auto model = Model::open(folder_ / name, options);
    if (!model) ADD_FAILURE() << to_string(model.error());
    return std::move(model).value();
  }

  /// A model of one tensor `t`.
  Model one(std::string_view name, DTypeTag dtype, std::vector<std::int64_t> dims, std::string data) {
    return make_model(name, "safetensors",
                      {{.name = "t", .dtype = dtype, .dims = std::move(dims), .data = std::move(data)}});
  }

  /// An IRPA archive of one tensor `t`, F32 [2, 3], with this note.
  Model noted(std::string_view name, std::string_view note) {
    static constexpr std::array<std::int64_t, 2> dims{2, 3};
    CatalogBuilder builder("irpa");
    EXPECT_TRUE(builder.add({.name = "t", .dtype = F32::tag, .dims = dims, .bytes = 24, .note = note}));
    auto encoded = encode("irpa", std::move(builder).build().value()).value();
    encoded.header.resize(static_cast<std::size_t>(encoded.file_bytes));
    return opened(name, encoded.header);
  }

  static Differences compared(const Model& a, const Model& b, std::optional<double> tolerance = {}) {
    auto found = diff(a, b, {.tolerance = tolerance});
    if (!found) ADD_FAILURE() << to_string(found.error());
    return found ? *std::move(found) : Differences{};
  }

  static void expect_same(const Model& a, const Model& b, std::optional<double> tolerance = {}) {
    EXPECT_TRUE(compared(a, b, tolerance).is_same());
    EXPECT_TRUE(compared(b, a, tolerance).is_same());
  }

  TemporaryFolder folder_;
};

}  // namespace ht::testing
