#include <htensor/model/residency.hpp>

#include <algorithm>
#include <array>

#include "model/model_access.hpp"
#include "model/model_state.hpp"
#include "model/ranges.hpp"

namespace ht::inline v1 {

std::string_view to_string(Residence residence) noexcept {
  constexpr std::array<std::string_view, 7> names{"unbound",  "bound",   "mapped", "loading",
                                                  "resident", "evicted", "failed"};
  return names[static_cast<std::size_t>(residence)];
}

Result<std::vector<std::size_t>> Model::tensors_matching(const NameFilter& glob) const {
  HT_TRY(glob.check());
  const auto& catalog = *state_->catalog;
  std::vector<std::size_t> tensors;
  if (state_->residency->file_count() == 0 && catalog.size() != 0)
    HT_TRY(ModelAccess::check_is_there(*this, catalog[0]));
  bool any = glob.is_everything();  // an empty model has nothing to match
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    const Entry entry = catalog[i];
    if (!glob.matches(entry.name)) continue;
    any = true;
    if (entry.is_splat()) continue;
    HT_TRY(ModelAccess::check_is_there(*this, entry));  // whether it is there
    if (entry.bytes != 0) tensors.push_back(i);
  }
  if (any) return tensors;
  return fail(glob.no_match().at_path(state_->opened.native()));
}

Result<Loaded> Model::placed(Result<Loaded> loaded) const {
  if (loaded) return loaded;
  Error error = std::move(loaded).error();
  const auto path = std::ranges::find(state_->paths, error.path(), &std::filesystem::path::native);
  if (error.path().empty()) error = std::move(error).at_path(state_->opened.native());
  if (error.offset() && error.tensor().empty() && path != state_->paths.end()) {
    const auto file = static_cast<std::size_t>(path - state_->paths.begin());
    const auto name = name_at(*state_->catalog, file, *error.offset());
    if (!name.empty()) error = std::move(error).at_tensor(name);
  }
  return fail(std::move(error));
}

Result<TensorResidency> Model::residency(std::size_t index) const {
  const Entry entry = (*state_->catalog)[index];
  const auto& files = *state_->residency;
  TensorResidency tensor{.index = index};
  tensor.bytes = entry.bytes;
  if (entry.is_splat()) return tensor;
  if (files.file_count() != 0) tensor.residence = residency::residence_of(files.state_of(index));
  if (tensor.residence == Residence::unbound) return tensor;
  HT_TRY(ModelAccess::check_is_there(*this, entry));
  if (tensor.residence == Residence::resident) tensor.resident_bytes = entry.bytes;
  auto cached = files.file(entry.file)->cached(entry.offset, entry.bytes);
  if (!cached) return fail(std::move(cached).error().at_tensor(entry.name));
  tensor.cached_bytes = *cached;
  return tensor;
}

Result<std::vector<TensorResidency>> Model::residency() const {
  return without_bad_alloc([&]() -> Result<std::vector<TensorResidency>> {
    std::vector<TensorResidency> tensors;
    tensors.reserve(size());
    for (std::size_t i = 0; i < size(); ++i) tensors.push_back(HT_TRY(residency(i)));
    return tensors;
  });
}

Result<std::uint64_t> Model::evict(const NameFilter& glob) const {
  return without_bad_alloc([&]() -> Result<std::uint64_t> {
    const auto tensors = HT_TRY(tensors_matching(glob));
    HT_TRY(state_->residency->evict(tensors));
    return sum_of(merged_ranges(*state_->catalog, tensors));
  });
}

}  // namespace ht::inline v1
