#include "integrity/seal_test.hpp"

#include <algorithm>
#include <atomic>
#include <htensor/hash/digest.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/load/load.hpp>
#include <thread>

#include "format/ht/ht.hpp"
#include "load/test_page_cache.hpp"
#include "model/test_formats.hpp"
#include "testing/faulty_port.hpp"

namespace ht::sealed_files_test {
namespace {

using testing::Call;
using testing::expect_refusal;
using testing::flip_bit;
using testing::noise;
using testing::noise_file;
using testing::read_file;
using testing::write_file;

using Sealing = testing::SealedModelFile;

TEST(SealedFormats, each_round_trips_with_each_algorithm) {
  const testing::TemporaryFolder folder;
  for (const auto format : format_names()) {
    const bool single = format == "ht" || format == "npy";
    const auto path = folder / ("model." + std::string(format));
    write_file(path, noise_file(format, single ? std::vector<std::int64_t>{1000}
                                               : std::vector<std::int64_t>{1000, 0, 7, 1'200'000}));
    const auto model = Model::open(path).value();
    for (const auto algorithm : all_hash_algorithms) {
      const auto sealed = ht::seal(model, {.algorithm = algorithm, .work = {}});
      ASSERT_TRUE(sealed) << format << ": " << to_string(sealed.error());
      EXPECT_EQ(sealed->seal, path.string() + ".htseal");
      EXPECT_EQ(sealed->bytes, std::filesystem::file_size(path));
      EXPECT_EQ(sealed->digest, digest(algorithm, read_file(path)).value()) << format;
      EXPECT_TRUE(ht::verify(model)) << format;
      const auto found = compare_with_seal(path);
      ASSERT_TRUE(found) << to_string(found.error());
      EXPECT_TRUE(found->is_intact());
      EXPECT_EQ(found->checked_bytes, sealed->bytes);
      EXPECT_EQ(found->algorithm, algorithm);
      // Sealing the same files again writes the same seal.
      const auto bytes = read_file(sealed->seal);
      ASSERT_TRUE(ht::seal(model, {.algorithm = algorithm, .work = {}}));
      EXPECT_EQ(read_file(sealed->seal), bytes);
    }
  }
}

TEST(SealedFormats, the_same_tensor_has_the_same_digest_in_each) {
  const testing::TemporaryFolder folder;
  for (const std::string format : {"safetensors", "gguf", "irpa", "ht", "npy"}) {
    const bool single = format == "ht" || format == "npy";
    const auto path = folder / ("t0." + format);
    write_file(path, noise_file(format, single ? std::vector<std::int64_t>{1'200'000}
                                               : std::vector<std::int64_t>{1'200'000, 9}));
    for (const auto algorithm : all_hash_algorithms) {
      const auto found =
          ht::hash(Model::open(path).value(), {.algorithm = algorithm, .per_tensor = true, .work = {}});
      ASSERT_TRUE(found) << to_string(found.error());
      EXPECT_EQ(found->tensors[0], digest(algorithm, noise(4'800'000, 0)).value()) << format;
      if (!single) {
        EXPECT_EQ(found->tensors[1], digest(algorithm, noise(36, 1)).value()) << format;
      }
      EXPECT_EQ(found->digest, digest(algorithm, read_file(path)).value()) << format;
    }
  }
}

TEST(SealedFormats, a_splat_has_the_digest_of_its_expanded_bytes) {
  const testing::TemporaryFolder folder;
  write_file(folder / "m.irpa", testing::irpa_file({{.name = "splat", .length = 70'002, .pattern = "ab"},
                                                    {.name = "one", .length = 9, .pattern = "x"},
                                                    {.name = "data", .length = 4, .offset = 0}},
                                                   "data"));
  const auto model = Model::open(folder / "m.irpa").value();
  std::string filled;
  while (filled.size() < 70'002) filled += "ab";
  for (const auto algorithm : all_hash_algorithms) {
    const auto found = ht::hash(model, {.algorithm = algorithm, .per_tensor = true, .work = {}}).value();
    EXPECT_EQ(found.tensors[0], digest(algorithm, bytes_of(filled)).value());
    EXPECT_EQ(found.tensors[1], digest(algorithm, bytes_of("xxxxxxxxx")).value());
    EXPECT_EQ(found.tensors[2], digest(algorithm, bytes_of("data")).value());
    ASSERT_TRUE(ht::seal(model, {.algorithm = algorithm, .work = {}}));
    EXPECT_TRUE(ht::verify(model));
  }
}

TEST_F(Sealing, finds_a_flipped_bit_and_names_the_tensor_and_the_range) {
  const struct {
    std::size_t tensor;
    std::uint64_t at;
    std::uint64_t begin;
    std::uint64_t bytes;
  } cases[] = {{0, 0, 0, 4000},
               {0, 3999, 0, 4000},
               {1, 1, 0, Seal::chunk_bytes},
               {1, Seal::chunk_bytes, Seal::chunk_bytes, Seal::chunk_bytes},
               {1, 4 * large - 1, 2 * Seal::chunk_bytes, 4 * large - 2 * Seal::chunk_bytes},
               {2, 1999, 0, 2000}};
  for (const auto& [tensor, at, begin, bytes] : cases) {
    flip_bit(path_, offsets_[tensor] + at, 3);
    const auto found = verified();
    EXPECT_EQ(found.verdict, Verification::Verdict::damaged);
    const std::vector<Verification::BadRange> expected{
        {path_, Verification::Part::tensor, "t" + std::to_string(tensor), offsets_[tensor] + begin, bytes}};
    EXPECT_EQ(found.bad, expected);
    const auto refused = ht::verify(Model::open(path_).value());
    const auto error = testing::refusal(refused, ErrorCode::checksum_mismatch, "files_are_intact");
    EXPECT_EQ(error.tensor(), "t" + std::to_string(tensor));
    EXPECT_EQ(error.offset(), offsets_[tensor] + begin);
    flip_bit(path_, offsets_[tensor] + at, 3);
  }
  EXPECT_TRUE(verified().is_intact());
}

TEST_F(Sealing, files_are_intact) {
  const auto size = std::filesystem::file_size(path_);
  const auto expect_refused = [&](ErrorCode code) {
    expect_refusal(verified().result(), code, "files_are_intact");
  };
  EXPECT_TRUE(verified().result());
  std::filesystem::resize_file(path_, size + 10);
  expect_refused(ErrorCode::trailing_bytes);
  std::filesystem::resize_file(path_, size);
  flip_bit(path_, offsets_[1]);
  expect_refused(ErrorCode::checksum_mismatch);
  std::filesystem::resize_file(path_, size - 1);
  expect_refused(ErrorCode::truncated);
  std::filesystem::remove(path_);
  expect_refused(ErrorCode::missing_shard);
}

TEST_F(Sealing, names_every_bad_tensor_and_joins_chunks_that_touch) {
  flip_bit(path_, offsets_[0]);
  flip_bit(path_, offsets_[1]);
  flip_bit(path_, offsets_[1] + Seal::chunk_bytes);
  flip_bit(path_, offsets_[2]);
  const auto found = verified();
  const std::vector<Verification::BadRange> expected{
      {path_, Verification::Part::tensor, "t0", offsets_[0], 4000},
      {path_, Verification::Part::tensor, "t1", offsets_[1], 2 * Seal::chunk_bytes},
      {path_, Verification::Part::tensor, "t2", offsets_[2], 2000}};
  EXPECT_EQ(found.bad, expected);
  EXPECT_EQ(found.verdict, Verification::Verdict::damaged);
}

TEST_F(Sealing, finds_damage_in_a_header_that_no_longer_parses) {
  flip_bit(path_, 9);
  EXPECT_FALSE(Model::open(path_));
  const auto found = verified();
  EXPECT_EQ(found.verdict, Verification::Verdict::damaged);
  ASSERT_EQ(found.bad.size(), 1U);
  EXPECT_EQ(found.bad[0].part, Verification::Part::header);
  EXPECT_EQ(found.bad[0].offset, 0U);
  EXPECT_EQ(found.bad[0].bytes, offsets_[0]);
  // A quick comparison also finds the damage.
  const auto quick = verified({.quick = true});
  EXPECT_EQ(quick.verdict, Verification::Verdict::damaged);
  EXPECT_EQ(quick.checked_bytes, offsets_[0]);
}

TEST_F(Sealing, quick_checks_only_sizes_and_headers) {
  flip_bit(path_, offsets_[1] + 5);
  EXPECT_TRUE(verified({.quick = true}).is_intact());
  EXPECT_EQ(verified({.quick = true}).verdict, Verification::Verdict::headers_match)
      << "a quick check does not read the data";
  std::filesystem::resize_file(path_, offsets_[2]);
  EXPECT_EQ(verified({.quick = true}).verdict, Verification::Verdict::truncated);
}

// A quick comparison reads only the header, so it does not know whether every chunk differs.
TEST_F(Sealing, quick_comparison_does_not_return_replaced_for_a_damaged_header) {
  flip_bit(path_, 9);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) + 10);
  const auto quick = verified({.quick = true});
  EXPECT_EQ(quick.verdict, Verification::Verdict::grown);
  EXPECT_EQ(quick.bad.size(), 2U) << "the header and the tail";
  // The seal of a renamed file applies as well.
  std::filesystem::rename(path_, folder_ / "new.safetensors");
  std::filesystem::rename(path_.string() + ".htseal", folder_ / "new.safetensors.htseal");
  const auto renamed = compare_with_seal(folder_ / "new.safetensors", {.quick = true});
  ASSERT_TRUE(renamed) << to_string(renamed.error());
  EXPECT_EQ(renamed->verdict, Verification::Verdict::grown);
}

TEST_F(Sealing, detects_a_truncated_file) {
  for (const std::uint64_t left :
       {offsets_[2] + 5, offsets_[2], offsets_[1] + 7, offsets_[0], std::uint64_t{3}, std::uint64_t{0}}) {
    std::filesystem::resize_file(path_, left);
    const auto found = verified();
    EXPECT_EQ(found.verdict, Verification::Verdict::truncated) << left;
    ASSERT_FALSE(found.bad.empty());
    EXPECT_EQ(found.bad.front().offset, left);
    EXPECT_EQ(found.bad.back().tensor, "t2");
    EXPECT_EQ(found.bad.back().offset + found.bad.back().bytes, offsets_[2] + 2000);
    EXPECT_EQ(found.result().error().code(), ErrorCode::truncated);
  }
}

TEST_F(Sealing, detects_a_grown_file) {
  const auto before = std::filesystem::file_size(path_);
  std::filesystem::resize_file(path_, before + 10);
  const auto found = verified();
  EXPECT_EQ(found.verdict, Verification::Verdict::grown);
  const std::vector<Verification::BadRange> expected{{path_, Verification::Part::tail, "", before, 10}};
  EXPECT_EQ(found.bad, expected);
}

TEST_F(Sealing, detects_a_replaced_file) {
  write_file(path_, noise(static_cast<std::size_t>(offsets_[2] + 2000), 99));
  EXPECT_EQ(verified().verdict, Verification::Verdict::replaced);
  write_file(path_, noise(5'000'000, 99));
  EXPECT_EQ(verified().verdict, Verification::Verdict::replaced);
  EXPECT_EQ(verified().result().error().code(), ErrorCode::checksum_mismatch);
}

TEST_F(Sealing, detects_a_damaged_seal) {
  const auto seal = path_.string() + ".htseal";
  flip_bit(seal, 200);
  expect_refusal(compare_with_seal(path_), ErrorCode::bad_seal, "seal_digest_matches");
  std::filesystem::resize_file(seal, 100);
  EXPECT_EQ(compare_with_seal(path_).error().code(), ErrorCode::bad_seal);
  EXPECT_EQ(compare_with_seal(path_).error().path(), seal);
}

TEST_F(Sealing, seal_belongs_to_this_file) {
  write_file(folder_ / "other.safetensors", noise_file("safetensors", {77, 88}));
  std::filesystem::copy(path_.string() + ".htseal", folder_ / "other.safetensors.htseal");
  expect_refusal(compare_with_seal(folder_ / "other.safetensors"), ErrorCode::bad_seal,
                 "seal_belongs_to_this_file");
}

TEST_F(Sealing, seal_applies_after_renaming_file_and_seal) {
  std::filesystem::rename(path_, folder_ / "new.safetensors");
  std::filesystem::rename(path_.string() + ".htseal", folder_ / "new.safetensors.htseal");
  EXPECT_TRUE(compare_with_seal(folder_ / "new.safetensors").value().is_intact());
  const auto model = Model::open(folder_ / "new.safetensors").value();
  EXPECT_TRUE(ht::verify(model));
  EXPECT_TRUE(ht::load(model, {.verify = true}));
  flip_bit(folder_ / "new.safetensors", offsets_[1]);
  EXPECT_EQ(compare_with_seal(folder_ / "new.safetensors").value().verdict, Verification::Verdict::damaged);
}

TEST_F(Sealing, missing_seal_is_reported) {
  std::filesystem::remove(path_.string() + ".htseal");
  expect_refusal(compare_with_seal(path_), ErrorCode::not_sealed, "model_is_sealed");
  expect_refusal(ht::verify(Model::open(path_).value()), ErrorCode::not_sealed, "model_is_sealed");
}

TEST_F(Sealing, reports_a_file_changed_meanwhile) {
  testing::FaultyPort port;
  std::atomic<bool> done = false;
  port.before_each([&](Call call, int) {
    if (call != Call::advise || done.exchange(true)) return;
    flip_bit(path_, offsets_[1] + 100);
    std::filesystem::last_write_time(path_,
                                     std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  });
  const auto found = compare_with_seal(path_, {.port = &port});
  ASSERT_TRUE(done);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), ErrorCode::changed_underfoot) << to_string(found.error());
}

TEST_F(Sealing, reads_the_open_file_not_its_path) {
  const auto model = Model::open(path_).value();
  // The path now names a new file; the model has mapped the old one.
  write_file(folder_ / "next", noise(1000, 3));
  std::filesystem::rename(folder_ / "next", path_);
  EXPECT_TRUE(ht::verify(model));
  EXPECT_EQ(verified().verdict, Verification::Verdict::replaced);
}

TEST_F(Sealing, keeps_the_old_seal_if_writing_fails) {
  const auto before = read_file(path_.string() + ".htseal");
  for (const auto call : {Call::create_nameless, Call::write_at, Call::sync, Call::name, Call::rename}) {
    testing::FaultyPort port;
    const auto model = Model::open(path_, {.port = &port}).value();
    port.fail_at(call, 0, std::errc::io_error);
    const auto sealed = ht::seal(model, {.algorithm = HashAlgorithm::sha256, .work = {}});
    ASSERT_FALSE(sealed);
    EXPECT_EQ(sealed.error().code(), ErrorCode::write_failed) << to_string(sealed.error());
    EXPECT_EQ(read_file(path_.string() + ".htseal"), before);
    EXPECT_EQ(folder_.names(), (std::vector<std::string>{"m.safetensors", "m.safetensors.htseal"}));
  }
}

TEST_F(Sealing, sealed_files_are_undamaged) {
  const auto model = Model::open(path_).value();
  const auto before = read_file(folder_ / "m.safetensors.htseal");
  ASSERT_TRUE(ht::seal(model));
  EXPECT_EQ(read_file(folder_ / "m.safetensors.htseal"), before) << "both seals of an intact file are equal";
  flip_bit(path_, offsets_[0]);
  flip_bit(path_, offsets_[2] + 7);
  const auto damaged = Model::open(path_).value();
  for (const auto algorithm : all_hash_algorithms) {
    const auto refused = ht::seal(damaged, {.algorithm = algorithm});
    const auto error = testing::refusal(refused, ErrorCode::checksum_mismatch, "sealed_files_are_undamaged");
    EXPECT_EQ(error.tensor(), "t0");
    for (const auto& range : {"tensor 't0', bytes " + std::to_string(offsets_[0]) + "–",
                              "tensor 't2', bytes " + std::to_string(offsets_[2]) + "–"}) {
      EXPECT_NE(error.message().find(range), std::string_view::npos) << error.message();
    }
    EXPECT_TRUE(error.message().ends_with("; the seal 'm.safetensors.htseal' was kept")) << error.message();
    EXPECT_NE(error.hint().find("--force"), std::string_view::npos);
    EXPECT_EQ(read_file(folder_ / "m.safetensors.htseal"), before);
  }
  ASSERT_TRUE(ht::seal(damaged, {.force = true}));
  EXPECT_EQ(verified().verdict, Verification::Verdict::intact);
  // Before a seal with another algorithm is written, the files are compared with the old seal, too.
  ASSERT_TRUE(ht::seal(damaged, {.algorithm = HashAlgorithm::xxh3_128}));
  EXPECT_EQ(verified().algorithm, HashAlgorithm::xxh3_128);
  // A damaged seal cannot show whether the file is good.
  flip_bit(folder_ / "m.safetensors.htseal", 70);
  expect_refusal(ht::seal(damaged), ErrorCode::bad_seal, "sealed_files_are_undamaged");
  EXPECT_TRUE(ht::seal(damaged, {.force = true}));
}

// The seal may be that of another model.
TEST_F(Sealing, seal_that_cannot_be_read_is_not_replaced) {
  const auto before = read_file(folder_ / "m.safetensors.htseal");
  for (const bool force : {false, true}) {
    testing::FaultyPort port;
    const auto model = Model::open(path_, {.port = &port}).value();
    port.fail_from(Call::open, port.count(Call::open), std::errc::permission_denied);
    const auto sealed = ht::seal(model, {.force = force});
    ASSERT_FALSE(sealed);
    EXPECT_EQ(sealed.error().code(), ErrorCode::open_failed) << to_string(sealed.error());
    EXPECT_EQ(sealed.error().path(), path_.string() + ".htseal");
    EXPECT_EQ(read_file(folder_ / "m.safetensors.htseal"), before);
  }
}

TEST_F(Sealing, sealed_file_with_a_name_that_is_too_long_is_missing) {
  testing::FaultyPort port;
  // The first call opens the seal.
  port.fail_from(Call::open, 1, std::errc::filename_too_long);
  const auto found = compare_with_seal(path_, {.port = &port});
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_EQ(found->verdict, Verification::Verdict::missing);
}

TEST_F(Sealing, seal_of_a_renamed_file_can_be_renewed) {
  std::filesystem::rename(path_, folder_ / "n.safetensors");
  std::filesystem::rename(folder_ / "m.safetensors.htseal", folder_ / "n.safetensors.htseal");
  ASSERT_TRUE(ht::seal(Model::open(folder_ / "n.safetensors").value()));
  EXPECT_EQ(read_seal(folder_ / "n.safetensors.htseal").value().files[0].name, "n.safetensors");
}

TEST_F(Sealing, verification_of_resident_tensors_can_be_stopped) {
  ASSERT_TRUE(ht::seal(Model::open(path_).value()));
  const auto model = Model::open(path_).value();
  ASSERT_TRUE(ht::load(model, {.strategy = io::Strategy::Kind::read, .verify = true}));
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = ht::load(
      model, {.strategy = io::Strategy::Kind::read, .verify = true, .work = {.stop = stop.get_token()}});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
}

TEST_F(Sealing, model_files_exist) {
  write_file(folder_ / "e.irpa", testing::irpa_file({{.name = "e", .length = 4, .path = "gone.bin"}}));
  const auto model = Model::open(folder_ / "e.irpa", {.allow_incomplete = true}).value();
  expect_refusal(ht::seal(model), ErrorCode::missing_shard, "model_files_exist");
  expect_refusal(ht::hash(model), ErrorCode::missing_shard, "model_files_exist");
  const auto listed = Model::open(path_, {.catalog_only = true}).value();
  expect_refusal(ht::verify(listed), ErrorCode::bad_state, "model_has_its_data");
}

TEST_F(Sealing, names_all_tensors_that_share_bad_bytes) {
  write_file(folder_ / "s.irpa", testing::irpa_file({{.name = "a", .length = 8, .offset = 0},
                                                     {.name = "b", .length = 8, .offset = 0},
                                                     {.name = "c", .length = 12, .offset = 4}},
                                                    "0123456789abcdef"));
  const auto model = Model::open(folder_ / "s.irpa").value();
  ASSERT_TRUE(ht::seal(model));
  flip_bit(folder_ / "s.irpa", model.catalog()[0].offset + 5);
  const auto found = compare_with_seal(folder_ / "s.irpa").value();
  std::vector<std::string> names;
  for (const auto& bad : found.bad) names.push_back(bad.tensor);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c"}));
}

// Returns a `.ht` file, whose header has a checksum of its own.
std::vector<std::byte> ht_file(const format_ht::Header& header, const std::vector<std::byte>& data) {
  std::vector<std::byte> file(static_cast<std::size_t>(header.data_offset) + data.size());
  std::ranges::copy(format_ht::encode(header), file.begin());
  std::ranges::copy(data, file.end() - static_cast<std::ptrdiff_t>(data.size()));
  return file;
}

class OwnChecksums : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto data = noise(40'000, 4);
    const std::int64_t dims[] = {100, 100};
    auto header = format_ht::make_header(dtype_info<F32>(), dims).value();
    header.payload_crc = crc64nvme(data);
    write_file(path_, ht_file(header, data));
  }
  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "w.ht";
};

