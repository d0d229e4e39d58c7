#include <htensor/model/model.hpp>

#include <algorithm>
#include <htensor/base/nearest.hpp>
#include <htensor/base/utf8.hpp>
#include <htensor/io/mapped.hpp>

#include "base/format_text.hpp"
#include "model/model_access.hpp"
#include "model/model_files.hpp"
#include "model/model_state.hpp"
#include "model/ranges.hpp"
#include "model/shard_set.hpp"

namespace ht::inline v1 {

Model::Model(std::shared_ptr<const ModelState> state) noexcept : state_(std::move(state)) {}

Result<Model> Model::open(const std::filesystem::path& path, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<Model> {
    return map_files(HT_TRY(open_model_files(path, options)), std::span(&path, 1), options);
  });
}

Result<Model> Model::open_merged(std::span<const std::filesystem::path> paths, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<Model> {
    return map_files(HT_TRY(open_merged_files(paths, options)), paths, options);
  });
}

Result<Model> Model::map_files(ModelFiles files, std::span<const std::filesystem::path> opened,
                               const OpenOptions& options) {
  auto state =
      std::make_shared<ModelState>(ModelState{.catalog = std::make_shared<Catalog>(std::move(files.catalog)),
                                              .opened = opened.front(),
                                              .paths = {},
                                              .index = std::move(files.index),
                                              .is_merged = opened.size() > 1,
                                              .dtypes = options.dtypes,
                                              .port = &port_of(options),
                                              .residency = nullptr});
  state->residency = std::make_unique<ResidencyShell>(*state->catalog);
  for (auto& file : files.files) {
    state->paths.push_back(std::move(file.path));
    if (options.catalog_only) continue;
    auto name = [catalog = state->catalog, number = state->residency->file_count()](std::uint64_t offset) {
      return name_at(*catalog, number, offset);
    };
    std::optional<io::Mapped> mapped;
    if (file.opened) {
      mapped =
          HT_TRY(std::move(*file.opened).map({.guard = options.fault_guard, .tensor_at = std::move(name)}));
    }
    HT_TRY(state->residency->add_file(std::move(mapped)));
  }
  return Model(std::move(state));
}

const Catalog& Model::catalog() const& noexcept { return *state_->catalog; }

const std::vector<std::filesystem::path>& Model::files() const& noexcept { return state_->paths; }

Result<DTypeInfo> Model::dtype(DTypeTag tag) const {
  const auto found = find_dtype(tag, state_->dtypes);
  if (!found) return fail(unknown_dtype(tag));
  return *found;
}

Result<std::size_t> Model::index_of(std::string_view name) const {
  const auto& catalog = *state_->catalog;
  if (const auto index = catalog.find(name)) return *index;
  Error error(ErrorCode::not_found, "tensor_is_there", format_text("tensor '{}' does not exist", name));
  NearestName nearest(name);
  for (const Entry& entry : catalog) {
    if (!nearest.consider(entry.name)) break;
  }
  const std::string hint = nearest.found() ? format_text("did you mean '{}'?", *nearest.found())
                           : catalog.size() == 1
                               ? format_text("the only tensor is '{}'", catalog[0].name)
                               : format_text("list the {} tensors with `htensor ls`", catalog.size());
  return fail(std::move(error).with_hint(hint).at_path(state_->opened.native()).at_tensor(name));
}

Result<AnyTensor> Model::operator[](std::string_view name) const {
  return without_bad_alloc([&]() -> Result<AnyTensor> { return (*this)[HT_TRY(index_of(name))]; });
}

Result<AnyTensor> Model::at(std::size_t index) const {
  if (index < size()) return (*this)[index];
  return fail(Error(ErrorCode::out_of_bounds, "index_is_below_size",
                    format_text("index {} is out of bounds: the model has {} tensors", index, size()))
                  .with_hint("use an index below size()")
                  .at_path(state_->opened.native()));
}

AnyTensor Model::operator[](std::size_t index) const noexcept { return {state_, index}; }

Result<Storage> Model::raw(std::string_view name) const { return HT_TRY((*this)[name]).storage(); }

OpenOptions ModelAccess::open_options(const Model& model) {
  return {.dtypes = model.state_->dtypes, .port = model.state_->port};
}

}  // namespace ht::inline v1
