#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <htensor/base/fault.hpp>
#include <htensor/model/model.hpp>

#include "io/strategy/strategies.hpp"
#include "model/model_access.hpp"
#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::private_storage_test {
namespace {

using testing::Call;
using testing::expect_refusal;
using testing::write_file;

class PrivateStorage : public ::testing::Test {
 protected:
  PrivateStorage() { write_file(path_, file_); }

  Model open(OpenOptions options = {}) {
    options.port = &port_;
    return Model::open(path_, options).value();
  }
  static std::byte first_of(const AnyTensor& tensor) { return tensor.bytes()->front(); }
  static MutableBytes writable(const Storage& storage) { return storage.writable_bytes().value(); }
  // Returns a value that differs from the first byte of the tensor.
  static std::byte other_than_first(const AnyTensor& tensor) { return ~first_of(tensor); }

  testing::FaultyPort port_;
  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "m.safetensors";
  std::vector<std::byte> file_ = testing::noise_file("safetensors", {10'000, 1000});
};

TEST_F(PrivateStorage, is_written_without_changing_the_file) {
  const auto model = open();
  const auto tensor = model.at(0).value();
  const auto storage = tensor.private_storage().value();
  EXPECT_TRUE(std::ranges::equal(storage.bytes(), *tensor.bytes()));
  EXPECT_TRUE(storage.is_writable());
  EXPECT_TRUE(storage.may_be_mapped());
  const auto before = first_of(tensor);
  writable(storage)[0] = other_than_first(tensor);
  EXPECT_EQ(first_of(tensor), before);
  EXPECT_EQ(testing::read_file(path_), file_);
  // Another handle of the same tensor sees the write.
  EXPECT_EQ(model.at(0)->private_storage()->bytes()[0], ~before);
}

TEST_F(PrivateStorage, file_is_unchanged) {
  const auto model = open();
  std::filesystem::last_write_time(path_,
                                   std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(model.at(0)->private_storage()) << "only a truncated file is refused";
  std::filesystem::resize_file(path_, 4096);
  expect_refusal(model.at(0)->private_storage(), ErrorCode::changed_underfoot, "file_is_unchanged");
}

TEST_F(PrivateStorage, is_mapped_once_per_file) {
  const auto model = open();
  const auto first = model.at(0)->private_storage().value();
  const auto second = model.at(1)->private_storage().value();
  EXPECT_EQ(first.owner(), second.owner());
  EXPECT_EQ(port_.count(Call::map_private), 1);
  EXPECT_EQ(port_.count(Call::map), 0);
}

TEST_F(PrivateStorage, outlives_its_model) {
  const auto storage = open().at(0)->private_storage().value();
  writable(storage)[5] = std::byte{1};
  EXPECT_EQ(storage.bytes()[5], std::byte{1});
}

TEST_F(PrivateStorage, is_unmapped_with_its_last_owner) {
  static_cast<void>(open().at(0)->private_storage().value());
  EXPECT_EQ(port_.mapped_regions(), 0);
}

TEST_F(PrivateStorage, rows_are_a_part_of_the_tensor) {
  const auto tensor = open().at(0).value();
  const auto rows = tensor.slice(100, 200)->private_storage().value();
  EXPECT_EQ(rows.bytes().size(), 400U);
  EXPECT_EQ(rows.bytes().data(), tensor.private_storage()->bytes().data() + 400);
}

TEST_F(PrivateStorage, file_can_be_mapped) {
  port_.fail_at(Call::map_private, 0, std::errc::permission_denied);
  const auto tensor = open().at(0).value();
  expect_refusal(tensor.private_storage(), ErrorCode::map_failed, "file_can_be_mapped");
  EXPECT_TRUE(tensor.private_storage());
}

TEST_F(PrivateStorage, keeps_a_window_if_the_address_space_is_full) {
  port_.fail_at(Call::map_private, 0, std::errc::not_enough_memory);
  const auto model = open();
  writable(model.at(1)->private_storage().value())[0] = std::byte{7};
  EXPECT_EQ(model.at(1)->private_storage()->bytes()[0], std::byte{7});
  EXPECT_EQ(port_.count(Call::map_private), 2);
}

TEST_F(PrivateStorage, bytes_in_memory_are_copied) {
  const auto model = Model::from_bytes(file_, nullptr).value();
  const auto tensor = model.at(1).value();
  const auto before = first_of(tensor);
  writable(tensor.private_storage().value())[0] = ~before;
  EXPECT_EQ(first_of(tensor), before);
  EXPECT_EQ(model.at(1)->private_storage()->bytes()[0], ~before);
}

TEST_F(PrivateStorage, splat_has_no_stored_bytes) {
  write_file(path_, testing::irpa_file({{.name = "t", .length = 8, .pattern = "ab"}}));
  expect_refusal(open().at(0)->private_storage(), ErrorCode::unsupported_encoding,
                 "splat_has_no_stored_bytes");
}

TEST_F(PrivateStorage, loaded_tensor_uses_the_memory_of_the_model) {
  const auto model = open();
  const auto& state = ModelAccess::state(model);
  const auto strategy = std::make_shared<io::ReadStrategy>(state.mapped->sources());
  const std::size_t tensors[] = {0};
  ASSERT_TRUE(state.residency->load(tensors, strategy, {}));
  const auto tensor = model.at(0).value();
  const auto storage = tensor.private_storage().value();
  EXPECT_EQ(storage.bytes().data(), tensor.bytes()->data());
  EXPECT_FALSE(storage.may_be_mapped());
  EXPECT_EQ(port_.count(Call::map_private), 0);
}

TEST_F(PrivateStorage, unreadable_page_is_an_error_and_keeps_other_writes) {
  const auto model = open();
  const auto storage = model.at(0)->private_storage().value();
  writable(storage)[0] = std::byte{9};
  writable(storage)[20'000] = std::byte{9};
  std::filesystem::resize_file(path_, 4096);
  const auto sum = [&] { return std::ranges::count(storage.bytes(), std::byte{9}); };
  const auto error = guarded(storage.bytes(), sum).error();
  EXPECT_EQ(error.code(), ErrorCode::changed_underfoot);
  EXPECT_EQ(error.tensor(), "t0");
  EXPECT_EQ(storage.bytes()[0], std::byte{9});
  // Pages that were replaced by zeros are not restored, so every later guarded call over these bytes fails.
  EXPECT_FALSE(guarded(storage.bytes(), sum));
  EXPECT_TRUE(guarded(storage.bytes().first(100), [&] { return storage.bytes()[0]; }));
}

TEST_F(PrivateStorage, unreadable_page_can_be_filled_with_zeros_and_written) {
  const auto model = open({.faults = FaultPolicy::zero_fill});
  const auto storage = model.at(0)->private_storage().value();
  std::filesystem::resize_file(path_, 4096);
  EXPECT_EQ(storage.bytes()[30'000], std::byte{0});
  writable(storage)[30'000] = std::byte{3};
  EXPECT_EQ(storage.bytes()[30'000], std::byte{3});
  ASSERT_TRUE(model.fault());
  EXPECT_EQ(model.fault()->code(), ErrorCode::changed_underfoot);
}

}  // namespace
}  // namespace ht::private_storage_test
