// Compiled with sha256.cpp as in a build without OpenSSL's headers.
#include <gtest/gtest.h>

#include "hash/hashers.hpp"

namespace ht::sha256_absent_test {
namespace {

TEST(Sha256Absent, build_has_openssl) {
  const auto hash = Sha256::make();
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().code(), ErrorCode::unsupported_platform);
  EXPECT_EQ(hash.error().rule(), "build_has_openssl");
  // An installed libcrypto does not help.
  EXPECT_NE(hash.error().hint().find("build htensor again"), std::string_view::npos);
}

}  // namespace
}  // namespace ht::sha256_absent_test
