#include "cli/cli.hpp"

int main(int argc, char** argv) { return ht::cli::run(argc, argv); }
