// The part of each tensor in the page cache; prefetch and evict.
#include <gtest/gtest.h>

#include <fstream>
#include <htensor/base/fault.hpp>
#include <htensor/load/load.hpp>
#include <htensor/model/model.hpp>
#include <numeric>

#include "format/safetensors/test_file.hpp"
#include "load/test_page_cache.hpp"
#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::page_cache_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::refusal;
using testing::TemporaryFolder;

constexpr std::uint64_t tensor_bytes = 8 << 20;
// The page cache of some file systems keeps or drops folios of up to this size as a whole.
constexpr std::uint64_t max_folio_bytes = 2 << 20;

// Resident bytes of this process's mappings of the file.
std::uint64_t resident_bytes(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/smaps");
  std::uint64_t kib = 0;
  bool ours = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) ours = line.find(path.string()) != std::string::npos;
    if (ours && line.starts_with("Rss:")) kib += std::stoull(line.substr(4));
  }
  return kib * 1024;
}

class ResidencyOfModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto header = testing::safetensors_file(
        testing::u8_header({"layer.0.0", "layer.0.1", "layer.1.2", "layer.1.3"}, tensor_bytes));
    testing::write_file(path_, header);
    // Holes are cached like written data and are quick to create.
    std::filesystem::resize_file(path_, header.size() + 4 * tensor_bytes);
    sync_and_open();
  }
  void sync_and_open() {
    testing::sync_file(path_);
    model_ = Model::open(path_, {.port = &port_}).value();
  }
  [[nodiscard]] std::uint64_t cached() const {
    const auto tensors = ht::residency(*model_).value();
    return std::accumulate(
        tensors.begin(), tensors.end(), std::uint64_t{0},
        [](std::uint64_t sum, const auto& tensor) { return sum + tensor.cached_bytes.value(); });
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
  FaultyPort port_;
  std::optional<Model> model_;
};

TEST_F(ResidencyOfModel, evict_and_prefetch_change_the_page_cache) {
  if (testing::is_in_memory(path_)) GTEST_SKIP() << "the folder for temporary files is a memory file system";
  EXPECT_EQ(ht::prefetch(*model_), 4 * tensor_bytes);
  EXPECT_EQ(cached(), 4 * tensor_bytes);
  EXPECT_GE(resident_bytes(path_), 4 * tensor_bytes);
  EXPECT_EQ(ht::evict(*model_), 4 * tensor_bytes);
  EXPECT_EQ(cached(), 0U);
  EXPECT_EQ(resident_bytes(path_), 0U);
  EXPECT_EQ(ht::prefetch(*model_, "layer.1.*"), 2 * tensor_bytes);
  const auto tensors = ht::residency(*model_).value();
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_LE(tensors[0].cached_bytes.value(), max_folio_bytes);
  EXPECT_EQ(tensors[3].cached_bytes, tensor_bytes);
  EXPECT_EQ(tensors[3].bytes, tensor_bytes);
  EXPECT_EQ(tensors[3].index, 3U);
  // Evicting a tensor keeps the pages of its neighbour.
  EXPECT_EQ(ht::evict(*model_, "layer.1.2"), tensor_bytes);
  const auto after = ht::residency(*model_).value();
  EXPECT_LE(after[2].cached_bytes.value(), 2 * max_folio_bytes);
  EXPECT_EQ(after[3].cached_bytes, tensor_bytes);
}

TEST_F(ResidencyOfModel, evicted_tensors_can_be_used_as_before) {
  const auto data = testing::noise(tensor_bytes, 1);
  std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(model_->catalog()[0].offset))
      .write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  sync_and_open();
  const auto tensor = model_->tensor<U8, Rank<1>>("layer.0.0").value();
  EXPECT_TRUE(std::ranges::equal(tensor.storage().bytes(), data));
  ASSERT_TRUE(ht::evict(*model_));
  EXPECT_TRUE(std::ranges::equal(tensor.storage().bytes(), data));
}

TEST_F(ResidencyOfModel, a_whole_file_is_evicted_by_one_call) {
  ASSERT_TRUE(ht::evict(*model_));
  EXPECT_EQ(port_.count(Call::drop_cached), 1);
  // The selected tensors are not adjacent, so each needs a call.
  ASSERT_TRUE(ht::evict(*model_, "layer.?.[03]"));
  EXPECT_EQ(port_.count(Call::drop_cached), 3);
}

