#include <gtest/gtest.h>

#include <htensor/convert/save.hpp>
#include <htensor/dtype/dtypes.hpp>

#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::save_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::TemporaryFolder;
using testing::write_file;

class Saving : public ::testing::Test {
 protected:
  TensorToSave bytes(std::string name, std::variant<Storage, TensorToSave::Splat> data, std::int64_t count) {
    return {.name = std::move(name), .dtype = U8::tag, .dims = {count}, .data = std::move(data)};
  }
  std::string text_of(const Model& model, std::string_view name) {
    const auto raw = model.raw(name).value().bytes();
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  TemporaryFolder folder_;
  std::filesystem::path target_ = folder_ / "target.safetensors";
  FaultyPort port_;
};

TEST_F(Saving, reads_bytes_from_memory_files_and_patterns) {
  write_file(folder_ / "file", "0123456789");
  auto owned = Storage::owned(3).value();
  std::ranges::copy(bytes_of("own"), owned.writable_bytes().value().begin());
  const std::string theirs = "borrowed";
  const std::vector<TensorToSave> tensors{
      bytes("owned", owned, 3),
      bytes("borrowed", Storage::borrowed_read_only(bytes_of(theirs)).value(), 8),
      bytes("in a file", Storage::in_file({folder_ / "file", 3, 4}).value(), 4),
      bytes("splat", TensorToSave::Splat{{{std::byte{'a'}, std::byte{'b'}}, 2}, 6}, 6),
      bytes("none", Storage(), 0),
  };
  for (const std::string extension : {"safetensors", "irpa"}) {
    SaveOptions options;
    ASSERT_TRUE(options.metadata.add("key", "value"));
    const auto target = folder_ / ("target." + extension);
    const auto done = save(target, tensors, options);
    ASSERT_TRUE(done) << to_string(done.error());
    const auto model = Model::open(target).value();
    EXPECT_EQ(testing::names_of(model.catalog()),
              (std::vector<std::string>{"owned", "borrowed", "in a file", "splat", "none"}));
    EXPECT_EQ(text_of(model, "owned"), "own");
    EXPECT_EQ(text_of(model, "borrowed"), "borrowed");
    EXPECT_EQ(text_of(model, "in a file"), "3456");
    EXPECT_EQ(model.catalog().metadata().find("key")->text(), "value");
    if (extension == "irpa") {
      EXPECT_TRUE(model.catalog()[3].is_splat());
    } else {
      EXPECT_EQ(text_of(model, "splat"), "ababab");
    }
  }
}

TEST_F(Saving, accepts_typed_tensors) {
  const auto tensor = Tensor<F32, Rank<2>>::of(Rank<2>(2, 2), {1, 2, 3, 4}).value();
  const TensorToSave saved[] = {to_save("t", tensor).value()};
  ASSERT_TRUE(save(target_, saved));
  const auto back = Model::open(target_).value().tensor<F32, Rank<2>>("t").value();
  EXPECT_EQ(back(1, 0), 3.0F);
}

TEST_F(Saving, reads_bytes_of_a_model_from_its_mapping) {
  write_file(target_, testing::shard_file({"a", "b"}));
  const auto model = Model::open(target_).value();
  const TensorToSave saved[] = {bytes("only", model.raw("b").value(), 4)};
  ASSERT_TRUE(save(target_, saved, {.what = {}, .how = {.if_exists = IfExists::replace}}));
  EXPECT_EQ(text_of(Model::open(target_).value(), "only"), text_of(model, "b"));
}

// Through memory it would not count as copied.
TEST_F(Saving, copies_mapped_tensors_from_their_file) {
  write_file(folder_ / "m.safetensors", testing::shard_file({"a", "b"}));
  const auto model = Model::open(folder_ / "m.safetensors").value();
  const auto copied = [&](const TensorToSave& tensor) {
    const auto done = save(target_, std::span(&tensor, 1), {.how = {.if_exists = IfExists::replace}});
    EXPECT_TRUE(done) << to_string(done.error());
    const auto by = done ? done->copied_by : CopiedBy{};
    EXPECT_EQ(text_of(Model::open(target_).value(), tensor.name), text_of(model, "b"));
    return by.reflink + by.direct + by.copy_file_range + by.read_write;
  };
  EXPECT_EQ(copied(bytes("raw", model.raw("b").value(), 4)), 4U);
  const auto typed = model.flat<U8>("b").value();
  EXPECT_EQ(copied(to_save("typed", typed).value()), 4U);
  write_file(folder_ / "other", testing::shard_file({"c", "d"}));
  std::filesystem::rename(folder_ / "other", folder_ / "m.safetensors");
  EXPECT_EQ(copied(bytes("from the mapping", model.raw("b").value(), 4)), 0U) << "another file has its name";
}

TEST_F(Saving, does_not_open_the_file_of_a_range_without_bytes) {
  const TensorToSave saved[] = {bytes("none", Storage::in_file({folder_ / "nowhere", 3, 0}).value(), 0)};
  EXPECT_TRUE(save(target_, saved, {.port = &port_}));
}

TEST_F(Saving, bytes_are_readable_by_the_host) {
  const TensorToSave saved[] = {bytes("far", Storage::on_device(nullptr, {"OpenCL: a card", 4}).value(), 4)};
  const auto done = save(target_, saved);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::device_unavailable);
  EXPECT_EQ(done.error().rule(), "bytes_are_readable_by_the_host");
  EXPECT_TRUE(testing::says(done.error(), "OpenCL: a card"));
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(Saving, range_is_inside_the_file) {
  write_file(folder_ / "file", "0123456789");
  for (const std::uint64_t offset : {std::uint64_t{7}, UINT64_MAX}) {
    const TensorToSave saved[] = {bytes("t", Storage::in_file({folder_ / "file", offset, 4}).value(), 4)};
    const auto done = save(target_, saved);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ErrorCode::truncated);
    EXPECT_EQ(done.error().rule(), "range_is_inside_the_file");
  }
}

