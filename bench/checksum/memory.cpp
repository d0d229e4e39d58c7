#include "bench/checksum/memory.hpp"

#include <barrier>
#include <cstddef>
#include <cstring>
#include <random>
#include <thread>

namespace ht::bench {
namespace {

constexpr std::size_t line_bytes = 64;

std::uint64_t sum_repeatedly(const SumJob& job, Bytes part) {
  std::uint64_t answer = 0;
  for (std::uint64_t i = 0; i < job.passes; ++i) answer = job.sum(part);
  return answer;
}

std::uint64_t combined(const SumJob& job, const std::vector<std::uint64_t>& answers) {
  std::uint64_t all = answers[0];
  for (std::size_t i = 1; i < answers.size(); ++i) all = job.combine(all, answers[i], job.parts[i].size());
  return all;
}

}  // namespace

RandomMemory::RandomMemory(std::uint64_t bytes) : memory_(Mapping::anonymous(bytes)) {
  // If this fails, all contenders use small pages.
  static_cast<void>(::madvise(memory_.data(), memory_.size(), MADV_HUGEPAGE));
  // A fixed seed. Written as 64-bit numbers, because some contenders read such numbers.
  std::mt19937_64 random(2);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= memory_.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t number = random();
    std::memcpy(memory_.data() + at, &number, sizeof(number));
  }
}

Parts parts_of(Bytes bytes, unsigned threads) {
  Parts parts;
  for (unsigned left = threads; left > 1; --left) {
    const auto next = bytes.size() / left / line_bytes * line_bytes;
    parts.push_back(bytes.first(next));
    bytes = bytes.subspan(next);
  }
  parts.push_back(bytes);
  return parts;
}

std::uint64_t passes_for(Sum sum, Bytes bytes, double seconds) {
  SumJob job{.sum = sum, .parts = {bytes}};
  // run_sum returns the time of one pass; all passes together must take `seconds`.
  while (run_sum(job).seconds * static_cast<double>(job.passes) < seconds) job.passes *= 2;
  return job.passes;
}

std::uint64_t answer_of(const SumJob& job) {
  std::vector<std::uint64_t> answers;
  for (const auto part : job.parts) answers.push_back(job.sum(part));
  return combined(job, answers);
}

TurnResult run_sum(const SumJob& job) {
  std::vector<std::uint64_t> answers(job.parts.size());
  // The barrier excludes the start of threads from the time.
  std::barrier all(static_cast<std::ptrdiff_t>(job.parts.size()));
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < job.parts.size(); ++i) {
    threads.emplace_back([&, i] {
      all.arrive_and_wait();
      answers[i] = sum_repeatedly(job, job.parts[i]);
      all.arrive_and_wait();
    });
  }
  all.arrive_and_wait();
  const Stopwatch watch;
  answers[0] = sum_repeatedly(job, job.parts[0]);
  all.arrive_and_wait();
  const double seconds = watch.seconds();
  return {seconds / static_cast<double>(job.passes), combined(job, answers)};
}

}  // namespace ht::bench
