// Seals of models of several files.
#include <algorithm>
#include <htensor/hash/digest.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/load/load.hpp>

#include "integrity/hash_ranges.hpp"
#include "integrity/seal_test.hpp"
#include "load/sealed_sets_test.hpp"
#include "model/journal/set_journal_test.hpp"
#include "model/test_formats.hpp"
#include "testing/faulty_port.hpp"

namespace ht::sealed_sets_test {
namespace {

using testing::expect_refusal;
using testing::flip_bit;
using testing::noise;
using testing::noise_file;
using testing::read_file;
using testing::write_file;

TEST_F(SealedSet, has_one_seal_for_all_files_and_the_index) {
  const auto seal = read_seal(folder_ / "model.htseal").value();
  std::vector<std::string> names;
  for (const auto& file : seal.files) names.push_back(file.name);
  EXPECT_EQ(names, (std::vector<std::string>{"part0.safetensors", "part1.safetensors",
                                             "model.safetensors.index.json"}));
  for (const auto& path : {folder_.path(), folder_ / "model.safetensors.index.json"}) {
    EXPECT_TRUE(compare_with_seal(path).value().is_intact());
    EXPECT_TRUE(ht::verify(Model::open(path).value()));
  }
  // The seal is the same, whether the model is opened by its index or by its folder.
  const auto bytes = read_file(folder_ / "model.htseal");
  ASSERT_TRUE(ht::seal(Model::open(folder_.path()).value()));
  EXPECT_EQ(read_file(folder_ / "model.htseal"), bytes);
}

TEST_F(SealedSet, names_the_bad_file_and_tensor) {
  flip_bit(folder_ / "part1.safetensors", offset_of(1, 2) + 7);
  const auto found = compare_with_seal(folder_.path()).value();
  const std::vector<Verification::BadRange> expected{{folder_ / "part1.safetensors",
                                                      Verification::Part::tensor, tensor(1, 2),
                                                      offset_of(1, 2), tensor_bytes}};
  EXPECT_EQ(found.bad, expected);
}

TEST_F(SealedSet, covers_the_index) {
  const auto index = folder_ / "model.safetensors.index.json";
  write_file(index, testing::index_text({{"t0.0", "part0.safetensors"}}));
  const auto found = compare_with_seal(folder_.path()).value();
  EXPECT_EQ(found.verdict, Verification::Verdict::truncated);
  EXPECT_EQ(found.bad.front().file, index);
}

TEST_F(SealedSet, reports_a_missing_file) {
  std::filesystem::remove(folder_ / "part0.safetensors");
  const auto found = compare_with_seal(folder_.path()).value();
  EXPECT_EQ(found.verdict, Verification::Verdict::missing);
  EXPECT_EQ(found.bad.front().file, folder_ / "part0.safetensors");
  EXPECT_EQ(std::ranges::count(found.bad, Verification::Part::tensor, &Verification::BadRange::part),
            tensors_per_file);
  EXPECT_EQ(found.result().error().code(), ErrorCode::missing_shard);
}

TEST_F(SealedSet, reports_a_missing_file_that_is_verified_alone) {
  const auto missing = folder_ / "part0.safetensors";
  std::filesystem::remove(missing);
  for (const bool quick : {false, true}) {
    const auto found = compare_with_seal(missing, {.quick = quick}).value();
    EXPECT_EQ(found.verdict, Verification::Verdict::missing);
    ASSERT_FALSE(found.bad.empty());
    for (const auto& range : found.bad) EXPECT_EQ(range.file, missing);
  }
}

TEST_F(SealedSet, every_file_is_sealed) {
  // Without an index, each file that is added to the folder belongs to the model.
  std::filesystem::remove(folder_ / "model.safetensors.index.json");
  std::filesystem::remove(folder_ / "model.htseal");
  model_ = Model::open(folder_.path(), {.port = &port_}).value();
  ASSERT_TRUE(ht::seal(*model_));
  EXPECT_TRUE(compare_with_seal(folder_.path()).value().is_intact());
  write_file(folder_ / "part2.safetensors", noise_file("safetensors", {5}));
  expect_refusal(compare_with_seal(folder_.path()), ErrorCode::not_sealed, "every_file_is_sealed");
  const auto with_part2 = Model::open(folder_.path()).value();
  expect_refusal(ht::verify(with_part2), ErrorCode::not_sealed, "every_file_is_sealed");
  expect_refusal(ht::load(with_part2, {.verify = true}), ErrorCode::not_sealed, "every_file_is_sealed");
}

TEST_F(SealedSet, seal_is_renewed_for_an_added_file_and_kept_for_a_damaged_one) {
  std::filesystem::remove(folder_ / "model.safetensors.index.json");
  std::filesystem::remove(folder_ / "model.htseal");
  ASSERT_TRUE(ht::seal(Model::open(folder_.path()).value()));
  write_file(folder_ / "part2.safetensors", noise_file("safetensors", {5}));
  ASSERT_TRUE(ht::seal(Model::open(folder_.path()).value()));
  EXPECT_TRUE(compare_with_seal(folder_.path()).value().is_intact());
  flip_bit(folder_ / "part2.safetensors", std::filesystem::file_size(folder_ / "part2.safetensors") - 1);
  expect_refusal(ht::seal(Model::open(folder_.path()).value()), ErrorCode::checksum_mismatch,
                 "sealed_files_are_undamaged");
  // A seal of the damaged file alone would hide the damage that the seal of the folder shows.
  expect_refusal(ht::seal(Model::open(folder_ / "part2.safetensors").value()), ErrorCode::checksum_mismatch,
                 "sealed_files_are_undamaged");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "part2.safetensors.htseal"));
}

