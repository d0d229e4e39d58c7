#include <sys/resource.h>

#include "cli/cli.hpp"

// A model of many shards needs as many open files. The soft limit protects programs that use select(); this
// program does not use it.
static void allow_many_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  // If setrlimit fails, opening too many files reports an error.
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &files));
}

int main(int argc, char** argv) {
  allow_many_files();
  return ht::cli::run(argc, argv);
}
