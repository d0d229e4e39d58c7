#include <sys/resource.h>

#include "cli/cli.hpp"

// A model of many shards has as many files open. The system's first limit is for programs that wait for
// descriptors by select, and this one does not.
static void allow_many_files() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  // Where it cannot be raised, what cannot be opened for it says so.
  static_cast<void>(setrlimit(RLIMIT_NOFILE, &files));
}

int main(int argc, char** argv) {
  allow_many_files();
  return ht::cli::run(argc, argv);
}
