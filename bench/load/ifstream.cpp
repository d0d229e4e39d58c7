#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "bench/harness/sum.hpp"
#include "bench/load/contenders.hpp"

namespace ht::bench {
namespace {

std::ifstream open_at(const Workload& workload, std::uint64_t offset) {
  std::ifstream file(workload.path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  return file;
}

void read(std::ifstream& file, std::byte* into, std::uint64_t bytes) {
  file.read(reinterpret_cast<char*>(into), static_cast<std::streamsize>(bytes));
  must(file.good(), "ifstream failed");
}

}  // namespace

TurnResult all_by_ifstream(const Workload& workload, const Destination& into) {
  into.overwrite_samples(workload);
  const Stopwatch watch;
  auto file = open_at(workload, workload.data_begin);
  for (auto at = workload.data_begin; at < workload.file_bytes; at += piece_bytes) {
    read(file, into.data() + at, std::min(piece_bytes, workload.file_bytes - at));
  }
  const double seconds = watch.seconds();
  return {seconds, sample_answer(workload, into.data())};
}

TurnResult one_pass_by_ifstream(const Workload& workload) {
  std::vector<std::byte> buffer(piece_bytes);
  const Stopwatch watch;
  auto file = open_at(workload, workload.data_begin);
  std::uint64_t sum = 0;
  for (auto at = workload.data_begin; at < workload.file_bytes; at += piece_bytes) {
    const auto next = std::min(piece_bytes, workload.file_bytes - at);
    read(file, buffer.data(), next);
    sum += sum_of(at, std::span(buffer).first(static_cast<std::size_t>(next)));
  }
  return {watch.seconds(), sum};
}

TurnResult few_by_ifstream(const Workload& workload) {
  const Stopwatch watch;
  std::ifstream file(workload.path, std::ios::binary);
  std::array<std::byte, 2> element{};
  const auto answer = few_answer(workload, [&](const TensorRange& range) -> Bytes {
    file.seekg(static_cast<std::streamoff>(range.offset));
    read(file, element.data(), element.size());
    return element;
  });
  return {watch.seconds(), answer};
}

}  // namespace ht::bench
