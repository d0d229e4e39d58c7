#include "bench/harness/child.hpp"
#include "bench/load/contenders.hpp"

namespace ht::bench {
namespace {

std::vector<std::string> command(const Workload& workload, Through through) {
  // In the C locale, because the number of bytes is parsed from the output.
  std::vector<std::string> words{"env",          "LC_ALL=C",
                                 "dd",           "if=" + workload.path.string(),
                                 "of=/dev/null", "bs=" + std::to_string(piece_bytes)};
  if (through == Through::direct) words.emplace_back("iflag=direct");
  return words;
}

bool has_copied_all(const Workload& workload, const ChildResult& result) {
  return result.wait_status == 0 &&
         result.captured.find("\n" + std::to_string(workload.file_bytes) + " bytes") != std::string::npos;
}

}  // namespace

bool can_read_by_dd(const Workload& workload, Through through) {
  auto words = command(workload, through);
  words.emplace_back("count=1");
  return run_child(words).wait_status == 0;
}

TurnResult one_pass_by_dd(const Workload& workload, Through through) {
  const Stopwatch watch;
  const auto result = run_child(command(workload, through));
  const double seconds = watch.seconds();
  must(has_copied_all(workload, result), "dd failed: " + result.captured);
  return {seconds, workload.answers.sum};
}

}  // namespace ht::bench
