// A fixture with a safetensors file and two GGUF files, for tests of edit_metadata.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <htensor/convert/edit_metadata.hpp>
#include <htensor/format/format.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "format/gguf/gguf_test_file.hpp"
#include "format/safetensors/test_file.hpp"
#include "testing/faulty_port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::edit_metadata_test {

using testing::Call;
using testing::FaultyPort;
using testing::GgufFile;
using testing::read_file;
using testing::safetensors_file;
using testing::TemporaryFolder;
using testing::write_file;

using Edits = std::vector<MetadataEdit>;
using File = std::vector<std::byte>;

inline constexpr std::string_view json =
    R"({"__metadata__":{"format":"pt","who":"somebody else"},"b":{"dtype":"U8","shape":[3,5000],"data_offsets":[5000,20000]},"a":{"dtype":"F32","shape":[1250],"data_offsets":[0,5000]}}   )";

inline File gguf_file(std::endian order) {
  GgufFile file(order);
  file.header(2, 2).key("general.name", MetaType::string).text("a name that is long enough to be cut");
  file.pair("llama.block_count", MetaType::u32, 22U);
  file.tensor("t", {100, 100}, 0, 0).tensor("u", {8}, 0, 40'000).pad().zeros(40'000 + 32);
  auto bytes = file.bytes();
  for (std::size_t i = bytes.size() - 40'032; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
  return bytes;
}

class EditMeta : public ::testing::Test {
 protected:
  EditMeta() {
    write_file(safetensors_, safetensors_file(json, 20'000));
    write_file(gguf_, gguf_file(std::endian::little));
    write_file(big_endian_gguf_, gguf_file(std::endian::big));
  }

  Result<EditReport> edit(const std::filesystem::path& path, const Edits& edits, bool grow = false) {
    return edit_metadata(path, edits, {.grow = grow, .port = &port_});
  }

  // All tensors have moved by `moved_by` bytes, and all data is unchanged.
  static void expect_same_data(const std::filesystem::path& path, const File& before,
                               std::uint64_t moved_by = 0) {
    const auto old = catalog_of(before);
    const auto now_bytes = read_file(path);
    const auto now = catalog_of(now_bytes);
    ASSERT_EQ(now.size(), old.size());
    ASSERT_EQ(now_bytes.size(), before.size() + moved_by);
    std::uint64_t begin = before.size();
    for (std::size_t i = 0; i < old.size(); ++i) {
      EXPECT_EQ(now[i].name, old[i].name);
      EXPECT_EQ(now[i].offset, old[i].offset + moved_by);
      EXPECT_EQ(now[i].dtype, old[i].dtype);
      EXPECT_TRUE(std::ranges::equal(now[i].dims, old[i].dims));
      begin = std::min(begin, old[i].offset);
    }
    EXPECT_TRUE(std::ranges::equal(Bytes(before).subspan(begin), Bytes(now_bytes).subspan(begin + moved_by)));
  }

  static Catalog catalog_of(const File& file) { return std::get<Catalog>(parse(file, file.size()).value()); }

  void expect_no_temporary_files() const {
    EXPECT_EQ(folder_.names(), (std::vector<std::string>{"big.gguf", "m.gguf", "m.safetensors"}));
    EXPECT_EQ(port_.open_files(), 0);
    EXPECT_EQ(port_.mapped_regions(), 0);
  }

  TemporaryFolder folder_;
  std::filesystem::path safetensors_ = folder_ / "m.safetensors";
  std::filesystem::path gguf_ = folder_ / "m.gguf";
  std::filesystem::path big_endian_gguf_ = folder_ / "big.gguf";
  FaultyPort port_;
};

}  // namespace ht::edit_metadata_test
