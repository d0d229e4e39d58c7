#include "bench/harness/page_cache.hpp"
#include "bench/harness/sum.hpp"
#include "bench/load/contenders.hpp"

namespace ht::bench {
namespace {

void advise(const Mapping& mapping, Advice advice) {
  if (advice == Advice::will_need) {
    system_must(::madvise(mapping.data(), mapping.size(), MADV_WILLNEED) == 0, "madvise");
  }
}

Bytes bytes_of(const Mapping& mapping, const TensorRange& range) {
  return {mapping.data() + range.offset, static_cast<std::size_t>(range.bytes)};
}

}  // namespace

TurnResult all_by_mmap(const Workload& workload, Advice advice) {
  const Stopwatch watch;
  const OpenFile file(workload.path);
  const Mapping mapping(file, workload.file_bytes);
  advise(mapping, advice);
  constexpr std::size_t page = 4096;
  for (std::size_t at = 0; at < mapping.size(); at += page) {
    // volatile, because otherwise the compiler removes the read.
    static_cast<void>(*const_cast<const volatile std::byte*>(mapping.data() + at));
  }
  const double seconds = watch.seconds();
  must(is_warm(workload.path), "touched pages are not resident");
  return {seconds, sample_answer(workload, mapping.data())};
}

TurnResult one_pass_by_mmap(const Workload& workload, Advice advice) {
  const Stopwatch watch;
  const OpenFile file(workload.path);
  const Mapping mapping(file, workload.file_bytes);
  advise(mapping, advice);
  const auto sum = sum_of(workload.data_begin, {mapping.data() + workload.data_begin,
                                                static_cast<std::size_t>(workload.data_bytes)});
  return {watch.seconds(), sum};
}

TurnResult few_by_mmap(const Workload& workload) {
  const Stopwatch watch;
  const OpenFile file(workload.path);
  const Mapping mapping(file, workload.file_bytes);
  const auto answer =
      few_answer(workload, [&](const TensorRange& range) { return bytes_of(mapping, range); });
  return {watch.seconds(), answer};
}

TurnResult first_by_mmap(const Workload& workload) {
  const Stopwatch watch;
  const OpenFile file(workload.path);
  const Mapping mapping(file, workload.file_bytes);
  const std::uint64_t answer = load_le<std::uint16_t>(bytes_of(mapping, workload.tensors[0]));
  return {watch.seconds(), answer};
}

}  // namespace ht::bench
