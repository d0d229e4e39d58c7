// A model with layers for the tests of windows.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <htensor/load/load.hpp>
#include <optional>
#include <string>
#include <vector>

#include "format/safetensors/test_file.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::testing {

inline constexpr std::size_t layers = 6;
inline constexpr std::uint64_t tensor_bytes = 50'000;
inline constexpr std::uint64_t layer_bytes = 2 * tensor_bytes;
/// Calls of `Port::advise` for each fetch: one for readahead and one that populates the pages.
inline constexpr int calls_per_fetch = 2;

/// Six layers of two tensors each, between two tensors that are in no layer. No tensor is a whole number of
/// pages long, so adjacent layers share a page.
inline std::vector<std::byte> layered_file() {
  std::vector<std::string> names{"embed"};
  for (std::size_t i = 0; i < layers; ++i) {
    names.push_back("blk." + std::to_string(i) + ".a");
    names.push_back("blk." + std::to_string(i) + ".b");
  }
  names.emplace_back("output");
  return safetensors_file(u8_header(names, tensor_bytes), names.size() * tensor_bytes);
}

/// Options with a budget for this number of layers.
inline WindowOptions room_for(std::uint64_t count, bool use_worker = false) {
  return {.budget_bytes = count * layer_bytes, .use_worker = use_worker};
}

/// Whether all bytes of a layer equal those of the file.
inline bool equals_file(const Model& model, const Window& window, std::size_t layer, Bytes file) {
  return std::ranges::all_of(window.layer(layer).tensors, [&](std::size_t index) {
    const Entry entry = model.catalog()[index];
    const auto storage = model.storage(entry.name).value();
    return std::memcmp(storage.bytes().data(), file.subspan(entry.offset).data(), entry.bytes) == 0;
  });
}

inline Result<void> pass(Window& window) {
  for (std::size_t i = 0; i < window.size(); ++i) HT_TRY(window.enter(i));
  return {};
}

/// Opens the model through a port whose calls can fail.
class LayeredModel : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(path_, file_);
    model_ = Model::open(path_, {.port = &port_}).value();
  }
  [[nodiscard]] Window open(const WindowOptions& options) const {
    return Window::open(*model_, options).value();
  }
  [[nodiscard]] bool equals_file(const Window& window, std::size_t layer) const {
    return testing::equals_file(*model_, window, layer, file_);
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
  std::vector<std::byte> file_ = layered_file();
  FaultyPort port_;
  std::optional<Model> model_;
};

}  // namespace ht::testing