TEST_F(SealedSet, seal_does_not_apply_to_another_index_in_the_same_folder) {
  const auto other = folder_ / "other.safetensors.index.json";
  write_file(folder_ / "x.safetensors", noise_file("safetensors", {5}));
  write_file(other, testing::index_text({{"t0", "x.safetensors"}}));
  expect_refusal(compare_with_seal(other), ErrorCode::not_sealed, "every_file_is_sealed");
  expect_refusal(ht::verify(Model::open(other).value()), ErrorCode::not_sealed, "every_file_is_sealed");
  // An index that does not exist.
  EXPECT_EQ(compare_with_seal(folder_ / "none.index.json").error().code(), ErrorCode::open_failed);
}

TEST_F(SealedSet, existing_seal_is_of_this_model) {
  const auto other = folder_ / "other.safetensors.index.json";
  write_file(folder_ / "x.safetensors", noise_file("safetensors", {5}));
  write_file(other, testing::index_text({{"t0", "x.safetensors"}}));
  const auto before = read_file(folder_ / "model.htseal");
  const auto model = Model::open(other).value();
  expect_refusal(ht::seal(model), ErrorCode::already_exists, "existing_seal_is_of_this_model");
  EXPECT_EQ(read_file(folder_ / "model.htseal"), before);
  // The seal of files that no longer exist is replaced.
  model_.reset();
  for (const auto* const name : {"part0.safetensors", "part1.safetensors", "model.safetensors.index.json"}) {
    std::filesystem::remove(folder_ / name);
  }
  EXPECT_TRUE(ht::seal(model));
}

TEST_F(SealedSet, seal_of_files_that_cannot_be_examined_is_kept) {
  const auto other = folder_ / "other.safetensors.index.json";
  write_file(folder_ / "x.safetensors", noise_file("safetensors", {5}));
  write_file(other, testing::index_text({{"t0", "x.safetensors"}}));
  const auto before = read_file(folder_ / "model.htseal");
  model_.reset();
  // Only part0 is left of the sealed set.
  for (const auto* const name : {"part1.safetensors", "model.safetensors.index.json"})
    std::filesystem::remove(folder_ / name);
  // In the last pass no call fails; the seal is then kept because part0 exists.
  bool was_injected = true;
  for (int nth = 0; was_injected; ++nth) {
    testing::FaultyPort port;
    const auto model = Model::open(other, {.port = &port}).value();
    const int failing = port.count(testing::Call::stat_path) + nth;
    port.fail_at(testing::Call::stat_path, failing, std::errc::io_error);
    ASSERT_FALSE(ht::seal(model)) << nth;
    EXPECT_EQ(read_file(folder_ / "model.htseal"), before) << nth;
    was_injected = port.count(testing::Call::stat_path) > failing;
  }
}

