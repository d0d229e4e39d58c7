#include "integrity/carried_seal.hpp"

#include <gtest/gtest.h>

#include "io/file_source.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::carried_seal_test {
namespace {

// A file with a header of 4 bytes and a tensor of 6 bytes. The digest of the tensor is made up, so a test
// fails if it is computed instead of copied.
class CarriedSeal : public ::testing::Test {
 protected:
  [[nodiscard]] Seal seal(std::uint64_t tensor_offset) const {
    Seal result;
    result.files.push_back({"f", 10, Digest(1)});
    result.tensors.push_back(
        {.name = "t", .file = 0, .offset = tensor_offset, .bytes = 6, .digest = Digest(2)});
    for (const auto& chunk : {Digest(3), Digest(4)}) {
      result.chunks.insert(result.chunks.end(), chunk.bytes().begin(), chunk.bytes().end());
    }
    return result;
  }
  [[nodiscard]] ReplacedHeader edit(std::string_view header) const {
    return {.file = 0, .source = source_, .old_header_bytes = 4, .header = bytes_of(header)};
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = [this] {
    testing::write_file(folder_ / "f", "head012345");
    return folder_ / "f";
  }();
  mutable io::MappedFile source_{io::FileSource::open(path_).value()};
};

TEST_F(CarriedSeal, keeps_the_digests_of_data_that_moves) {
  const auto carried = carried_seal(seal(4), edit("another"), {}).value();
  EXPECT_EQ(carried.files[0].bytes, 13U);
  EXPECT_EQ(carried.tensors[0].offset, 7U);
  EXPECT_EQ(carried.tensors[0].digest, Digest(2));
  EXPECT_EQ(Digest(HashAlgorithm::crc64nvme, Bytes(carried.chunks).first(8)),
            digest(HashAlgorithm::crc64nvme, bytes_of("another")).value());
  EXPECT_EQ(Digest(HashAlgorithm::crc64nvme, Bytes(carried.chunks).last(8)), Digest(4));
  EXPECT_TRUE(is_carried_seal(carried, edit("another"), {}).value());
  EXPECT_FALSE(is_carried_seal(carried, edit("an0ther"), {}).value());
  EXPECT_FALSE(is_carried_seal(seal(4), edit("another"), {}).value());
}

TEST_F(CarriedSeal, sealed_tensors_follow_the_header) {
  const auto refused = carried_seal(seal(3), edit("another"), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::bad_seal);
  EXPECT_EQ(refused.error().rule(), "sealed_tensors_follow_the_header");
  EXPECT_EQ(refused.error().tensor(), "t");
}

TEST_F(CarriedSeal, can_be_stopped) {
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = carried_seal(seal(4), edit("another"), {.stop = stop.get_token()});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
}

}  // namespace
}  // namespace ht::carried_seal_test
