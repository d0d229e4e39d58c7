#include "hash/hashers.hpp"

#if HT_HAVE_OPENSSL
#include <dlfcn.h>
#include <openssl/evp.h>
#endif

namespace ht::inline v1 {
namespace {

tl::unexpected<Error> no_openssl(SourceLine where = SourceLine::here()) {
  return fail(Error(ErrorCode::unsupported_platform, "sha256_needs_openssl",
                    "SHA-256 needs OpenSSL's libcrypto, which is not installed", where)
                  .with_hint("install libssl3, or use crc64nvme or xxh3-128"));
}

#if HT_HAVE_OPENSSL

// The OpenSSL functions in use. The library is never unloaded, so they stay valid until the process exits.
struct OpenSsl {
  decltype(&EVP_MD_CTX_new) make = nullptr;
  decltype(&EVP_MD_CTX_free) free = nullptr;
  decltype(&EVP_sha256) sha256 = nullptr;
  decltype(&EVP_DigestInit_ex) begin = nullptr;
  decltype(&EVP_DigestUpdate) update = nullptr;
  decltype(&EVP_DigestFinal_ex) finish = nullptr;
  bool loaded = false;

  explicit OpenSsl(const char* name) noexcept {
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    loaded = library != nullptr && find(library, "EVP_MD_CTX_new", make) &&
             find(library, "EVP_MD_CTX_free", free) && find(library, "EVP_sha256", sha256) &&
             find(library, "EVP_DigestInit_ex", begin) && find(library, "EVP_DigestUpdate", update) &&
             find(library, "EVP_DigestFinal_ex", finish);
  }

 private:
  template <class Function>
  static bool find(void* library, const char* name, Function& function) noexcept {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }
};

const OpenSsl& openssl() noexcept {
  static const OpenSsl loaded("libcrypto.so.3");
  return loaded;
}

EVP_MD_CTX* context_of(void* context) noexcept { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

Result<Sha256> Sha256::make() {
  const auto& ssl = openssl();
  if (!ssl.loaded) return no_openssl();
  Sha256 hash(ssl.make());
  if (hash.context_ == nullptr) return fail(Error(ErrorCode::out_of_memory));
  if (ssl.begin(context_of(hash.context_.get()), ssl.sha256(), nullptr) != 1) return no_openssl();
  return hash;
}

Result<void> Sha256::check_library(const char* name) {
  if (!OpenSsl(name).loaded) return no_openssl();
  return {};
}

void Sha256::FreeContext::operator()(void* context) const noexcept { openssl().free(context_of(context)); }

// These calls cannot fail after initialization: SHA-256 does not allocate.
void Sha256::update(Bytes bytes) noexcept {
  static_cast<void>(openssl().update(context_of(context_.get()), bytes.data(), bytes.size()));
}

std::array<std::byte, 32> Sha256::finish() noexcept {
  std::array<std::byte, 32> digest{};
  const auto& ssl = openssl();
  auto* const context = context_of(context_.get());
  static_cast<void>(ssl.finish(context, reinterpret_cast<unsigned char*>(digest.data()), nullptr));
  static_cast<void>(ssl.begin(context, nullptr, nullptr));
  return digest;
}

#else

}  // namespace

Result<Sha256> Sha256::make() { return no_openssl(); }
Result<void> Sha256::check_library(const char*) { return no_openssl(); }
void Sha256::FreeContext::operator()(void*) const noexcept {}
void Sha256::update(Bytes) noexcept {}
std::array<std::byte, 32> Sha256::finish() noexcept { return {}; }

#endif

}  // namespace ht::inline v1
