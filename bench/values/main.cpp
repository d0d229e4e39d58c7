// Values: casts, decoders of block encodings and statistics in memory, each against a loop that moves the
// same bytes and does nothing else.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <htensor/hash/crc64.hpp>
#include <htensor/htensor.hpp>
#include <random>

#include "bench/load/must.hpp"
#include "bench/load/options.hpp"
#include "bench/load/report.hpp"
#include "bench/values/limit.hpp"

namespace {

using namespace ht::bench;
using ht::BF16;
using ht::F16;
using ht::F32;
using ht::Rank;

using Flat = Rank<1>;

// Weights as models have them, repeated: small numbers around zero.
std::vector<float> weights() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values(std::size_t{1} << 20);
  for (auto& value : values) value = normal(random);
  return values;
}

// As many bytes, the first ones over and over.
ht::Storage repeated(ht::Bytes pattern, std::uint64_t bytes) {
  auto storage = value_of(ht::Storage::owned(bytes));
  const auto into = value_of(storage.writable_bytes());
  for (std::size_t at = 0; at < into.size(); at += pattern.size())
    std::memcpy(into.data() + at, pattern.data(), std::min(pattern.size(), into.size() - at));
  return storage;
}

// A source of each type with the same number of elements, and room for the largest result.
struct Workload {
  explicit Workload(std::int64_t count)
      : elements(count), target(value_of(ht::Storage::owned(static_cast<std::uint64_t>(count) * 4))) {
    std::memset(value_of(target.writable_bytes()).data(), 1, target.bytes().size());
  }

  template <class D>
  ht::Tensor<D, Flat> dense() const {
    const auto values = weights();
    const auto pattern =
        value_of(ht::Tensor<F32, Flat>::of(Flat(static_cast<std::int64_t>(values.size())), values));
    const auto converted = value_of(ht::cast_lossy<D>(pattern));
    const auto bytes = static_cast<std::uint64_t>(elements) * D::bits / 8;
    return value_of(ht::Tensor<D, Flat>::over(repeated(value_of(converted.bytes()), bytes), Flat(elements)));
  }
  template <class E>
  ht::BlockTensor<E, Flat> blocks() const {
    const auto values = weights();
    const auto pattern =
        value_of(ht::Tensor<F32, Flat>::of(Flat(static_cast<std::int64_t>(values.size())), values));
    const auto encoded = value_of(ht::cast_lossy<E>(pattern));
    const auto bytes = static_cast<std::uint64_t>(elements / E::block_elements * E::block_bytes);
    return value_of(ht::BlockTensor<E, Flat>::over(repeated(encoded.bytes(), bytes), Flat(elements)));
  }
  template <class D>
  ht::Tensor<D, Flat> result() const {
    return value_of(ht::Tensor<D, Flat>::over(target, Flat(elements)));
  }

  std::int64_t elements;
  ht::Storage target;
};

template <class T>
ht::Bytes bytes_of(const T& tensor) {
  if constexpr (requires { tensor.bytes().value(); }) {
    return value_of(tensor.bytes());
  } else {
    return tensor.bytes();
  }
}

Contender contender(const Cell& cell, std::string name, Kind kind, std::function<Turn()> run) {
  Contender made{.cell = &cell, .name = std::move(name), .kind = kind, .run = std::move(run)};
  made.right_answer = made.run().answer;
  return made;
}

void add_limits(Cells& cells, const Cell& cell, ht::Bytes in, ht::MutableBytes out) {
  if (out.empty()) {
    cells.contenders.push_back(
        contender(cell, "read loop", Kind::limit, [=] { return take_limit(in, out, Stores::none); }));
    return;
  }
  cells.contenders.push_back(
      contender(cell, "copy loop", Kind::limit, [=] { return take_limit(in, out, Stores::ordinary); }));
  cells.contenders.push_back(contender(cell, "copy loop, streaming", Kind::limit,
                                       [=] { return take_limit(in, out, Stores::streaming); }));
}

