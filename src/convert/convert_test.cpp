#include <gtest/gtest.h>

#include <htensor/convert/convert.hpp>
#include <htensor/integrity/seal.hpp>

#include "format/safetensors/test_file.hpp"
#include "integrity/seal_test.hpp"
#include "model/test_formats.hpp"
#include "model/test_models.hpp"
#include "testing/child_process.hpp"
#include "testing/faulty_port.hpp"
#include "testing/shared_folder.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::convert_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

// A tensor larger than a piece, one at an odd offset, one without bytes, one of rank 0, and a name that
// breaks careless shells.
std::vector<std::byte> many_kinds() {
  const std::string json =
      R"({"__metadata__":{"format":"pt","ключ":"значение"},)"
      R"("big":{"dtype":"F32","shape":[1100000],"data_offsets":[3,4400003]},)"
      R"("odd":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
      R"("none":{"dtype":"BF16","shape":[0,7],"data_offsets":[4400003,4400003]},)"
      R"("$(rm) *'\"\\ é\n":{"dtype":"F64","shape":[],"data_offsets":[4400003,4400011]}})";
  return testing::safetensors_file(json, 4'400'011);
}

class Converting : public ::testing::Test {
 protected:
  Converting() { write_file(source_, many_kinds()); }

  [[nodiscard]] Model open(const std::filesystem::path& path) {
    auto opened = Model::open(path, {.port = &port_});
    EXPECT_TRUE(opened) << (opened ? "" : to_string(opened.error()));
    return opened.value();
  }

  void expect_same_tensors(const Model& a, const Model& b) {
    ASSERT_EQ(a.catalog().size(), b.catalog().size());
    const auto digests = ht::hash(a, {.per_tensor = true}).value().tensors;
    const auto others = ht::hash(b, {.per_tensor = true}).value().tensors;
    for (std::size_t i = 0; i < a.catalog().size(); ++i) {
      const Entry entry = a.catalog()[i];
      const auto found = b.catalog().find(entry.name);
      ASSERT_TRUE(found) << entry.name;
      const Entry other = b.catalog()[*found];
      EXPECT_EQ(entry.dtype, other.dtype);
      EXPECT_EQ(entry.encoding, other.encoding);
      EXPECT_TRUE(std::ranges::equal(entry.dims, other.dims)) << entry.name;
      EXPECT_EQ(digests[i], others[*found]) << entry.name;
    }
  }

  TemporaryFolder folder_;
  std::filesystem::path source_ = folder_ / "source.safetensors";
  FaultyPort port_;
};

TEST_F(Converting, keeps_every_tensor_and_the_metadata) {
  const auto source = open(source_);
  for (const std::string extension : {"safetensors", "irpa"}) {
    const auto target = folder_ / ("target." + extension);
    const auto done = convert(source, target);
    ASSERT_TRUE(done) << to_string(done.error());
    EXPECT_EQ(done->written, std::vector{target});
    EXPECT_EQ(done->bytes, std::filesystem::file_size(target));
    const auto converted = open(target);
    expect_same_tensors(source, converted);
    EXPECT_EQ(converted.catalog().metadata(), source.catalog().metadata());
    // Converting back gives the same file.
    ASSERT_TRUE(convert(open(target), folder_ / ("back_from_" + extension + ".safetensors")));
    EXPECT_EQ(read_file(folder_ / ("back_from_" + extension + ".safetensors")),
              read_file(folder_ / "target.safetensors"));
  }
}

TEST_F(Converting, keeps_one_tensor_in_every_format) {
  const auto source = open(source_);
  const auto expected =
      ht::hash(source, {.per_tensor = true}).value().tensors[source.catalog().find("big").value()];
  const ConvertOptions only_big{.filter = "big"};
  for (const std::string extension : {"safetensors", "irpa", "gguf", "ht", "npy"}) {
    const auto target = folder_ / ("big." + extension);
    const auto done = convert(source, target, only_big, {.lossy = true});
    ASSERT_TRUE(done) << to_string(done.error());
    const auto model = open(target);
    EXPECT_EQ(model.catalog()[0].name, "big");
    EXPECT_EQ(ht::hash(model, {.per_tensor = true}).value().tensors[0], expected);
  }
  EXPECT_TRUE(ht::verify(open(folder_ / "big.ht"))) << "the checksum in the header matches the data";
}