TEST_F(ResidencyOfModel, filter_matches_a_tensor) {
  for (const auto& error :
       {refusal(ht::prefetch(*model_, "none*"), ErrorCode::not_found, "filter_matches_a_tensor"),
        refusal(ht::evict(*model_, "none*"), ErrorCode::not_found, "filter_matches_a_tensor")}) {
    EXPECT_EQ(error.path(), path_.string());
  }
}

TEST_F(ResidencyOfModel, malformed_patterns_are_errors) {
  const auto consumer = [](const TensorPiece&) -> Result<void> { return {}; };
  testing::expect_refusal(ht::prefetch(*model_, "a["), ErrorCode::bad_state, "bracket_is_closed");
  testing::expect_refusal(ht::evict(*model_, "a{b"), ErrorCode::bad_state, "brace_is_closed");
  testing::expect_refusal(ht::load(*model_, {.filter = "a["}), ErrorCode::bad_state, "bracket_is_closed");
  testing::expect_refusal(ht::stream(*model_, consumer, {.filter = "a["}), ErrorCode::bad_state,
                          "bracket_is_closed");
}

TEST_F(ResidencyOfModel, progress_is_reported_to_the_end) {
  std::vector<std::uint64_t> done;
  ASSERT_TRUE(ht::prefetch(*model_, "*", {.on_progress = [&](const Progress& progress) {
    EXPECT_EQ(progress.total_bytes, 4 * tensor_bytes);
    done.push_back(progress.done_bytes);
  }}));
  ASSERT_FALSE(done.empty());
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_EQ(done.back(), 4 * tensor_bytes);
}

TEST_F(ResidencyOfModel, work_is_completed) {
  std::stop_source source;
  source.request_stop();
  const auto fetched = ht::prefetch(*model_, "*", {.stop = source.get_token()});
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(fetched.error().rule(), "work_is_completed");
}

TEST_F(ResidencyOfModel, populate_falls_back_to_touching) {
  // All calls fail but the first one, which only advises normal access.
  for (int i = 1; i < 100; ++i) port_.fail_at(Call::advise, i, std::errc::invalid_argument);
  ASSERT_TRUE(ht::prefetch(*model_));
  EXPECT_EQ(cached(), 4 * tensor_bytes);
}

TEST_F(ResidencyOfModel, memory_advice_is_accepted) {
  ASSERT_TRUE(model_->storage("layer.0.0"));  // maps the file
  port_.fail_at(Call::advise, 0, std::errc::invalid_argument);
  const auto error =
      refusal(ht::evict(*model_), ErrorCode::unsupported_strategy, "memory_advice_is_accepted");
  EXPECT_EQ(error.path(), path_.string());
}

TEST_F(ResidencyOfModel, page_cache_can_be_evicted) {
  port_.fail_at(Call::drop_cached, 0, std::errc::invalid_argument);
  EXPECT_EQ(refusal(ht::evict(*model_), ErrorCode::unsupported_strategy, "page_cache_can_be_evicted").path(),
            path_.string());
}

TEST_F(ResidencyOfModel, page_cache_can_be_queried) {
  port_.fail_at(Call::cached, 0, std::errc::function_not_supported);
  const auto error =
      refusal(ht::residency(*model_), ErrorCode::unsupported_strategy, "page_cache_can_be_queried");
  EXPECT_EQ(error.tensor(), "layer.0.0");
}

TEST_F(ResidencyOfModel, queries_the_page_cache_once_per_file) {
  ASSERT_EQ(ht::residency(*model_).value().size(), 4U);
  EXPECT_EQ(port_.count(Call::cached), 1);
  const auto some = ht::residency(*model_, 2, 1).value();
  ASSERT_EQ(some.size(), 1U);
  EXPECT_EQ(some[0].index, 2U);
  EXPECT_TRUE(ht::residency(*model_, 4).value().empty());
}

