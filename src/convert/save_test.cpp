#include <gtest/gtest.h>

#include <htensor/convert/save.hpp>
#include <htensor/dtype/dtypes.hpp>

#include "model/test_formats.hpp"
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
    const auto raw = model.storage(name).value().bytes();
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

TEST_F(Saving, target_may_be_the_file_of_the_saved_tensor) {
  write_file(target_, testing::shard_file({"a", "b"}));
  const auto model = Model::open(target_).value();
  const TensorToSave saved[] = {bytes("only", model.storage("b").value(), 4)};
  ASSERT_TRUE(save(target_, saved, {.convert = {}, .apply = {.if_exists = IfExists::replace}}));
  EXPECT_EQ(text_of(Model::open(target_).value(), "only"), text_of(model, "b"));
}

std::vector<std::byte> saved_in_memory(std::span<const TensorToSave> tensors, SaveOptions options,
                                       std::string_view format) {
  options.convert.format = format;
  std::vector<std::byte> file;
  int calls = 0;
  const auto done = save_to_memory(
      tensors,
      [&](std::uint64_t size) {
        ++calls;
        file.assign(static_cast<std::size_t>(size), std::byte{0xAA});
        return file.data();
      },
      options);
  EXPECT_TRUE(done) << to_string(done.error());
  EXPECT_EQ(calls, 1);
  return file;
}

TEST_F(Saving, to_memory_writes_the_bytes_of_the_file) {
  write_file(folder_ / "file", "0123456789");
  const auto floats = Tensor<F32, Rank<2>>::of(Rank<2>(2, 2), {1, 2, 3, 4}).value();
  const auto noise = testing::noise(3'000'000, 1);
  const std::vector<TensorToSave> tensors{
      to_save("floats", floats).value(),
      bytes("large", Storage::borrowed_read_only(noise).value(), 3'000'000),
      bytes("in a file", Storage::in_file({folder_ / "file", 3, 4}).value(), 4),
      bytes("splat", TensorToSave::Splat{{{std::byte{'a'}, std::byte{'b'}}, 2}, 6}, 6),
  };
  SaveOptions options;
  ASSERT_TRUE(options.metadata.add("key", "value"));
  for (const std::string format : {"safetensors", "irpa", "gguf"}) {
    const auto target = folder_ / ("target." + format);
    options.apply.lossy = true;
    ASSERT_TRUE(save(target, tensors, options)) << format;
    EXPECT_EQ(saved_in_memory(tensors, options, format), testing::read_file(target)) << format;
  }
  // A `.ht` file has a checksum in its header.
  const auto file = saved_in_memory(std::span(tensors).first(1), {}, "ht");
  ASSERT_TRUE(save(folder_ / "target.ht", std::span(tensors).first(1)));
  EXPECT_EQ(file, testing::read_file(folder_ / "target.ht"));
}

TEST_F(Saving, to_memory_converts_values) {
  write_file(target_, testing::noise_file("safetensors", {1'000'000}));
  const auto tensor = Model::open(target_)->at(0).value();
  const TensorToSave saved[] = {to_save("t", tensor).value()};
  const SaveOptions options{.convert = {.types = {{"t", "BF16"}}}, .apply = {.round = true}};
  ASSERT_TRUE(save(folder_ / "half.safetensors", saved, options));
  EXPECT_EQ(saved_in_memory(saved, options, "safetensors"), testing::read_file(folder_ / "half.safetensors"));
}

TEST_F(Saving, type_of_an_empty_tensor_changes) {
  const TensorToSave saved[] = {
      {.name = "t", .dtype = dtype_info<F32>().tag, .dims = {0, 3}, .data = Storage()}};
  const SaveOptions options{.convert = {.types = {{"t", "F16"}}}, .apply = {.round = true}};
  const auto done = save(folder_ / "half.safetensors", saved, options);
  ASSERT_TRUE(done) << to_string(done.error());
  const auto tensor = Model::open(folder_ / "half.safetensors")->at(0).value();
  EXPECT_EQ(tensor.type().name, "F16");
  EXPECT_EQ(tensor.byte_size(), 0U);
  EXPECT_EQ(saved_in_memory(saved, options, "safetensors"), testing::read_file(folder_ / "half.safetensors"));
}

template <class Options>
Error memory_refusal(const Options& options) {
  const auto done = save_to_memory({}, [](std::uint64_t) { return nullptr; }, options);
  return done ? Error(ErrorCode::internal) : done.error();
}

TEST_F(Saving, format_of_memory_is_named) {
  EXPECT_EQ(memory_refusal(SaveOptions{}).rule(), "format_of_memory_is_named");
  EXPECT_EQ(memory_refusal(SaveOptions{.convert = {.format = "safetensors"}}).code(),
            ErrorCode::out_of_memory);
}