TEST_F(Converting, losses_are_allowed) {
  const auto source = open(source_);
  const auto refused = convert(source, folder_ / "x.npy", {.filter = "big"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::would_lose);
  EXPECT_EQ(refused.error().rule(), "losses_are_allowed");
  EXPECT_FALSE(refused.error().hint().empty());
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"source.safetensors"});
}

TEST_F(Converting, errors_name_the_option_for_each_kind_of_loss) {
  write_file(
      folder_ / "f8.safetensors",
      testing::safetensors_file(
          R"({"__metadata__":{"k":"v"},"x":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", 8));
  const auto source = open(folder_ / "f8.safetensors");
  const auto plan = plan_conversion(source, folder_ / "x.npy").value();
  ASSERT_EQ(plan.losses.size(), 2U);
  EXPECT_EQ(plan.losses[0].kind, Loss::Kind::metadata);
  EXPECT_EQ(plan.losses[1].kind, Loss::Kind::raw_bytes);
  EXPECT_EQ(plan.losses[1].change, "F8_E4M3 [8] → U8 [8]");
  const auto hint = [&](const ApplyOptions& options) {
    const auto done = check_plan(plan, source, options);
    return done ? "" : std::string(done.error().hint());
  };
  EXPECT_NE(hint({}).find("with --drop-metadata --raw-bytes"), std::string::npos) << hint({});
  EXPECT_NE(hint({.drop_metadata = true}).find("with --raw-bytes"), std::string::npos);
  EXPECT_EQ(hint({.drop_metadata = true}).find("--drop-metadata"), std::string::npos);
  EXPECT_NE(hint({.raw_bytes = true}).find("with --drop-metadata"), std::string::npos);
  EXPECT_EQ(hint({.raw_bytes = true}).find("--raw-bytes"), std::string::npos);
  EXPECT_EQ(hint({.drop_metadata = true, .raw_bytes = true}), "");
  EXPECT_EQ(hint({.lossy = true}), "");
}

TEST_F(Converting, overwriting_the_source_is_safe) {
  const auto before = open(source_);
  ASSERT_FALSE(convert(before, source_)) << "an existing file is replaced only on request";
  ASSERT_TRUE(convert(before, source_, {.filter = "big"}, {.if_exists = IfExists::replace}));
  const auto after = open(source_);
  EXPECT_EQ(after.catalog().size(), 1U);
  EXPECT_EQ(before.catalog().size(), 4U);
  EXPECT_TRUE(before.storage("odd")) << "an open model keeps the replaced file";
}

TEST_F(Converting, seals_from_the_copied_bytes) {
  const auto source = open(source_);
  for (const std::string extension : {"irpa", "safetensors", "ht"}) {
    const auto target = folder_ / ("sealed." + extension);
    const ConvertOptions options{.filter = extension == "ht" ? "big" : "*"};
    const auto done = convert(source, target, options, {.lossy = true, .seal = true});
    ASSERT_TRUE(done) << to_string(done.error());
    ASSERT_TRUE(done->seal);
    const auto during_conversion = read_file(*done->seal);
    EXPECT_TRUE(compare_with_seal(target).value().is_intact());
    ASSERT_TRUE(ht::seal(open(target)));
    EXPECT_EQ(read_file(*done->seal), during_conversion) << "conversion and `seal` write the same seal";
  }
}

TEST_F(Converting, seals_alignment_gaps_and_holes) {
  const auto source = open(source_);
  for (const std::uint64_t alignment : {256U, 4096U, 1U << 16, 1U << 20}) {
    for (const std::string extension : {"irpa", "safetensors", "gguf", "ht"}) {
      SCOPED_TRACE(extension + " aligned to " + std::to_string(alignment));
      const auto target = folder_ / ("aligned." + extension);
      const ConvertOptions options{.filter = extension == "ht" ? "big" : "*", .alignment = alignment};
      const auto done =
          convert(source, target, options, {.if_exists = IfExists::replace, .lossy = true, .seal = true});
      ASSERT_TRUE(done) << to_string(done.error());
      const auto during_conversion = read_file(*done->seal);
      EXPECT_TRUE(compare_with_seal(target).value().is_intact());
      ASSERT_TRUE(ht::seal(open(target)));
      EXPECT_EQ(read_file(*done->seal), during_conversion) << "conversion and `seal` write the same seal";
    }
  }
}

