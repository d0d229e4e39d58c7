// The CBLAS functions that the library uses, from a shared library that is loaded at first use.
#pragma once

namespace ht::inline v1::compute {

// Values as defined by CBLAS. Debian's libraries use 32-bit extents.
enum class BlasOrder : int { row_major = 101 };
enum class BlasTranspose : int { no = 111, yes = 112 };

template <class T>
using BlasGemm = void (*)(BlasOrder, BlasTranspose, BlasTranspose, int m, int n, int k, T alpha, const T* a,
                          int lda, const T* b, int ldb, T beta, T* c, int ldc);
template <class T>
using BlasGemv = void (*)(BlasOrder, BlasTranspose, int rows, int columns, T alpha, const T* a, int lda,
                          const T* x, int step_x, T beta, T* y, int step_y);

template <class T>
struct BlasFunctions {
  BlasGemm<T> gemm = nullptr;
  BlasGemv<T> gemv = nullptr;
};

/// The loaded functions. All are null if the library or one of the functions is missing.
class Blas {
 public:
  /// Loads the first of the named libraries that has all functions. It is never unloaded.
  template <class... Names>
  explicit Blas(const char* first, Names... others) noexcept {
    static_cast<void>((load(first) || ... || load(others)));
  }

  [[nodiscard]] bool is_loaded() const noexcept { return singles_.gemm != nullptr; }
  [[nodiscard]] const BlasFunctions<float>& functions(float) const noexcept { return singles_; }
  [[nodiscard]] const BlasFunctions<double>& functions(double) const noexcept { return doubles_; }

 private:
  bool load(const char* name) noexcept;

  BlasFunctions<float> singles_;
  BlasFunctions<double> doubles_;
};

/// OpenBLAS, or else the default BLAS of the system. The first call loads it.
[[nodiscard]] const Blas& blas() noexcept;

}  // namespace ht::inline v1::compute
