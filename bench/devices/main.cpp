// The same operations on the host and on the first OpenCL device of each kind.
//
// The ratio device / host depends on the machine, so it has no goal. A GPU may be faster. PoCL runs on the
// same processors and is slower where the host has specialized kernels.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <htensor/compute/conv.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/embedding.hpp>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/matmul.hpp>
#include <htensor/compute/nn.hpp>
#include <htensor/device/transfer.hpp>
#include <htensor/hash/digest.hpp>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "bench/harness/must.hpp"
#include "bench/harness/options.hpp"
#include "bench/harness/report.hpp"

namespace {

using namespace ht::bench;
using ht::F32;
using ht::Rank;

template <class S>
ht::Tensor<F32, S> random_tensor(S shape, unsigned seed) {
  auto tensor = value_of(ht::Tensor<F32, S>::zeros(shape));
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  for (auto& element : tensor) element = normal(random);
  return tensor;
}

// The inputs of the operations; the same numbers on every device.
template <class Dev>
struct Inputs {
  std::int64_t n;
  ht::Tensor<F32, Rank<2>, Dev> x, w;
  ht::Tensor<F32, Rank<1>, Dev> row;
  ht::Tensor<F32, Rank<3>, Dev> heads;
  ht::Tensor<F32, Rank<4>, Dev> image, filters;
  std::vector<std::int32_t> ids;

  static Inputs make(std::int64_t n) {
    const auto on_device = [](const auto& tensor) { return value_of(ht::to_device<Dev>(tensor)); };
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(i * 7 % n));
    return {.n = n,
            .x = on_device(random_tensor(Rank<2>(n, n), 1)),
            .w = on_device(random_tensor(Rank<2>(n, n), 2)),
            .row = on_device(random_tensor(Rank<1>(n), 3)),
            .heads = on_device(random_tensor(Rank<3>(n, 8, n / 8), 4)),
            .image = on_device(random_tensor(Rank<4>(1, 16, n / 8, n / 8), 5)),
            .filters = on_device(random_tensor(Rank<4>(16, 16, 3, 3), 6)),
            .ids = std::move(ids)};
  }
};

template <class T>
std::vector<float> numbers_of(const T& result) {
  if constexpr (std::same_as<T, float>) {
    return {result};
  } else {
    const auto host = value_of(ht::to_host(result));
    std::vector<float> numbers;
    for (const auto& element : host) numbers.push_back(static_cast<float>(element));
    return numbers;
  }
}

// Calls visit(name, bytes that the operation reads and writes, operation) for each operation.
template <class Dev, class Visit>
void for_each_operation(const Inputs<Dev>& in, const Visit& visit) {
  const auto square = static_cast<std::uint64_t>(in.n * in.n) * sizeof(float);
  visit("add", 3 * square, [&] { return in.x + in.w; });
  visit("scale", 2 * square, [&] { return ht::scale(in.x, 3.0F); });
  visit("softmax", 2 * square, [&] { return ht::softmax(in.x); });
  visit("log_softmax", 2 * square, [&] { return ht::log_softmax(in.x); });
  visit("rms_norm", 2 * square, [&] { return ht::rms_norm(in.x, in.row, 1e-5); });
  visit("layer_norm", 2 * square, [&] { return ht::layer_norm(in.x, in.row, 1e-5); });
  visit("silu", 2 * square, [&] { return ht::silu(in.x); });
  visit("gelu", 2 * square, [&] { return ht::gelu(in.x); });
  visit("swiglu", 3 * square, [&] { return ht::swiglu(in.x, in.w); });
  visit("argmax", square, [&] { return ht::argmax(in.x); });
  visit("embedding", 2 * square, [&] { return ht::embedding<F32>(in.w, in.ids); });
  visit("rope", 2 * square, [&] { return ht::rope(in.heads); });
  visit("linear, 1 vector", square, [&] { return ht::linear(in.row, in.w); });
  visit("linear, 64 vectors", square,
        [&] { return ht::linear(value_of(in.x.template slice<0>(0, 64)), in.w); });
  visit("matmul", 3 * square, [&] { return ht::matmul(in.x, in.w); });
  visit("conv2d", square / 2, [&] { return ht::conv2d(in.image, in.filters, {.padding = {1, 1}}); });
  visit("sum", square, [&] { return ht::sum(in.x); });
  visit("max", square, [&] { return ht::max(in.x); });
}

