// Models that are opened from memory, a descriptor or a source of the caller.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <htensor/model/model.hpp>

#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::model_sources_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::noise_file;
using testing::TemporaryFolder;
using testing::write_file;

void expect_values(const Model& model, const std::vector<std::byte>& file) {
  ASSERT_EQ(model.size(), 2U);
  for (const AnyTensor& tensor : model) {
    const auto expected = Bytes(file).subspan(static_cast<std::size_t>(tensor.entry().offset),
                                              static_cast<std::size_t>(tensor.byte_size()));
    std::vector<std::byte> copy(expected.size());
    ASSERT_TRUE(tensor.copy_to(copy));
    EXPECT_TRUE(std::ranges::equal(copy, expected));
    EXPECT_EQ(tensor.cast<F64>()->extent(0), static_cast<std::int64_t>(expected.size() / 4));
  }
}

TEST(ModelSources, memory_is_used_in_place_and_kept_by_its_owner) {
  const auto file = std::make_shared<const std::vector<std::byte>>(noise_file("safetensors", {1000, 7}));
  std::weak_ptr<const std::vector<std::byte>> alive = file;
  auto owner = file;
  std::optional<AnyTensor> tensor;
  {
    const auto model = Model::from_bytes(*file, std::move(owner)).value();
    expect_values(model, *file);
    EXPECT_TRUE(model.files()[0].empty());
    tensor = model["t1"].value();
    EXPECT_GE(tensor->bytes()->data(), file->data());
    EXPECT_LT(tensor->bytes()->data(), file->data() + file->size());
    EXPECT_TRUE((model.tensor<F32, Rank<1>>("t1")));
  }
  EXPECT_GT(alive.use_count(), 1);  // the tensor keeps the owner
  tensor.reset();
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(ModelSources, memory_is_checked_like_a_file) {
  auto file = noise_file("safetensors", {10});
  file.pop_back();
  EXPECT_EQ(Model::from_bytes(file, nullptr).error().code(), ErrorCode::truncated);
  const auto text = bytes_of("not a weights file, by no means");
  EXPECT_EQ(Model::from_bytes(text, nullptr).error().code(), ErrorCode::bad_magic);
  EXPECT_FALSE(Model::from_bytes({}, nullptr));
}

TEST(ModelSources, tensor_without_a_name_is_called_tensor) {
  const auto file = noise_file("ht", {10});
  EXPECT_EQ(Model::from_bytes(file, nullptr)->at(0)->name(), "tensor");
}

TEST(ModelSources, descriptor_is_duplicated) {
  const TemporaryFolder folder;
  const auto file = noise_file("gguf", {64, 32});
  write_file(folder / "m", file);
  FaultyPort port;
  const int fd = open((folder / "m").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto model = Model::from_fd(fd, {.port = &port});
  ASSERT_EQ(close(fd), 0);
  ASSERT_TRUE(model) << to_string(model.error());
  std::filesystem::remove(folder / "m");  // the descriptor keeps the file open
  expect_values(*model, file);
  EXPECT_EQ(port.count(Call::map), 1);
  EXPECT_FALSE(Model::from_fd(-1));
}

TEST(ModelSources, file_is_mapped_when_its_first_tensor_is_used) {
  const TemporaryFolder folder;
  write_file(folder / "m", noise_file("safetensors", {64, 32}));
  FaultyPort port;
  const auto model = Model::open(folder / "m", {.port = &port}).value();
  std::uint64_t bytes = 0;
  for (const AnyTensor& tensor : model) bytes += tensor.byte_size();
  EXPECT_EQ(bytes, 384U);
  EXPECT_EQ(port.count(Call::map), 0);
  EXPECT_TRUE(model.at(0)->storage());
  EXPECT_TRUE(model.at(1)->storage());
  EXPECT_EQ(port.count(Call::map), 1);
}

// The address space has no room for the whole file.
TEST(ModelSources, tensors_are_mapped_one_by_one_where_the_file_does_not_fit) {
  const TemporaryFolder folder;
  const auto file = noise_file("safetensors", {100'000, 7});
  write_file(folder / "m", file);
  FaultyPort port;
  port.fail_at(Call::map, 0, std::errc::not_enough_memory);
  {
    const auto model = Model::open(folder / "m", {.port = &port}).value();
    expect_values(model, file);
    EXPECT_EQ(port.mapped_regions(), 0);
    {
      const auto typed = model.tensor<F32, Rank<1>>("t0");
      ASSERT_TRUE(typed) << to_string(typed.error());
      EXPECT_EQ(port.mapped_regions(), 1);
    }
    EXPECT_EQ(port.mapped_regions(), 0) << "a window is unmapped with its tensor";
    const auto tensor = model.at(1).value();
    const auto bytes = tensor.bytes();
    ASSERT_TRUE(bytes);
    EXPECT_TRUE(std::ranges::equal(*bytes, Bytes(file).last(28)));
    EXPECT_EQ(port.mapped_regions(), 1) << "the model keeps the window of bytes()";
    EXPECT_EQ(tensor.bytes()->data(), bytes->data());
    EXPECT_EQ(model.at(1)->storage()->bytes().data(), bytes->data());
    EXPECT_EQ(port.mapped_regions(), 1) << "a tensor has one window";
  }
  EXPECT_EQ(port.mapped_regions(), 0);
}

// The address space has no room even for one tensor.
TEST(ModelSources, tensors_are_read_where_the_address_space_has_no_room) {
  const TemporaryFolder folder;
  const auto file = noise_file("safetensors", {100'000, 7});
  write_file(folder / "m", file);
  FaultyPort port;
  port.fail_from(Call::map, 0, std::errc::not_enough_memory);
  const auto model = Model::open(folder / "m", {.port = &port}).value();
  expect_values(model, file);
  EXPECT_TRUE((model.copy<F32, Rank<1>>("t0")));
  std::vector<std::byte> buffer;
  const auto tensor = model.at(1).value();
  EXPECT_TRUE(std::ranges::equal(tensor.view(4, 8, buffer).value(), Bytes(file).last(24).first(8)));
  EXPECT_EQ(tensor.bytes().error().code(), ErrorCode::map_failed);
}

// A source that can only be read.
class ReadOnlyBlob : public io::Source {
 public:
  explicit ReadOnlyBlob(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  const std::filesystem::path& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override { return bytes_.size(); }
  io::Source::Identity identity() const noexcept override { return {.object = 7, .bytes = bytes_.size()}; }
  io::Source::Capabilities capabilities() const override { return {}; }
  Result<void> read(std::uint64_t offset, MutableBytes into) const override {
    const auto from = part(bytes_, offset, into.size());
    if (!from) return fail(Error(ErrorCode::truncated).at_path(path_.native()));
    std::ranges::copy(*from, into.begin());
    return {};
  }

 protected:
  std::vector<std::byte> bytes_;

 private:
  std::filesystem::path path_ = "blob.safetensors";
};

// A source in memory that has the path of a file. `memory` returns the first `memory_bytes` bytes.
class NamedMemory final : public ReadOnlyBlob {
 public:
  NamedMemory(std::vector<std::byte> bytes, std::size_t memory_bytes)
      : ReadOnlyBlob(std::move(bytes)), memory_bytes_(memory_bytes) {}
  io::Source::Capabilities capabilities() const override { return {.mappable = true}; }
  std::optional<io::Memory> memory() const override {
    return io::Memory{Bytes(bytes_).first(memory_bytes_), {}};
  }

 private:
  std::size_t memory_bytes_;
};

// The bytes of a NamedMemory may differ from the file at its path, so they are not marked as file-backed.
TEST(ModelSources, only_bytes_of_files_are_file_backed) {
  const auto file = noise_file("safetensors", {1000, 7});
  const auto model = Model::from_source(std::make_shared<NamedMemory>(file, file.size())).value();
  const auto storage = model.at(0)->storage().value();
  EXPECT_EQ(storage.bytes().size(), 4000U);
  EXPECT_FALSE(std::holds_alternative<Storage::FileBacked>(storage.origin()));
}

TEST(ModelSources, memory_of_a_source_has_its_size) {
  const auto file = noise_file("safetensors", {1000, 7});
  const auto model = Model::from_source(std::make_shared<NamedMemory>(file, file.size() - 1)).value();
  const auto tensor = model.at(1).value();
  testing::expect_refusal(tensor.bytes(), ErrorCode::size_mismatch, "memory_of_a_source_has_its_size");
}

TEST(ModelSources, source_of_a_caller_is_read) {
  const auto file = noise_file("safetensors", {1000, 7});
  const auto model = Model::from_source(std::make_shared<ReadOnlyBlob>(file)).value();
  expect_values(model, file);
  const auto tensor = model.at(0).value();
  const auto refused = tensor.bytes();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::unsupported_strategy);
  EXPECT_EQ(refused.error().tensor(), "t0");
  EXPECT_NE(refused.error().hint().find("ht::load"), std::string_view::npos);
  std::vector<std::byte> buffer;
  EXPECT_TRUE(tensor.view(4, 8, buffer));
}

// Counts the bytes that are read.
class CountingBlob final : public ReadOnlyBlob {
 public:
  using ReadOnlyBlob::ReadOnlyBlob;
  Result<void> read(std::uint64_t offset, MutableBytes into) const override {
    read_bytes += into.size();
    return ReadOnlyBlob::read(offset, into);
  }
  mutable std::uint64_t read_bytes = 0;
};

// Consecutive elements of a row are 200,000 bytes apart.
TEST(ModelSources, long_columns_are_read_element_by_element) {
  constexpr std::int64_t rows = 50'000;
  const auto source = std::make_shared<CountingBlob>(
      testing::npy_file("<f4", true, "(50000, 3)", std::string(rows * 12, '\1')));
  const auto model = Model::from_source(source).value();
  const auto tensor = model.at(0).value();
  source->read_bytes = 0;
  std::vector<float> values(300);
  const AnyTensor::Slice first_rows[] = {{0, 100}, {0, 3}};
  const auto done = tensor.read(std::as_writable_bytes(std::span(values)), first_rows);
  ASSERT_TRUE(done) << to_string(done.error());
  EXPECT_LE(source->read_bytes, 300 * 4 + 4096U);
}

}  // namespace
}  // namespace ht::model_sources_test
