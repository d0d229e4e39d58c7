// All presets except llama-tiny (see synth_llama_test.cpp), in every format.
#include <algorithm>
#include <cmath>

#include "cli/program_test.hpp"

namespace ht::synth_formats_test {
namespace {

class SynthFormats : public Cli {
 protected:
  Outcome make(const std::string& name, const std::string& options) {
    return run("synth " + name + " --force -q " + options);
  }

  // Runs `synth` with these options and returns the bytes of the file.
  std::string synthesize_bytes(const std::string& name, const std::string& options) {
    const auto outcome = make(name, options);
    EXPECT_EQ(outcome.status, 0) << name << options << outcome.err;
    return text_of(name);
  }
};

bool is_for_one_tensor(const std::string& extension) { return extension == ".ht" || extension == ".npy"; }

// The catalog as text, without the offsets.
std::vector<std::string> lines_of(const Catalog& catalog) {
  std::vector<std::string> lines;
  for (const Entry& entry : catalog) {
    std::string line(entry.name);
    line += ' ' + std::to_string(static_cast<int>(entry.dtype)) + ' ' +
            std::to_string(static_cast<int>(entry.encoding)) + ' ' + std::to_string(entry.bytes);
    for (const auto dim : entry.dims) line += ' ' + std::to_string(dim);
    lines.push_back(std::move(line));
  }
  return lines;
}

TEST_F(SynthFormats, presets_are_written_in_every_format_that_can_hold_them) {
  for (const std::string preset : {"matrix", "llama-1b", "llama-8b", "llama-1b-q4_k_m"}) {
    std::vector<std::string> lines;
    for (const std::string extension : {".safetensors", ".gguf", ".irpa", ".ht", ".npy"}) {
      SCOPED_TRACE(preset + extension);
      const std::string name = "t" + extension;
      const std::string options = "--size 1M --preset " + preset;
      std::filesystem::remove(folder_ / name);
      if ((is_for_one_tensor(extension) && preset != "matrix") ||
          (extension == ".safetensors" && preset == "llama-1b-q4_k_m")) {
        const auto outcome = make(name, options);
        EXPECT_EQ(outcome.status, 2);
        EXPECT_THAT(outcome.err, HasSubstr("[would_lose]"));
        EXPECT_THAT(outcome.err, StartsWith("htensor: " + name));
        EXPECT_THAT(outcome.err, HasSubstr("IRPA"));
        EXPECT_FALSE(std::filesystem::exists(folder_ / name));
        continue;
      }
      const auto bytes = synthesize_bytes(name, options + " --seed 7");
      EXPECT_NE(synthesize_bytes(name, options), bytes);
      EXPECT_EQ(synthesize_bytes(name, options + " --sparse --seed 7").size(), bytes.size());
      const auto sparse = Model::open(folder_ / name);
      ASSERT_TRUE(sparse) << to_string(sparse.error());
      EXPECT_EQ(synthesize_bytes(name, options + " --seed 7"), bytes);
      // A sparse file has the same catalog as a dense file, and all formats have the same tensors.
      const auto dense = Model::open(folder_ / name);
      ASSERT_TRUE(dense) << to_string(dense.error());
      EXPECT_EQ(dense->catalog().format(), extension.substr(1));
      EXPECT_EQ(lines_of(dense->catalog()), lines_of(sparse->catalog()));
      EXPECT_EQ(dense->catalog().metadata(), sparse->catalog().metadata());
      if (lines.empty()) lines = lines_of(dense->catalog());
      EXPECT_EQ(lines_of(dense->catalog()), lines);
    }
  }
}

TEST_F(SynthFormats, experts_preset_is_written_in_every_format_for_many_tensors) {
  for (const std::string name : {"e.safetensors", "e.gguf", "e.irpa"}) {
    ASSERT_EQ(run("synth " + name + " --preset moe-60k --sparse -q").status, 0) << name;
    const auto model = Model::open(folder_ / name);
    ASSERT_TRUE(model) << to_string(model.error());
    EXPECT_EQ(model->catalog().size(), 60271U) << name;
  }
}

TEST_F(SynthFormats, all_hold_the_same_matrix) {
  std::vector<float> first;
  for (const std::string extension : {".safetensors", ".gguf", ".irpa", ".ht", ".npy"}) {
    synthesize_bytes("t" + extension, "--preset matrix --size 64K --seed 5");
    const auto model = Model::open(folder_ / ("t" + extension)).value();
    const auto values = model.flat<F32>("t").value();
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.elements())), 0.02, 0.001);
    if (first.empty()) first.assign(values.begin(), values.end());
    EXPECT_TRUE(std::ranges::equal(first, values)) << extension;
  }
}

}  // namespace
}  // namespace ht::synth_formats_test
