// Converts files of other projects to every format that stores several tensors.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "convert/convert_pairs_test.hpp"
#include "testing/shared_folder.hpp"

namespace ht::convert_corpus_test {
namespace {

using testing::ConvertPairs;

// The files that the readers of their own projects accept.
std::vector<std::string> accepted_files(const std::filesystem::path& folder) {
  std::vector<std::string> paths;
  std::ifstream file(folder / "expected.tsv");
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string path;
    std::string verdict;
    std::getline(in, path, '\t');
    std::getline(in, verdict, '\t');
    if (verdict == "accept") paths.push_back(path);
  }
  return paths;
}

class ConvertCorpus : public ConvertPairs {};

TEST_F(ConvertCorpus, keeps_every_byte_in_every_format) {
  HT_SHARED_OR_SKIP(folder, "corpus");
  int conversions = 0;
  for (const auto& path : accepted_files(folder)) {
    const auto model = Model::open(folder / path);
    ASSERT_TRUE(model) << to_string(model.error());
    for (const std::string to : {"safetensors", "gguf", "irpa"}) {
      SCOPED_TRACE(path + " to " + to);
      const auto intermediate = converted(*model, to, "there");
      if (!intermediate) continue;
      ++conversions;
      expect_kept(*model, intermediate->model, intermediate->lost_tensors, intermediate->lost_keys);
    }
  }
  EXPECT_GT(conversions, 60);
}

}  // namespace
}  // namespace ht::convert_corpus_test