TEST_F(Converting, splits_into_shards_of_one_model) {
  const auto source = open(source_);
  const auto done = convert(source, folder_ / "m.safetensors", {.shard_bytes = 1000}, {.seal = true}).value();
  EXPECT_EQ(done.written.size(), 3U);
  const auto index = folder_ / "m.safetensors.index.json";
  expect_same_tensors(source, open(index));
  EXPECT_TRUE(compare_with_seal(index).value().is_intact());
  // Replaces the shards, then converts them to one file.
  const auto replaced =
      convert(source, folder_ / "m.safetensors", {.shard_bytes = 1000}, {.if_exists = IfExists::replace});
  ASSERT_TRUE(replaced) << to_string(replaced.error());
  EXPECT_EQ(replaced->seal, done.seal) << "a sealed set gets a new seal";
  EXPECT_FALSE(replaced->stale_seal);
  EXPECT_TRUE(compare_with_seal(index).value().is_intact());
  expect_same_tensors(source, open(index));
  ASSERT_TRUE(convert(open(index), folder_ / "one.safetensors"));
  expect_same_tensors(source, open(folder_ / "one.safetensors"));
}

TEST_F(Converting, splits_a_gguf_into_parts) {
  const auto source = open(source_);
  ASSERT_TRUE(convert(source, folder_ / "whole.gguf", {.renames = {{"odd", "small"}}}, {.lossy = true}));
  const auto whole = open(folder_ / "whole.gguf");
  ASSERT_TRUE(convert(whole, folder_ / "m.gguf", {.shard_bytes = 1000}, {.seal = true}));
  const auto parts = open(folder_ / "m-00001-of-00002.gguf");
  expect_same_tensors(whole, parts);
  EXPECT_EQ(parts.catalog().metadata(), whole.catalog().metadata());
  EXPECT_TRUE(compare_with_seal(folder_ / "m-00001-of-00002.gguf").value().is_intact());
}

// A stop is also honoured during fsync, after the last byte was written.
TEST_F(Converting, work_is_completed) {
  const auto source = open(source_);
  for (const std::uint64_t shard_bytes : {0U, 1000U}) {
    std::stop_source stop;
    const auto stop_at_the_end = [&](const Progress& now) {
      if (now.done_bytes == now.total_bytes) stop.request_stop();
    };
    const auto done =
        convert(source, folder_ / "m.safetensors", {.shard_bytes = shard_bytes},
                {.seal = true, .work = {.stop = stop.get_token(), .on_progress = stop_at_the_end}});
    ASSERT_FALSE(done) << "stopped before the first rename";
    EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
    EXPECT_EQ(done.error().rule(), "work_is_completed");
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"source.safetensors"});
  }
}

TEST_F(Converting, overwriting_a_sharded_source_is_safe) {
  ASSERT_TRUE(convert(open(source_), folder_ / "m.safetensors", {.shard_bytes = 1000}));
  const auto index = folder_ / "m.safetensors.index.json";
  for (const std::uint64_t shard_bytes : {1000U, 100U, 100'000U, 1000U}) {
    const auto set = open(index);
    const auto done = convert(set, folder_ / "m.safetensors", {.shard_bytes = shard_bytes},
                              {.if_exists = IfExists::replace});
    ASSERT_TRUE(done) << to_string(done.error());
    expect_same_tensors(open(source_), set);
    expect_same_tensors(open(source_), open(index));
  }
}

TEST_F(Converting, plan_belongs_to_the_model) {
  const auto other = folder_ / "other.safetensors";
  std::filesystem::copy_file(source_, other);
  const auto plan = plan_conversion(open(source_), folder_ / "x.irpa").value();
  const auto refusal = [&](const Model& model) {
    const auto done = apply(plan, model);
    return done ? std::string()
                : std::string(to_string(done.error().code())) + " " + std::string(done.error().rule());
  };
  const std::string refused = "changed_underfoot plan_belongs_to_the_model";
  EXPECT_EQ(refusal(open(other)), refused) << "a copy with the same bytes";
  EXPECT_EQ(refusal(open(source_)), "") << "the same file reopened";
  std::filesystem::remove(folder_ / "x.irpa");
  std::filesystem::rename(source_, folder_ / "renamed.safetensors");
  EXPECT_EQ(refusal(open(folder_ / "renamed.safetensors")), "") << "the file was renamed";
  std::filesystem::remove(folder_ / "x.irpa");
  std::filesystem::rename(folder_ / "renamed.safetensors", source_);
  auto bytes = read_file(source_);
  bytes.back() ^= std::byte{1};
  write_file(source_, bytes);
  EXPECT_EQ(refusal(open(source_)), refused) << "the file was modified";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "x.irpa"));
}

