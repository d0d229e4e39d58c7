#include <htensor/htensor.hpp>

#include "bench/catalog/task.hpp"

namespace ht::bench {

std::size_t list_by_htensor(const std::filesystem::path& path) {
  const auto model = Model::open(path, {.catalog_only = true});
  if (!model) return 0;
  const auto& catalog = model->catalog();
  if (catalog.empty()) return 0;
  const auto last = catalog.size() - 1;
  return catalog.find(catalog[last].name) == last ? catalog.size() : 0;
}

}  // namespace ht::bench
