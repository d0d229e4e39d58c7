#include "model/residency/residency_shell.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "io/strategy/strategies.hpp"
#include "model/model_access.hpp"
#include "model/test_models.hpp"

namespace ht::residency_shell_test {
namespace {

using Residence = TensorResidency::Residence;

// A source in memory with a hook in `size`, which each map request calls before it maps.
class Hooked final : public io::Source {
 public:
  explicit Hooked(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  const std::filesystem::path& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override {
    if (hook) std::exchange(hook, nullptr)();
    return bytes_.size();
  }
  io::Source::Identity identity() const noexcept override { return {.bytes = bytes_.size()}; }
  io::Source::Capabilities capabilities() const override { return {.mappable = true}; }
  Result<void> read(std::uint64_t offset, MutableBytes into) const override {
    std::ranges::copy(Bytes(bytes_).subspan(static_cast<std::size_t>(offset), into.size()), into.begin());
    return {};
  }
  std::optional<io::Memory> memory() const override { return io::Memory{bytes_, nullptr}; }

  /// Runs once, in the next call of `size`.
  mutable std::function<void()> hook;

 private:
  std::vector<std::byte> bytes_;
  std::filesystem::path path_;
};

class ResidencyShells : public ::testing::Test {
 protected:
  // Loads and evicts the tensor, so that the next `map` sends a request.
  void SetUp() override {
    load();
    ASSERT_TRUE(shell().evict(tensors_));
    ASSERT_EQ(residence(), Residence::evicted);
  }
  [[nodiscard]] ResidencyShell& shell() const { return *ModelAccess::state(model_).residency; }
  [[nodiscard]] Residence residence() const { return tensor_state::residence_of(shell().state_of(0)); }
  void load() const {
    const auto& sources = ModelAccess::state(model_).mapped->sources();
    ASSERT_TRUE(shell().load(tensors_, std::make_shared<io::ReadStrategy>(sources), {}));
  }
  void map() const { ASSERT_TRUE(shell().map(0, model_.catalog()[0].bytes)); }

  std::shared_ptr<Hooked> source_ = std::make_shared<Hooked>(testing::shard_file({"t"}));
  Model model_ = Model::from_source(source_).value();
  std::array<std::size_t, 1> tensors_{0};
};

TEST_F(ResidencyShells, map_of_a_tensor_that_another_thread_maps_meanwhile_keeps_it_mapped) {
  source_->hook = [&] { map(); };
  map();
  EXPECT_FALSE(source_->hook) << "the hook runs";
  EXPECT_EQ(residence(), Residence::mapped);
}

TEST_F(ResidencyShells, map_of_a_tensor_that_another_thread_loads_meanwhile_keeps_it_resident) {
  source_->hook = [&] { load(); };
  map();
  EXPECT_FALSE(source_->hook) << "the hook runs";
  EXPECT_EQ(residence(), Residence::resident);
  EXPECT_TRUE(shell().resident_memory(0).owner);
}

TEST(PagesToEvict, are_the_whole_file_if_all_its_tensors_are_evicted) {
  const auto source = std::make_shared<Hooked>(testing::shard_file({"a", "b"}));
  const auto model = Model::from_source(source).value();
  const auto& shell = *ModelAccess::state(model).residency;
  const Entry a = model.catalog()[0];
  const auto pages_of = [&](std::initializer_list<std::size_t> tensors) {
    const auto pages = shell.pages_of(std::vector(tensors));
    EXPECT_EQ(pages.size(), 1U);
    return std::pair(pages[0].offset, pages[0].bytes);
  };
  EXPECT_EQ(pages_of({0}), std::pair(a.offset, a.bytes));
  EXPECT_EQ(pages_of({0, 0}), std::pair(a.offset, a.bytes)) << "a tensor that is named twice counts once";
  EXPECT_EQ(pages_of({0, 1}), std::pair(std::uint64_t{0}, source->size()));
}

}  // namespace
}  // namespace ht::residency_shell_test