TEST_F(Converting, reports_a_plan_made_from_a_catalog_alone) {
  const auto catalog = Model::open(source_, {.catalog_only = true}).value();
  const auto plan = plan_conversion(catalog, folder_ / "x.irpa").value();
  const auto done = apply(plan, open(source_));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().rule(), "plan_belongs_to_the_model");
  EXPECT_NE(done.error().message().find("from a catalog alone"), std::string_view::npos);
}

TEST_F(Converting, syncs_the_file_once_and_its_folder_once) {
  const auto source = open(source_);
  const int before = port_.count(Call::sync);
  ASSERT_TRUE(convert(source, folder_ / "x.irpa"));
  EXPECT_EQ(port_.count(Call::sync), before + 2);
}

// Opening a folder merges all shards of the same count, so old and new shards must never be mixed.
TEST_F(Converting, never_mixes_old_and_new_shards) {
  const auto source = open(source_);
  const auto target = folder_ / "set" / "m.safetensors";
  std::filesystem::create_directory(folder_ / "set");
  ASSERT_TRUE(convert(source, target, {.shard_bytes = 1000}));
  for (int nth = 0; nth < 3; ++nth) {
    ASSERT_TRUE(convert(source, target, {.shard_bytes = 1000}, {.if_exists = IfExists::replace}));
    port_.fail_at(Call::rename, port_.count(Call::rename) + nth, std::errc::io_error);
    const auto failed = convert(source, target, {.renames = {{"odd", "even"}}, .shard_bytes = 1000},
                                {.if_exists = IfExists::replace});
    ASSERT_FALSE(failed);
    expect_same_tensors(source, open(folder_ / "set"));
  }
}

using Names = std::vector<std::string>;

// A folder with a set of three shards of one tensor each, and files with similar names outside the set.
class Resharding : public Converting {
 protected:
  Resharding() {
    std::filesystem::create_directory(set_);
    write_file(folder_ / "small.safetensors",
               testing::safetensors_file(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},)"
                                         R"("b":{"dtype":"I8","shape":[4],"data_offsets":[4,8]},)"
                                         R"("c":{"dtype":"I8","shape":[4],"data_offsets":[8,12]}})",
                                         12));
  }
  void write_old(const std::string& extension) {
    for (const auto& file : std::filesystem::directory_iterator(set_)) std::filesystem::remove(file.path());
    const auto old = Model::open(folder_ / "small.safetensors").value();
    ASSERT_TRUE(convert(old, set_ / ("m" + extension), {.shard_bytes = 1}, {.lossy = true}));
    for (const auto* const other : {"m-00001-of-00003.txt", "mm-00001-of-00003", "n-00002-of-00003"}) {
      write_file(set_ / (other + (std::string(other).ends_with("txt") ? "" : extension)), "another file");
    }
  }
  Names names() const {
    Names found;
    for (const auto& file : std::filesystem::directory_iterator(set_)) {
      const auto name = file.path().filename().string();
      if (name.starts_with("m-") && !name.ends_with("txt")) found.push_back(name);
      if (name.ends_with(".json")) found.push_back(name);
    }
    std::ranges::sort(found);
    return found;
  }
  std::filesystem::path set_ = folder_ / "set";
};

TEST_F(Resharding, removes_the_old_shards_and_no_other_file) {
  for (const std::string extension : {".safetensors", ".gguf"}) {
    write_old(extension);
    const bool has_index = extension == ".safetensors";
    const auto source = open(folder_ / "small.safetensors");
    const auto target = set_ / ("m" + extension);
    const auto done =
        convert(source, target, {.shard_bytes = 8}, {.if_exists = IfExists::replace, .lossy = true}).value();
    Names removed;
    for (const auto& path : done.removed) removed.push_back(path.filename().string());
    EXPECT_EQ(removed, (Names{"m-00001-of-00003" + extension, "m-00002-of-00003" + extension,
                              "m-00003-of-00003" + extension}));
    Names left{"m-00001-of-00002" + extension, "m-00002-of-00002" + extension};
    if (has_index) left.push_back("m.safetensors.index.json");
    EXPECT_EQ(names(), left);
    expect_same_tensors(source, open(set_ / left[has_index ? 2 : 0]));
    for (const auto& other :
         Names{"m-00001-of-00003.txt", "mm-00001-of-00003" + extension, "n-00002-of-00003" + extension}) {
      EXPECT_TRUE(std::filesystem::exists(set_ / other)) << other;
    }
  }
}

