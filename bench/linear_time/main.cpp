// For tools/linear_time_test.py, which counts the instructions of `open` at several sizes:
//   linear_time make FORMAT TENSORS PATH
//   linear_time open PATH
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bench/catalog/headers.hpp"
#include "bench/catalog/task.hpp"

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "make" && argc == 5) {
    const auto catalog = ht::bench::expert_catalog(std::strtoull(argv[3], nullptr, 10));
    return catalog && ht::bench::make_file(argv[4], argv[2], *catalog) ? 0 : 1;
  }
  if (mode == "open" && argc == 3) return ht::bench::list_by_htensor(argv[2]) > 0 ? 0 : 1;
  std::fprintf(stderr, "usage: linear_time make FORMAT TENSORS PATH | open PATH\n");
  return 2;
}
