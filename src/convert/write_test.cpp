#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <htensor/convert/save.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/model/model.hpp>

#include "format/ht/ht.hpp"
#include "testing/child_process.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::write_test {
namespace {

using testing::Call;
using testing::FaultyPort;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

const WriteOptions replacing{.if_exists = IfExists::replace};

class Writing : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t.ht";
  Tensor<F32, Rank<2>> tensor_ = Tensor<F32, Rank<2>>::of(Rank<2>(2, 3), {1, 2, 3, 4, 5, 6}).value();
};

TEST_F(Writing, written_tensors_are_read_back) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto back = Model::open(path_).value().tensor<F32, Rank<2>>("t").value();
  EXPECT_TRUE(std::equal(back.begin(), back.end(), tensor_.begin(), tensor_.end()));
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"t.ht"});
}

TEST_F(Writing, strided_tensors_are_written_in_order) {
  ASSERT_TRUE(write(path_, tensor_.transpose()));
  const auto back = Model::open(path_).value().tensor<F32, Shape<3, 2>>("t").value();
  EXPECT_EQ(back(0, 1), 4);
  EXPECT_EQ(back(2, 0), 3);
}

TEST_F(Writing, sub_byte_slices_are_written_from_their_first_element) {
  auto packed = Tensor<F4, Rank<1>>::zeros(Rank<1>(5)).value();
  for (int i = 0; i < 5; ++i) packed(i) = F4::Element(i);
  ASSERT_TRUE(write(path_, packed.slice<0>(1, 4).value()));
  const auto back = Model::open(path_).value().tensor<F4, Rank<1>>("t").value();
  ASSERT_EQ(back.elements(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(static_cast<float>(back(i)), static_cast<float>(i + 1));
}

TEST_F(Writing, bits_after_the_last_element_are_zero) {
  auto packed = Tensor<F4, Rank<1>>::zeros(Rank<1>(4)).value();
  for (auto&& element : packed) element = F4::Element(6);
  ASSERT_TRUE(write(path_, packed.slice<0>(0, 3).value()));
  EXPECT_EQ(read_file(path_).back(), std::byte{0x07});
}

TEST_F(Writing, rank_0_and_empty_tensors_are_written) {
  ASSERT_TRUE(write(path_, Tensor<I64, Rank<0>>::of({}, {42}).value()));
  EXPECT_EQ((Model::open(path_).value().tensor<I64, Rank<0>>("t").value()()), 42);
  ASSERT_TRUE(write(path_, Tensor<I64, Rank<2>>::zeros(Rank<2>(0, 4)).value(), replacing));
  EXPECT_EQ((Model::open(path_).value().tensor<I64, Rank<2>>("t").value().extent(1)), 4);
}

TEST_F(Writing, header_stores_the_checksum_of_the_data) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto file = read_file(path_);
  const auto header = format_ht::decode(Bytes(file).first<format_ht::header_bytes>()).value();
  EXPECT_EQ(header.payload_crc, crc64nvme(Bytes(file).subspan(128)));
}

TEST_F(Writing, overwriting_the_mapped_file_is_safe) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto mapped = Model::open(path_).value().tensor<F32, Rank<2>>("t").value();
  ASSERT_TRUE(write(path_, mapped.transpose(), replacing));
  EXPECT_EQ(mapped(1, 2), 6);
  EXPECT_EQ((Model::open(path_).value().tensor<F32, Rank<2>>("t").value()(2, 0)), 3);
}

TEST_F(Writing, existing_file_is_kept_by_default) {
  write_file(path_, "old");
  EXPECT_EQ(write(path_, tensor_).error().code(), ErrorCode::already_exists);
  EXPECT_EQ(read_file(path_).size(), 3U);
}

