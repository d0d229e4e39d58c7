// Tokens of examples/llama with Q4_K_M weights, against a loop that reads as many bytes as one token needs.
#include <htensor/hash/digest.hpp>

#include "bench/harness/must.hpp"
#include "bench/harness/options.hpp"
#include "bench/harness/report.hpp"
#include "bench/harness/room.hpp"
#include "bench/harness/workload.hpp"
#include "bench/values/limit.hpp"
#include "examples/llama/llama.hpp"

namespace {

using namespace ht::bench;
using Path = std::filesystem::path;
using Llama = llama::Llama<ht::F32, ht::Host>;

constexpr std::int64_t timed_tokens = 8;
constexpr std::int32_t prompt[] = {1, 2, 3, 4, 5, 6, 7, 8};

std::int32_t next_token(Llama& model, std::span<const std::int32_t> ids) {
  const auto best = value_of(ht::argmax(value_of(model.logits(ids))));
  return static_cast<std::int32_t>(best(0));
}

// Measures seconds per token; the answer is the tokens. The prompt is not timed.
TurnResult run_tokens(const ht::Model& file, const ht::LinearOptions& options) {
  auto model = value_of(Llama::open(file, std::ssize(prompt) + timed_tokens, options));
  std::vector<std::int32_t> ids{next_token(model, prompt)};
  const Stopwatch stopwatch;
  for (std::int64_t i = 0; i < timed_tokens; ++i) ids.push_back(next_token(model, std::span(ids).last(1)));
  const double seconds = stopwatch.seconds();
  return {.seconds = seconds / timed_tokens, .answer = ht::crc64nvme(std::as_bytes(std::span(ids)))};
}

void add_cell(Cells& cells, const std::string& name, const Path& path) {
  const auto file = value_of(ht::Model::open(path));
  // The bytes of the matrices that each token reads. The read loop reads as many bytes of the mapping, from
  // the first tensor on.
  const auto bytes = value_of(Llama::open(file, 1)).weight_bytes;
  const auto tensor = value_of(file.at(0));
  const auto first = value_of(tensor.bytes());
  must(std::filesystem::file_size(path) - file.catalog()[0].offset >= bytes,
       "the file ends before the bytes of the read loop");
  const ht::Bytes read(first.data(), bytes);
  const Cell& cell =
      cells.cells.emplace_back(Cell{.name = name, .cache = Cache::warm, .path = path, .bytes = bytes});
  const auto add = [&](std::string contender, Kind kind, std::function<TurnResult()> run) {
    cells.contenders.push_back(make_contender(cell, std::move(contender), kind, std::move(run)));
  };
  add("htensor", Kind::ours, [=] { return run_tokens(file, {}); });
  add("htensor, int8", Kind::ours, [=] { return run_tokens(file, {.int8_activations = true}); });
  add("read loop", Kind::limit, [=] {
    // Untimed, as the prompt is: the first read of idle memory is slow in a virtual machine.
    static_cast<void>(run_limit(read, {}, Stores::none));
    return run_limit(read, {}, Stores::none);
  });
}

bool run_all(const Options& options) {
  const Folder folder(options.folder);
  Cells cells;
  if (options.selects("small")) {
    const Path small = folder / "small.gguf";
    synthesize(small, {"--preset", "llama-1b-q4_k_m", "--size", std::to_string(options.bytes)});
    add_cell(cells, "small", small);
  }
  if (options.selects("1B")) {
    const Path whole = folder / "whole.gguf";
    std::vector<std::string> preset{"--preset", "llama-1b-q4_k_m"};
    // A smoke test uses a small file for this cell, too.
    if (options.smoke) preset.insert(preset.end(), {"--size", std::to_string(options.bytes)});
    synthesize(whole, preset);
    add_cell(cells, "1B", whole);
  }
  run(cells.contenders, options);
  Report report{.file_bytes = options.bytes,
                .contenders = std::move(cells.contenders),
                .goals = {},
                .repeats = options.repeats};
  for (const Cell& cell : cells.cells) {
    report.goals.push_back(pair_goal(cell.name + ": speed of htensor, int8 / the read loop",
                                     find(report.contenders, cell.name, "htensor, int8"),
                                     find(report.contenders, cell.name, "read loop"), 0.75));
  }
  return publish(report, options);
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, {.bytes = 200'000'000}, run_all); }