TEST_F(Saving, memory_holds_one_file) {
  const SaveOptions options{.convert = {.format = "safetensors", .shard_bytes = 100}};
  EXPECT_EQ(memory_refusal(options).rule(), "memory_holds_one_file");
}

TEST_F(Saving, seal_is_beside_a_file) {
  const SaveOptions options{.convert = {.format = "safetensors"}, .apply = {.seal = true}};
  EXPECT_EQ(memory_refusal(options).rule(), "seal_is_beside_a_file");
}

TEST_F(Saving, to_memory_can_be_cancelled) {
  std::stop_source stop;
  stop.request_stop();
  const auto noise = testing::noise(3'000'000, 1);
  const TensorToSave saved[] = {bytes("t", Storage::borrowed_read_only(noise).value(), 3'000'000)};
  std::vector<std::byte> file;
  const auto done =
      save_to_memory(saved,
                     [&](std::uint64_t size) {
                       file.resize(static_cast<std::size_t>(size));
                       return file.data();
                     },
                     {.convert = {.format = "safetensors"}, .apply = {.work = {.stop = stop.get_token()}}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
}

TEST_F(Saving, accepts_tensors_of_models) {
  const auto fortran =
      testing::npy_file(">i2", true, "(3, 2)", testing::stored<std::int16_t>({1, 3, 5, 2, 4, 6}, true));
  const auto column_major = Model::from_bytes(fortran, nullptr).value().at(0).value();
  const auto archive = testing::irpa_file(
      {{.name = "s", .note = testing::tensor_note("uint8", "[4, 2]"), .length = 8, .pattern = "abcd"}});
  const auto splat = Model::from_bytes(archive, nullptr).value().at(0).value();
  write_file(folder_ / "m.safetensors", testing::shard_file({"a", "b"}));
  const auto plain = Model::open(folder_ / "m.safetensors").value()["b"].value();
  const TensorToSave saved[] = {to_save("c", column_major).value(), to_save("s", splat).value(),
                                to_save("rows", splat.slice(1, 2).value()).value(),
                                to_save("p", plain).value()};
  EXPECT_TRUE(std::holds_alternative<TensorToSave::Splat>(saved[1].data));
  const auto done = save(folder_ / "all.irpa", saved);
  ASSERT_TRUE(done) << to_string(done.error());
  const auto& by = done->copied_by;
  EXPECT_EQ(by.reflink + by.direct + by.copy_file_range + by.read_write, 4U);
  const auto model = Model::open(folder_ / "all.irpa").value();
  const auto c = model.tensor<I16, Rank<2>>("c").value();
  EXPECT_EQ(c(1, 0), 3);
  EXPECT_TRUE(model["s"]->is_splat());
  EXPECT_EQ(text_of(model, "rows"), "cd");
  EXPECT_EQ(text_of(model, "p"), text_of(Model::open(folder_ / "m.safetensors").value(), "b"));
}

// Bytes that are copied from a file are counted; bytes from memory are not.
TEST_F(Saving, copies_mapped_tensors_from_their_file) {
  write_file(folder_ / "m.safetensors", testing::shard_file({"a", "b"}));
  const auto model = Model::open(folder_ / "m.safetensors").value();
  const auto copied = [&](const TensorToSave& tensor) {
    const auto done = save(target_, std::span(&tensor, 1), {.apply = {.if_exists = IfExists::replace}});
    EXPECT_TRUE(done) << to_string(done.error());
    const auto by = done ? done->copied_by : CopiedBy{};
    EXPECT_EQ(text_of(Model::open(target_).value(), tensor.name), text_of(model, "b"));
    return by.reflink + by.direct + by.copy_file_range + by.read_write;
  };
  EXPECT_EQ(copied(bytes("raw", model.storage("b").value(), 4)), 4U);
  const auto typed = model.flat<U8>("b").value();
  EXPECT_EQ(copied(to_save("typed", typed).value()), 4U);
  write_file(folder_ / "other", testing::shard_file({"c", "d"}));
  std::filesystem::rename(folder_ / "other", folder_ / "m.safetensors");
  EXPECT_EQ(copied(bytes("from the mapping", model.storage("b").value(), 4)), 0U)
      << "no byte is copied from a new file with the name of the mapped file";
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
  EXPECT_TRUE(testing::message_contains(done.error(), "OpenCL: a card"));
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
      const auto done = save(folder_ / ("t." + extension), tensors, {.convert = {.describe_types = false}});
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
  const auto raw = Model::open(folder_ / "t.ht").value().storage("t").value();
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
