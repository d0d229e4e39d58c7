// One vector times mapped weights that are larger than the caches: `linear` against a loop that only reads
// the same bytes on all processors.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <htensor/compute/linear.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/htensor.hpp>
#include <memory>
#include <random>

#include "bench/harness/must.hpp"
#include "bench/harness/open_file.hpp"
#include "bench/harness/options.hpp"
#include "bench/harness/report.hpp"
#include "bench/harness/room.hpp"
#include "bench/values/limit.hpp"

namespace {

using namespace ht::bench;
using ht::F32;
using Matrix = ht::Rank<2>;
using Vector = ht::Tensor<F32, ht::Rank<1>>;
using Path = std::filesystem::path;

constexpr std::int64_t columns = 4096;
// Number of encoded rows; all other rows repeat their bytes.
constexpr std::int64_t pattern_rows = 64;

ht::Tensor<F32, Matrix> pattern() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values(static_cast<std::size_t>(pattern_rows * columns));
  for (auto& value : values) value = normal(random);
  return value_of(ht::Tensor<F32, Matrix>::of(Matrix(pattern_rows, columns), values));
}

Vector activations() {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(columns));
  for (auto& value : values) value = normal(random);
  return value_of(Vector::of(ht::Rank<1>(columns), values));
}

// A mapped file that repeats the same bytes. It is unlinked at once; its pages are in the page cache.
ht::Storage repeated(const Path& path, ht::Bytes from, std::int64_t times) {
  {
    std::ofstream file(path, std::ios::binary);
    for (std::int64_t i = 0; i < times; ++i)
      file.write(reinterpret_cast<const char*>(from.data()), static_cast<std::streamsize>(from.size()));
    must(file.flush().good(), "not enough disk space for weights of this --size");
  }
  const OpenFile file(path);
  // Otherwise the kernel writes dirty pages to the disk during the measurement.
  system_must(::fdatasync(file.fd()) == 0, "fdatasync");
  const auto mapped = std::make_shared<const Mapping>(file, from.size() * static_cast<std::uint64_t>(times));
  std::filesystem::remove(path);
  return value_of(ht::Storage::owned_read_only(mapped, ht::Bytes(mapped->data(), mapped->size())));
}

template <class T>
auto weights_of(const Path& path, std::uint64_t bytes) {
  const auto some = value_of(ht::cast_lossy<T>(pattern()));
  const auto stored = [&] {
    if constexpr (ht::IsEncoding<T>) {
      return some.bytes();
    } else {
      return value_of(some.bytes());
    }
  }();
  const auto times = static_cast<std::int64_t>(std::max<std::uint64_t>(bytes / stored.size(), 1));
  const Matrix shape(pattern_rows * times, columns);
  if constexpr (ht::IsEncoding<T>) {
    return value_of(ht::BlockTensor<T, Matrix>::over(repeated(path, stored, times), shape));
  } else {
    return value_of(ht::Tensor<const T, Matrix>::over(repeated(path, stored, times), shape));
  }
}

// Compares the products of the first `pattern_rows` rows with sums in double, and each later product with
// that of the row that it repeats. A wrong product ends the benchmark.
template <class T>
void check(const Vector& y, const Vector& x, const ht::LinearOptions& options) {
  const auto rows = value_of(ht::cast<F32>(value_of(ht::cast_lossy<T>(pattern()))));
  const double allowed = options.int8_activations ? 0.05 : 1e-3;
  for (std::int64_t i = 0; i < y.extent(0); ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < columns && i < pattern_rows; ++j)
      sum += static_cast<double>(rows(i, j)) * static_cast<double>(x(j));
    const double expected = i < pattern_rows ? sum : static_cast<double>(y(i % pattern_rows));
    must(std::fabs(static_cast<double>(y(i)) - expected) <= (i < pattern_rows ? allowed : 0.0),
         "a product is wrong");
  }
}

// Reads the bytes once, untimed. In a virtual machine, the first read of memory that was idle for some
// seconds takes up to twice as long, for whichever contender comes first.
void touch(ht::Bytes bytes) { static_cast<void>(run_limit(bytes, {}, Stores::none)); }

template <class T>
void add_cell(Cells& cells, const Path& path, std::uint64_t bytes, const Vector& x, bool has_int8) {
  const auto weights = weights_of<T>(path, bytes);
  const auto in = [&] {
    if constexpr (ht::IsEncoding<T>) {
      return weights.bytes();
    } else {
      return value_of(weights.bytes());
    }
  }();
  const Cell& cell = cells.cells.emplace_back(Cell{.name = std::string(T::name), .bytes = in.size()});
  const auto add = [&](std::string name, ht::LinearOptions options) {
    check<T>(value_of(ht::linear(x, weights, options)), x, options);
    cells.contenders.push_back(make_contender(cell, std::move(name), Kind::ours, [=] {
      touch(in);
      const Stopwatch stopwatch;
      const auto y = value_of(ht::linear(x, weights, options));
      const double seconds = stopwatch.seconds();
      return TurnResult{.seconds = seconds, .answer = ht::crc64nvme(value_of(y.bytes()))};
    }));
  };
  add("htensor", {});
  if (has_int8) add("htensor, int8", {.int8_activations = true});
  cells.contenders.push_back(make_contender(cell, "read loop", Kind::limit, [=] {
    touch(in);
    return run_limit(in, {}, Stores::none);
  }));
}

std::vector<MeasuredValue> goals_of(const std::vector<Contender>& contenders) {
  std::vector<MeasuredValue> goals;
  const auto add = [&](const std::string& cell, const std::string& name, double threshold) {
    goals.push_back(pair_goal(cell + ": speed of " + name + " / the read loop", find(contenders, cell, name),
                              find(contenders, cell, "read loop"), threshold));
  };
  for (const char* cell : {"F32", "BF16", "F16"}) add(cell, "htensor", 0.95);
  add("Q8_0", "htensor", 0.9);
  for (const char* cell : {"Q4_K", "Q6_K"}) {
    add(cell, "htensor", 0.45);
    add(cell, "htensor, int8", 0.8);
  }
  return goals;
}

bool run_all(const Options& options) {
  const Vector x = activations();
  const Folder folder(options.folder);
  const Path path = folder / "weights";
  Cells cells;
  const auto add = [&]<class T>(T, bool has_int8) {
    if (options.selects(T::name)) add_cell<T>(cells, path, options.bytes, x, has_int8);
  };
  add(F32{}, false);
  add(ht::BF16{}, false);
  add(ht::F16{}, false);
  add(ht::F8_E4M3{}, false);
  add(ht::Q8_0{}, true);
  add(ht::Q4_0{}, true);
  add(ht::MXFP4{}, false);
  add(ht::Q4_K{}, true);
  add(ht::Q5_K{}, true);
  add(ht::Q6_K{}, true);
  run(cells.contenders, options);
  Report report{.file_bytes = options.bytes,
                .contenders = std::move(cells.contenders),
                .goals = {},
                .repeats = options.repeats};
  report.goals = goals_of(report.contenders);
  return publish(report, options);
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, {.bytes = std::uint64_t{1} << 30}, run_all); }