TEST_F(SealedSet, seal_is_found_for_each_file_of_the_set) {
  const auto found = compare_with_seal(folder_ / "part1.safetensors");
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_TRUE(found->is_intact());
  EXPECT_EQ(found->checked_bytes, std::filesystem::file_size(folder_ / "part1.safetensors"));
  flip_bit(folder_ / "part0.safetensors", offset_of(0, 0));
  EXPECT_TRUE(compare_with_seal(folder_ / "part1.safetensors").value().is_intact());
  EXPECT_FALSE(compare_with_seal(folder_ / "part0.safetensors").value().is_intact());
  EXPECT_TRUE(ht::verify(Model::open(folder_ / "part1.safetensors").value()));
  EXPECT_FALSE(ht::verify(Model::open(folder_ / "part0.safetensors").value()));
  EXPECT_TRUE(ht::load(Model::open(folder_ / "part1.safetensors").value(), {.verify = true}));
}

// The damaged seal may list the file, so neither the file nor a tensor of it counts as unsealed.
TEST_F(SealedSet, damaged_seal_is_reported_for_each_of_its_files) {
  flip_bit(folder_ / "model.htseal", 100);
  const auto path = folder_ / "part1.safetensors";
  const auto model = Model::open(path).value();
  for (const auto& refused :
       {compare_with_seal(path).map([](const auto&) {}), ht::verify(model), ht::verify(model.at(0).value()),
        ht::load(model, {.verify = true}).map([](const auto&) {})}) {
    const auto error = testing::refusal(refused, ErrorCode::bad_seal, "seal_digest_matches");
    EXPECT_EQ(error.path(), (folder_ / "model.htseal").native());
  }
  const auto error = testing::refusal(ht::seal(model), ErrorCode::bad_seal, "sealed_files_are_undamaged");
  EXPECT_TRUE(error.message().ends_with("; the seal 'model.htseal' was kept")) << error.message();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "part1.safetensors.htseal"));
  EXPECT_TRUE(ht::seal(model, {.force = true}));
}

TEST_F(SealedSet, seal_that_cannot_be_read_is_reported_for_each_of_its_files) {
  const auto path = folder_ / "part1.safetensors";
  testing::FaultyPort port;
  const auto model = Model::open(path, {.port = &port}).value();
  const auto expect_open_failed = [&](const auto& verb) {
    // The first call finds that the file has no seal of its own.
    port.fail_at(testing::Call::open, port.count(testing::Call::open) + 1, std::errc::permission_denied);
    const auto done = verb();
    port.clear_faults();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ErrorCode::open_failed) << to_string(done.error());
    EXPECT_EQ(done.error().path(), (folder_ / "model.htseal").native());
  };
  expect_open_failed([&] { return ht::verify(model); });
  expect_open_failed([&] { return ht::verify(model.at(0).value()); });
  expect_open_failed([&] { return ht::seal(model); });
  EXPECT_FALSE(std::filesystem::exists(folder_ / "part1.safetensors.htseal"));
}

// A writer was killed after it committed the journal: all files of the new set, including the seal, still
// have temporary names.
TEST(Seals, seal_of_a_set_is_found_for_each_tensor_while_the_set_is_replaced) {
  const testing::TemporaryFolder folder;
  const std::string index = "m.safetensors.index.json";
  write_file(folder / "m-00001-of-00002.safetensors", testing::shard_file({"a"}));
  write_file(folder / "m-00002-of-00002.safetensors", testing::shard_file({"b"}));
  write_file(folder / index, testing::index_text({{"a", "m-00001-of-00002.safetensors"},
                                                  {"b", "m-00002-of-00002.safetensors"}}));
  ASSERT_TRUE(ht::seal(Model::open(folder / index).value()));
  testing::interrupt_replacement(
      folder.path(), {"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors", "model.htseal", index});
  const auto model = Model::open(folder / index).value();
  EXPECT_TRUE(ht::verify(model));
  for (const AnyTensor& tensor : model) {
    const auto verified = ht::verify(tensor);
    EXPECT_TRUE(verified) << to_string(verified.error());
    EXPECT_TRUE(ht::verify(tensor.storage().value()));
  }
}

