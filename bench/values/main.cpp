// Casts, decoders of block encodings and statistics in memory. Each is compared with a loop that only moves
// the same bytes, and with numpy and torch if they are installed.
#include <cmath>
#include <cstring>
#include <htensor/hash/digest.hpp>
#include <htensor/htensor.hpp>
#include <random>

#include "bench/harness/must.hpp"
#include "bench/harness/options.hpp"
#include "bench/harness/report.hpp"
#include "bench/python_contender.hpp"
#include "bench/values/limit.hpp"

namespace {

using namespace ht::bench;
using ht::BF16;
using ht::F16;
using ht::F32;
using ht::Rank;

using Flat = Rank<1>;

// Returns typical weights: small numbers around zero.
std::vector<float> weights() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values(std::size_t{1} << 20);
  for (auto& value : values) value = normal(random);
  return values;
}

// Returns `bytes` bytes that repeat the pattern.
ht::Storage repeated(ht::Bytes pattern, std::uint64_t bytes) {
  auto storage = value_of(ht::Storage::owned(bytes));
  const auto into = value_of(storage.writable_bytes());
  for (std::size_t at = 0; at < into.size(); at += pattern.size())
    std::memcpy(into.data() + at, pattern.data(), std::min(pattern.size(), into.size() - at));
  return storage;
}

// Makes sources of each type with the same number of elements. Holds the memory for the largest result.
struct Inputs {
  explicit Inputs(std::int64_t count)
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

void add_limits(Cells& cells, const Cell& cell, ht::Bytes in, ht::MutableBytes out) {
  if (out.empty()) {
    cells.contenders.push_back(
        make_contender(cell, "read loop", Kind::limit, [=] { return run_limit(in, out, Stores::none); }));
    return;
  }
  cells.contenders.push_back(
      make_contender(cell, "copy loop", Kind::limit, [=] { return run_limit(in, out, Stores::ordinary); }));
  cells.contenders.push_back(make_contender(cell, "copy loop, streaming", Kind::limit,
                                            [=] { return run_limit(in, out, Stores::streaming); }));
}

using Python = std::shared_ptr<PythonChild>;

// Returns the installed modules that support all these dtypes. numpy lacks BF16; torch 1.13 lacks 8-bit
// floats and block encodings.
std::vector<std::string> python_modules(const Python& python,
                                        std::initializer_list<std::string_view> dtypes) {
  std::vector<std::string> modules{"numpy", "torch"};
  for (const auto dtype : dtypes) {
    if (dtype == "BF16") std::erase(modules, "numpy");
    if (dtype != "BF16" && dtype != "F16" && dtype != "F32") modules.clear();
  }
  return python->available(modules);
}

// Adler-32, which Python computes quickly: its standard library has no CRC-64.
std::uint32_t adler32(ht::Bytes bytes) {
  // The sums of this many bytes fit in 32 bits.
  constexpr std::size_t piece_bytes = 5552;
  constexpr std::uint32_t modulus = 65521;
  std::uint32_t low = 1;
  std::uint32_t high = 0;
  for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
    for (const auto byte : bytes.subspan(at, std::min(piece_bytes, bytes.size() - at))) {
      low += std::to_integer<std::uint32_t>(byte);
      high += low;
    }
    low %= modulus;
    high %= modulus;
  }
  return high << 16 | low;
}

// The library's conversion, a scalar loop on one thread (dense sources only), Python and the limits. Results
// of the first three must have the checksum of the library's first result.
template <class To, class T>
void add_cast(Cells& cells, const Python& python, const Inputs& inputs, const T& source,
              std::string_view from) {
  const auto result = inputs.result<To>();
  const auto out = value_of(result.storage().writable_bytes()).first(bytes_of(result).size());
  const auto in = bytes_of(source);
  const Cell& cell = cells.cells.emplace_back(
      Cell{.name = std::string(from) + " to " + std::string(To::name), .bytes = in.size() + out.size()});
  const auto convert = [=] {
    const Stopwatch stopwatch;
    value_of(ht::cast_lossy_into(result, source));
    const double seconds = stopwatch.seconds();
    return TurnResult{.seconds = seconds, .answer = ht::crc64nvme(out)};
  };
  cells.contenders.push_back(make_contender(cell, "htensor", Kind::ours, convert));
  if constexpr (requires { source(0); }) {
    Contender naive{.cell = &cell, .name = "scalar loop", .kind = Kind::other, .run = {}, .every_rounds = 4};
    naive.run = [=] {
      const Stopwatch stopwatch;
      const auto* const elements = source.data();
      auto* const results = result.data();
      for (std::int64_t i = 0; i < source.elements(); ++i)
        results[i] = static_cast<typename To::Element>(static_cast<float>(elements[i]));
      const double seconds = stopwatch.seconds();
      return TurnResult{.seconds = seconds, .answer = ht::crc64nvme(out)};
    };
    // The scalar loop must have the same result as htensor.
    naive.expected_answer = cells.contenders.back().expected_answer;
    cells.contenders.push_back(std::move(naive));
  }
  if (const auto modules = python_modules(python, {from, To::name}); !modules.empty()) {
    // No other contender has run yet, so the library's result is still in memory.
    const double expected_checksum = adler32(out);
    const std::string name(from);
    python->load(name, from, in);
    for (const auto& module : modules) {
      add_python(cells, cell, python, module, "cast", name + ' ' + std::string(To::name),
                 [=](const auto& numbers) { return numbers == std::vector{expected_checksum}; });
    }
  }
  add_limits(cells, cell, in, out);
}

