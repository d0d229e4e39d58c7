// Any allocation may fail: the operation returns an Error, throws no exception, leaks nothing and leaves no
// file.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <htensor/convert/convert.hpp>
#include <htensor/convert/diff.hpp>
#include <htensor/convert/edit_metadata.hpp>
#include <htensor/convert/save.hpp>
#include <htensor/model/model.hpp>

#include "format/gguf/gguf_test_file.hpp"
#include "io/file_source.hpp"
#include "io/port/thread_queue.hpp"
#include "io/strategy/mapped_file.hpp"
#include "testing/allocations.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::out_of_memory_test {
namespace {

using testing::AllocationLimit;

// Runs the body while `allowed` allocations of this thread succeed.
template <class Body>
auto run_with_allocations(int allowed, const Body& body) {
  const AllocationLimit limit(allowed);
  return body();
}

// Runs the body with `first`, `first` + 1, … allocations until it succeeds. Calls `check` after each failure.
template <class Body, class Check>
void run_with_failing_allocations(Body body, Check check, int first = 0) {
  constexpr int max_allocations = 2000;
  for (int allowed = first; allowed < first + max_allocations; ++allowed) {
    const auto done = run_with_allocations(allowed, body);
    if (done) return;
    EXPECT_EQ(done.error().code(), ErrorCode::out_of_memory) << to_string(done.error());
    check();
  }
  FAIL() << "did not succeed with any number of allocations";
}

class OutOfMemory : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "a_name_that_is_too_long_to_fit_into_a_short_string.ht";
  Tensor<F32, Rank<1>> tensor_ = Tensor<F32, Rank<1>>::of(Rank<1>(3), {1, 2, 3}).value();
};

TEST_F(OutOfMemory, while_writing_leaves_no_temporary_files) {
  run_with_failing_allocations([&] { return write(path_, tensor_); },
                               [&] { EXPECT_TRUE(folder_.names().empty()); });
  EXPECT_EQ(folder_.names().size(), 1U);
}

TEST_F(OutOfMemory, while_opening_closes_all_files) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  run_with_failing_allocations([&] { return Model::open(path_); }, [&] { EXPECT_EQ(descriptors(), before); });
}

TEST_F(OutOfMemory, while_emitting_a_module_is_an_error) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto model = Model::open(path_).value();
  const MlirOptions options{.scope = "scope", .inline_below = 100};
  run_with_failing_allocations([&] { return mlir_text(model, options); }, [] {});
}

TEST_F(OutOfMemory, while_converting_is_an_error) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto model = Model::open(path_).value();
  const auto target = folder_ / "a_target_whose_name_is_too_long_to_fit_into_a_short_string.irpa";
  run_with_failing_allocations([&] { return convert(model, target, {}, {.if_exists = IfExists::replace}); },
                               [&] { EXPECT_FALSE(std::filesystem::exists(target)); });
}

TEST_F(OutOfMemory, while_replacing_a_set_leaves_the_old_or_new_set) {
  const auto source = folder_ / "source.safetensors";
  const auto target = folder_ / "a_set_whose_name_is_too_long_to_fit_into_a_short_string.safetensors";
  auto index = target;
  index += ".index.json";
  const auto values = [&](float first) {
    std::vector<TensorToSave> tensors;
    for (const auto* const name : {"a", "b", "c"})
      tensors.push_back(to_save(name, Tensor<F32, Rank<1>>::of(Rank<1>(1), {first}).value()).value());
    return tensors;
  };
  ASSERT_TRUE(save(source, values(2)));
  const auto model = Model::open(source).value();
  const ConvertOptions shards{.shard_bytes = 4};
  const ApplyOptions apply_options{.if_exists = IfExists::replace, .seal = true};
  ASSERT_TRUE(convert(model, target, shards, apply_options));
  constexpr int enough = 1'000'000;
  int used = 0;
  {
    const AllocationLimit limit(enough);
    ASSERT_TRUE(convert(model, target, shards, apply_options));
    used = enough - limit.left();
  }
  const auto expect_whole = [&] {
    const auto opened = Model::open(index);
    ASSERT_TRUE(opened) << to_string(opened.error());
    EXPECT_EQ(opened->files().size(), 3U);
    for (const AnyTensor& tensor : *opened) EXPECT_TRUE(tensor.bytes());
  };
  // The last allocations, beginning before the journal is written.
  constexpr int last = 300;
  run_with_failing_allocations([&] { return convert(model, target, shards, apply_options); }, expect_whole,
                               std::max(0, used - last));
  expect_whole();
}

TEST_F(OutOfMemory, while_editing_metadata_leaves_the_old_file) {
  const auto before = testing::all_values(std::endian::little).bytes();
  testing::write_file(path_, before);
  const std::vector<MetadataEdit> edits{{.key = "key", .value = std::string(100, 'v')}};
  run_with_failing_allocations([&] { return edit_metadata(path_, edits, {.grow = true}); },
                               [&] {
                                 EXPECT_EQ(testing::read_file(path_), before);
                                 EXPECT_EQ(folder_.names().size(), 1U);
                               });
  EXPECT_NE(testing::read_file(path_), before);
}