TEST_F(OwnChecksums, are_compared_before_the_file_is_sealed) {
  flip_bit(path_, 200);
  const auto model = Model::open(path_).value();
  const auto error =
      testing::refusal(ht::seal(model), ErrorCode::checksum_mismatch, "sealed_files_are_undamaged");
  EXPECT_EQ(error.message(), "checksum mismatch in tensor 'w', bytes 128–40127; no seal was written");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "w.ht.htseal"));
  EXPECT_TRUE(ht::seal(model, {.force = true}));
}

TEST_F(OwnChecksums, progress_of_a_load_is_reported_on_the_calling_thread) {
  for (const bool cold : {false, true}) {
    const auto model = Model::open(path_).value();
    if (cold) {
      testing::sync_file(path_);
      ASSERT_TRUE(ht::evict(model));
    }
    const auto caller = std::this_thread::get_id();
    std::vector<std::uint64_t> done;
    const auto loaded = ht::load(model, {.strategy = io::Strategy::Kind::mapped,
                                         .verify = true,
                                         .work = {.on_progress = [&](const Progress& progress) {
                                           EXPECT_EQ(std::this_thread::get_id(), caller);
                                           done.push_back(progress.done_bytes);
                                         }}});
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_EQ(loaded->verified_bytes, 40'000U);
    EXPECT_TRUE(std::ranges::is_sorted(done));
    EXPECT_EQ(done.back(), 40'000U);
  }
}

// A header may place the data after any number of zero bytes.
TEST_F(OwnChecksums, can_be_stopped_within_a_long_gap) {
  const auto data = noise(400, 4);
  const std::int64_t dims[] = {100};
  auto header = format_ht::make_header(dtype_info<F32>(), dims).value();
  header.data_offset = std::uint64_t{1} << 23;
  header.payload_crc = crc64nvme(data);
  write_file(path_, ht_file(header, data));
  EXPECT_EQ(compare_with_seal(path_, {.quick = true}).value().verdict, Verification::Verdict::headers_match);
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = compare_with_seal(path_, {.quick = true, .work = {.stop = stop.get_token()}});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
}

TEST_F(OwnChecksums, are_verified_without_a_seal) {
  const auto found = compare_with_seal(path_).value();
  EXPECT_TRUE(found.is_intact());
  EXPECT_TRUE(found.seal.empty());
  EXPECT_EQ(found.checked_bytes, 40'128U);
  EXPECT_TRUE(ht::verify(Model::open(path_).value()));
  flip_bit(path_, 128 + 39'999);
  const std::vector<Verification::BadRange> expected{{path_, Verification::Part::tensor, "w", 128, 40'000}};
  EXPECT_EQ(compare_with_seal(path_).value().bad, expected);
  EXPECT_TRUE(compare_with_seal(path_, {.quick = true}).value().is_intact());
  expect_refusal(ht::verify(Model::open(path_).value()), ErrorCode::checksum_mismatch, "files_are_intact");
}

TEST_F(OwnChecksums, find_each_flipped_bit_of_a_header) {
  for (std::uint64_t bit = 0; bit < 8 * 128; ++bit) {
    flip_bit(path_, bit / 8, static_cast<int>(bit % 8));
    ASSERT_FALSE(compare_with_seal(path_)) << bit;
    flip_bit(path_, bit / 8, static_cast<int>(bit % 8));
  }
  EXPECT_TRUE(compare_with_seal(path_).value().is_intact());
}

TEST_F(OwnChecksums, are_verified_in_a_folder_as_well) {
  EXPECT_TRUE(compare_with_seal(folder_.path()).value().is_intact());
  EXPECT_TRUE(ht::verify(Model::open(folder_.path()).value()));
  EXPECT_TRUE(ht::load(Model::open(folder_.path()).value(), {.verify = true}));
}

TEST_F(OwnChecksums, check_that_padding_before_the_data_is_zero) {
  const auto data = noise(64, 4);
  const std::int64_t dims[] = {16};
  auto header = format_ht::make_header(dtype_info<F32>(), dims).value();
  header.payload_crc = crc64nvme(data);
  header.data_offset = 256;
  write_file(path_, ht_file(header, data));
  EXPECT_TRUE(compare_with_seal(path_).value().is_intact());
  EXPECT_EQ(compare_with_seal(path_).value().checked_bytes, 320U);
  flip_bit(path_, 200);
  const std::vector<Verification::BadRange> expected{{path_, Verification::Part::gap, "", 128, 128}};
  EXPECT_EQ(compare_with_seal(path_).value().bad, expected);
}

TEST_F(OwnChecksums, are_compared_for_an_empty_tensor) {
  const std::int64_t dims[] = {0};
  auto header = format_ht::make_header(dtype_info<F32>(), dims).value();
  header.payload_crc = 1;  // the checksum of no bytes is 0
  write_file(path_, ht_file(header, {}));
  const auto model = Model::open(path_).value();
  constexpr std::string_view message = "checksum mismatch in tensor 'w', 0 bytes at byte 128";
  EXPECT_EQ(ht::verify(model).error().message(), message);
  EXPECT_EQ(ht::verify(model["w"].value()).error().message(), message);
  for (const auto strategy : {io::Strategy::Kind::mapped, io::Strategy::Kind::read})
    EXPECT_EQ(ht::load(model, {.strategy = strategy, .verify = true}).error().message(), message);
  const auto consumer = [](const TensorPiece&) -> Result<void> { return {}; };
  EXPECT_EQ(ht::stream(model, consumer, {.verify = true}).error().message(), message);
  const Target target{"w", {}};
  EXPECT_EQ(ht::load_into(model, std::span(&target, 1), {.verify = true}).error().message(), message);
}

TEST_F(OwnChecksums, are_compared_only_if_the_bytes_before_the_data_are_zero) {
  const auto data = noise(64, 4);
  const std::int64_t dims[] = {16};
  auto header = format_ht::make_header(dtype_info<F32>(), dims).value();
  header.payload_crc = crc64nvme(data);
  header.data_offset = 256;
  write_file(path_, ht_file(header, data));
  flip_bit(path_, 200);
  for (const auto strategy : {io::Strategy::Kind::mapped, io::Strategy::Kind::read}) {
    expect_refusal(ht::load(Model::open(path_).value(), {.strategy = strategy, .verify = true}),
                   ErrorCode::checksum_mismatch, "files_are_intact");
  }
}

TEST_F(OwnChecksums, are_checked_for_each_target) {
  const auto model = Model::open(path_).value();
  std::vector<std::byte> one(40'000);
  std::vector<std::byte> two(40'000);
  const Target targets[] = {{"w", one}, {"w", two}};
  const auto loaded = ht::load_into(model, targets, {.verify = true});
  ASSERT_TRUE(loaded) << to_string(loaded.error());
  EXPECT_EQ(loaded->verified_bytes, 80'000U);
}

TEST_F(OwnChecksums, are_compared_with_memory_of_an_earlier_load) {
  const auto model = Model::open(path_).value();
  ASSERT_TRUE(ht::load(model, {.strategy = io::Strategy::Kind::read}));
  const auto verified = ht::load(model, {.strategy = io::Strategy::Kind::read, .verify = true}).value();
  EXPECT_EQ(verified.resident_bytes, 40'000U);
  EXPECT_EQ(verified.verified_bytes, 40'000U);
}

TEST_F(OwnChecksums, detect_a_truncated_file) {
  std::filesystem::resize_file(path_, 1000);
  const auto found = compare_with_seal(path_).value();
  EXPECT_EQ(found.verdict, Verification::Verdict::truncated);
  const auto error = testing::refusal(found.result(), ErrorCode::truncated, "files_are_intact");
  EXPECT_EQ(error.message(), "is truncated: bytes missing in tensor 'w', bytes 1000–40127");
}

TEST_F(OwnChecksums, detect_a_grown_file) {
  std::filesystem::resize_file(path_, 40'138);
  const auto found = compare_with_seal(path_).value();
  EXPECT_EQ(found.verdict, Verification::Verdict::grown);
  const auto error = testing::refusal(found.result(), ErrorCode::trailing_bytes, "files_are_intact");
  EXPECT_EQ(error.message(), "has extra bytes in the tail, bytes 40128–40137");
}

TEST_F(OwnChecksums, payload_matches_its_checksum) {
  for (const auto strategy : {io::Strategy::Kind::mapped, io::Strategy::Kind::read}) {
    EXPECT_EQ(
        ht::load(Model::open(path_).value(), {.strategy = strategy, .verify = true}).value().verified_bytes,
        40'000U);
  }
  flip_bit(path_, 5000);
  const auto model = Model::open(path_).value();
  expect_refusal(ht::load(model, {.strategy = io::Strategy::Kind::read, .verify = true}),
                 ErrorCode::checksum_mismatch, "payload_matches_its_checksum");
  EXPECT_EQ(ht::residency(model).value()[0].resident_bytes, 0U);
  EXPECT_FALSE(ht::load(model, {.strategy = io::Strategy::Kind::mapped, .verify = true}));
}

class TensorVerification : public testing::SealedModelFile {};

TEST_F(TensorVerification, tensor_matches_its_checksum) {
  auto model = Model::open(path_).value();
  const auto good = (model.tensor<F32, Rank<1>>("t1")).value();
  EXPECT_TRUE(verify(good));
  EXPECT_TRUE(ht::verify(model["t1"].value()));
  flip_bit(path_, offsets_[1] + 12345);
  const auto error =
      testing::refusal(verify(good), ErrorCode::checksum_mismatch, "tensor_matches_its_checksum");
  EXPECT_EQ(error.tensor(), "t1");
  EXPECT_FALSE(ht::verify(model["t1"].value()));
  EXPECT_TRUE(ht::verify(model["t0"].value()));
  // Verifying a slice compares the digest of the whole tensor.
  EXPECT_TRUE(ht::verify(model["t0"]->slice(1, 2).value()));
}

TEST_F(TensorVerification, checks_loaded_memory) {
  const auto model = Model::open(path_).value();
  ASSERT_TRUE(ht::load(model, {.strategy = io::Strategy::Kind::read}));
  flip_bit(path_, offsets_[0]);
  // The loaded bytes are still good, although the file is damaged.
  EXPECT_TRUE(ht::verify(model["t0"].value()));
  ASSERT_TRUE(ht::evict(model));
  EXPECT_FALSE(ht::verify(model["t0"].value()));
}

TEST_F(TensorVerification, tensor_is_sealed) {
  const auto memory = Storage::owned(64).value();
  EXPECT_EQ(verify(memory).error().rule(), "tensor_is_sealed");
  const auto model = Model::open(path_).value();
  std::filesystem::remove(path_.string() + ".htseal");
  expect_refusal(ht::verify(model["t0"].value()), ErrorCode::not_sealed, "tensor_is_sealed");
}

TEST_F(TensorVerification, finds_flipped_bits_in_64_kib) {
  const auto path = folder_ / "k.safetensors";
  write_file(path, noise_file("safetensors", {16384}));
  const auto model = Model::open(path).value();
  ASSERT_TRUE(ht::seal(model));
  const auto tensor = model.tensor<F32, Rank<1>>("t0").value();
  const std::uint64_t begin = model.catalog()[0].offset;
  for (std::uint64_t bit = 0; bit < std::uint64_t{8} * 65536; bit += 997) {
    flip_bit(path, begin + bit / 8, static_cast<int>(bit % 8));
    const auto refused = verify(tensor);
    ASSERT_FALSE(refused) << bit;
    ASSERT_EQ(refused.error().rule(), "tensor_matches_its_checksum") << bit;
    flip_bit(path, begin + bit / 8, static_cast<int>(bit % 8));
  }
  EXPECT_TRUE(verify(tensor));
}

TEST(Verification, result_counts_the_ranges_beyond_the_first_ten) {
  Verification found;
  found.verdict = Verification::Verdict::damaged;
  for (std::uint64_t i = 0; i < 12; ++i)
    found.bad.push_back({"m", Verification::Part::tensor, "t", 4 * i, 4});
  EXPECT_TRUE(found.result().error().message().ends_with(" and 2 more ranges"));
  found.bad.pop_back();
  EXPECT_TRUE(found.result().error().message().ends_with(" and 1 more range"));
  found.bad.pop_back();
  EXPECT_EQ(found.result().error().message().find("more"), std::string_view::npos);
}

}  // namespace
}  // namespace ht::sealed_files_test
