// From a header to a catalog: safetensors of three sizes, a GGUF with a vocabulary, and an IRPA. Each is
// compared with a limit, and safetensors also with the usual C++ parser.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/catalog/headers.hpp"
#include "bench/catalog/task.hpp"
#include "bench/harness/must.hpp"
#include "bench/harness/room.hpp"
#include "bench/microbenchmarks.hpp"

namespace {

using ht::Result;

void add(const std::string& name, std::size_t expected, std::function<std::size_t()> run) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    for (auto _ : state) {
      if (run() != expected) state.SkipWithError("the answer is wrong");
    }
  })->Unit(benchmark::kMillisecond);
}

// Compares the memory of a catalog with the size of its header, and prints the goal.
Result<bool> memory_is_within_goal(const std::filesystem::path& path, std::size_t header_bytes) {
  const auto model = HT_TRY(ht::Model::open(path, {.catalog_only = true}));
  const double ratio =
      static_cast<double>(model.catalog().memory_bytes()) / static_cast<double>(header_bytes);
  std::printf("%s: the catalog takes %.2f times the header's %zu bytes, goal at most 2: %s\n",
              path.filename().c_str(), ratio, header_bytes, ratio <= 2 ? "met" : "MISSED");
  return ratio <= 2;
}

// Measures the best of several iterations over all tensors of a model, and prints the goal.
Result<bool> iteration_is_within_goal(const std::filesystem::path& path, std::size_t tensors) {
  const auto model = HT_TRY(ht::Model::open(path));
  double best = std::numeric_limits<double>::infinity();
  for (int walk = 0; walk < 21; ++walk) {
    std::size_t seen = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (const ht::AnyTensor& tensor : model) {
      benchmark::DoNotOptimize(tensor);
      ++seen;
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    if (seen != tensors)
      return ht::fail(
          ht::Error(ht::ErrorCode::internal, "model_iterates_all_tensors",
                    std::to_string(seen) + " tensors were iterated instead of " + std::to_string(tensors)));
    best = std::min(best, took.count() / static_cast<double>(tensors));
  }
  std::printf("%s: iterating takes %.1f ns per tensor, goal at most 15: %s\n", path.filename().c_str(), best,
              best <= 15 ? "met" : "MISSED");
  return best <= 15;
}

// Writes the files, registers the benchmarks, and measures memory and iteration. Returns true if the goals of
// memory and iteration were met; a smoke test may miss the goal of iteration. `sizes` are numbers of tensors.
Result<bool> add_benchmarks_and_check_goals(const ht::bench::Folder& folder,
                                            const std::vector<std::size_t>& sizes, bool smoke) {
  bool good = true;
  for (const auto tensors : sizes) {
    const auto size = std::to_string(tensors);
    const auto path = folder / (size + ".safetensors");
    const auto header =
        HT_TRY(ht::bench::make_file(path, "safetensors", HT_TRY(ht::bench::expert_catalog(tensors))));
    // The padding that `parse_by_simdjson` needs follows the text.
    auto text =
        std::make_shared<std::string>(reinterpret_cast<const char*>(header.data()) + 8, header.size() - 8);
    text->resize(text->size() + ht::bench::json_padding);
    const std::string_view json(text->data(), text->size() - ht::bench::json_padding);
    add("safetensors/htensor/" + size, tensors, [=] { return ht::bench::list_by_htensor(path); });
    // `text` is never null. The two lambdas name it so that `[=]` captures it: it owns the bytes of `json`.
    add("safetensors/simdjson/" + size, tensors,
        [=] { return text ? ht::bench::parse_by_simdjson(json) : 0; });
    add("safetensors/nlohmann/" + size, tensors,
        [=] { return text ? ht::bench::parse_by_nlohmann(json) : 0; });
    add("safetensors/read/" + size, header.size(),
        [=, n = header.size()] { return ht::bench::read_header_bytes(path, n); });
    good = HT_TRY(memory_is_within_goal(path, header.size())) && good;
    if (tensors == sizes.back()) good = (HT_TRY(iteration_is_within_goal(path, tensors)) || smoke) && good;
  }
  const auto gguf = folder / "vocabulary.gguf";
  const auto gguf_header =
      HT_TRY(ht::bench::make_file(gguf, "gguf", HT_TRY(ht::bench::vocabulary_catalog())));
  add("gguf/htensor", 2'000, [=] { return ht::bench::list_by_htensor(gguf); });
  add("gguf/walk", 2'000, [=, n = gguf_header.size()] { return ht::bench::walk_gguf(gguf, n); });
  good = HT_TRY(memory_is_within_goal(gguf, gguf_header.size())) && good;
  const auto irpa = folder / "experts.irpa";
  const auto irpa_header =
      HT_TRY(ht::bench::make_file(irpa, "irpa", HT_TRY(ht::bench::expert_catalog(60'000))));
  add("irpa/htensor/60000", 60'000, [=] { return ht::bench::list_by_htensor(irpa); });
  add("irpa/read/60000", irpa_header.size(),
      [=, n = irpa_header.size()] { return ht::bench::read_header_bytes(irpa, n); });
  return HT_TRY(memory_is_within_goal(irpa, irpa_header.size())) && good;
}

int run_all(int argc, char** argv) {
  const ht::bench::Folder folder;
  const bool smoke = ht::bench::is_smoke(argc, argv);
  std::vector<std::size_t> sizes{300, 60'000};
  if (!smoke) sizes.push_back(600'000);
  const bool good = ht::bench::value_of(add_benchmarks_and_check_goals(folder, sizes, smoke));
  const std::string largest = std::to_string(sizes.back());
  const int status =
      ht::bench::run_and_compare(argc, argv,
                                 {{"safetensors/htensor/" + largest, "safetensors/simdjson/" + largest, 2.5},
                                  {"safetensors/htensor/" + largest, "safetensors/nlohmann/" + largest, 0.2},
                                  {"gguf/htensor", "gguf/walk", 2.0}});
  return good ? status : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return ht::bench::exit_status_of(argv[0], [&] { return run_all(argc, argv); });
}
