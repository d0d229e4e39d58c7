// A sealed model of several files for the tests of seals.
#pragma once

#include <htensor/integrity/seal.hpp>
#include <htensor/load/load.hpp>

#include "load/load_test.hpp"

namespace ht::sealed_sets_test {

using io::Strategy;

// A sealed model of two shards and their index.
class SealedSet : public testing::LoadModel {
 protected:
  void SetUp() override {
    testing::LoadModel::SetUp();
    const auto sealed = ht::seal(*model_);
    ASSERT_TRUE(sealed) << to_string(sealed.error());
    EXPECT_EQ(sealed->seal, folder_ / "model.htseal");
  }
  [[nodiscard]] std::uint64_t offset_of(int file, int i) const {
    return model_->catalog()[*model_->catalog().find(tensor(file, i))].offset;
  }
  [[nodiscard]] LoadOptions options_with_verify(Strategy::Kind strategy) const {
    auto load_options = options(strategy);
    load_options.verify = true;
    return load_options;
  }
};

}  // namespace ht::sealed_sets_test
