// Durable conversions that change values: F32 to BF16 against copying the source, and Q4_K_M to BF16 against
// writing as many bytes as the target has.
#include <algorithm>
#include <bit>
#include <cstring>
#include <htensor/convert/convert.hpp>

#include "bench/harness/child.hpp"
#include "bench/harness/must.hpp"
#include "bench/harness/options.hpp"
#include "bench/harness/report.hpp"
#include "bench/harness/room.hpp"
#include "bench/harness/workload.hpp"

namespace {

using namespace ht::bench;
using Path = std::filesystem::path;

// Reference rounding to BF16, independent of the kernels under test.
std::uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// Returns the number of wrong values in the target. Compares the first and last 128 values of each tensor.
std::uint64_t count_mismatches(const Path& source, const Path& target) {
  const auto before = value_of(ht::Model::open(source));
  const auto after = value_of(ht::Model::open(target));
  std::uint64_t wrong = 0;
  std::uint64_t compared = 0;
  for (const ht::AnyTensor& tensor : before) {
    const auto changed = value_of(after[tensor.name()]);
    const auto stored = value_of(changed.bytes());
    // Norms of an encoded model remain F32.
    if (changed.type().name == tensor.type().name) continue;
    must(changed.type().name == "BF16", "a tensor has another type than BF16");
    const auto count = static_cast<std::int64_t>(stored.size() / 2);
    std::vector<double> values(static_cast<std::size_t>(std::min<std::int64_t>(count, 128)));
    for (const std::int64_t first : {std::int64_t{0}, count - static_cast<std::int64_t>(values.size())}) {
      value_of(tensor.read_values(values, first));
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint16_t code = 0;
        std::memcpy(&code, stored.data() + (static_cast<std::size_t>(first) + i) * 2, sizeof(code));
        wrong += code == round_to_bf16(static_cast<float>(values[i])) ? 0 : 1;
        ++compared;
      }
    }
  }
  must(compared > 0, "no value was compared");
  return wrong;
}

TurnResult convert_to_bf16(const Path& source, const Path& target, const ht::ConvertOptions& options) {
  const Stopwatch watch;
  const auto model = value_of(ht::Model::open(source));
  value_of(ht::convert(model, target, options, {.round = true}));
  const double seconds = watch.seconds();
  return {seconds, count_mismatches(source, target)};
}

// Runs a command that creates `target`. The answer is the size of the target.
TurnResult run_copy(const std::vector<std::string>& command, const Path& target) {
  const Stopwatch watch;
  run_or_fail(command);
  const double seconds = watch.seconds();
  return {seconds, std::filesystem::file_size(target)};
}

class Builder {
 public:
  void add_cell(std::string name, const Path& source, std::uint64_t bytes) {
    cells_.cells.push_back({.name = std::move(name), .cache = Cache::warm, .path = source, .bytes = bytes});
  }
  template <class Make>
  void add(const std::string& name, Kind kind, const Path& target, std::uint64_t answer, Make make) {
    const auto run = [target, make] {
      std::filesystem::remove(target);
      auto turn = make(target);
      std::filesystem::remove(target);
      return turn;
    };
    cells_.contenders.push_back(
        {.cell = &cells_.cells.back(), .name = name, .kind = kind, .run = run, .expected_answer = answer});
  }
  void add_command(const std::string& name, Kind kind, const Path& target, std::uint64_t size,
                   std::vector<std::string> command) {
    add(name, kind, target, size,
        [command = std::move(command)](const Path& output_path) { return run_copy(command, output_path); });
  }
  Cells take() && { return std::move(cells_); }

 private:
  Cells cells_;
};

void add_dense(Builder& builder, const Path& source, const Path& target) {
  const auto size = std::filesystem::file_size(source);
  builder.add_cell("F32 to BF16", source, size);
  builder.add("htensor", Kind::ours, target, 0, [source](const Path& output_path) {
    return convert_to_bf16(source, output_path, {.types = {{"*", "BF16"}}});
  });
  builder.add_command("dd of the source, direct", Kind::limit, target, size, dd_command(source, target));
  builder.add_command(
      "cp of the source + sync", Kind::other, target, size,
      {"sh", "-c", "cp --reflink=never \"$0\" \"$1\" && sync \"$1\"", source.string(), target.string()});
}

void add_blocks(Builder& builder, const Path& source, const Path& target) {
  const ht::ConvertOptions options{.dequantize = "BF16"};
  const auto bytes =
      value_of(ht::plan_conversion(value_of(ht::Model::open(source)), target, options)).bytes();
  builder.add_cell("Q4_K_M to BF16", source, bytes);
  builder.add("htensor", Kind::ours, target, 0, [source, options](const Path& output_path) {
    return convert_to_bf16(source, output_path, options);
  });
  constexpr std::uint64_t step = 4U << 20;
  builder.add_command("dd of zeros, direct", Kind::limit, target, bytes / step * step,
                      {"dd", "if=/dev/zero", "of=" + target.string(), "bs=4M", "oflag=direct", "conv=fsync",
                       "count=" + std::to_string(bytes / step)});
}

/// Returns true if all goals were met.
bool run_all(const Options& options) {
  const auto free_bytes = std::filesystem::space(options.folder).available;
  must(free_bytes / 5 * 2 >= options.bytes,
       "not enough disk space: sources and targets take 2.5 times --size");
  const Folder folder(options.folder);
  const Path dense = folder / "dense.safetensors";
  const Path blocks = folder / "blocks.gguf";
  synthesize(dense, {"--preset", "llama-1b", "--dtype", "F32", "--size", std::to_string(options.bytes)});
  synthesize(blocks, {"--preset", "llama-1b-q4_k_m", "--size", std::to_string(options.bytes / 5)});
  Builder builder;
  add_dense(builder, dense, folder / "target.safetensors");
  add_blocks(builder, blocks, folder / "target.gguf");
  auto cells = std::move(builder).take();
  run(cells.contenders, options, std::chrono::seconds(2));
  Report report{.file_bytes = options.bytes,
                .contenders = std::move(cells.contenders),
                .goals = {},
                .repeats = options.repeats};
  report.goals.push_back(
      speed_goal(report.contenders, "F32 to BF16", "htensor", "dd of the source, direct", 0.7));
  report.goals.push_back(
      speed_goal(report.contenders, "Q4_K_M to BF16", "htensor", "dd of zeros, direct", 0.6));
  return publish(report, options);
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, {}, run_all); }
