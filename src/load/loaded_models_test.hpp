// A model in a temporary folder, and a strategy that a test scripts.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <htensor/io/strategy.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "testing/temporary_folder.hpp"

namespace ht::loaded_models_test {

using testing::TemporaryFolder;
using testing::write_file;

class LoadedModels : public ::testing::Test {
 protected:
  Model open(const std::vector<std::byte>& file) {
    write_file(path_, file);
    return Model::open(path_).value();
  }
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "weights.ht";
};

// Answers load requests with the results of the given function.
class ScriptedStrategy final : public io::Strategy {
 public:
  explicit ScriptedStrategy(
      std::function<std::vector<io::Strategy::Answer>(std::span<const io::Strategy::LoadRequest>)> script)
      : script_(std::move(script)) {}
  std::string_view name() const noexcept override { return "scripted"; }
  io::Strategy::Answer answer(const io::Strategy::Request& request) override {
    const auto* const release = std::get_if<io::Strategy::ReleaseRequest>(&request);
    if (release == nullptr) return io::not_supported(*this, "answer this request");
    if (on_release) on_release();
    *release->memory = {};
    return io::Strategy::ReleaseDone{};
  }
  std::function<void()> on_release;
  std::vector<io::Strategy::Answer> load(std::span<const io::Strategy::LoadRequest> requests,
                                         const io::Strategy::LoadWork& /*work*/) override {
    return script_(requests);
  }

 private:
  std::function<std::vector<io::Strategy::Answer>(std::span<const io::Strategy::LoadRequest>)> script_;
};

inline std::vector<io::Strategy::Answer> zeros_for(std::span<const io::Strategy::LoadRequest> requests) {
  std::vector<io::Strategy::Answer> answers;
  for (const auto& request : requests) {
    const auto memory = std::make_shared<std::vector<std::byte>>(request.range.bytes);
    answers.emplace_back(io::Strategy::LoadDone{{*memory, memory}});
  }
  return answers;
}

}  // namespace ht::loaded_models_test
