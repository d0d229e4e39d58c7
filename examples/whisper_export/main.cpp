// Exports weights for a compiler: safetensors (or any other format) to an IREE parameter archive, and an MLIR
// module whose globals point at the archive.
//
//   whisper_export model.safetensors whisper.irpa whisper.mlir
//   iree-run-module --parameters=model=whisper.irpa …
//
// The module does not contain weights: each global names an entry of the archive. The program checks that the
// archive has an entry for each tensor, with the same type and shape.
#include <algorithm>
#include <cstdio>
#include <htensor/htensor.hpp>
#include <string>
#include <string_view>

namespace {

// The name of the archive in `--parameters=SCOPE=FILE`.
constexpr std::string_view scope = "model";

ht::Result<void> check_archive(const ht::Model& source, const ht::Model& archive) {
  for (const ht::AnyTensor& tensor : source) {
    const auto entry = HT_TRY(archive[tensor.name()]);
    if (entry.byte_size() == tensor.byte_size() && entry.type() == tensor.type() &&
        std::ranges::equal(entry.dims(), tensor.dims()))
      continue;
    return ht::fail(ht::Error(ht::ErrorCode::size_mismatch, "archive_has_the_same_tensor",
                              "the archive's tensor has another type or shape")
                        .at_tensor(tensor.name())
                        .with_hint("remove the archive and export the model again"));
  }
  return {};
}

ht::Result<void> run(const char* weights, const char* archive_path, const char* module_path) {
  const auto source = HT_TRY(ht::Model::open(weights));
  // The tensor bytes are copied unchanged. IREE ignores metadata keys such as {"format": "pt"}.
  const auto converted = HT_TRY(ht::convert(source, archive_path, {.format = "irpa", .metadata = false}));
  const auto archive = HT_TRY(ht::Model::open(archive_path));
  HT_TRY(check_archive(source, archive));
  // Every MLIR tool reads the generic form, with or without IREE's dialects.
  HT_TRY(ht::write_mlir(module_path, archive,
                        {.scope = std::string(scope), .form = ht::MlirOptions::Form::generic}));
  std::printf("%zu parameters, %llu bytes in %s, all of them external in %s\n", archive.size(),
              static_cast<unsigned long long>(converted.bytes), archive_path, module_path);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: whisper_export WEIGHTS ARCHIVE.irpa MODULE.mlir\n", stderr);
    return 2;
  }
  const auto done = run(argv[1], argv[2], argv[3]);
  if (done) return 0;
  std::fprintf(stderr, "whisper_export: %s\n", to_string(done.error()).c_str());
  const std::string hint(done.error().hint());
  if (!hint.empty()) std::fprintf(stderr, "hint: %s\n", hint.c_str());
  return 1;
}
