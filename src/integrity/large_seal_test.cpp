// A model whose seal would be too large to be read again.
#include <gtest/gtest.h>

#include <htensor/integrity/seal.hpp>
#include <htensor/model/model.hpp>

#include "base/format_text.hpp"
#include "format/safetensors/test_file.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::large_seal_test {
namespace {

using testing::Call;

TEST(LargeSeal, is_refused_before_any_data_is_read) {
  // A SHA-256 seal of 32 TiB exceeds the limit. ext4 limits a file to 16 TiB, so the test uses three files.
  constexpr std::uint64_t bytes = std::uint64_t{11} << 40;
  const testing::TemporaryFolder folder;
  for (int part = 0; part < 3; ++part) {
    const auto path = folder / format_text("part{}.safetensors", part);
    const auto header = testing::safetensors_file(
        format_text(R"({{"t{0}":{{"dtype":"U8","shape":[{1}],"data_offsets":[0,{1}]}}}})", part, bytes));
    testing::write_file(path, header);
    std::error_code failed;
    std::filesystem::resize_file(path, header.size() + bytes, failed);
    if (failed) GTEST_SKIP() << "the file system has no files of 11 TiB";
  }
  testing::FaultyPort port;
  const auto model = Model::open(folder.path(), {.port = &port});
  ASSERT_TRUE(model) << to_string(model.error());
  const int reads = port.count(Call::read_at);
  const auto sealed = ht::seal(*model, {.algorithm = HashAlgorithm::sha256});
  ASSERT_FALSE(sealed);
  EXPECT_EQ(sealed.error().code(), ErrorCode::header_too_large);
  EXPECT_EQ(sealed.error().rule(), "seal_size_within_limit");
  EXPECT_EQ(sealed.error().path(), folder.path().native());
  EXPECT_EQ(port.count(Call::read_at), reads);
  EXPECT_EQ(port.count(Call::advise), 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "model.htseal"));
}

}  // namespace
}  // namespace ht::large_seal_test
