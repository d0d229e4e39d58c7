#include "hash/keyed_hash.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ht::keyed_hash_test {
namespace {

TEST(KeyedHash, same_content_has_the_same_key) {
  const detail::KeyedHash a(bytes_of("names"));
  const detail::KeyedHash b(bytes_of("names"));
  EXPECT_EQ(a("blk.0"), b("blk.0"));
  EXPECT_EQ(detail::KeyedHash()(""), detail::KeyedHash()(""));
}

TEST(KeyedHash, different_content_has_a_different_key) {
  const detail::KeyedHash a(bytes_of("names"));
  const detail::KeyedHash b(bytes_of("namet"));
  int same = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "blk." + std::to_string(i) + ".weight";
    if (a(name) == b(name)) ++same;
  }
  EXPECT_EQ(same, 0);
}

TEST(KeyedHash, accepts_names_of_any_length) {
  const detail::KeyedHash hash(bytes_of("x"));
  std::set<std::uint64_t> seen;
  for (std::size_t length = 0; length < 600; ++length) seen.insert(hash(std::string(length, 'a')));
  EXPECT_EQ(seen.size(), 600U);
}

}  // namespace
}  // namespace ht::keyed_hash_test