TEST_F(Writing, every_failing_call_leaves_the_old_file_and_no_temporary_files) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto old = read_file(path_);
  const auto bigger = Tensor<F32, Rank<1>>::zeros(Rank<1>(1000)).value();
  // Call::close is left out, because it follows the rename of the new file.
  for (const Call call : {Call::stat_path, Call::open, Call::create_nameless, Call::allocate, Call::write_at,
                          Call::sync, Call::name, Call::rename}) {
    // The second sync is that of the folder, after the rename.
    const int calls = call == Call::sync ? 1 : 2;
    for (int nth = 0; nth < calls; ++nth) {
      FaultyPort port;
      port.fail_at(call, nth, std::errc::no_space_on_device);
      const auto done = write(path_, bigger, {.if_exists = IfExists::replace, .port = &port});
      if (port.count(call) <= nth) {  // no such call was made, so the file was written
        EXPECT_TRUE(done);
        write_file(path_, old);
        continue;
      }
      EXPECT_FALSE(done);
      EXPECT_EQ(read_file(path_), old);
      EXPECT_EQ(folder_.names(), std::vector<std::string>{"t.ht"});
      EXPECT_EQ(port.open_files(), 0);
    }
  }
}

TEST_F(Writing, file_size_limit_leaves_the_old_file_and_no_temporary_files) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto old = read_file(path_);
  const int status = testing::status_in_child([&] {
    const rlimit limit{1024, 1024};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const auto done = write(path_, Tensor<F32, Rank<1>>::zeros(Rank<1>(1000)).value(), replacing);
    return !done && done.error().code() == ErrorCode::write_failed && !done.error().hint().empty() ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(path_), old);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"t.ht"});
}

TEST_F(Writing, full_disk_leaves_the_old_file_and_no_temporary_files) {
  const auto disk = folder_ / "disk";
  std::filesystem::create_directory(disk);
  constexpr int skipped_status = 77;
  const int status = testing::status_in_child([&] {
    if (!testing::mount_small_disk(disk, "64k")) return skipped_status;
    const bool first = write(disk / "t.ht", tensor_).has_value();
    const auto old = read_file(disk / "t.ht");
    const auto done = write(disk / "t.ht", Tensor<F32, Rank<1>>::zeros(Rank<1>(1 << 20)).value(), replacing);
    const auto files = std::distance(std::filesystem::directory_iterator(disk), {});
    const bool refused = !done && done.error().code() == ErrorCode::no_space && !done.error().hint().empty();
    return first && refused && read_file(disk / "t.ht") == old && files == 1 ? 0 : 1;
  });
  if (status == skipped_status) GTEST_SKIP() << "no permission to mount a small disk";
  EXPECT_EQ(status, 0);
}

TEST_F(Writing, a_sealed_file_gets_a_new_seal) {
  ASSERT_TRUE(write(path_, tensor_));
  for (const auto algorithm : all_hash_algorithms) {
    ASSERT_TRUE(ht::seal(Model::open(path_).value(), {.algorithm = algorithm, .force = true}));
    ASSERT_TRUE(write(path_, Tensor<F32, Rank<1>>::zeros(Rank<1>(1000)).value(), replacing));
    const auto found = compare_with_seal(path_).value();
    EXPECT_EQ(found.verdict, Verification::Verdict::intact);
    EXPECT_EQ(found.algorithm, algorithm);
    EXPECT_EQ(found.seal, folder_ / "t.ht.htseal");
  }
}

TEST_F(Writing, can_be_stopped_before_the_first_piece) {
  const std::stop_source stop;
  stop.request_stop();
  const auto written = write(path_, tensor_, {.stop = stop.get_token()});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), ErrorCode::cancelled);
  int source_calls = 0;
  const std::byte data[64] = {};
  const auto source = [&]() -> Result<std::optional<DataPiece>> {
    ++source_calls;
    return DataPiece{0, data};
  };
  const EncodedFile file{.header = {}, .offsets = {}, .file_bytes = 64};
  EXPECT_EQ(write(path_, file, source, {.stop = stop.get_token()}).error().code(), ErrorCode::cancelled);
  EXPECT_EQ(source_calls, 1);
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(Writing, can_be_stopped_within_a_piece) {
  const std::vector<std::byte> data(std::size_t{8} << 20);
  const std::vector<std::int64_t> dims{static_cast<std::int64_t>(data.size())};
  const EncodedFile file{.header = {}, .offsets = {}, .file_bytes = data.size()};
  for (const bool is_encoded : {false, true}) {
    FaultyPort port;
    std::stop_source stop;
    port.before_each([&](Call call, int) {
      if (call == Call::write_at) stop.request_stop();
    });
    const WriteOptions options{.port = &port, .stop = stop.get_token()};
    bool is_given = false;
    const DataSource source = [&]() -> Result<std::optional<DataPiece>> {
      if (std::exchange(is_given, true)) return std::nullopt;
      return DataPiece{0, data};
    };
    const auto done = is_encoded ? write(path_, file, source, options)
                                 : write(path_, dtype_info<U8>(), dims, data, options);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
    EXPECT_EQ(done.error().message(), "stopped: 1048576 of 8388608 bytes written; the target is unchanged");
    EXPECT_EQ(port.count(Call::write_at), 1);
    EXPECT_TRUE(folder_.names().empty());
  }
}