TEST_F(ResidencyOfModel, is_unknown_where_the_kernel_does_not_report_it) {
  ASSERT_TRUE(ht::prefetch(*model_));
  port_.fail_from(Call::cached, 0, std::errc::operation_not_permitted);
  const auto tensors = ht::residency(*model_).value();
  ASSERT_EQ(tensors.size(), 4U);
  for (const auto& tensor : tensors) {
    EXPECT_EQ(tensor.cached_bytes, std::nullopt);
    EXPECT_EQ(tensor.bytes, tensor_bytes);
  }
  const auto loaded = ht::load(*model_).value();
  EXPECT_NE(loaded.choice.code, "already_cached");
  EXPECT_NE(loaded.choice.reason.find("unknown"), std::string::npos);
}

TEST_F(ResidencyOfModel, is_reported_for_the_bytes_of_an_incomplete_file) {
  // The second tensor is cut in half; the file has no byte of the later ones.
  std::filesystem::resize_file(path_, model_->catalog()[1].offset + tensor_bytes / 2);
  const auto incomplete = Model::open(path_, {.allow_incomplete = true, .port = &port_}).value();
  ASSERT_TRUE(ht::prefetch(incomplete, "layer.0.0"));
  const auto tensors = ht::residency(incomplete).value();
  ASSERT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors[0].cached_bytes, tensor_bytes);
  EXPECT_LE(tensors[1].cached_bytes.value(), tensor_bytes / 2);
  EXPECT_EQ(tensors[3].cached_bytes, 0U);
  EXPECT_EQ(tensors[3].bytes, tensor_bytes);
  EXPECT_EQ(tensors[3].residence, TensorResidency::Residence::unbound);
  // `evict` counts the bytes of tensors that the file has.
  EXPECT_EQ(ht::evict(incomplete), tensor_bytes + tensor_bytes / 2);
  if (!testing::is_in_memory(path_)) {
    EXPECT_LE(ht::residency(incomplete).value()[0].cached_bytes.value(), max_folio_bytes);
  }
  EXPECT_EQ(ht::evict(incomplete, "layer.1.*"), 0U);
}

TEST_F(ResidencyOfModel, tensors_of_a_missing_file_are_not_cached) {
  const auto path = folder_ / "m.irpa";
  const std::string note = testing::tensor_note("uint8", "[4]");
  testing::write_file(path, testing::irpa_file({{.name = "own", .note = note, .length = 4},
                                                {.name = "x", .note = note, .length = 4, .path = "x.bin"}},
                                               "abcd"));
  const auto incomplete = Model::open(path, {.allow_incomplete = true, .port = &port_}).value();
  ASSERT_TRUE(ht::prefetch(incomplete, "own"));
  EXPECT_EQ(ht::residency(incomplete).value()[1].cached_bytes, 0U);
  EXPECT_EQ(ht::evict(incomplete), 4U);
  EXPECT_EQ(ht::evict(incomplete, "x"), 0U);
  testing::expect_refusal(ht::prefetch(incomplete), ErrorCode::missing_shard, "external_files_exist");
}

TEST_F(ResidencyOfModel, prefetch_reports_a_truncated_file) {
  std::filesystem::resize_file(path_, 2 * tensor_bytes);
  // Each call reports the truncation.
  for (int i = 0; i < 2; ++i) {
    const auto error =
        refusal(ht::prefetch(*model_), ErrorCode::changed_underfoot, "mapped_pages_are_in_the_file");
    EXPECT_EQ(error.path(), path_.string());
    EXPECT_EQ(error.tensor(), "layer.0.1");
  }
}

TEST_F(ResidencyOfModel, model_has_its_data) {
  const auto catalog = Model::open(path_, {.catalog_only = true}).value();
  EXPECT_EQ(refusal(ht::residency(catalog), ErrorCode::bad_state, "model_has_its_data").path(),
            path_.string());
  EXPECT_EQ(refusal(ht::prefetch(catalog), ErrorCode::bad_state, "model_has_its_data").path(),
            path_.string());
  EXPECT_EQ(refusal(ht::evict(catalog, "layer.0.*"), ErrorCode::bad_state, "model_has_its_data").path(),
            path_.string());
}

}  // namespace
}  // namespace ht::page_cache_test
