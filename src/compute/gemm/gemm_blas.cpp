#include "compute/gemm/gemm_blas.hpp"

#include <dlfcn.h>

#include "base/workers.hpp"

namespace ht::inline v1::compute {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) noexcept {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

bool Blas::load(const char* name) noexcept {
  // Loading OpenBLAS starts its threads, which read mapped pages and inherit the signal mask.
  const UnblockedSigbus unblocked;
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  BlasFunctions<float> singles;
  BlasFunctions<double> doubles;
  if (!find(library, "cblas_sgemm", singles.gemm) || !find(library, "cblas_sgemv", singles.gemv) ||
      !find(library, "cblas_dgemm", doubles.gemm) || !find(library, "cblas_dgemv", doubles.gemv)) {
    static_cast<void>(dlclose(library));
    return false;
  }
  singles_ = singles;
  doubles_ = doubles;
  return true;
}

const Blas& blas() noexcept {
  static const Blas loaded("libopenblas.so.0", "libblas.so.3");
  return loaded;
}

}  // namespace ht::inline v1::compute