TEST_F(Writing, data_size_matches_the_shape) {
  const std::vector<std::int64_t> dims{3};
  const std::vector<std::byte> data(11);
  const auto done = write(path_, dtype_info<F32>(), dims, Bytes(data));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::size_mismatch);
  EXPECT_EQ(done.error().rule(), "data_size_matches_the_shape");
  EXPECT_TRUE(folder_.names().empty());
}

// Returns the given pieces one after the other.
DataSource source_of(std::vector<DataPiece> pieces) {
  return [pieces = std::move(pieces), next = std::size_t{0}]() mutable -> Result<std::optional<DataPiece>> {
    if (next == pieces.size()) return std::nullopt;
    return pieces[next++];
  };
}

TEST_F(Writing, pieces_write_the_same_file_as_the_whole) {
  ASSERT_TRUE(write(path_, tensor_));
  const auto data = tensor_.bytes().value();
  const auto dims = tensor_.shape().extents();
  const auto pieces = source_of({{0, data.first(7)}, {7, data.subspan(7, 9)}, {16, data.subspan(16)}});
  ASSERT_TRUE(write(folder_ / "u.ht", dtype_info<F32>(), dims, pieces));
  EXPECT_EQ(read_file(folder_ / "u.ht"), read_file(path_));
}

TEST_F(Writing, uncovered_bytes_are_zero_and_no_checksum_is_stored) {
  const std::vector<std::int64_t> dims{1 << 20};
  const auto data = bytes_of("abcd");
  ASSERT_TRUE(write(path_, dtype_info<U8>(), dims, source_of({{0, data}, {(1 << 20) - 4, data}})));
  const auto file = read_file(path_);
  EXPECT_FALSE(format_ht::decode(Bytes(file).first<format_ht::header_bytes>())->payload_crc);
  EXPECT_EQ(file[128 + 3], std::byte{'d'});
  EXPECT_EQ(file[128 + 4], std::byte{0});
  EXPECT_EQ(file.back(), std::byte{'d'});
}

TEST_F(Writing, pieces_are_in_order_and_inside) {
  const std::vector<std::int64_t> dims{8};
  const auto data = bytes_of("abcd");
  for (const auto& pieces : {std::vector<DataPiece>{{6, data}}, std::vector<DataPiece>{{2, data}, {4, data}},
                             std::vector<DataPiece>{{UINT64_MAX, data}}}) {
    const auto done = write(path_, dtype_info<U8>(), dims, source_of(pieces));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ErrorCode::out_of_bounds);
    EXPECT_EQ(done.error().rule(), "pieces_are_in_order_and_inside");
    EXPECT_TRUE(folder_.names().empty());
  }
}

// A file with a header of 8 bytes and 8 bytes of data.
EncodedFile small_file() {
  const auto header = bytes_of("headhead");
  return {.header = {header.begin(), header.end()}, .offsets = {8}, .file_bytes = 16};
}