TEST_F(Resharding, replaces_the_old_seal_on_request) {
  const auto source = open(folder_ / "small.safetensors");
  ASSERT_TRUE(convert(source, set_ / "m.safetensors", {.shard_bytes = 1}, {.seal = true}));
  const auto done = convert(source, set_ / "m.safetensors", {.shard_bytes = 8},
                            {.if_exists = IfExists::replace, .seal = true});
  ASSERT_TRUE(done) << to_string(done.error());
  EXPECT_EQ(done->removed.size(), 3U);
  EXPECT_TRUE(compare_with_seal(set_ / "m.safetensors.index.json").value().is_intact());
}

TEST_F(Resharding, renews_the_old_seal_without_a_request) {
  const auto source = open(folder_ / "small.safetensors");
  ASSERT_TRUE(convert(source, set_ / "m.safetensors", {.shard_bytes = 1}, {.seal = true}));
  const auto done =
      convert(source, set_ / "m.safetensors", {.shard_bytes = 8}, {.if_exists = IfExists::replace});
  ASSERT_TRUE(done) << to_string(done.error());
  EXPECT_EQ(done->removed.size(), 3U);
  EXPECT_TRUE(done->seal);
  EXPECT_FALSE(done->stale_seal);
  EXPECT_TRUE(compare_with_seal(set_ / "m.safetensors.index.json").value().is_intact());
}

// The seal of a split GGUF file has the number of parts in its name.
TEST_F(Resharding, checked_plan_lists_the_files_that_apply_removes) {
  const auto source = open(folder_ / "small.safetensors");
  const auto target = set_ / "m.gguf";
  ASSERT_TRUE(convert(source, target, {.shard_bytes = 1}, {.seal = true}));
  const auto plan = plan_conversion(source, target, {.shard_bytes = 8}).value();
  auto checked = check_plan(plan, source, {.if_exists = IfExists::replace});
  ASSERT_TRUE(checked) << to_string(checked.error());
  const auto listed = checked->removed();
  EXPECT_EQ(listed, (std::vector{set_ / "m-00001-of-00003.gguf", set_ / "m-00002-of-00003.gguf",
                                 set_ / "m-00003-of-00003.gguf", set_ / "m-00001-of-00003.gguf.htseal"}));
  const auto done = std::move(*checked).apply();
  ASSERT_TRUE(done) << to_string(done.error());
  EXPECT_EQ(done->removed, listed);
  for (const auto& path : listed) EXPECT_FALSE(std::filesystem::exists(path)) << path;
  EXPECT_EQ(done->seal, set_ / "m-00001-of-00002.gguf.htseal");
}

TEST_F(Resharding, into_one_shard_removes_the_old_index_and_the_old_shards) {
  write_old(".safetensors");
  const auto done = convert(open(folder_ / "small.safetensors"), set_ / "m.safetensors", {.shard_bytes = 100},
                            {.if_exists = IfExists::replace})
                        .value();
  EXPECT_EQ(done.removed.size(), 4U);
  EXPECT_EQ(names(), Names{});
  EXPECT_TRUE(Model::open(set_ / "m.safetensors"));
}

TEST_F(Resharding, keeps_files_that_the_old_index_does_not_name) {
  write_old(".safetensors");
  write_file(set_ / "m-00001-of-00009.safetensors", "not a part of the set");
  const auto source = open(folder_ / "small.safetensors");
  const auto removed = [&](std::uint64_t shard_bytes) {
    const auto plan = plan_conversion(source, set_ / "m.safetensors", {.shard_bytes = shard_bytes});
    return check_plan(plan.value(), source, {.if_exists = IfExists::replace}).value().removed().size();
  };
  EXPECT_EQ(removed(8), 3U);
  EXPECT_EQ(removed(0), 0U) << "without shard_bytes, no shard is removed";
  write_file(set_ / "m.safetensors.index.json", "not an index");
  EXPECT_EQ(removed(8), 0U) << "an invalid index names no files";
  std::filesystem::remove(set_ / "m.safetensors.index.json");
  EXPECT_EQ(removed(8), 4U) << "without an index, files are found by their numbers";
}

