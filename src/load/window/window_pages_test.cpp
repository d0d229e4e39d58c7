#include "load/window/window_layers.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <htensor/load/load.hpp>
#include <htensor/model/model.hpp>
#include <vector>

#include "format/irpa/irpa_test_archive.hpp"
#include "io/file_source.hpp"
#include "load/test_page_cache.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::window::window_pages_test {
namespace {

constexpr std::uint64_t mib = 1 << 20;

// Layers 0 and 1 share some bytes, layers 0 to 2 share all bytes of one tensor, and layer 3 has no bytes in
// the file.
class WindowPages : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_file(
        path_, format_irpa::testing::archive({{.name = "0.a", .offset = 0, .length = 12 * mib},
                                              {.name = "1.a", .offset = 8 * mib, .length = 12 * mib},
                                              {.name = "2.a", .offset = 20 * mib, .length = 12 * mib},
                                              {.name = "0.s", .offset = 32 * mib, .length = 8 * mib},
                                              {.name = "1.s", .offset = 32 * mib, .length = 8 * mib},
                                              {.name = "2.s", .offset = 32 * mib, .length = 8 * mib},
                                              {.kind = 1, .name = "3.a", .length = 8, .pattern = "a"}},
                                             40 * mib));
    testing::sync_file(path_);
    model_ = Model::open(path_).value();
    table_ = layers_of(model_->catalog(), LayerPattern::from("").value());
    mapped_.emplace(io::Sources{io::FileSource::open(path_, port_).value()});
    ASSERT_TRUE(ht::evict(*model_));
  }

  [[nodiscard]] std::uint64_t cached(const io::FileRange& range) const {
    io::Source::CacheQuery query{.offset = range.offset, .bytes = range.bytes};
    EXPECT_TRUE(mapped_->sources()[0]->cached(std::span(&query, 1)).value());
    return query.cached_bytes;
  }
  /// MiB of the layer in the page cache, which keeps or drops up to 2 MiB at once.
  [[nodiscard]] double cached(std::size_t layer) const {
    std::uint64_t bytes = 0;
    for (const auto& range : table_.ranges_of(layer)) bytes += cached(range);
    return static_cast<double>(bytes) / static_cast<double>(mib);
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.irpa";
  testing::FaultyPort port_;
  std::optional<Model> model_;
  LayerTable table_;
  std::optional<io::MappedStrategy> mapped_;
};

TEST_F(WindowPages, shared_bytes_are_dropped_with_the_last_layer) {
  if (testing::is_in_memory(path_)) GTEST_SKIP() << "the folder for temporary files is a memory file system";
  LayerPages pages(model_->catalog(), table_, *mapped_, true);
  for (const std::size_t layer : {0U, 1U, 2U, 3U}) ASSERT_TRUE(pages.fetch(layer, {}, {}));
  EXPECT_EQ(cached(0), 20);
  ASSERT_TRUE(pages.drop(0));
  EXPECT_EQ(cached(1), 20);
  EXPECT_EQ(cached(2), 20);
  EXPECT_NEAR(cached(0), 12, 4);
  ASSERT_TRUE(pages.drop(2));
  EXPECT_EQ(cached(1), 20);
  EXPECT_NEAR(cached(2), 8, 4);
  ASSERT_TRUE(pages.drop(1));
  EXPECT_NEAR(cached(1), 0, 4);
  EXPECT_TRUE(pages.drop(3));
}

TEST_F(WindowPages, shared_bytes_are_fetched_again) {
  LayerPages pages(model_->catalog(), table_, *mapped_, true);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pages.fetch(0, {}, {}));
    ASSERT_TRUE(pages.fetch(1, {}, {}));
    ASSERT_TRUE(pages.drop(1));
    EXPECT_EQ(cached(0), 20);
    ASSERT_TRUE(pages.drop(0));
  }
}

TEST_F(WindowPages, failures_name_the_tensor_of_the_layer) {
  LayerPages pages(model_->catalog(), table_, *mapped_, true);
  port_.fail_at(testing::Call::drop_cached, 1, std::errc::invalid_argument);
  const auto dropped = pages.drop(2);
  ASSERT_TRUE(dropped);  // its tensors are adjacent, so one call drops them
  const auto failed = pages.drop(0);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().tensor(), "0.a");
  EXPECT_EQ(failed.error().path(), path_.string());
  EXPECT_TRUE(failed.error().offset());
}

}  // namespace
}  // namespace ht::window::window_pages_test
