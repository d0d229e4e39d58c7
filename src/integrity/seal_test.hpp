// A model file with its seal, and a function that damages files, for tests of seals.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <htensor/integrity/seal.hpp>
#include <htensor/model/model.hpp>
#include <string>
#include <vector>

#include "model/test_models.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::testing {

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
    const auto sealed = ht::seal(model);
    ASSERT_TRUE(sealed) << to_string(sealed.error());
  }

  [[nodiscard]] Verification verified(const VerifyOptions& options = {}) const {
    auto found = compare_with_seal(path_, options);
    if (!found) ADD_FAILURE() << to_string(found.error());
    return found ? *found : Verification{};
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "m.safetensors";
  std::vector<std::uint64_t> offsets_;  // of the tensors
};

}  // namespace ht::testing