std::uint64_t checksum(const std::vector<float>& numbers) {
  return ht::crc64nvme(std::as_bytes(std::span(numbers)));
}

// The tolerance is larger than the error bounds of both; a wrong operation exceeds it.
void must_agree(const std::string& name, const std::vector<float>& on_device,
                const std::vector<float>& on_host) {
  must(on_device.size() == on_host.size(),
       name + ": the device and the host have results of different sizes");
  double scale = 0;
  for (const float number : on_host) scale = std::max(scale, static_cast<double>(std::abs(number)));
  for (std::size_t i = 0; i < on_host.size(); ++i) {
    const double gap = std::abs(static_cast<double>(on_device[i]) - static_cast<double>(on_host[i]));
    must(gap <= 1e-3 * scale, name + ": the device and the host differ");
  }
}

template <class Dev>
void add_device(Cells& cells, const std::shared_ptr<const Inputs<Dev>>& in, const char* device,
                std::vector<std::vector<float>>& host_results) {
  const bool is_host = host_results.empty();
  std::size_t index = 0;
  for_each_operation(*in, [&](const std::string& name, std::uint64_t bytes, const auto& operation) {
    if (is_host) cells.cells.emplace_back(Cell{.name = name, .bytes = bytes});
    const auto result = numbers_of(value_of(operation()));
    if (is_host) host_results.push_back(result);
    must_agree(name, result, host_results[index]);
    // A copy of the operation would hold a dangling reference, so `run` finds the operation by its index.
    const auto run = [in, index] {
      TurnResult turn;
      std::size_t place = 0;
      for_each_operation(*in, [&](const std::string&, std::uint64_t, const auto& each) {
        if (place++ != index) return;
        const Stopwatch stopwatch;
        const auto output = value_of(each());
        turn.seconds = stopwatch.seconds();
        turn.answer = checksum(numbers_of(output));
      });
      return turn;
    };
    cells.contenders.push_back(Contender{.cell = &cells.cells[index],
                                         .name = device,
                                         .kind = Kind::ours,
                                         .run = run,
                                         .expected_answer = checksum(result)});
    ++index;
  });
}

template <class Dev>
bool is_available() {
  return Dev::allocate(0).has_value();
}

bool run_all(const Options& options) {
  const std::int64_t n = options.smoke ? 64 : 1024;
  Cells cells;
  std::vector<std::vector<float>> host_results;
  using Gpu = ht::OpenCl<ht::Gpu>;
  using Cpu = ht::OpenCl<ht::Cpu>;
  const bool has_gpu = is_available<Gpu>();
  const bool has_cpu = is_available<Cpu>();
  add_device<ht::Host>(cells, std::make_shared<const Inputs<ht::Host>>(Inputs<ht::Host>::make(n)), "Host",
                       host_results);
  if (has_cpu)
    add_device<Cpu>(cells, std::make_shared<const Inputs<Cpu>>(Inputs<Cpu>::make(n)), "OpenCl<Cpu>",
                    host_results);
  if (has_gpu)
    add_device<Gpu>(cells, std::make_shared<const Inputs<Gpu>>(Inputs<Gpu>::make(n)), "OpenCl<Gpu>",
                    host_results);
  if (!has_cpu && !has_gpu) std::puts("no OpenCL device was found: install pocl-opencl-icd");
  // One table for each operation.
  std::ranges::stable_sort(cells.contenders, {}, [&](const Contender& contender) {
    return std::ranges::find(cells.cells, contender.cell->name, &Cell::name) - cells.cells.begin();
  });
  run(cells.contenders, options);
  Report report{.file_bytes = cells.cells.back().bytes,
                .contenders = std::move(cells.contenders),
                .goals = {},
                .repeats = options.repeats};
  for (const auto& cell : cells.cells) {
    for (const char* device : {"OpenCl<Cpu>", "OpenCl<Gpu>"}) {
      const auto* const on_device = find(report.contenders, cell.name, device);
      if (on_device == nullptr) continue;
      report.goals.push_back(pair_goal(cell.name + ": speed of " + device + " / Host", on_device,
                                       find(report.contenders, cell.name, "Host"), std::nullopt));
    }
  }
  return publish(report, options);
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, {.bytes = 0, .writes_files = false}, run_all); }
