// Writes a model as an MLIR module, for mlir_opt_test.py.
// Usage: write_mlir_module iree|generic FILE INLINE_BELOW [SCOPE]
#include <cstdio>
#include <cstdlib>
#include <htensor/convert/save.hpp>

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto model = ht::Model::open(argv[2]);
  if (!model) {
    std::fputs((to_string(model.error()) + "\n").c_str(), stderr);
    return 1;
  }
  const ht::MlirOptions options{.scope = argc > 4 ? argv[4] : "",
                                .inline_below = std::strtoull(argv[3], nullptr, 10),
                                .form = std::string_view(argv[1]) == "generic"
                                            ? ht::MlirOptions::Form::generic
                                            : ht::MlirOptions::Form::iree};
  const auto done = emit_mlir(*model, options, [](std::string_view text) -> ht::Result<void> {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return {};
    return ht::fail(ht::ErrorCode::write_failed, "", "cannot write to standard output");
  });
  if (!done) std::fputs((to_string(done.error()) + "\n").c_str(), stderr);
  return done ? 0 : 1;
}
