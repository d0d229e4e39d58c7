#include <htensor/htensor.hpp>
#include <limits>

#include "bench/open/task.hpp"

namespace ht::bench {

float open_by_htensor(const std::filesystem::path& path, Access access) {
  const auto opened = [&]() -> Result<float> {
    const auto model = HT_TRY(Model::open(path));
    const auto matrix = HT_TRY(model.tensor<F32, Rank<2>>(model.catalog()[0].name));
    const float last = matrix(matrix.extent(0) - 1, matrix.extent(1) - 1);
    return access == Access::both_ends ? matrix(0, 0) + last : last;
  };
  return opened().value_or(std::numeric_limits<float>::quiet_NaN());
}

}  // namespace ht::bench
