#include "hash/hashers.hpp"

#if HT_HAVE_OPENSSL
#include <dlfcn.h>
#include <openssl/evp.h>

#include "base/format_text.hpp"
#endif

namespace ht::inline v1 {
namespace {

#if HT_HAVE_OPENSSL

// The OpenSSL functions in use. The library is never unloaded, so they stay valid until the process exits.
struct OpenSsl {
  decltype(&EVP_MD_CTX_new) make = nullptr;
  decltype(&EVP_MD_CTX_free) free = nullptr;
  decltype(&EVP_sha256) sha256 = nullptr;
  decltype(&EVP_DigestInit_ex) begin = nullptr;
  decltype(&EVP_DigestUpdate) update = nullptr;
  decltype(&EVP_DigestFinal_ex) finish = nullptr;

  OpenSsl() noexcept : library_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    find("EVP_MD_CTX_new", make);
    find("EVP_MD_CTX_free", free);
    find("EVP_sha256", sha256);
    find("EVP_DigestInit_ex", begin);
    find("EVP_DigestUpdate", update);
    find("EVP_DigestFinal_ex", finish);
  }

  /// Fails if the library or one of the functions is missing.
  [[nodiscard]] Result<void> check() const {
    if (library_ != nullptr && missing_ == nullptr) return {};
    return fail(Error(ErrorCode::unsupported_platform, "sha256_needs_openssl",
                      library_ == nullptr ? format_text("SHA-256 needs OpenSSL: {} cannot be loaded", name)
                                          : format_text("SHA-256 needs OpenSSL: {} lacks {}", name, missing_))
                    .with_hint("install libssl3, or use crc64nvme or xxh3-128"));
  }

 private:
  template <class Function>
  void find(const char* symbol, Function& function) noexcept {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    if (function == nullptr && missing_ == nullptr) missing_ = symbol;
  }

  static constexpr const char* name = "libcrypto.so.3";
  void* library_;
  const char* missing_ = nullptr;  // the first function that the library lacks
};

const OpenSsl& openssl() noexcept {
  static const OpenSsl loaded;
  return loaded;
}

EVP_MD_CTX* context_of(void* context) noexcept { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

Result<Sha256> Sha256::make() {
  const auto& ssl = openssl();
  HT_TRY(ssl.check());
  Sha256 hash(ssl.make());
  if (hash.context_ == nullptr) return fail(Error(ErrorCode::out_of_memory));
  if (ssl.begin(context_of(hash.context_.get()), ssl.sha256(), nullptr) != 1) {
    return fail(
        Error(ErrorCode::unsupported_platform, "openssl_provides_sha256",
              "OpenSSL's libcrypto refuses SHA-256")
            .with_hint("allow SHA-256 in the configuration of OpenSSL, or use crc64nvme or xxh3-128"));
  }
  return hash;
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

tl::unexpected<Error> not_built(SourceLine where = SourceLine::here()) {
  return fail(Error(ErrorCode::unsupported_platform, "build_has_openssl",
                    "this build of htensor has no SHA-256: the OpenSSL headers were missing", where)
                  .with_hint("install libssl-dev and build htensor again, or use crc64nvme or xxh3-128"));
}

}  // namespace

Result<Sha256> Sha256::make() { return not_built(); }
void Sha256::FreeContext::operator()(void*) const noexcept {}
void Sha256::update(Bytes) noexcept {}
std::array<std::byte, 32> Sha256::finish() noexcept { return {}; }

#endif

}  // namespace ht::inline v1