TEST_F(Saving, refuses_duplicate_names_and_mismatched_sizes) {
  const auto four = Storage::owned(4).value();
  const std::vector<TensorToSave> twice{bytes("t", four, 4), bytes("t", four, 4)};
  EXPECT_EQ(save(target_, twice).error().code(), ErrorCode::duplicate_tensor);
  const std::vector<TensorToSave> wrong{bytes("t", four, 5)};
  EXPECT_EQ(save(target_, wrong).error().code(), ErrorCode::size_mismatch);
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(Saving, saved_size_matches_the_shape) {
  const auto five = Storage::owned(5).value();
  const TensorToSave dense[] = {{.name = "t", .dtype = F32::tag, .dims = {4}, .data = five}};
  const TensorToSave blocks[] = {
      {.name = "t", .encoding = find_encoding("Q4_0").value().tag, .dims = {1, 32}, .data = five}};
  const TensorToSave uneven[] = {
      {.name = "t", .encoding = find_encoding("Q4_0").value().tag, .dims = {1, 31}, .data = five}};
  for (const std::string extension : {"safetensors", "gguf", "irpa", "ht", "npy"}) {
    for (const auto tensors : {std::span(dense), std::span(blocks), std::span(uneven)}) {
      const auto done = save(folder_ / ("t." + extension), tensors, {.what = {.tensor_notes = false}});
      ASSERT_FALSE(done) << extension;
      EXPECT_EQ(done.error().code(), ErrorCode::size_mismatch) << to_string(done.error());
      EXPECT_EQ(done.error().rule(), "saved_size_matches_the_shape");
    }
  }
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(Saving, pattern_size_is_a_power_of_two) {
  for (const std::uint8_t count : {std::uint8_t{0}, std::uint8_t{3}, std::uint8_t{17}, std::uint8_t{32}}) {
    const TensorToSave saved[] = {
        bytes("t", TensorToSave::Splat{{.pattern = {}, .pattern_bytes = count}, 4}, 4)};
    const auto done = save(target_, saved);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().rule(), "pattern_size_is_a_power_of_two");
  }
}

TEST_F(Saving, keeps_the_bytes_of_a_destroyed_tensor) {
  const auto make = [] { return Tensor<F32, Rank<1>>::of(Rank<1>(2), {1, 2}).value(); };
  const TensorToSave saved[] = {to_save("t", make()).value()};
  ASSERT_TRUE(save(target_, saved));
  EXPECT_EQ((Model::open(target_).value().tensor<F32, Rank<1>>("t").value()(1)), 2.0F);
}

TEST_F(Saving, does_not_write_bits_outside_the_view) {
  auto packed = Tensor<F4, Rank<1>>::zeros(Rank<1>(4)).value();
  for (auto&& element : packed) element = F4::Element(6);
  const auto three = packed.slice<0>(0, 3).value();
  const TensorToSave saved[] = {to_save("t", three).value()};
  ASSERT_TRUE(save(folder_ / "t.ht", saved));
  const auto raw = Model::open(folder_ / "t.ht").value().raw("t").value();
  EXPECT_EQ(raw.bytes()[1], std::byte{0x07});
}

TEST_F(Saving, groups_scopes_and_keeps_their_order) {
  const auto four = Storage::owned(4).value();
  std::vector<TensorToSave> tensors;
  for (const auto& [scope, name] : std::vector<std::pair<std::string, std::string>>{
           {"b", "1"}, {"a", "2"}, {"b", "3"}, {"", "4"}, {"a", "5"}}) {
    tensors.push_back(bytes(name, four, 4));
    tensors.back().scope = scope;
  }
  ASSERT_TRUE(save(target_, tensors));
  const auto model = Model::open(target_).value();
  EXPECT_EQ(testing::names_of(model.catalog()), (std::vector<std::string>{"1", "3", "2", "5", "4"}));
}

}  // namespace
}  // namespace ht::save_test
