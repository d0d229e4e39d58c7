#include "format/shards/numbered_name.hpp"

#include <gtest/gtest.h>

namespace ht::numbered_name_test {
namespace {

TEST(NumberedName, is_parsed_and_formatted) {
  const auto name = parse_numbered_name("model-00002-of-00004.safetensors");
  ASSERT_TRUE(name);
  EXPECT_EQ(*name, (NumberedName{"model", 2, 4, ".safetensors"}));
  EXPECT_EQ(name->name_of_part(3), "model-00003-of-00004.safetensors");
  EXPECT_EQ(parse_numbered_name("a-b.c-00001-of-00001.gguf")->stem, "a-b.c");
  EXPECT_EQ(parse_numbered_name("x-99999-of-99999.gguf")->count, 99'999U);
}

TEST(NumberedName, other_names_are_refused) {
  for (const auto* name :
       {"", "model.safetensors", "model-00001-of-00004", "-00001-of-00004.gguf", "m-00000-of-00004.gguf",
        "m-00005-of-00004.gguf", "m-0001-of-0004.gguf", "m-000001-of-000004.gguf", "m-00001-of-0000x.gguf",
        "m-00001_of_00004.gguf", "m_00001-of-00004.gguf", "m-+0001-of-00004.gguf"}) {
    EXPECT_FALSE(parse_numbered_name(name)) << name;
  }
}

}  // namespace
}  // namespace ht::numbered_name_test