// The library's conversion, checked by the checksum of all results against a conversion in small pieces, and
// a loop of one thread over elements.
template <class To, class T>
void add_cast(Cells& cells, const Workload& workload, const T& source, std::string_view from) {
  const auto result = workload.result<To>();
  const auto out = value_of(result.storage().writable_bytes()).first(bytes_of(result).size());
  const auto in = bytes_of(source);
  const Cell& cell = cells.cells.emplace_back(
      Cell{.name = std::string(from) + " to " + std::string(To::name), .bytes = in.size() + out.size()});
  const auto convert = [=] {
    const Stopwatch stopwatch;
    value_of(ht::cast_lossy_into(source, result));
    const double seconds = stopwatch.seconds();
    return Turn{.seconds = seconds, .answer = ht::crc64nvme(out)};
  };
  cells.contenders.push_back(contender(cell, "htensor", Kind::ours, convert));
  if constexpr (requires { source(0); }) {
    Contender naive{.cell = &cell, .name = "scalar loop", .kind = Kind::other, .run = {}, .every_rounds = 4};
    naive.run = [=] {
      const Stopwatch stopwatch;
      const auto* const elements = source.data();
      auto* const results = result.data();
      for (std::int64_t i = 0; i < source.elements(); ++i)
        results[i] = static_cast<typename To::Element>(static_cast<float>(elements[i]));
      const double seconds = stopwatch.seconds();
      return Turn{.seconds = seconds, .answer = ht::crc64nvme(out)};
    };
    // Both have to come to the same.
    naive.right_answer = cells.contenders.back().right_answer;
    cells.contenders.push_back(std::move(naive));
  }
  add_limits(cells, cell, in, out);
}

template <class T>
void add_statistics(Cells& cells, const T& source, std::string_view from) {
  const auto in = bytes_of(source);
  const Cell& cell =
      cells.cells.emplace_back(Cell{.name = "statistics of " + std::string(from), .bytes = in.size()});
  cells.contenders.push_back(contender(cell, "htensor", Kind::ours, [=] {
    const Stopwatch stopwatch;
    const auto found = value_of(ht::statistics(source));
    const double seconds = stopwatch.seconds();
    return Turn{.seconds = seconds, .answer = std::bit_cast<std::uint64_t>(found.sum)};
  }));
  Contender counts = contender(cell, "histogram", Kind::ours, [=] {
    const Stopwatch stopwatch;
    const auto found = value_of(ht::histogram(source, {.low = -0.1, .high = 0.1, .bins = 64}));
    const double seconds = stopwatch.seconds();
    return Turn{.seconds = seconds, .answer = found.counts[32]};
  });
  counts.every_rounds = 4;
  cells.contenders.push_back(std::move(counts));
  add_limits(cells, cell, in, {});
}

std::vector<FigureGoal> goals_of(const std::vector<Contender>& contenders) {
  std::vector<FigureGoal> goals;
  const auto add = [&](const std::string& cell, double limit) {
    goals.push_back(pair_goal(cell + ": speed of htensor / the best loop", find(contenders, cell, "htensor"),
                              best_of(contenders, cell, Kind::limit), limit));
  };
  for (const char* cell : {"BF16 to F32", "F16 to F32", "F32 to BF16", "F8_E4M3 to F32", "Q8_0 to F32",
                           "Q4_K to F32", "Q6_K to F32"}) {
    add(cell, 0.8);
  }
  add("statistics of F32", 0.8);
  add("statistics of BF16", 0.8);
  add("statistics of Q4_K", 0.25);
  return goals;
}

bool run_all(const Options& options) {
  const Workload workload(static_cast<std::int64_t>(options.bytes / 4 / 1024 * 1024));
  Cells cells;
  const auto f32 = workload.dense<F32>();
  const auto bf16 = workload.dense<BF16>();
  const auto q4_k = workload.blocks<ht::Q4_K>();
  add_cast<F32>(cells, workload, bf16, "BF16");
  add_cast<F32>(cells, workload, workload.dense<F16>(), "F16");
  add_cast<BF16>(cells, workload, f32, "F32");
  add_cast<F16>(cells, workload, f32, "F32");
  add_cast<F32>(cells, workload, workload.dense<ht::F8_E4M3>(), "F8_E4M3");
  add_cast<F32>(cells, workload, workload.blocks<ht::Q8_0>(), "Q8_0");
  add_cast<F32>(cells, workload, q4_k, "Q4_K");
  add_cast<F32>(cells, workload, workload.blocks<ht::Q6_K>(), "Q6_K");
  add_cast<BF16>(cells, workload, q4_k, "Q4_K");
  add_statistics(cells, f32, "F32");
  add_statistics(cells, bf16, "BF16");
  add_statistics(cells, q4_k, "Q4_K");
  run(cells.contenders, {.repeats = options.repeats, .smoke = options.smoke});
  Report report{.file_bytes = options.bytes,
                .contenders = std::move(cells.contenders),
                .goals = {},
                .repeats = options.repeats};
  report.goals = goals_of(report.contenders);
  return publish(report, options);
}

}  // namespace

int main(int argc, char** argv) {
  // So that lines come in the order in which things happen, also into a file.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    end_orderly_when_interrupted();
    return run_all(parse_options(argc, argv, {.bytes = std::uint64_t{512} << 20, .repeats = 11})) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_values: %s\n", error.what());
    return 2;
  }
}