TEST_F(SealedSet, seal_has_the_digest_that_hash_returns) {
  const auto hashed = ht::hash(*model_).value();
  EXPECT_EQ(hashed.digest, digest_of(read_seal(folder_ / "model.htseal").value()).value());
  ASSERT_EQ(hashed.files.size(), 3U);
  EXPECT_EQ(hashed.files[2].path, folder_ / "model.safetensors.index.json");
}

TEST(Seals, seal_lists_the_models_tensors) {
  const testing::TemporaryFolder folder;
  const std::vector<testing::IrpaEntry> entries{{.name = "a", .length = 8, .offset = 0},
                                                {.name = "b", .length = 8, .offset = 8}};
  write_file(folder / "m.irpa", testing::irpa_file(entries, "0123456789abcdef"));
  ASSERT_TRUE(ht::seal(Model::open(folder / "m.irpa").value()));
  // A seal that covers every byte but lists one tensor where the model has two.
  auto seal = read_seal(folder / "m.irpa.htseal").value();
  const auto first = seal.tensors[0].offset;
  seal.tensors.resize(1, seal.tensors[0]);
  seal.tensors[0].bytes = 16;
  const auto file = read_file(folder / "m.irpa");
  seal.tensors[0].digest = digest(seal.algorithm, Bytes(file).subspan(first, 16)).value();
  seal.chunks.clear();
  for (const auto& [from, to] :
       {std::pair<std::uint64_t, std::uint64_t>{0, first}, {first, first + 16}, {first + 16, file.size()}}) {
    const auto sum = digest(seal.algorithm, Bytes(file).subspan(from, to - from)).value();
    seal.chunks.insert(seal.chunks.end(), sum.bytes().begin(), sum.bytes().end());
  }
  write_file(folder / "m.irpa.htseal", encode_seal(seal).value());
  const auto model = Model::open(folder / "m.irpa").value();
  EXPECT_TRUE(ht::verify(model));
  for (const auto strategy : {Strategy::Kind::mapped, Strategy::Kind::read}) {
    expect_refusal(ht::load(model, {.strategy = strategy, .filter = "b", .verify = true}),
                   ErrorCode::bad_seal, "seal_lists_the_models_tensors");
  }
}

TEST(Seals, quick_checks_bytes_after_the_data) {
  const testing::TemporaryFolder folder;
  // The padding after the data stands for any bytes that a format may store there.
  write_file(folder / "m.irpa", testing::irpa_file({{.name = "a", .length = 8, .offset = 0}}, "01234567"));
  const auto model = Model::open(folder / "m.irpa").value();
  ASSERT_TRUE(ht::seal(model));
  flip_bit(folder / "m.irpa", std::filesystem::file_size(folder / "m.irpa") - 1);
  const auto quick = compare_with_seal(folder / "m.irpa", {.quick = true}).value();
  EXPECT_EQ(quick.verdict, Verification::Verdict::damaged);
  EXPECT_EQ(quick.bad[0].part, Verification::Part::tail);
  expect_refusal(ht::load(Model::open(folder / "m.irpa").value(), {.verify = true}),
                 ErrorCode::checksum_mismatch, "files_are_intact");
}

TEST(Seals, mismatch_names_a_requested_tensor) {
  const testing::TemporaryFolder folder;
  write_file(folder / "s.irpa", testing::irpa_file({{.name = "a", .length = 8, .offset = 0},
                                                    {.name = "b", .length = 12, .offset = 4}},
                                                   "0123456789abcdef"));
  const auto model = Model::open(folder / "s.irpa").value();
  ASSERT_TRUE(ht::seal(model));
  flip_bit(folder / "s.irpa", model.catalog()[0].offset + 5);
  const auto loaded = ht::load(Model::open(folder / "s.irpa").value(), {.filter = "b", .verify = true});
  EXPECT_EQ(testing::refusal(loaded, ErrorCode::checksum_mismatch, "loaded_bytes_match_the_seal").tensor(),
            "b");
}

