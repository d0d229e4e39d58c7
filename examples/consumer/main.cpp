// A program with a dtype and a device of its own: both work everywhere the library's do.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <htensor/htensor.hpp>
#include <memory>
#include <string>
#include <vector>

namespace mine {

/// An 8-bit float with 3 bits of exponent and 4 of mantissa. The layout says all the rest.
struct F8_E3M4 {
  using Family = ht::family::MiniFloat;
  using Element = ht::SmallFloat<F8_E3M4>;
  static constexpr std::string_view name = "F8_E3M4";
  static constexpr int bits = 8;
  static constexpr int width_rank = bits;
  static constexpr ht::DTypeTag tag = ht::user_tag(0);
  static constexpr ht::FloatLayout layout{3, 4, 3, ht::Specials::ieee};
  static constexpr ht::NumberFacts number = ht::number_facts(layout);
};
static_assert(ht::LosslessTo<F8_E3M4, ht::F16> && !ht::LosslessTo<F8_E3M4, ht::F8_E4M3>);

/// Memory from a pool that counts, for numbers of at most 32 bits.
struct Pool {
  static constexpr std::string_view name = "Pool";
  static constexpr bool host_accessible = true;
  template <class D>
  static constexpr bool stores = D::bits <= 32;

  static inline std::uint64_t bytes_given = 0;
  static ht::Result<ht::Storage> allocate(std::uint64_t bytes) {
    auto block = std::make_shared<std::vector<std::byte>>(bytes);
    bytes_given += bytes;
    const ht::MutableBytes all(*block);
    return ht::Storage::kept_by(std::move(block), all);
  }
};
static_assert(ht::Compatible<Pool, ht::F32> && !ht::Compatible<Pool, ht::F64>);

}  // namespace mine

namespace {

ht::Result<void> run(const std::filesystem::path& path) {
  using Matrix = ht::Tensor<mine::F8_E3M4, ht::Rank<2>, mine::Pool>;
  const auto weights = HT_TRY(Matrix::zeros(ht::Rank<2>(2, 3)));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) weights(i, j) = mine::F8_E3M4::Element(0.5 * (3 * i + j));
  }
  const auto doubled = HT_TRY(weights + weights);
  HT_TRY(ht::write(path, doubled.transpose()));

  const auto model = HT_TRY(ht::Model::open(path, {.dtypes = {ht::dtype_info<mine::F8_E3M4>()}}));
  const auto name = model.catalog()[0].name;
  const auto mapped = HT_TRY(model.tensor<mine::F8_E3M4, ht::Shape<3, 2>>(name));
  const auto wide = HT_TRY(ht::cast<ht::F16>(mapped));
  std::printf("%.*s: %s", static_cast<int>(name.size()), name.data(), "[");
  for (const float value : wide) std::printf(" %g", static_cast<double>(value));
  std::printf(" ], %llu bytes from the pool\n", static_cast<unsigned long long>(mine::Pool::bytes_given));
  return {};
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "htensor-consumer-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  const auto done = run(std::filesystem::path(folder) / "consumer.ht");
  std::filesystem::remove_all(folder);
  if (done) return 0;
  std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  return 1;
}
