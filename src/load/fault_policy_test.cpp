// OpenOptions::faults: which operations touch mapped pages, and what happens if a page cannot be read.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <htensor/integrity/seal.hpp>
#include <htensor/load/load.hpp>

#include "integrity/seal_test.hpp"
#include "model/test_formats.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::fault_policy_test {
namespace {

using io::Strategy;
using testing::noise_file;
using testing::npy_file;
using testing::write_file;

constexpr std::size_t page = 4096;

class FaultPolicies : public ::testing::Test {
 protected:
  // Makes the pages inaccessible: an operation that touches one crashes the test.
  Model open_untouchable(const std::vector<std::byte>& file) {
    write_file(path_, file);
    auto model = Model::open(path_, {.faults = FaultPolicy::off}).value();
    const auto tensor = model.at(0).value();
    const std::byte* const begin = tensor.bytes()->data() - tensor.entry().offset;
    EXPECT_EQ(mprotect(const_cast<std::byte*>(begin), file.size(), PROT_NONE), 0);
    return model;
  }
  static std::vector<std::byte> stream(const Model& model, Strategy::Kind strategy) {
    std::vector<std::byte> streamed;
    const auto take = [&](const TensorPiece& piece) -> Result<void> {
      streamed.insert(streamed.end(), piece.bytes.begin(), piece.bytes.end());
      return {};
    };
    EXPECT_TRUE(ht::stream(model, take, {.strategy = strategy}));
    return streamed;
  }
  template <class T>
  void expect_changed_underfoot(const Result<T>& result, std::string_view tensor) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), ErrorCode::changed_underfoot) << to_string(result.error());
    EXPECT_EQ(result.error().path(), path_.string());
    EXPECT_EQ(result.error().tensor(), tensor);
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "m.safetensors";
  std::vector<std::byte> file_ = noise_file("safetensors", {1000, 100'000});
};

TEST_F(FaultPolicies, policy_off_copies_without_touching_pages) {
  const auto model = open_untouchable(file_);
  const auto tensor = model.at(1).value();
  const auto expected = Bytes(file_).subspan(static_cast<std::size_t>(tensor.entry().offset), 400'000);
  std::vector<std::byte> copy(400'000);
  ASSERT_TRUE(tensor.copy_to(copy));
  EXPECT_TRUE(std::ranges::equal(copy, expected));
  std::vector<std::byte> buffer;
  const auto viewed = tensor.view(4, 100, buffer);
  ASSERT_TRUE(viewed);
  EXPECT_TRUE(std::ranges::equal(*viewed, expected.subspan(4, 100)));
  const auto whole = tensor.cast<F32>().value();
  EXPECT_TRUE(std::ranges::equal(whole.bytes().value(), expected));
  EXPECT_EQ(tensor.cast<F64>()->at(7).value(), tensor.cast<F32>()->at(7).value());
  const auto rows = tensor.slice(10, 20)->cast<F32>().value();
  EXPECT_TRUE(std::ranges::equal(rows.bytes().value(), expected.subspan(40, 40)));
}

TEST_F(FaultPolicies, policy_off_transposes_and_swaps_without_touching_pages) {
  const std::string numbers("\0\1\0\2\0\3\0\4\0\5\0\6", 12);
  const auto columns = open_untouchable(npy_file(">i2", true, "(2, 3)", numbers));
  const auto copy = columns.at(0)->copy<I16, Rank<2>>().value();
  EXPECT_EQ(copy(0, 1), 3);
  EXPECT_EQ(copy(1, 0), 2);
  const auto rows = open_untouchable(npy_file(">i2", false, "(2, 3)", numbers));
  const auto swapped = rows.at(0)->copy<I16, Rank<2>>().value();
  EXPECT_EQ(swapped(1, 0), 4);
}

TEST_F(FaultPolicies, policy_off_hashes_and_loads_without_touching_pages) {
  write_file(path_, file_);
  ASSERT_TRUE(ht::seal(*Model::open(path_)));
  const auto digest = ht::hash(*Model::open(path_))->digest;
  const auto model = open_untouchable(file_);
  EXPECT_EQ(ht::hash(model)->digest, digest);
  EXPECT_TRUE(ht::verify(model));
  EXPECT_TRUE(ht::verify(model["t1"].value()));
  EXPECT_TRUE(ht::seal(model));
  std::vector<std::byte> expected;
  for (const auto& entry : model.catalog()) {
    const auto bytes =
        Bytes(file_).subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.bytes));
    expected.insert(expected.end(), bytes.begin(), bytes.end());
  }
  EXPECT_EQ(stream(model, Strategy::Kind::staged), expected);
  EXPECT_TRUE(ht::load(model, {.strategy = Strategy::Kind::read, .verify = true}));
}

// The pages stay accessible in this test, because `mapped` makes the kernel populate them.
TEST_F(FaultPolicies, policy_off_can_stream_with_strategy_mapped) {
  write_file(path_, file_);
  const auto model = Model::open(path_, {.faults = FaultPolicy::off}).value();
  EXPECT_EQ(stream(model, Strategy::Kind::mapped),
            stream(Model::open(path_).value(), Strategy::Kind::mapped));
}

TEST_F(FaultPolicies, policy_off_reports_a_truncated_file) {
  write_file(path_, file_);
  const auto model = Model::open(path_, {.faults = FaultPolicy::off}).value();
  const auto tensor = model.at(1).value();
  std::filesystem::resize_file(path_, 2 * page);
  std::vector<std::byte> copy(8);
  expect_changed_underfoot(tensor.copy_to(copy, 300'000), "t1");
  expect_changed_underfoot(ht::prefetch(model, "t1"), "t1");
  EXPECT_FALSE(ht::hash(model));
  EXPECT_FALSE(ht::load(model, {.strategy = Strategy::Kind::read}));
  EXPECT_FALSE(model.fault());
}

TEST_F(FaultPolicies, zero_filled_pages_are_reported_by_model_fault) {
  write_file(path_, file_);
  const auto model = Model::open(path_, {.faults = FaultPolicy::zero_fill}).value();
  const auto tensor = model.tensor<F32, Rank<1>>("t1").value();
  std::filesystem::resize_file(path_, 2 * page);
  EXPECT_FALSE(model.fault());
  EXPECT_EQ(tensor(99'999), 0);
  const auto fault = model.fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->rule(), "mapped_pages_are_in_the_file");
  EXPECT_EQ(fault->path(), path_.string());
  EXPECT_EQ(fault->tensor(), "t1");
  EXPECT_EQ(fault->offset(), model.catalog()[1].offset + 4 * 99'999);
  // Operations of the library report the fault as well.
  expect_changed_underfoot(tensor.copy(), "t1");
}

}  // namespace
}  // namespace ht::fault_policy_test