// Returns true if Python's statistics agree. Python adds in F64 in another order, and the library adds BF16
// in F32 by groups of eight. So sums differ by rounding; <htensor/values/statistics.hpp> states the bounds
// for BF16.
bool is_close(const std::vector<double>& numbers, const ht::Statistics& expected, std::string_view dtype) {
  const std::vector<double> exact{static_cast<double>(expected.zeros), static_cast<double>(expected.nans),
                                  static_cast<double>(expected.infinities), expected.min, expected.max};
  const double rounding = dtype == "BF16" ? 8 * 0x1p-24 : 1e-11;
  // An upper bound of the sum of magnitudes, by the Cauchy-Schwarz inequality.
  const double magnitudes = std::sqrt(static_cast<double>(expected.count) * expected.sum_of_squares);
  return numbers.size() == exact.size() + 2 && std::equal(exact.begin(), exact.end(), numbers.begin()) &&
         std::abs(numbers[5] - expected.sum) <= rounding * magnitudes &&
         std::abs(numbers[6] - expected.sum_of_squares) <= rounding * expected.sum_of_squares;
}

template <class T>
void add_statistics(Cells& cells, const Python& python, const T& source, std::string_view from) {
  const auto in = bytes_of(source);
  const Cell& cell =
      cells.cells.emplace_back(Cell{.name = "statistics of " + std::string(from), .bytes = in.size()});
  cells.contenders.push_back(make_contender(cell, "htensor", Kind::ours, [=] {
    const Stopwatch stopwatch;
    const auto found = value_of(ht::statistics(source));
    const double seconds = stopwatch.seconds();
    return TurnResult{.seconds = seconds, .answer = std::bit_cast<std::uint64_t>(found.sum)};
  }));
  Contender counts = make_contender(cell, "histogram", Kind::ours, [=] {
    const Stopwatch stopwatch;
    const auto found = value_of(ht::histogram(source, {.low = -0.1, .high = 0.1, .bins = 64}));
    const double seconds = stopwatch.seconds();
    return TurnResult{.seconds = seconds, .answer = found.counts[32]};
  });
  counts.every_rounds = 4;
  cells.contenders.push_back(std::move(counts));
  if (const auto modules = python_modules(python, {from}); !modules.empty()) {
    const auto expected = value_of(ht::statistics(source));
    const std::string name(from);
    python->load(name, from, in);
    for (const auto& module : modules) {
      add_python(cells, cell, python, module, "statistics", name,
                 [=](const auto& numbers) { return is_close(numbers, expected, name); });
    }
  }
  add_limits(cells, cell, in, {});
}

std::vector<MeasuredValue> goals_of(const std::vector<Contender>& contenders) {
  std::vector<MeasuredValue> goals;
  const auto add = [&](const std::string& cell, double threshold) {
    goals.push_back(pair_goal(cell + ": speed of htensor / the best loop", find(contenders, cell, "htensor"),
                              best_of(contenders, cell, Kind::limit), threshold));
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
  const Inputs inputs(static_cast<std::int64_t>(options.bytes / 4 / 1024 * 1024));
  Cells cells;
  const auto python = std::make_shared<PythonChild>();
  const auto f32 = inputs.dense<F32>();
  const auto bf16 = inputs.dense<BF16>();
  const auto q4_k = inputs.blocks<ht::Q4_K>();
  add_cast<F32>(cells, python, inputs, bf16, "BF16");
  add_cast<F32>(cells, python, inputs, inputs.dense<F16>(), "F16");
  add_cast<BF16>(cells, python, inputs, f32, "F32");
  add_cast<F16>(cells, python, inputs, f32, "F32");
  add_cast<F32>(cells, python, inputs, inputs.dense<ht::F8_E4M3>(), "F8_E4M3");
  add_cast<F32>(cells, python, inputs, inputs.blocks<ht::Q8_0>(), "Q8_0");
  add_cast<F32>(cells, python, inputs, q4_k, "Q4_K");
  add_cast<F32>(cells, python, inputs, inputs.blocks<ht::Q6_K>(), "Q6_K");
  add_cast<BF16>(cells, python, inputs, q4_k, "Q4_K");
  add_statistics(cells, python, f32, "F32");
  add_statistics(cells, python, bf16, "BF16");
  add_statistics(cells, python, q4_k, "Q4_K");
  run(cells.contenders, options);
  Report report{.file_bytes = options.bytes,
                .contenders = std::move(cells.contenders),
                .goals = {},
                .repeats = options.repeats};
  report.goals = goals_of(report.contenders);
  return publish(report, options);
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(argc, argv, {.bytes = std::uint64_t{512} << 20, .writes_files = false}, run_all);
}