TEST(Seals, hashing_a_huge_splat_can_be_stopped) {
  const testing::TemporaryFolder folder;
  write_file(folder / "s.irpa",
             testing::irpa_file({{.name = "s", .length = std::uint64_t{1} << 50, .pattern = "ab"}}));
  const auto model = Model::open(folder / "s.irpa").value();
  // The CRC of a splat is computed without walking its bytes.
  EXPECT_TRUE(ht::hash(model, {.per_tensor = true}));
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = ht::hash(model, {.algorithm = HashAlgorithm::sha256,
                                        .per_tensor = true,
                                        .work = {.stop = stop.get_token(), .on_progress = {}},
                                        .max_splat_bytes = UINT64_MAX});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
}

TEST(Seals, splat_bytes_within_limit) {
  const testing::TemporaryFolder folder;
  write_file(folder / "s.irpa",
             testing::irpa_file({{.name = "small", .length = 1 << 20, .pattern = "ab"},
                                 {.name = "huge", .length = std::uint64_t{1} << 50, .pattern = "ab"}}));
  const auto model = Model::open(folder / "s.irpa").value();
  for (const auto algorithm : {HashAlgorithm::xxh3_128, HashAlgorithm::sha256}) {
    const auto hashed = ht::hash(model, {.algorithm = algorithm, .per_tensor = true});
    const auto error = testing::refusal(hashed, ErrorCode::budget_too_small, "splat_bytes_within_limit");
    EXPECT_EQ(error.tensor(), "huge");
    for (const auto* const number : {"1125899906842624", "1073741824"}) {
      EXPECT_NE(error.message().find(number), std::string_view::npos) << error.message();
    }
    for (const auto* const option : {"--max-splat", "--algorithm crc64nvme"}) {
      EXPECT_NE(error.hint().find(option), std::string_view::npos) << error.hint();
    }
    expect_refusal(ht::seal(model, {.algorithm = algorithm}), ErrorCode::budget_too_small,
                   "splat_bytes_within_limit");
    expect_refusal(ht::seal(model, {.algorithm = algorithm, .max_splat_bytes = (1 << 20) - 1}),
                   ErrorCode::budget_too_small, "splat_bytes_within_limit");
    EXPECT_TRUE(ht::hash(model, {.algorithm = algorithm}))
        << "without digests of tensors, splats cost nothing";
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "s.irpa.htseal"));
  // Verifying compares the header, which has the pattern of the splat, not the expanded bytes.
  ASSERT_TRUE(ht::seal(model));
  EXPECT_TRUE(compare_with_seal(folder / "s.irpa").value().is_intact());
  EXPECT_TRUE(ht::load(model, {.verify = true}));
}

