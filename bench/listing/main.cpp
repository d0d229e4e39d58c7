// `htensor ls` as a whole process, from start to exit, with output to /dev/null: safetensors of three sizes,
// an IRPA, and a Llama GGUF with its vocabulary. Turns of `htensor ls` alternate with turns of an empty
// process, or with DOM parses of the same header by simdjson (in the benchmark's process, and in a process of
// their own). `ls` of the IRPA alternates with `ls` of a safetensors file.
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/catalog/headers.hpp"
#include "bench/catalog/task.hpp"
#include "bench/harness/must.hpp"
#include "bench/harness/room.hpp"
#include "bench/listing/paired_runs.hpp"
#include "bench/process.hpp"
#include "bench/quantile.hpp"

namespace {

using namespace ht::bench;

// Processes that take a few milliseconds run several times; the result is the median.
constexpr int short_runs = 9;

TimedRun process(std::vector<std::string> command, int runs) {
  return [command = std::move(command), runs] {
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) times.push_back(run_process(command).wall_ms);
    return quantile(times, 0.5);
  };
}

TimedRun dom_parse(std::string padded_text, std::size_t members) {
  const auto text = std::make_shared<const std::string>(std::move(padded_text));
  return [text, members] {
    const auto begin = std::chrono::steady_clock::now();
    const auto found = parse_by_simdjson({text->data(), text->size() - json_padding});
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    must(found == members, "the answer is wrong");
    return took.count();
  };
}

std::size_t lines_with(const std::filesystem::path& path, std::string_view word) {
  std::ifstream file(path);
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) lines += line.find(word) != std::string::npos ? 1 : 0;
  return lines;
}

// Adds the contenders with their files.
class Builder {
 public:
  Builder(const Folder& folder, bool smoke) : folder_(folder), smoke_(smoke), paired_runs_(smoke) {}

  PairedRuns build() && {
    paired_runs_.add_contender("empty process", process({HT_EMPTY_PROCESS}, short_runs));
    add_safetensors("291", 291, short_runs);
    add_safetensors("60,000", smoke_ ? 600 : 60'000, 1);
    add_safetensors("600,000", smoke_ ? 6'000 : 600'000, 1);
    add_file("ls IRPA, 60,000", "experts.irpa", "irpa", value_of(expert_catalog(smoke_ ? 600 : 60'000)), 1);
    add_file("ls Llama GGUF", "llama.gguf", "gguf", value_of(llama_catalog()), short_runs);
    return std::move(paired_runs_);
  }

 private:
  // Writes the file, adds `ls` of it and returns the header. Checks once that the output has one line per
  // tensor.
  std::vector<std::byte> add_file(const std::string& name, const std::string& file, std::string_view format,
                                  const ht::Catalog& catalog, int runs) {
    const auto path = folder_ / file;
    auto header = value_of(make_file(path, format, catalog));
    const std::vector<std::string> command{HT_PROGRAM, "ls", path.string()};
    const auto output = folder_ / "output";
    run_process(command, output);
    must(lines_with(output, ".weight") == catalog.size(), "ls of " + file + " is incomplete");
    paired_runs_.add_contender(name, process(command, runs));
    return header;
  }

  void add_safetensors(const std::string& size, std::size_t tensors, int runs) {
    const auto file = std::to_string(tensors) + ".safetensors";
    const auto header = add_file("ls " + size, file, "safetensors", value_of(expert_catalog(tensors)), runs);
    std::string text(reinterpret_cast<const char*>(header.data()) + 8, header.size() - 8);
    text.resize(text.size() + json_padding);
    paired_runs_.add_contender("DOM " + size, dom_parse(std::move(text), tensors));
    paired_runs_.add_contender("DOM process " + size,
                               process({HT_DOM_PROCESS, (folder_ / file).string()}, runs));
  }

  const Folder& folder_;
  bool smoke_;
  PairedRuns paired_runs_;
};

// Returns true if all outputs were correct and all goals were met.
bool run_all(bool smoke) {
  const Folder folder;
  // docs/benchmarks.md explains the thresholds. With a threshold of 0, the ratio is only printed.
  return Builder(folder, smoke)
      .build()
      .compare({{"ls 291", "empty process", 0.9, true},
                {"ls 60,000", "DOM 60,000", 4.0},
                {"ls 600,000", "DOM 600,000", 2.1},
                {"ls 60,000", "DOM process 60,000", 0},
                {"ls 600,000", "DOM process 600,000", 0},
                {"ls IRPA, 60,000", "ls 60,000", 1.0},
                {"ls Llama GGUF", "empty process", 3.8}});
}

}  // namespace

int main(int argc, char** argv) {
  return exit_status_of(argv[0], [&] {
    const bool smoke = is_smoke(argc, argv);
    must(smoke || argc == 1, "the only option is --smoke");
    return run_all(smoke) ? 0 : 1;
  });
}