TEST_F(OutOfMemory, while_comparing_is_an_error) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto other = folder_ / "another_name_that_is_too_long_to_fit_into_a_short_string.ht";
  ASSERT_TRUE(write(other, Tensor<F32, Rank<1>>::of(Rank<1>(3), {1, 2, 4}).value()));
  const auto a = Model::open(path_).value();
  const auto b = Model::open(other).value();
  run_with_failing_allocations([&] { return diff(a, b); }, [] {});
}

TEST_F(OutOfMemory, while_preparing_a_tensor_to_save_is_an_error) {
  run_with_failing_allocations(
      [&] { return to_save("a name that is too long to fit into a short string", tensor_); }, [] {});
}

TEST_F(OutOfMemory, while_using_tensors_of_any_type_is_an_error) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto model = Model::open(path_).value();
  run_with_failing_allocations([&] { return model.at(0)->storage(); }, [] {});
  run_with_failing_allocations([&] { return model.at(0)->copy<F32, Rank<1>>(); }, [] {});
  run_with_failing_allocations([&] { return model.at(0)->cast<F64>(); }, [] {});
  run_with_failing_allocations([&] { return model.at(0)->slice(1, 2); }, [] {});
}

TEST_F(OutOfMemory, reader_threads_do_not_allocate) {
  std::array<std::byte, 64> into{};
  const auto read = [](const io::ReadRequest& request) -> io::IoResult<std::uint64_t> {
    return request.into.size();
  };
  io::ThreadQueue queue(read, 8, 2);
  const AllocationLimit none(0, AllocationLimit::Threads::all);
  for (int round = 0; round < 100; ++round) {
    for (std::uint64_t tag = 0; tag < 8; ++tag) ASSERT_TRUE(queue.submit({.into = into, .tag = tag}));
    for (int i = 0; i < 8; ++i) ASSERT_TRUE(queue.complete());
  }
  EXPECT_EQ(none.failures_of_other_threads(), 0U);
}

TEST_F(OutOfMemory, while_cataloguing_is_an_error) {
  CatalogBuilder builder("test");
  const std::vector<std::int64_t> dims(20, 1);
  const std::string name(100, 'n');
  ASSERT_TRUE(builder.add({.name = name, .dims = dims}));
  EXPECT_TRUE(builder.metadata().add("key", "value"));
  std::optional<Catalog> catalog;
  run_with_failing_allocations(
      [&]() -> Result<void> {
        return without_bad_alloc([&]() -> Result<void> {
          auto copy = builder;
          catalog.emplace(HT_TRY(std::move(copy).build()));
          return {};
        });
      },
      [&] { EXPECT_FALSE(catalog); });
  ASSERT_TRUE(catalog);
  EXPECT_EQ(catalog->find(name), 0U);
  EXPECT_EQ((*catalog)[0].dims.size(), 20U);
}

// An Error whose message cannot be allocated keeps its code, or becomes out_of_memory.
template <class Body>
void expect_code_without_memory(Body body, ErrorCode code) {
  for (int allowed = 0; allowed < 20; ++allowed) {
    const auto done = run_with_allocations(allowed, body);
    ASSERT_FALSE(done);
    EXPECT_TRUE(done.error().code() == code || done.error().code() == ErrorCode::out_of_memory)
        << to_string(done.error());
  }
}

TEST_F(OutOfMemory, while_creating_an_error_does_not_throw) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto model = Model::open(path_).value();
  const auto name = model.catalog()[0].name;
  expect_code_without_memory([&] { return tensor_.at(7); }, ErrorCode::out_of_bounds);
  expect_code_without_memory([&] { return tensor_.slice<0>(2, 9); }, ErrorCode::out_of_bounds);
  expect_code_without_memory([&] { return tensor_.reshape(Rank<2>(2, 2)); }, ErrorCode::shape_mismatch);
  expect_code_without_memory([&] { return model.tensor<F32, Rank<2>>(name); }, ErrorCode::shape_mismatch);
  expect_code_without_memory([&] { return model.tensor<F64, Rank<1>>(name); }, ErrorCode::dtype_mismatch);
  expect_code_without_memory([&] { return model.tensor<F32, Rank<1>>("nothing"); }, ErrorCode::not_found);
  expect_code_without_memory([] { return visit_dtype(DTypeTag{200}, [](auto) { return 0; }); },
                             ErrorCode::bad_dtype);
  const std::vector<std::int64_t> negative{-1};
  expect_code_without_memory([&] { return write(path_, dtype_info<F32>(), negative, Bytes()); },
                             ErrorCode::bad_shape);
  const std::filesystem::path device("/dev/zero");
  expect_code_without_memory([&] { return io::FileSource::open(device); }, ErrorCode::not_regular_file);
}

}  // namespace
}  // namespace ht::out_of_memory_test
