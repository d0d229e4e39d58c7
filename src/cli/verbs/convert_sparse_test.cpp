// Converts huge sparse files: their holes are kept, and the program needs little memory.
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include "cli/program_test.hpp"

namespace ht::convert_sparse_test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool sanitized = false;
#endif

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
constexpr std::size_t end_bytes = 70'001;

// A tensor at an odd offset, with noise at its ends and a hole between them.
class SparseConvert : public Cli {
 protected:
  void make(std::uint64_t tensor_bytes) {
    std::string json =
        R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"big":{"dtype":"F32","shape":[)" +
        std::to_string(tensor_bytes / 4) + R"(],"data_offsets":[3,)" + std::to_string(tensor_bytes + 3) +
        "]}}";
    while (json.size() % 8 != 0) json += ' ';
    const auto begin = testing::safetensors_file(json, 3);
    const auto path = folder_ / "sparse.safetensors";
    testing::write_file(path, begin);
    std::filesystem::resize_file(path, begin.size() + tensor_bytes);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(begin.size()));
    file.write(first_.data(), end_bytes);
    file.seekp(static_cast<std::streamoff>(begin.size() + tensor_bytes - end_bytes));
    file.write(last_.data(), end_bytes);
    ASSERT_TRUE(file.flush());
    ASSERT_EQ(begin.size() % 8, 3U) << "the data must begin at an unaligned offset";
    bytes_ = tensor_bytes;
  }

  static std::string noise(unsigned seed) {
    std::string text(end_bytes, '\0');
    for (auto& each : text) each = static_cast<char>((seed = seed * 1'664'525 + 1'013'904'223) >> 24);
    return text;
  }

  void expect_ends_and_hole(std::string_view name) {
    const auto path = folder_ / name;
    const auto model = Model::open(path).value();
    const auto bytes = model.storage("big").value();
    ASSERT_EQ(bytes.bytes().size(), bytes_);
    EXPECT_TRUE(std::ranges::equal(bytes.bytes().first(end_bytes), bytes_of(first_))) << name;
    EXPECT_TRUE(std::ranges::equal(bytes.bytes().last(end_bytes), bytes_of(last_))) << name;
    const auto middle = bytes.bytes().subspan(end_bytes, mebibyte);
    EXPECT_TRUE(std::ranges::all_of(middle, [](std::byte each) { return each == std::byte{0}; })) << name;
    struct stat attributes{};
    ASSERT_EQ(stat(path.c_str(), &attributes), 0);
    EXPECT_LT(static_cast<std::uint64_t>(attributes.st_blocks) * 512, mebibyte) << name;
  }

  // Runs the program and records its peak memory. Returns its exit status.
  int run_and_record_memory(std::vector<std::string> arguments) {
    const pid_t child = start(std::move(arguments), [] {});
    int status = 0;
    rusage usage{};
    wait4(child, &status, 0, &usage);
    peak_memory_ = std::max(peak_memory_, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::uint64_t peak_memory_ = 0;
  std::string first_ = noise(1);
  std::string last_ = noise(2);
  std::uint64_t bytes_ = 0;
};

TEST_F(SparseConvert, five_gibibytes_need_little_memory_and_disk_space) {
  make(5 * 1024 * mebibyte);
  for (const std::string name : {"t.irpa", "t.gguf", "t.safetensors"}) {
    ASSERT_EQ(run_and_record_memory({"convert", "sparse.safetensors", name, "-q", "--lossy"}), 0);
    expect_ends_and_hole(name);
  }
  ASSERT_EQ(run_and_record_memory({"convert", "sparse.safetensors", "sealed.irpa", "-q", "--seal"}), 0);
  expect_ends_and_hole("sealed.irpa");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "sealed.irpa.htseal"));
  if (!sanitized) {
    EXPECT_LE(peak_memory_, 96 * mebibyte);
  }
}

TEST_F(SparseConvert, seals_holes_as_zeros) {
  make(48 * mebibyte);
  for (const std::string name : {"t.irpa", "t.safetensors", "t.gguf --lossy"}) {
    const auto file = name.substr(0, name.find(' '));
    ASSERT_EQ(run("convert sparse.safetensors -q --seal " + name).status, 0);
    EXPECT_EQ(run("verify -q " + file).status, 0) << file;
    const auto seal = text_of(file + ".htseal");
    ASSERT_EQ(run("seal -q " + file).status, 0);
    EXPECT_EQ(text_of(file + ".htseal"), seal) << "conversion and `htensor seal` write the same seal";
  }
}

}  // namespace
}  // namespace ht::convert_sparse_test
