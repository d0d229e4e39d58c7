#include <htensor/htensor.hpp>
#include <limits>

#include "bench/open/task.hpp"

namespace ht::bench {

Corners open_by_htensor(const std::filesystem::path& path) {
  const auto look = [&]() -> Result<Corners> {
    const auto model = HT_TRY(Model::open(path));
    const auto matrix = HT_TRY((model.tensor<F32, Rank<2>>(model.catalog()[0].name)));
    return Corners{matrix(0, 0), matrix(matrix.extent(0) - 1, matrix.extent(1) - 1)};
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  return look().value_or(Corners{nan, nan});
}

}  // namespace ht::bench