TEST_F(Writing, encoded_files_are_header_pieces_and_zeros) {
  const auto file = small_file();
  ASSERT_TRUE(write(path_, file, source_of({{9, bytes_of("ab")}, {11, bytes_of("c")}, {15, bytes_of("d")}})));
  const auto expected = bytes_of(std::string_view("headhead\0abc\0\0\0d", 16));
  EXPECT_EQ(read_file(path_), std::vector<std::byte>(expected.begin(), expected.end()));
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"t.ht"});
  EXPECT_EQ(write(path_, file, source_of({})).error().code(), ErrorCode::already_exists);
  ASSERT_TRUE(write(path_, file, source_of({}), replacing));
  EXPECT_EQ(read_file(path_).size(), 16U);
}

TEST_F(Writing, encoded_files_of_a_catalog_are_read_back) {
  CatalogBuilder builder("safetensors");
  const std::vector<std::int64_t> dims{3};
  ASSERT_TRUE(builder.add({.name = "a", .dtype = F32::tag, .dims = dims, .bytes = 12}));
  ASSERT_TRUE(builder.add({.name = "b", .dtype = U8::tag, .dims = dims, .bytes = 3}));
  const auto file = encode("safetensors", std::move(builder).build().value()).value();
  const std::vector<float> a{1, 2, 3};
  ASSERT_TRUE(write(
      path_, file,
      source_of({{*file.offsets[0], std::as_bytes(std::span(a))}, {*file.offsets[1], bytes_of("xyz")}})));
  const auto model = Model::open(path_).value();
  EXPECT_EQ((model.tensor<F32, Rank<1>>("a").value()(2)), 3);
  EXPECT_EQ((model.tensor<U8, Rank<1>>("b").value()(0)), 'x');
}

TEST_F(Writing, holes_of_encoded_files_are_sparse) {
  auto file = small_file();
  file.file_bytes = std::uint64_t{1} << 32;
  ASSERT_TRUE(write(path_, file, source_of({{file.file_bytes - 1, bytes_of("x")}})));
  EXPECT_EQ(std::filesystem::file_size(path_), file.file_bytes);
  struct stat disk{};
  ASSERT_EQ(stat(path_.c_str(), &disk), 0);
  EXPECT_LT(disk.st_blocks * 512, 1 << 20);
}

TEST_F(Writing, pieces_of_encoded_files_are_in_order_between_header_and_end) {
  const auto data = bytes_of("abcd");
  for (const auto& pieces :
       {std::vector<DataPiece>{{7, data}}, std::vector<DataPiece>{{0, {}}},
        std::vector<DataPiece>{{13, data}}, std::vector<DataPiece>{{10, data}, {12, data}},
        std::vector<DataPiece>{{UINT64_MAX, data}}}) {
    const auto done = write(path_, small_file(), source_of(pieces));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().rule(), "pieces_are_in_order_and_inside");
    EXPECT_TRUE(folder_.names().empty());
  }
}

TEST_F(Writing, file_contains_its_header) {
  auto file = small_file();
  file.file_bytes = 7;
  const auto done = write(path_, file, source_of({}));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::size_mismatch);
  EXPECT_EQ(done.error().rule(), "file_contains_its_header");
  EXPECT_TRUE(folder_.names().empty());
  file.file_bytes = file.header.size();
  EXPECT_TRUE(write(path_, file, source_of({}))) << "a file may consist of its header";
}

TEST_F(Writing, every_failing_call_leaves_no_encoded_file) {
  for (const Call call : {Call::stat_path, Call::open, Call::create_nameless, Call::resize, Call::write_at,
                          Call::sync, Call::name, Call::rename}) {
    FaultyPort port;
    port.fail_at(call, 0, std::errc::no_space_on_device);
    EXPECT_FALSE(write(path_, small_file(), source_of({{8, bytes_of("ab")}}),
                       {.if_exists = IfExists::replace, .port = &port}));
    EXPECT_TRUE(folder_.names().empty());
    EXPECT_EQ(port.open_files(), 0);
  }
}

TEST_F(Writing, failing_source_leaves_nothing) {
  const std::vector<std::int64_t> dims{8};
  const auto done = write(path_, dtype_info<U8>(), dims, []() -> Result<std::optional<DataPiece>> {
    return fail(Error(ErrorCode::cancelled));
  });
  EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
  EXPECT_TRUE(folder_.names().empty());
}

}  // namespace
}  // namespace ht::write_test
