// Operations on models and tensors in combination: load, evict, seal, verify, hash.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <htensor/hash/digest.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/load/load.hpp>
#include <map>
#include <stdexcept>
#include <thread>
#include <utility>

#include "format/ht/ht.hpp"
#include "format/irpa/irpa_test_archive.hpp"
#include "io/file_source.hpp"
#include "load/loaded_models_test.hpp"
#include "model/model_access.hpp"
#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/faulty_port.hpp"

namespace ht::loaded_models_test {
namespace {

using testing::expect_refusal;
using testing::irpa_file;
using testing::noise_file;

// A user-defined dtype.
struct Byte {
  using Family = Byte;
  using Element = std::uint8_t;
  static constexpr std::string_view name = "BYTE";
  static constexpr int bits = 8;
  static constexpr DTypeTag tag = user_tag(0);
};

TEST_F(LoadedModels, tensors_stay_while_they_are_held) {
  const auto model = open(noise_file("safetensors", {10, 100'000}));
  const auto mapped = model.at(1).value();
  ASSERT_TRUE(ht::load(model, {.strategy = io::Strategy::Kind::read}));
  {
    const auto loaded = model.at(1).value();
    EXPECT_NE(loaded.bytes()->data(), mapped.bytes()->data());
    EXPECT_TRUE(ModelAccess::is_resident(loaded));
    EXPECT_TRUE(ModelAccess::fetch(loaded, 0, 400'000));
    EXPECT_EQ(ht::evict(model, "t1").error().code(), ErrorCode::in_use);
  }
  EXPECT_TRUE(ht::evict(model, "t1"));
  EXPECT_EQ(model.at(1)->bytes()->data(), mapped.bytes()->data());
}

TEST_F(LoadedModels, user_defined_dtype_is_known_to_every_operation) {
  // The header has a checksum of the data, so every kind of verification reads the header.
  auto header = format_ht::make_header(dtype_info<Byte>(), std::vector<std::int64_t>{2, 3}).value();
  const std::vector<std::byte> data(6, std::byte{7});
  header.payload_crc = crc64nvme(data);
  const auto bytes = format_ht::encode(header);
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  file.insert(file.end(), data.begin(), data.end());
  write_file(path_, file);
  const auto model = Model::open(path_, {.dtypes = {dtype_info<Byte>()}}).value();
  EXPECT_EQ(model.at(0)->type().name, "BYTE");
  EXPECT_TRUE(ht::verify(model));
  EXPECT_EQ(compare_with_seal(path_)->verdict, Verification::Verdict::intact);
  EXPECT_TRUE(ht::verify(model["weights"].value()));
  EXPECT_EQ(ht::load(model, {.verify = true})->verified_bytes, 6U);
  EXPECT_TRUE(ht::hash(model));
  const auto sealed = ht::seal(model);
  ASSERT_TRUE(sealed) << to_string(sealed.error());
  EXPECT_TRUE(ht::verify(model));
  EXPECT_TRUE(ht::verify(model["weights"].value()));
  EXPECT_TRUE(ht::load(model, {.verify = true}));
}

TEST_F(LoadedModels, sealed_model_has_one_path) {
  write_file(folder_ / "a.safetensors", testing::shard_file({"a"}));
  write_file(folder_ / "b.safetensors", testing::shard_file({"b"}));
  const std::vector<std::filesystem::path> paths{folder_ / "a.safetensors", folder_ / "b.safetensors"};
  int calls = 0;
  testing::FaultyPort port;
  const auto merged = Model::open_merged(paths, {.port = &port}).value();
  port.before_each([&](testing::Call, int) { ++calls; });
  expect_refusal(ht::seal(merged), ErrorCode::bad_state, "sealed_model_has_one_path");
  EXPECT_EQ(calls, 0) << "refused before the lock of a set is taken and before any comparison";
  EXPECT_TRUE(ht::seal(Model::open_merged(std::span(paths).first(1)).value()));
}

TEST_F(LoadedModels, catalog_alone_cannot_be_loaded) {
  write_file(path_, irpa_file({{.name = "t", .length = 8, .pattern = "a"}}));
  const auto splat = Model::open(path_, {.catalog_only = true}).value();
  expect_refusal(ht::load(splat), ErrorCode::bad_state, "model_has_its_data");
}

TEST_F(LoadedModels, sealed_model_is_a_file) {
  const auto file = noise_file("safetensors", {10});
  const auto model = Model::from_bytes(file, nullptr).value();
  expect_refusal(ht::seal(model), ErrorCode::bad_state, "sealed_model_is_a_file");
  EXPECT_TRUE(ht::hash(model));
  write_file(path_, file);
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  expect_refusal(ht::seal(Model::from_fd(fd).value()), ErrorCode::bad_state, "sealed_model_is_a_file");
  EXPECT_EQ(::close(fd), 0);
}

// The current folder has a file `.htseal`: the name of a seal for an empty path.
TEST_F(LoadedModels, stray_seal_is_not_used_for_a_model_from_memory) {
  const auto file = noise_file("safetensors", {10});
  write_file(path_, file);
  ASSERT_TRUE(ht::seal(Model::open(path_).value()));
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(path_.parent_path());
  const auto model = Model::from_bytes(file, nullptr).value();
  std::filesystem::copy_file(path_.string() + ".htseal", ".htseal");
  expect_refusal(ht::verify(model), ErrorCode::not_sealed, "model_is_sealed");
  expect_refusal(ht::load(model, {.verify = true}), ErrorCode::not_sealed, "model_is_sealed");
  // Verifying a tensor does not use the stray seal either.
  expect_refusal(ht::verify(model.at(0).value()), ErrorCode::not_sealed, "tensor_is_sealed");
  std::filesystem::current_path(before);
}

// The same file, opened by its path and from memory.
TEST_F(LoadedModels, have_the_same_digests_from_every_source) {
  const auto file = noise_file("safetensors", {1000, 100'000});
  const auto model = open(file);
  const auto digests = ht::hash(model, {.per_tensor = true}).value();
  const auto in_memory = Model::from_bytes(file, nullptr).value();
  EXPECT_EQ(ht::hash(in_memory, {.per_tensor = true}).value().tensors, digests.tensors);
  for (const auto strategy :
       {io::Strategy::Kind::automatic, io::Strategy::Kind::mapped, io::Strategy::Kind::read}) {
    const auto loaded = ht::load(in_memory, {.strategy = strategy});
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_EQ(loaded->bytes + loaded->resident_bytes, 404'000U);
  }
}

// Copies each tensor backwards, which no strategy of the library does.
class BackwardsStrategy final : public io::Strategy {
 public:
  explicit BackwardsStrategy(std::shared_ptr<const io::Source> source) : source_(std::move(source)) {}
  std::string_view name() const noexcept override { return "backwards"; }
  io::Strategy::Answer answer(const io::Strategy::Request& request) override {
    if (const auto* const load = std::get_if<io::Strategy::LoadRequest>(&request)) {
      const auto memory = std::make_shared<std::vector<std::byte>>(load->range.bytes);
      if (auto read = source_->read(load->range.offset, *memory); !read)
        return io::request_failed(std::move(read).error());
      std::ranges::reverse(*memory);
      return io::Strategy::LoadDone{{*memory, memory}};
    }
    if (const auto* const release = std::get_if<io::Strategy::ReleaseRequest>(&request)) {
      *release->memory = {};
      ++released;
      return io::Strategy::ReleaseDone{};
    }
    return io::not_supported(*this, "answer this request");
  }
  int released = 0;

 private:
  std::shared_ptr<const io::Source> source_;
};

TEST_F(LoadedModels, strategy_of_a_caller_loads_tensors) {
  const auto model = open(noise_file("safetensors", {3, 500}));
  std::vector<std::byte> stored(2000);
  ASSERT_TRUE(model.at(1)->copy_to(stored));
  const auto strategy = std::make_shared<BackwardsStrategy>(io::FileSource::open(path_).value());
  std::uint64_t done = 0;
  const auto loaded = ht::load(
      model,
      {.custom = strategy, .work = {.on_progress = [&](const Progress& now) { done = now.done_bytes; }}});
  ASSERT_TRUE(loaded) << to_string(loaded.error());
  EXPECT_EQ(loaded->bytes, 2012U);
  EXPECT_EQ(loaded->choice.code, "custom");
  EXPECT_NE(loaded->choice.reason.find("backwards"), std::string::npos);
  EXPECT_EQ(done, 2012U);
  std::ranges::reverse(stored);
  {
    const auto tensor = model.at(1).value();
    EXPECT_TRUE(std::ranges::equal(tensor.bytes().value(), stored));
  }
  EXPECT_EQ(ht::residency(model).value()[1].residence, TensorResidency::Residence::resident);
  ASSERT_TRUE(ht::evict(model));
  EXPECT_EQ(strategy->released, 2);
  EXPECT_EQ(ht::residency(model).value()[1].residence, TensorResidency::Residence::evicted);
}

TEST_F(LoadedModels, strategy_answers_each_request) {
  const auto model = open(noise_file("safetensors", {3, 500}));
  const std::vector<io::Strategy::Answer> broken{
      io::Strategy::ReleaseDone{}, io::Strategy::RequestFailed{}, io::Strategy::LoadDone{},
      io::Strategy::LoadDone{{Bytes(std::as_bytes(std::span("12345678901"))).first(12), nullptr}}};
  for (const auto& answer : broken) {
    const auto load = [&](std::span<const io::Strategy::LoadRequest> requests) {
      auto answers = zeros_for(requests);
      answers[0] = answer;
      return answers;
    };
    expect_refusal(ht::load(model, {.custom = std::make_shared<ScriptedStrategy>(load)}),
                   ErrorCode::bad_state, "strategy_answers_each_request");
  }
  const auto none = [](std::span<const io::Strategy::LoadRequest>) {
    return std::vector<io::Strategy::Answer>();
  };
  expect_refusal(ht::load(model, {.custom = std::make_shared<ScriptedStrategy>(none)}), ErrorCode::bad_state,
                 "strategy_answers_each_request");
  EXPECT_EQ(ht::residency(model).value()[1].residence, TensorResidency::Residence::failed);
  EXPECT_TRUE(ht::load(model, {.custom = std::make_shared<ScriptedStrategy>(zeros_for)}));
}

// A load also verifies tensors that another load made resident after this load began.
TEST_F(LoadedModels, tensors_made_resident_meanwhile_are_verified) {
  write_file(path_, noise_file("safetensors", {3, 500}));
  ASSERT_TRUE(ht::seal(Model::open(path_).value()));
  testing::FaultyPort port;
  const auto model = Model::open(path_, {.port = &port}).value();
  std::promise<void> has_started;
  std::optional<Result<LoadReport>> second;
  std::thread verifier;
  const auto wrong = [&](std::span<const io::Strategy::LoadRequest> requests) {
    // The second load opens the seal after it has chosen the tensors to load.
    const auto caller = std::this_thread::get_id();
    port.before_each([&, caller, done = false](testing::Call call, int) mutable {
      if (call != testing::Call::open || std::this_thread::get_id() == caller || done) return;
      done = true;
      has_started.set_value();
    });
    verifier = std::thread(
        [&] { second = ht::load(model, {.strategy = io::Strategy::Kind::read, .verify = true}); });
    has_started.get_future().wait();
    return zeros_for(requests);
  };
  ASSERT_TRUE(ht::load(model, {.custom = std::make_shared<ScriptedStrategy>(wrong)}));
  verifier.join();
  ASSERT_TRUE(second);
  ASSERT_FALSE(*second) << "zeros are not the sealed bytes";
  EXPECT_EQ(second->error().code(), ErrorCode::checksum_mismatch);
}

// The caller requests the stop in its progress callback, as the C API does.
TEST_F(LoadedModels, load_that_waits_for_another_load_is_stopped_by_its_callback) {
  const auto model = open(noise_file("safetensors", {3, 500}));
  std::future<Result<LoadReport>> second;
  std::stop_source stop;
  bool is_stopped = false;
  const auto wait_for_second = [&](std::span<const io::Strategy::LoadRequest> requests) {
    second = std::async(std::launch::async, [&] {
      return ht::load(model, {.strategy = io::Strategy::Kind::read,
                              .work = {.stop = stop.get_token(), .on_progress = [&](const Progress& now) {
                                         EXPECT_EQ(now.done_bytes, 0U);
                                         stop.request_stop();
                                       }}});
    });
    // Only a test that fails waits that long.
    is_stopped = second.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    return zeros_for(requests);
  };
  ASSERT_TRUE(ht::load(model, {.custom = std::make_shared<ScriptedStrategy>(wait_for_second)}));
  EXPECT_TRUE(is_stopped);
  const auto stopped = second.get();
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(stopped.error().rule(), "work_is_completed");
}

// A source whose reads throw.
class ThrowingSource final : public io::Source {
 public:
  explicit ThrowingSource(std::vector<std::byte> bytes) : memory_(std::move(bytes)) {}
  const std::filesystem::path& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override { return memory_.size(); }
  io::Source::Identity identity() const noexcept override { return {.bytes = memory_.size()}; }
  io::Source::Capabilities capabilities() const override { return {}; }
  Result<void> read(std::uint64_t offset, MutableBytes into) const override {
    if (throws) throw std::runtime_error("a source of the caller's");
    std::ranges::copy(Bytes(memory_).subspan(offset, into.size()), into.begin());
    return {};
  }
  bool throws = false;

 private:
  std::vector<std::byte> memory_;
  std::filesystem::path path_;
};

TEST_F(LoadedModels, exceptions_of_a_source_reach_the_caller) {
  const auto source = std::make_shared<ThrowingSource>(noise_file("safetensors", {3, 500}));
  const auto model = Model::from_source(source).value();
  source->throws = true;
  EXPECT_THROW(static_cast<void>(ht::load(model)), std::runtime_error);
  EXPECT_THROW(static_cast<void>(ht::hash(model)), std::runtime_error);
  source->throws = false;
  EXPECT_TRUE(ht::load(model));
}

TEST_F(LoadedModels, use_few_reads_an_unmappable_source) {
  const auto source = std::make_shared<ThrowingSource>(noise_file("safetensors", {3, 500}));
  const auto loaded = ht::load(Model::from_source(source).value(), {.use = io::Strategy::Use::few});
  ASSERT_TRUE(loaded) << to_string(loaded.error());
  EXPECT_EQ(loaded->choice.strategy, io::Strategy::Kind::read);
}

TEST_F(LoadedModels, tensors_in_use_keep_their_pages_in_the_page_cache) {
  write_file(path_, noise_file("safetensors", {3, 500}));
  testing::FaultyPort port;
  const auto model = Model::open(path_, {.port = &port}).value();
  ASSERT_TRUE(ht::load(model, {.strategy = io::Strategy::Kind::read}));
  const auto first = model.at(0)->storage();
  const auto second = model.at(1)->storage();
  EXPECT_EQ(ht::evict(model).error().code(), ErrorCode::in_use);
  EXPECT_EQ(port.count(testing::Call::drop_cached), 0);
}

// The preset `tsan` runs this test under the thread sanitizer.
TEST_F(LoadedModels, eviction_during_the_first_use_is_safe) {
  write_file(path_, noise_file("safetensors", {3, 500}));
  for (int round = 0; round < 20; ++round) {
    const auto model = Model::open(path_).value();
    std::jthread evicts([&] { EXPECT_TRUE(ht::evict(model)); });
    const auto tensor = model.at(1).value();
    EXPECT_TRUE(tensor.bytes());
  }
}

TEST_F(LoadedModels, load_into_takes_memory_from_a_callable_and_fills_splats) {
  const auto model = open(irpa_file({{.name = "s", .length = 8, .pattern = "ab"},
                                     {.name = "d", .length = 64, .offset = 0},
                                     {.name = "e", .length = 64, .offset = 64}},
                                    std::string(128, 'x')));
  std::map<std::string, std::vector<std::byte>> memory;
  const auto place = [&](const AnyTensor& tensor) -> MutableBytes {
    if (tensor.name() == "e") return {};
    auto& bytes = memory[std::string(tensor.name())];
    bytes.resize(tensor.byte_size());
    return bytes;
  };
  const auto loaded = ht::load_into(model, place);
  ASSERT_TRUE(loaded) << to_string(loaded.error());
  EXPECT_EQ(loaded->bytes, 72U);
  EXPECT_EQ(memory.size(), 2U);
  EXPECT_TRUE(std::ranges::equal(memory["s"], bytes_of("abababab")));
  EXPECT_TRUE(std::ranges::equal(memory["d"], model["d"]->storage().value().bytes()));
  const auto same_memory =
      ht::load_into(model, [&](const AnyTensor&) { return MutableBytes(memory["s"]).first(7); });
  EXPECT_EQ(same_memory.error().code(), ErrorCode::overlap);
  const Target target{"s", MutableBytes(memory["s"]).first(7)};
  EXPECT_EQ(ht::load_into(model, std::span(&target, 1)).error().rule(), "target_size_matches_its_tensor");
}

// A format of the caller can have names of any bytes.
TEST_F(LoadedModels, names_in_messages_are_utf8) {
  const Format format{
      .name = "any",
      .extension = ".any",
      .looks_like = [](Bytes, std::uint64_t) { return true; },
      .parse = [](const FileParts&, std::uint64_t, const ParseOptions&) -> Result<ParseResult> {
        CatalogBuilder builder("any");
        constexpr std::int64_t dims[] = {8};
        HT_TRY(builder.add({.name = "\xff", .dtype = U8::tag, .dims = dims, .bytes = 8}));
        return HT_TRY(std::move(builder).build());
      },
      .encode = [](const Catalog&, const EncodeOptions&) -> Result<EncodedFile> {
        return fail(Error(ErrorCode::internal));
      }};
  write_file(path_, std::string_view("12345678"));
  const auto model = Model::open(path_, {.formats = {format}}).value();
  std::vector<std::byte> memory(9);
  const Target small[] = {{"\xff", MutableBytes(memory).first(7)}};
  EXPECT_EQ(ht::load_into(model, small).error().message(),
            "tensor '\uFFFD' has 8 bytes but its target has 7");
  const Target overlapping[] = {{"\xff", MutableBytes(memory).first(8)},
                                {"\xff", MutableBytes(memory).last(8)}};
  EXPECT_EQ(ht::load_into(model, overlapping).error().message(),
            "targets of tensors '\uFFFD' and '\uFFFD' overlap by 7 bytes");
  const auto no_layer = Window::open(model, {.layers = "\xff{}"}).error();
  EXPECT_EQ(no_layer.message(), "pattern '\uFFFD{}' matches no layer");
  EXPECT_TRUE(no_layer.hint().ends_with("the first tensor is '\uFFFD'"));
  EXPECT_EQ(Window::open(model, {.layers = "\xff{}{}"}).error().message(),
            "pattern '\uFFFD{}{}' has more than one {}");
}

}  // namespace
}  // namespace ht::loaded_models_test
