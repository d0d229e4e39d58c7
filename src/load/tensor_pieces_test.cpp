#include "load/tensor_pieces.hpp"

#include <gtest/gtest.h>

#include <htensor/dtype/dtypes.hpp>
#include <map>
#include <optional>

namespace ht::tensor_pieces_test {
namespace {

constexpr std::uint64_t data_bytes = 40;

class Pieces : public ::testing::Test {
 protected:
  void SetUp() override {
    CatalogBuilder builder("test");
    ASSERT_TRUE(builder.add_file("other"));
    for (const auto& [name, file, offset, bytes] : tensors_) {
      const std::vector<std::int64_t> dims{static_cast<std::int64_t>(bytes)};
      ASSERT_TRUE(builder.add(
          {.name = name, .dtype = U8::tag, .dims = dims, .file = file, .offset = offset, .bytes = bytes}));
    }
    catalog_ = std::move(builder).build().value();
  }

  struct Tensor {
    std::string_view name;
    std::uint32_t file;
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  // Tensors out of file order, with a gap, with shared bytes, one inside another, and one in another file.
  std::vector<Tensor> tensors_{{"late", 0, 25, 10}, {"first", 0, 2, 8},  {"over", 0, 8, 14},
                               {"in", 0, 9, 2},     {"other", 1, 5, 30}, {"none", 0, 3, 0}};
  std::optional<Catalog> catalog_;
};

TEST_F(Pieces, cover_every_byte_of_every_tensor_once) {
  std::vector<std::byte> data(data_bytes);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  const std::vector<std::size_t> all{0, 1, 2, 3, 4, 5};
  for (std::uint64_t piece = 1; piece <= data_bytes; ++piece) {
    std::map<std::size_t, std::uint64_t> received_bytes;
    const PieceConsumer consumer = [&](const TensorPiece& part) -> Result<void> {
      EXPECT_EQ(part.offset, received_bytes[part.index]);
      for (std::size_t i = 0; i < part.bytes.size(); ++i) {
        EXPECT_EQ(part.bytes[i], static_cast<std::byte>(tensors_[part.index].offset + part.offset + i));
      }
      EXPECT_FALSE(part.bytes.empty());
      received_bytes[part.index] += part.bytes.size();
      return {};
    };
    TensorPieces pieces(*catalog_, all, consumer);
    for (const std::uint32_t file : {0U, 1U}) {
      for (std::uint64_t at = 0; at < data_bytes; at += piece) {
        const std::uint64_t bytes = std::min(piece, data_bytes - at);
        ASSERT_TRUE(pieces.take({file, at, bytes}, Bytes(data).subspan(at, bytes)));
      }
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      EXPECT_EQ(received_bytes[i], tensors_[i].bytes) << piece;
  }
}

TEST_F(Pieces, return_the_error_of_the_consumer) {
  const std::vector<std::byte> data(data_bytes);
  const std::vector<std::size_t> one{1};
  int calls = 0;
  const PieceConsumer consumer = [&](const TensorPiece&) -> Result<void> {
    ++calls;
    return fail(ErrorCode::no_space, "space_is_left", "0 bytes are left");
  };
  TensorPieces pieces(*catalog_, one, consumer);
  EXPECT_TRUE(pieces.take({0, 0, 2}, Bytes(data).first(2)));
  EXPECT_EQ(pieces.take({0, 2, 30}, Bytes(data).first(30)).error().rule(), "space_is_left");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace ht::tensor_pieces_test
