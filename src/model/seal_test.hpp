// Files of any format whose tensors hold noise, for tests of seals.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <htensor/format/encode.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/integrity/verify.hpp>
#include <htensor/model/model.hpp>
#include <random>
#include <string>
#include <vector>

#include "model/test_models.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::testing {

inline std::vector<std::byte> noise(std::size_t bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> words(bytes / 8 + 1);
  for (auto& word : words) word = random();
  const auto all = std::as_bytes(std::span(words)).first(bytes);
  return {all.begin(), all.end()};
}

/// F32 vectors of so many elements, called "t0", "t1", …; a format of a single tensor names it by its file.
inline std::vector<std::byte> noise_file(std::string_view format, const std::vector<std::int64_t>& elements) {
  CatalogBuilder builder(format);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::string name = "t" + std::to_string(i);
    const std::int64_t dims[] = {elements[i]};
    EXPECT_TRUE(builder.add({.name = name,
                             .dtype = F32::tag,
                             .dims = dims,
                             .bytes = 4 * static_cast<std::uint64_t>(elements[i])}));
  }
  const auto catalog = std::move(builder).build().value();
  const auto encoded = encode(format, catalog).value();
  auto file = encoded.header;
  file.resize(static_cast<std::size_t>(encoded.file_bytes));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const auto data = noise(static_cast<std::size_t>(catalog[i].bytes), static_cast<unsigned>(i));
    std::ranges::copy(data, file.begin() + static_cast<std::ptrdiff_t>(*encoded.offsets[i]));
  }
  return file;
}

inline void flip_bit(const std::filesystem::path& path, std::uint64_t offset, int bit = 0) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const auto byte = static_cast<char>(file.get() ^ (1 << bit));
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
  ASSERT_TRUE(file.good());
}

/// A folder with "m.safetensors" of three tensors, the second larger than a chunk, and its seal.
class SealedModelFile : public ::testing::Test {
 protected:
  static constexpr std::int64_t large = 2'500'000;

  void SetUp() override {
    write_file(path_, noise_file("safetensors", {1000, large, 500}));
    auto model = Model::open(path_).value();
    for (std::size_t i = 0; i < 3; ++i) offsets_.push_back(model.catalog()[i].offset);
    const auto sealed = model.seal();
    ASSERT_TRUE(sealed) << to_string(sealed.error());
  }

  [[nodiscard]] Verification verified(const VerifyOptions& options = {}) const {
    auto found = verify(path_, options);
    if (!found) ADD_FAILURE() << to_string(found.error());
    return found ? *found : Verification{};
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "m.safetensors";
  std::vector<std::uint64_t> offsets_;  // of the tensors
};

}  // namespace ht::testing
