// The model owns its catalog, so a temporary model does not return a reference to it.
#include <htensor/htensor.hpp>

std::size_t count(const ht::Model& model) {
#ifdef HT_FAIL
  const ht::Catalog& catalog = ht::Model(model).catalog();  // expect: deleted.*catalog
#else
  const ht::Catalog& catalog = model.catalog();
#endif
  return catalog.size();
}