// Compares with the digest of the expanded bytes, for patterns and remainders of many sizes.
TEST(Seals, digest_of_a_splat_equals_the_digest_of_its_bytes) {
  for (const std::size_t pattern_bytes : {1U, 2U, 3U, 5U, 7U, 8U, 13U, 16U}) {
    const auto pattern = noise(pattern_bytes, 7);
    for (const std::uint64_t bytes : {0U, 1U, 2U, 6U, 15U, 16U, 17U, 255U, 4096U, 65535U, 65536U, 70'001U}) {
      std::vector<std::byte> filled(bytes);
      for (std::size_t i = 0; i < filled.size(); ++i) filled[i] = pattern[i % pattern_bytes];
      for (const auto algorithm : all_hash_algorithms) {
        EXPECT_EQ(digest_of_splat(algorithm, pattern, bytes).value(), digest(algorithm, filled).value())
            << pattern_bytes << " " << bytes;
      }
    }
  }
  // A splat of twice the size is the splat concatenated with itself.
  const auto half = digest_of_splat(HashAlgorithm::crc64nvme, noise(16, 1), std::uint64_t{1} << 62).value();
  const auto both = digest_of_splat(HashAlgorithm::crc64nvme, noise(16, 1), std::uint64_t{1} << 63).value();
  EXPECT_EQ(crc64nvme_combine(half.crc64nvme(), half.crc64nvme(), std::uint64_t{1} << 62), both.crc64nvme());
}

TEST(Seals, index_of_any_name_can_be_sealed) {
  const testing::TemporaryFolder folder;
  write_file(folder / "x.safetensors", noise_file("safetensors", {5}));
  write_file(folder / "weights.json", testing::index_text({{"t0", "x.safetensors"}}));
  const auto model = Model::open(folder / "weights.json").value();
  ASSERT_TRUE(ht::seal(model));
  EXPECT_TRUE(compare_with_seal(folder / "weights.json").value().is_intact());
  EXPECT_TRUE(ht::verify(model));
  EXPECT_TRUE(ht::load(model, {.verify = true}));
}

TEST(Seals, sealed_files_have_plain_names) {
  const testing::TemporaryFolder folder;
  for (const std::string name : {"back\\slash.safetensors", "not\xff.safetensors"}) {
    write_file(folder / name, noise_file("safetensors", {5}));
    const auto sealed = ht::seal(Model::open(folder / name).value());
    const auto error = testing::refusal(sealed, ErrorCode::bad_name, "sealed_files_have_plain_names");
    EXPECT_EQ(error.path(), (folder / name).native());
  }
}

TEST(Seals, seal_is_a_file) {
  const testing::TemporaryFolder folder;
  write_file(folder / "x.safetensors", noise_file("safetensors", {5}));
  std::filesystem::create_directory(folder / "x.safetensors.htseal");
  expect_refusal(compare_with_seal(folder / "x.safetensors"), ErrorCode::bad_seal, "seal_is_a_file");
}

TEST_F(SealedSet, seal_is_found_for_each_tensor_of_the_set) {
  const auto one = (model_->tensor<U8, Rank<1>>(tensor(1, 0))).value();
  EXPECT_TRUE(verify(one));
  flip_bit(folder_ / "part1.safetensors", offset_of(1, 0));
  EXPECT_EQ(verify(one).error().rule(), "tensor_matches_its_checksum");
}

// The pattern of a splat is in the header.
TEST(Seals, splat_is_verified_with_the_header) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "m.irpa";
  write_file(path, testing::irpa_file({{.name = "splat", .length = std::uint64_t{1} << 50, .pattern = "ab"},
                                       {.name = "data", .length = 8, .offset = 0}},
                                      "01234567"));
  const auto model = Model::open(path).value();
  const auto verify_splat = [&](const OpenOptions& options = {}) {
    return ht::verify(Model::open(path, options).value()["splat"].value());
  };
  expect_refusal(verify_splat(), ErrorCode::not_sealed, "model_is_sealed");
  ASSERT_TRUE(ht::seal(model));
  const auto verified = verify_splat();
  EXPECT_TRUE(verified) << to_string(verified.error());
  expect_refusal(verify_splat({.catalog_only = true}), ErrorCode::bad_state, "model_has_its_data");
  flip_bit(path, model["data"]->entry().offset);
  EXPECT_TRUE(verify_splat()) << "only the data of another tensor differs";
  const auto file = read_file(path);
  const auto pattern = std::ranges::search(file, bytes_of("ab"));
  ASSERT_FALSE(pattern.empty());
  flip_bit(path, static_cast<std::uint64_t>(pattern.begin() - file.begin()));
  const auto error = testing::refusal(verify_splat(), ErrorCode::checksum_mismatch, "files_are_intact");
  EXPECT_EQ(error.tensor(), "splat");
  EXPECT_EQ(error.path(), path.native());
  EXPECT_TRUE(error.message().starts_with("checksum mismatch in the header, bytes 0–")) << error.message();
}

TEST(Seals, seal_of_an_archive_covers_its_external_files) {
  const testing::TemporaryFolder folder;
  // An archive whose tensor is in another file is a model of two files.
  std::filesystem::create_directory(folder / "data");
  write_file(folder / "data" / "w.bin", std::string_view("weights!"));
  write_file(folder / "m.irpa",
             testing::irpa_file({{.name = "w", .length = 8, .offset = 0, .path = "data/w.bin"}}));
  const auto model = Model::open(folder / "m.irpa").value();
  ASSERT_TRUE(ht::seal(model));
  const auto seal = read_seal(folder / "m.irpa.htseal").value();
  EXPECT_EQ(seal.files[1].name, "data/w.bin");
  EXPECT_TRUE(ht::verify(model));
  EXPECT_TRUE(ht::verify(model["w"].value()));
  flip_bit(folder / "data" / "w.bin", 3);
  EXPECT_EQ(ht::verify(model["w"].value()).error().rule(), "tensor_matches_its_checksum");
  const auto found = compare_with_seal(folder / "m.irpa").value();
  EXPECT_EQ(found.verdict, Verification::Verdict::damaged);
  EXPECT_EQ(found.bad[0].tensor, "w");
  EXPECT_EQ(found.bad[0].file, folder / "data" / "w.bin");
}

