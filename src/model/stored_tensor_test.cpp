#include "model/stored_tensor.hpp"

#include <gtest/gtest.h>

#include "model/seal_test.hpp"
#include "model/test_formats.hpp"

namespace ht {
namespace {

class StoredTensors : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_file(path_, testing::noise_file("safetensors", {10, 100'000})); }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "m.safetensors";
};

TEST_F(StoredTensors, are_the_bytes_in_place) {
  const auto model = Model::open(path_).value();
  const auto stored = stored_tensor(model, 1).value();
  EXPECT_EQ(stored.bytes.data(), model.raw("t1")->bytes().data());
  EXPECT_EQ(stored.bytes.size(), 400'000U);
  EXPECT_EQ(stored.offset, model.catalog()[1].offset);
  ASSERT_NE(stored.file, nullptr);
  EXPECT_TRUE(stored.file->check_unchanged());
  EXPECT_TRUE(stored.fetch(0, 400'000));
  EXPECT_TRUE(stored.fetch(399'999, 1));
}

TEST_F(StoredTensors, that_were_loaded_stay_while_they_are_held) {
  const auto model = Model::open(path_).value();
  ASSERT_TRUE(model.load({.strategy = io::Strategy::read}));
  const auto stored = stored_tensor(model, 1).value();
  EXPECT_EQ(stored.file, nullptr);
  EXPECT_TRUE(stored.fetch(0, 400'000));
  const auto evicted = model.evict("t1");
  ASSERT_FALSE(evicted);
  EXPECT_EQ(evicted.error().code(), ErrorCode::in_use);
}

TEST_F(StoredTensors, that_are_not_there_are_errors) {
  const auto catalog = Model::open(path_, {.catalog_only = true}).value();
  EXPECT_EQ(stored_tensor(catalog, 0).error().code(), ErrorCode::bad_state);
  testing::write_file(path_, testing::irpa_file({{.name = "t", .length = 8, .pattern = "a"}}));
  const auto splat = Model::open(path_).value();
  EXPECT_EQ(stored_tensor(splat, 0).error().code(), ErrorCode::unsupported_encoding);
}

}  // namespace
}  // namespace ht