// If the stat of the index fails with an I/O error, the index may exist, so the shards must not be found by
// their numbers.
TEST_F(Resharding, failed_stat_calls_remove_no_file_and_are_reported) {
  Names before;
  bool is_finished = false;
  for (int nth = 0; !is_finished; ++nth) {
    SCOPED_TRACE("the " + std::to_string(nth) + "th stat");
    if (before.empty() || names() != before) {
      write_old(".safetensors");
      write_file(set_ / "m-00001-of-00009.safetensors", "not a part of the set");
      before = names();
    }
    FaultyPort port;
    const auto source = Model::open(folder_ / "small.safetensors", {.port = &port}).value();
    const int earlier = port.count(Call::stat_path);
    port.fail_at(Call::stat_path, earlier + nth, std::errc::io_error);
    const auto done =
        convert(source, set_ / "m.safetensors", {.shard_bytes = 8}, {.if_exists = IfExists::replace});
    is_finished = port.count(Call::stat_path) <= earlier + nth;
    EXPECT_TRUE(std::filesystem::exists(set_ / "m-00001-of-00009.safetensors"));
    if (done) continue;
    EXPECT_EQ(done.error().cause(), std::errc::io_error) << to_string(done.error());
    EXPECT_EQ(names(), before);
  }
}

// The old set is the source itself. After a kill at any call, all tensors are in one of the two sets.
TEST_F(Resharding, killed_at_any_call_loses_no_tensor) {
  bool is_finished = false;
  for (int call = 0; !is_finished; ++call) {
    ASSERT_LT(call, 1000);
    write_old(".safetensors");
    is_finished = testing::finishes_in_child([&] {
      FaultyPort port;
      const auto source = Model::open(set_ / "m.safetensors.index.json", {.port = &port});
      testing::kill_before(port, call);
      return convert(source.value(), set_ / "m.safetensors", {.shard_bytes = 8},
                     {.if_exists = IfExists::replace})
          .has_value();
    });
    const auto after = Model::open(set_ / "m.safetensors.index.json");
    ASSERT_TRUE(after) << "before call " << call << ": " << to_string(after.error());
    expect_same_tensors(open(folder_ / "small.safetensors"), *after);
  }
}

TEST_F(Converting, reports_an_existing_target_before_writing) {
  write_file(folder_ / "m.safetensors.index.json", "the index of another model");
  const auto before = port_.count(Call::create_nameless);
  const auto done = convert(open(source_), folder_ / "m.safetensors", {.shard_bytes = 1000});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::already_exists);
  EXPECT_EQ(port_.count(Call::create_nameless), before) << "the check comes before the first write";
}

TEST_F(Converting, keeps_the_seal_of_another_model) {
  const auto source = open(source_);
  ASSERT_TRUE(convert(source, folder_ / "a.safetensors", {.shard_bytes = 1000}, {.seal = true}));
  const auto seal = read_file(folder_ / "model.htseal");
  const auto done = convert(source, folder_ / "b.safetensors", {.shard_bytes = 1000}, {.seal = true});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().rule(), "existing_seal_is_of_this_model");
  EXPECT_TRUE(read_file(folder_ / "model.htseal") == seal);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b.safetensors.index.json"));
}

TEST_F(Converting, reports_a_name_that_a_seal_cannot_store_before_writing) {
  const auto done = convert(open(source_), folder_ / "a\\b.irpa", {}, {.seal = true});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().rule(), "sealed_files_have_plain_names");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a\\b.irpa"));
}

TEST_F(Converting, a_sealed_target_gets_a_new_seal_of_the_same_algorithm) {
  const auto source = open(source_);
  ASSERT_TRUE(convert(source, folder_ / "x.irpa"));
  for (const auto algorithm : all_hash_algorithms) {
    const auto sealed = ht::seal(open(folder_ / "x.irpa"), {.algorithm = algorithm, .force = true}).value();
    const auto done =
        convert(source, folder_ / "x.irpa", {.filter = "big"}, {.if_exists = IfExists::replace}).value();
    EXPECT_EQ(done.seal, sealed.seal);
    EXPECT_FALSE(done.stale_seal);
    const auto found = compare_with_seal(folder_ / "x.irpa").value();
    EXPECT_EQ(found.verdict, Verification::Verdict::intact);
    EXPECT_EQ(found.algorithm, algorithm);
  }
}