TEST(Seals, error_begins_with_the_file_that_decides_the_verdict) {
  const testing::TemporaryFolder folder;
  write_file(folder / "a.safetensors", testing::shard_file({"a"}));
  write_file(folder / "b.safetensors", testing::shard_file({"b"}));
  write_file(folder / "model.safetensors.index.json",
             testing::index_text({{"a", "a.safetensors"}, {"b", "b.safetensors"}}));
  ASSERT_TRUE(ht::seal(Model::open(folder.path()).value()));
  flip_bit(folder / "a.safetensors", std::filesystem::file_size(folder / "a.safetensors") - 1);
  write_file(folder / "b.safetensors",
             testing::noise(std::filesystem::file_size(folder / "b.safetensors"), 1));
  const auto found = compare_with_seal(folder.path()).value();
  EXPECT_EQ(found.verdict, Verification::Verdict::replaced);
  EXPECT_EQ(found.file, folder / "b.safetensors");
  EXPECT_EQ(found.bad[0].file, folder / "a.safetensors") << "bad ranges are in the order of the files";
  const auto error = testing::refusal(found.result(), ErrorCode::checksum_mismatch, "files_are_intact");
  EXPECT_EQ(error.path(), (folder / "b.safetensors").native());
  EXPECT_EQ(error.offset(), 0U);
  EXPECT_TRUE(testing::message_contains(error, "mismatch in the header, bytes")) << error.message();
  EXPECT_TRUE(testing::message_contains(error, ", tensor 'a', bytes")) << error.message();
  EXPECT_TRUE(testing::message_contains(error, "of '" + (folder / "a.safetensors").string() + "'"))
      << error.message();
}

TEST(Seals, missing_file_of_0_bytes_is_named) {
  const testing::TemporaryFolder folder;
  write_file(folder / "w.bin", std::string_view());
  write_file(folder / "m.irpa", testing::irpa_file({{.name = "w", .path = "w.bin"}}));
  ASSERT_TRUE(ht::seal(Model::open(folder / "m.irpa").value()));
  std::filesystem::remove(folder / "w.bin");
  const auto found = compare_with_seal(folder / "m.irpa").value();
  EXPECT_EQ(found.verdict, Verification::Verdict::missing);
  const std::vector<Verification::BadRange> expected{
      {folder / "w.bin", Verification::Part::header, "", 0, 0}};
  EXPECT_EQ(found.bad, expected);
  const auto error = testing::refusal(found.result(), ErrorCode::missing_shard, "files_are_intact");
  EXPECT_EQ(error.path(), (folder / "w.bin").native());
  EXPECT_EQ(error.message(), "does not exist");
  flip_bit(folder / "m.irpa", 0);
  const auto both = compare_with_seal(folder / "m.irpa").value().result();
  EXPECT_TRUE(both.error().message().starts_with("does not exist; other bad ranges: the header, bytes 0–"));
}

TEST(Seals, relative_paths_are_supported) {
  const testing::TemporaryFolder folder;
  write_file(folder / "m.gguf", noise_file("gguf", {100, 200}));
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto model = Model::open("m.gguf").value();
  const auto sealed = ht::seal(model);
  const auto checked = compare_with_seal("m.gguf");
  const auto loaded = ht::load(model, {.verify = true});
  const auto in_folder = ht::seal(Model::open(".").value());
  const auto folder_checked = compare_with_seal(".");
  std::filesystem::current_path(before);
  ASSERT_TRUE(sealed) << to_string(sealed.error());
  EXPECT_EQ(sealed->seal, "m.gguf.htseal");
  EXPECT_TRUE(checked.value().is_intact());
  EXPECT_TRUE(loaded) << to_string(loaded.error());
  ASSERT_TRUE(in_folder) << to_string(in_folder.error());
  EXPECT_TRUE(folder_checked.value().is_intact());
}

}  // namespace
}  // namespace ht::sealed_sets_test
