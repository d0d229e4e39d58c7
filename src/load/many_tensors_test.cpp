// Many tensors and many models: their mappings and descriptors, and their use by many threads.
#include <gtest/gtest.h>

#include <atomic>
#include <htensor/load/load.hpp>
#include <htensor/model/model.hpp>
#include <thread>

#include "format/safetensors/test_file.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::many_tensors_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::TemporaryFolder;

std::vector<std::byte> file_of(int tensors) {
  std::vector<std::string> names;
  for (int i = 0; i < tensors; ++i) names.push_back("t" + std::to_string(i));
  return testing::safetensors_file(testing::u8_header(names, 1), names.size());
}

TEST(ManyTensors, share_one_mapping_and_one_descriptor) {
  const TemporaryFolder folder;
  constexpr int count = 10'000;
  testing::write_file(folder / "m", file_of(count));
  FaultyPort port;
  {
    std::vector<Tensor<const U8, Rank<1>>> tensors;
    {
      const auto model = Model::open(folder / "m", {.port = &port}).value();
      for (int i = 0; i < count; ++i) {
        tensors.push_back(model.tensor<U8, Rank<1>>("t" + std::to_string(i)).value());
      }
    }
    EXPECT_EQ(port.count(Call::open), 1);
    EXPECT_EQ(port.count(Call::map), 1);
    EXPECT_EQ(port.open_files(), 1);
    EXPECT_EQ(port.mapped_regions(), 1);
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(tensors[static_cast<std::size_t>(i)](0), static_cast<std::uint8_t>(i));
    }
  }
  EXPECT_EQ(port.open_files(), 0);
  EXPECT_EQ(port.mapped_regions(), 0);
}

TEST(ManyModels, can_be_opened_and_closed_from_many_threads) {
  const TemporaryFolder folder;
  for (int i = 0; i < 4; ++i) testing::write_file(folder / std::to_string(i), file_of(50));
  FaultyPort port;
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < 25; ++i) {
          const auto model = Model::open(folder / std::to_string((thread + i) % 4), {.port = &port});
          const auto copy =
              model ? model->copy<U8, Rank<1>>("t7") : Result<Tensor<U8, Rank<1>>>(fail(model.error()));
          const auto residency = model ? ht::residency(*model).has_value() : false;
          if (!copy || (*copy)(0) != 7 || !residency) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(port.count(Call::map), 200);
  EXPECT_EQ(port.open_files(), 0);
  EXPECT_EQ(port.mapped_regions(), 0);
}

}  // namespace
}  // namespace ht::many_tensors_test
