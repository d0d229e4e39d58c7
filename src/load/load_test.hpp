// A model of two files for the tests of loading.
#pragma once

#include <gtest/gtest.h>

#include <htensor/load/load.hpp>
#include <htensor/model/model.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "format/safetensors/test_file.hpp"
#include "load/test_page_cache.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::testing {

// Two files of three tensors each. Each byte depends on its file and its offset.
class LoadModel : public ::testing::Test {
 protected:
  static constexpr std::uint64_t tensor_bytes = 100'000;
  static constexpr std::uint64_t chunk = 16384;
  static constexpr int tensors_per_file = 3;

  void SetUp() override {
    std::vector<std::pair<std::string, std::string>> index;
    for (int file = 0; file < 2; ++file) {
      const std::string name = "part" + std::to_string(file) + ".safetensors";
      std::vector<std::string> names;
      for (int i = 0; i < tensors_per_file; ++i) {
        names.push_back(tensor(file, i));
        index.emplace_back(names.back(), name);
      }
      auto bytes = safetensors_file(u8_header(names, tensor_bytes), tensors_per_file * tensor_bytes);
      const auto data = bytes.size() - tensors_per_file * tensor_bytes;
      for (std::size_t i = data; i < bytes.size(); ++i) {
        bytes[i] =
            static_cast<std::byte>((i - data) * 13 + (i - data) / 257 + static_cast<std::size_t>(file));
      }
      contents_.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(data), bytes.end());
      write_file(folder_ / name, bytes);
    }
    write_file(folder_ / "model.safetensors.index.json", index_text(index));
    model_ = Model::open(folder_ / "model.safetensors.index.json", {.port = &port_}).value();
    header_reads_ = port_.count(Call::read_at);
  }
  void TearDown() override {
    model_.reset();
    EXPECT_EQ(port_.open_files(), 0);
    EXPECT_EQ(port_.mapped_regions(), 0);
    EXPECT_EQ(port_.open_queues(), 0);
  }

  static std::string tensor(int file, int i) { return "t" + std::to_string(file) + "." + std::to_string(i); }
  [[nodiscard]] Bytes expected(int file, int i) const {
    return Bytes(contents_[static_cast<std::size_t>(file)])
        .subspan(static_cast<std::size_t>(i) * tensor_bytes, tensor_bytes);
  }
  void expect_all_tensors() const {
    for (int file = 0; file < 2; ++file) {
      for (int i = 0; i < tensors_per_file; ++i) {
        EXPECT_TRUE(std::ranges::equal(model_->storage(tensor(file, i)).value().bytes(), expected(file, i)));
      }
    }
  }
  [[nodiscard]] std::set<TensorResidency::Residence> residences() const {
    std::set<TensorResidency::Residence> found;
    const auto tensors = ht::residency(*model_).value();
    for (const auto& each : tensors) found.insert(each.residence);
    return found;
  }
  [[nodiscard]] static LoadOptions options(io::Strategy::Kind strategy) {
    return {.strategy = strategy, .chunks = 3, .chunk_bytes = chunk};
  }
  Result<LoadReport> stream(const LoadOptions& options) {
    streamed_.clear();
    return ht::stream(
        *model_,
        [&](const TensorPiece& piece) -> Result<void> {
          auto& bytes = streamed_[std::string(model_->catalog()[piece.index].name)];
          EXPECT_EQ(piece.offset, bytes.size());
          bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
          return {};
        },
        options);
  }
  void expect_streamed_all() const {
    ASSERT_EQ(streamed_.size(), 2U * tensors_per_file);
    for (int file = 0; file < 2; ++file) {
      for (int i = 0; i < tensors_per_file; ++i) {
        EXPECT_TRUE(std::ranges::equal(streamed_.at(tensor(file, i)), expected(file, i)));
      }
    }
  }
  [[nodiscard]] std::uint64_t cached() const {
    const auto tensors = ht::residency(*model_).value();
    std::uint64_t bytes = 0;
    for (const auto& each : tensors) bytes += each.cached_bytes.value();
    return bytes;
  }
  void sync_and_evict() const {
    for (const auto& path : model_->files()) sync_file(path);
    ASSERT_TRUE(ht::evict(*model_));
  }

  TemporaryFolder folder_;
  FaultyPort port_;
  int header_reads_ = 0;
  std::vector<std::vector<std::byte>> contents_;
  std::optional<Model> model_;
  std::map<std::string, std::vector<std::byte>> streamed_;
};

}  // namespace ht::testing
