#include <htensor/load/load.hpp>

#include <algorithm>
#include <functional>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "load/model_load.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {
namespace {

Result<LoadReport> located(const Model& model, Result<LoadReport> loaded) {
  if (loaded) return loaded;
  return fail(ModelAccess::located(model, std::move(loaded).error()));
}

struct IndexedTarget {
  std::size_t index;
  MutableBytes into;
};

// Two reads into the same bytes would race.
Result<void> check_no_overlap(const Model& model, std::span<const IndexedTarget> targets) {
  std::vector<IndexedTarget> non_empty;
  for (const auto& target : targets) {
    if (!target.into.empty()) non_empty.push_back(target);
  }
  const auto begin = [](const IndexedTarget& target) { return target.into.data(); };
  const auto end = [](const IndexedTarget& target) { return target.into.data() + target.into.size(); };
  std::ranges::sort(non_empty, std::less<>(), begin);
  for (std::size_t i = 1; i < non_empty.size(); ++i) {
    const auto shared = std::min(end(non_empty[i - 1]), end(non_empty[i])) - begin(non_empty[i]);
    if (shared <= 0) continue;
    return fail(Error(ErrorCode::overlap, "targets_do_not_overlap",
                      format_text("targets of tensors '{}' and '{}' overlap by {} bytes",
                                  to_utf8(model.catalog()[non_empty[i - 1].index].name),
                                  to_utf8(model.catalog()[non_empty[i].index].name), shared))
                    .with_hint("give each tensor its own memory"));
  }
  return {};
}

Result<LoadReport> load_targets(const Model& model, std::span<const IndexedTarget> targets,
                                const LoadOptions& options) {
  HT_TRY(check_no_overlap(model, targets));
  const auto& state = ModelAccess::state(model);
  std::vector<std::size_t> tensors;
  std::vector<io::Strategy::LoadRequest> requests;
  std::uint64_t splat_bytes = 0;
  for (const auto& [index, into] : targets) {
    const Entry entry = model.catalog()[index];
    if (into.size() != entry.bytes) {
      return fail(Error(ErrorCode::size_mismatch, "target_size_matches_its_tensor",
                        format_text("tensor '{}' has {} bytes but its target has {}", to_utf8(entry.name),
                                    entry.bytes, into.size()))
                      .at_path(state.paths[entry.file].native())
                      .at_tensor(entry.name)
                      .with_hint("allocate a target of the tensor's byte_size"));
    }
    if (entry.is_splat()) {
      splat_bytes += entry.bytes;
      continue;
    }
    HT_TRY(ModelAccess::check_available(state, entry));
    if (entry.bytes == 0) continue;
    tensors.push_back(index);
    requests.push_back({.range = {entry.file, entry.offset, entry.bytes}, .into = into});
  }
  auto loaded = HT_TRY(located(model, load_tensors_into(model, options, std::move(tensors), requests)));
  for (const auto& [index, into] : targets) {
    const auto tensor = HT_TRY(model.at(index));
    if (tensor.is_splat()) HT_TRY(tensor.copy_to(into));
  }
  loaded.bytes += splat_bytes;
  loaded.requested_bytes += splat_bytes;
  return loaded;
}

}  // namespace

Result<LoadReport> load(const Model& model, const LoadOptions& options) {
  return without_bad_alloc([&]() -> Result<LoadReport> {
    const auto& residency = *ModelAccess::state(model).residency;
    auto tensors = HT_TRY(ModelAccess::tensors_matching(model, options.filter));
    std::vector<std::size_t> in_memory;
    std::erase_if(tensors, [&](std::size_t index) {
      if (!residency.is_resident(index)) return false;
      in_memory.push_back(index);
      return true;
    });
    return located(model, load_tensors(model, options, std::move(tensors), std::move(in_memory)));
  });
}

Result<LoadReport> stream(const Model& model, const PieceConsumer& consumer, const LoadOptions& options) {
  return without_bad_alloc([&]() -> Result<LoadReport> {
    auto tensors = HT_TRY(ModelAccess::tensors_matching(model, options.filter));
    return located(model, stream_tensors(model, options, std::move(tensors), consumer));
  });
}

Result<LoadReport> load_into(const Model& model, std::span<const Target> targets,
                             const LoadOptions& options) {
  return without_bad_alloc([&]() -> Result<LoadReport> {
    std::vector<IndexedTarget> indexed;
    indexed.reserve(targets.size());
    for (const auto& [name, into] : targets) {
      const auto found = model.find(name);
      if (!found) return fail(model[name].error());  // this error suggests the nearest name
      indexed.push_back({*found, into});
    }
    return load_targets(model, indexed, options);
  });
}

Result<LoadReport> load_into(const Model& model, const PlaceTensor& place, const LoadOptions& options) {
  return without_bad_alloc([&]() -> Result<LoadReport> {
    HT_TRY(options.filter.check());
    std::vector<IndexedTarget> indexed;
    bool any = options.filter.is_everything();  // the default filter accepts an empty model
    for (std::size_t i = 0; i < model.size(); ++i) {
      const auto tensor = HT_TRY(model.at(i));
      if (!options.filter.matches(tensor.name())) continue;
      any = true;
      const MutableBytes into = place(tensor);
      if (into.empty()) continue;
      indexed.push_back({i, into});
    }
    if (!any) return fail(options.filter.no_match().at_path(ModelAccess::state(model).opened.native()));
    return load_targets(model, indexed, options);
  });
}

Result<std::uint64_t> prefetch(const Model& model, const NameFilter& filter, const WorkOptions& options) {
  // A prefetch has no memory limit: the kernel evicts pages that do not fit.
  const auto fetched = HT_TRY(load(model, {.strategy = io::Strategy::Kind::mapped,
                                           .filter = filter,
                                           .budget_bytes = UINT64_MAX,
                                           .work = options}));
  return fetched.bytes;
}

}  // namespace ht::inline v1
