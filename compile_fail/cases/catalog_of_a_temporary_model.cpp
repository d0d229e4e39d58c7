// A catalog lives in its model, so it is not to be had from a model that is gone with the statement.
#include <htensor/htensor.hpp>

std::size_t count(const ht::Model& model) {
#ifdef HT_FAIL
  const ht::Catalog& catalog = ht::Model(model).catalog();  // expect: deleted.*catalog
#else
  const ht::Catalog& catalog = model.catalog();
#endif
  return catalog.size();
}
