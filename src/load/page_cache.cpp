#include <algorithm>
#include <htensor/load/load.hpp>

#include "io/strategy/staged.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {
namespace {

// Queries each file once for all of its tensors.
Result<void> query_page_cache(const ModelState& state, std::span<TensorResidency> tensors) {
  const auto& catalog = *state.catalog;
  const auto& sources = state.mapped->sources();
  std::vector<std::vector<std::size_t>> of_file(sources.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Entry entry = catalog[tensors[i].index];
    if (state.residency->bytes_in_file(entry) != 0) of_file[entry.file].push_back(i);
  }
  std::vector<io::Source::CacheQuery> queries;
  for (std::size_t file = 0; file < of_file.size(); ++file) {
    queries.clear();
    for (const std::size_t i : of_file[file]) {
      const Entry entry = catalog[tensors[i].index];
      queries.push_back({.offset = entry.offset, .bytes = state.residency->bytes_in_file(entry)});
    }
    if (queries.empty()) continue;
    auto known = sources[file]->cached(queries);
    if (!known) {
      return fail(std::move(known).error().at_tensor(catalog[tensors[of_file[file][0]].index].name));
    }
    for (std::size_t i = 0; i < queries.size(); ++i) {
      tensors[of_file[file][i]].cached_bytes = *known ? std::optional(queries[i].cached_bytes) : std::nullopt;
    }
  }
  return {};
}

}  // namespace

Result<std::vector<TensorResidency>> residency(const Model& model, std::size_t first, std::size_t count) {
  return without_bad_alloc([&]() -> Result<std::vector<TensorResidency>> {
    const auto& state = ModelAccess::state(model);
    std::vector<TensorResidency> tensors;
    const std::size_t begin = std::min(first, model.size());
    const std::size_t end = begin + std::min(count, model.size() - begin);
    tensors.reserve(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      const Entry entry = model.catalog()[i];
      TensorResidency tensor{.index = i, .bytes = entry.bytes};
      if (!entry.is_splat() && !state.has_data) HT_TRY(ModelAccess::check_available(state, entry));
      if (!entry.is_splat() && state.residency->bytes_in_file(entry) == entry.bytes) {
        tensor.residence = tensor_state::residence_of(state.residency->state_of(i));
        if (tensor.residence == TensorResidency::Residence::resident) tensor.resident_bytes = entry.bytes;
      }
      tensors.push_back(tensor);
    }
    HT_TRY(query_page_cache(state, tensors));
    return tensors;
  });
}

Result<std::uint64_t> evict(const Model& model, const NameFilter& filter) {
  return without_bad_alloc([&]() -> Result<std::uint64_t> {
    const auto& state = ModelAccess::state(model);
    const auto tensors = HT_TRY(ModelAccess::tensors_matching(model, filter, MissingBytes::allowed));
    HT_TRY(state.residency->evict(tensors));
    return sum_of(state.residency->ranges_in_files(tensors));
  });
}

}  // namespace ht::inline v1
