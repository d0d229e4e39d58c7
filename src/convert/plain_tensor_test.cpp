#include "convert/plain_tensor.hpp"

#include "convert/diff_test.hpp"

namespace ht {
namespace {

using testing::irpa_file;
using testing::npy_file;
using testing::stored;
using testing::tensor_note;

class PlainTensors : public testing::Diff {
 protected:
  static std::string read(const PlainTensor& tensor, std::uint64_t first, std::uint64_t count) {
    std::vector<std::byte> buffer;
    const Bytes bytes = tensor.read(first, count, buffer).value();
    EXPECT_TRUE(tensor.fetch(first, count));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static std::string read_all(const PlainTensor& tensor) { return read(tensor, 0, tensor.elements()); }
};

TEST_F(PlainTensors, are_read_in_place_where_they_lie_plain) {
  const auto model = one("a", U16::tag, {2, 2}, "abcdefgh");
  const auto tensor = PlainTensor::of(model, 0).value();
  EXPECT_EQ(tensor.bits(), 16);
  EXPECT_EQ(tensor.elements(), 4U);
  std::vector<std::byte> buffer;
  EXPECT_EQ(tensor.read(0, 4, buffer)->data(), tensor.stored().bytes.data());
  EXPECT_TRUE(buffer.empty());
  EXPECT_EQ(read_all(tensor), "abcdefgh");
}

TEST_F(PlainTensors, are_turned_and_put_in_order) {
  const auto model =
      opened("t.npy", npy_file(">i2", true, "(2, 2)", stored<std::int16_t>({1, 3, 2, 4}, true)));
  EXPECT_EQ(read_all(PlainTensor::of(model, 0).value()), stored<std::int16_t>({1, 2, 3, 4}));
}

TEST_F(PlainTensors, a_splat_is_written_out_run_by_run) {
  const auto model = opened(
      "a",
      irpa_file({{.name = "t", .note = tensor_note("uint8", "[300]"), .length = 300, .pattern = "abcd"}}));
  const auto tensor = PlainTensor::of(model, 0).value();
  EXPECT_TRUE(tensor.stored().bytes.empty());
  EXPECT_EQ(read(tensor, 128, 6), "abcdab");
}

TEST_F(PlainTensors, blocks_and_what_is_untyped_have_elements_of_a_byte) {
  const auto untyped = opened("a", irpa_file({{.name = "t", .length = 5}}, "hello"));
  const auto tensor = PlainTensor::of(untyped, 0).value();
  EXPECT_EQ(tensor.bits(), 8);
  EXPECT_EQ(read_all(tensor), "hello");
}

TEST_F(PlainTensors, reading_a_column_major_run_can_be_stopped) {
  const auto model = opened("t.npy", npy_file("<i2", true, "(2, 2)", stored<std::int16_t>({1, 3, 2, 4})));
  const auto tensor = PlainTensor::of(model, 0).value();
  const std::stop_source stop;
  stop.request_stop();
  std::vector<std::byte> buffer;
  EXPECT_EQ(tensor.read(0, 4, buffer, stop.get_token()).error().code(), ErrorCode::cancelled);
}

TEST_F(PlainTensors, without_elements_need_no_bytes) {
  const auto model = one("a", F32::tag, {0, 7}, "");
  const auto tensor = PlainTensor::of(model, 0).value();
  EXPECT_EQ(tensor.elements(), 0U);
  EXPECT_EQ(read_all(tensor), "");
}

}  // namespace
}  // namespace ht