TEST_F(Converting, reports_a_seal_that_other_files_share) {
  const auto source = open(source_);
  ASSERT_TRUE(convert(source, folder_ / "m.safetensors", {.shard_bytes = 1000}, {.seal = true}));
  const auto before = read_file(folder_ / "model.htseal");
  const auto target = folder_ / "m-00001-of-00002.safetensors";
  const auto own_seal = folder_ / "m-00001-of-00002.safetensors.htseal";
  for (const bool is_seal_requested : {false, true}) {
    const auto done = convert(source, target, {.filter = "big"},
                              {.if_exists = IfExists::replace, .seal = is_seal_requested});
    ASSERT_TRUE(done) << to_string(done.error());
    EXPECT_EQ(done->stale_seal, folder_ / "model.htseal") << is_seal_requested;
    EXPECT_EQ(read_file(folder_ / "model.htseal"), before);
    EXPECT_EQ(done->seal.has_value(), is_seal_requested);
    EXPECT_EQ(std::filesystem::exists(own_seal), is_seal_requested);
  }
}

TEST_F(Converting, old_files_can_be_removed) {
  const auto source = open(source_);
  const ConvertOptions shards{.shard_bytes = 1000};
  ASSERT_TRUE(convert(source, folder_ / "x.safetensors", shards, {.seal = true}));
  port_.fail_from(Call::unlink, port_.count(Call::unlink), std::errc::permission_denied);
  const auto done = convert(source, folder_ / "x.safetensors", shards, {.if_exists = IfExists::replace});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().rule(), "old_files_can_be_removed");
  EXPECT_TRUE(compare_with_seal(folder_ / "x.safetensors.index.json").value().is_intact())
      << "the new set is in place";
  port_.clear_faults();
  ASSERT_TRUE(convert(source, folder_ / "x.safetensors", shards, {.if_exists = IfExists::replace}));
  for (const auto& name : folder_.names()) EXPECT_FALSE(name.starts_with(".")) << name;
}

TEST_F(Converting, expands_splats_if_the_format_has_none) {
  write_file(folder_ / "s.irpa", testing::irpa_file({{.name = "s",
                                                      .note = testing::tensor_note("float32", "[1000]"),
                                                      .length = 4000,
                                                      .pattern = "\1\2\3\4"}}));
  const auto splat = open(folder_ / "s.irpa");
  ASSERT_TRUE(convert(splat, folder_ / "s.safetensors"));
  EXPECT_EQ(ht::hash(open(folder_ / "s.safetensors"), {.per_tensor = true}).value().tensors,
            ht::hash(splat, {.per_tensor = true}).value().tensors);
  ASSERT_TRUE(convert(splat, folder_ / "again.irpa"));
  const auto copy = open(folder_ / "again.irpa");
  EXPECT_TRUE(copy.catalog()[0].is_splat());
}

TEST_F(Converting, merges_external_data_into_an_archive) {
  write_file(folder_ / "data.bin", "0123456789abcdef");
  write_file(folder_ / "e.irpa", testing::irpa_file({{.name = "e",
                                                      .note = testing::tensor_note("uint8", "[4]"),
                                                      .length = 4,
                                                      .offset = 10,
                                                      .path = "data.bin"}}));
  ASSERT_TRUE(convert(open(folder_ / "e.irpa"), folder_ / "all.irpa"));
  const auto bytes = open(folder_ / "all.irpa").storage("e").value();
  EXPECT_TRUE(std::ranges::equal(bytes.bytes(), bytes_of("abcd")));
}

TEST_F(Converting, equals_the_bytes_written_by_iree) {
  HT_SHARED_OR_SKIP(corpus, "corpus/irpa/iree");
  for (const std::string name : {"empty", "single", "multiple", "mixed"}) {
    const auto target = folder_ / (name + ".irpa");
    const auto done = convert(open(corpus / (name + ".irpa")), target, {.describe_types = false});
    ASSERT_TRUE(done) << name << to_string(done.error());
    EXPECT_TRUE(read_file(target) == read_file(corpus / (name + ".irpa"))) << name;
  }
}

}  // namespace
}  // namespace ht::convert_test
