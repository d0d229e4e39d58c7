#include <htensor/model/model.hpp>

#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <tuple>

#include "base/format_text.hpp"
#include "base/nearest_name.hpp"
#include "base/utf8.hpp"
#include "io/file_source.hpp"
#include "model/files/model_files.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {

Model::Model(std::shared_ptr<const ModelState> state) noexcept : state_(std::move(state)) {}

Result<Model> Model::open(const std::filesystem::path& path, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<Model> {
    return of_files(HT_TRY(open_model_files(path, options)), std::span(&path, 1), options);
  });
}

Result<Model> Model::open_merged(std::span<const std::filesystem::path> paths, const OpenOptions& options) {
  return without_bad_alloc(
      [&]() -> Result<Model> { return of_files(HT_TRY(open_merged_files(paths, options)), paths, options); });
}

Result<Model> Model::from_source(std::shared_ptr<const io::Source> source, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<Model> {
    const auto path = source->path();
    return of_files(HT_TRY(open_one(std::move(source), options)), std::span(&path, 1), options);
  });
}

Result<Model> Model::from_bytes(Bytes bytes, std::shared_ptr<const void> owner, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<Model> {
    return from_source(std::make_shared<io::MemorySource>(bytes, std::move(owner)), options);
  });
}

Result<Model> Model::from_fd(int fd, const OpenOptions& options) {
  return from_source(HT_TRY(io::FileSource::from_fd(fd, port_of(options))), options);
}

// Does not map any file yet.
Model Model::of_files(ModelFiles files, std::span<const std::filesystem::path> opened,
                      const OpenOptions& options) {
  auto state = std::make_shared<ModelState>();
  state->catalog = std::make_shared<const Catalog>(std::move(files.catalog));
  state->opened = opened.front();
  state->index = std::move(files.index);
  state->is_merged = opened.size() > 1;
  state->has_path =
      files.files.empty() || !files.files[0].source || is_opened_by_path(*files.files[0].source);
  state->has_data = !options.catalog_only;
  state->dtypes = options.dtypes;
  state->formats = options.formats;
  state->port = &port_of(options);
  state->faults = options.faults;
  io::Sources sources;
  for (auto& [path, source] : files.files) {
    state->paths.push_back(std::move(path));
    if (state->has_data) sources.push_back(std::move(source));
  }
  const auto name = [catalog = state->catalog](std::uint32_t file, std::uint64_t offset) {
    return name_at(*catalog, file, offset);
  };
  state->mapped = std::make_unique<io::MappedStrategy>(
      std::move(sources), io::MappedOptions{.faults = options.faults, .tensor_at = name});
  state->residency = std::make_unique<ResidencyShell>(*state->catalog, *state->mapped, *state->port);
  return Model(std::move(state));
}

detail::IndexIterator<Model> Model::begin() const& noexcept { return {*this, 0}; }
detail::IndexIterator<Model> Model::end() const& noexcept { return {*this, size()}; }

const Catalog& Model::catalog() const& noexcept { return *state_->catalog; }

const std::vector<std::filesystem::path>& Model::files() const& noexcept { return state_->paths; }

Result<DTypeInfo> Model::dtype(DTypeTag tag) const {
  const auto found = find_dtype(tag, state_->dtypes);
  if (!found) return fail(unknown_dtype(tag));
  return *found;
}

Result<AnyTensor> Model::operator[](std::string_view name) const {
  const auto& catalog = *state_->catalog;
  if (const auto index = catalog.find(name)) return (*this)[*index];
  return without_bad_alloc([&]() -> Result<AnyTensor> { return fail(unknown_tensor(name)); });
}

Error Model::unknown_tensor(std::string_view name) const {
  const auto& catalog = *state_->catalog;
  Error error(ErrorCode::not_found, "tensor_exists", format_text("tensor '{}' does not exist", name));
  NearestName nearest(name);
  for (const Entry& entry : catalog) {
    if (!nearest.consider(entry.name)) break;
  }
  const std::string hint = nearest.found()       ? format_text("did you mean '{}'?", *nearest.found())
                           : catalog.size() == 1 ? format_text("the only tensor is '{}'", catalog[0].name)
                           : catalog.empty()
                               ? std::string("open another file: the model has 0 tensors")
                               : format_text("list the {} tensors with `htensor ls`", catalog.size());
  return std::move(error).with_hint(hint).at_path(state_->opened.native()).at_tensor(name);
}

Result<AnyTensor> Model::at(std::size_t index) const {
  if (index < size()) return (*this)[index];
  return fail(Error(ErrorCode::out_of_bounds, "index_is_below_size",
                    format_text("index {} is out of bounds: the model has {} tensors", index, size()))
                  .with_hint("use an index below size()")
                  .at_path(state_->opened.native()));
}

AnyTensor Model::operator[](std::size_t index) const noexcept { return {state_, index}; }

std::optional<Error> Model::fault() const {
  for (const auto* const file : state_->mapped->files()) {
    if (auto error = file != nullptr ? file->fault() : std::nullopt) return error;
  }
  return std::nullopt;
}

Result<Storage> Model::storage(std::string_view name) const { return HT_TRY((*this)[name]).storage(); }

OpenOptions ModelAccess::open_options(const Model& model) {
  return {.dtypes = model.state_->dtypes,
          .formats = model.state_->formats,
          .faults = model.state_->faults,
          .port = model.state_->port};
}

Result<void> ModelAccess::check_has_data(const ModelState& state) {
  if (state.has_data) return {};
  return fail(Error(ErrorCode::bad_state, "model_has_its_data",
                    "model was opened with `catalog_only`, without its data")
                  .at_path(state.opened.native())
                  .with_hint("open the model without `catalog_only`"));
}

Result<void> ModelAccess::check_all_exist(const Model& model) {
  const auto& state = *model.state_;
  HT_TRY(check_has_data(state));
  const auto& sources = state.mapped->sources();
  const auto missing = std::ranges::find(sources, nullptr);
  if (missing == sources.end()) return {};
  return fail(Error(ErrorCode::missing_shard, "model_files_exist", "does not exist")
                  .at_path(state.paths[static_cast<std::size_t>(missing - sources.begin())].native())
                  .with_hint("download the file"));
}

Result<std::vector<std::size_t>> ModelAccess::tensors_matching(const Model& model, const NameFilter& filter,
                                                               MissingBytes missing) {
  HT_TRY(filter.check());
  const auto& state = *model.state_;
  const auto& catalog = *state.catalog;
  if (!state.has_data && catalog.size() != 0) HT_TRY(check_available(state, catalog[0]));
  std::vector<std::size_t> tensors;
  bool any = filter.is_everything();  // the default filter accepts an empty model
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    const Entry entry = catalog[i];
    if (!filter.matches(entry.name)) continue;
    any = true;
    if (entry.is_splat()) continue;
    if (missing == MissingBytes::refused) HT_TRY(check_available(state, entry));
    if (state.residency->bytes_in_file(entry) != 0) tensors.push_back(i);
  }
  if (any) return tensors;
  return fail(filter.no_match().at_path(state.opened.native()));
}

Error ModelAccess::located(const Model& model, Error error) {
  const auto& state = *model.state_;
  const auto path = std::ranges::find(state.paths, error.path(), &std::filesystem::path::native);
  if (error.path().empty()) error = std::move(error).at_path(state.opened.native());
  if (error.offset() && error.tensor().empty() && path != state.paths.end()) {
    const auto file = static_cast<std::size_t>(path - state.paths.begin());
    const auto name = name_at(*state.catalog, file, *error.offset());
    if (!name.empty()) error = std::move(error).at_tensor(name);
  }
  return error;
}

std::vector<io::FileRange> merged_ranges(const Catalog& catalog, std::span<const std::size_t> tensors,
                                         std::uint64_t max_gap_bytes) {
  std::vector<io::FileRange> ranges;
  ranges.reserve(tensors.size());
  for (const std::size_t index : tensors) {
    const Entry entry = catalog[index];
    if (!entry.is_splat() && entry.bytes != 0) ranges.push_back({entry.file, entry.offset, entry.bytes});
  }
  std::ranges::sort(ranges, {}, [](const auto& range) { return std::tuple(range.file, range.offset); });
  // Tensors may share bytes, so a merged range ends at the furthest end.
  std::size_t merged = 0;
  for (const auto& range : ranges) {
    auto* const last = merged == 0 ? nullptr : &ranges[merged - 1];
    if (last != nullptr && last->file == range.file &&
        range.offset <= checked::add(end_of(*last), max_gap_bytes).value_or(UINT64_MAX)) {
      last->bytes = std::max(end_of(*last), end_of(range)) - last->offset;
    } else {
      ranges[merged++] = range;
    }
  }
  ranges.resize(merged);
  return ranges;
}

std::string name_at(const Catalog& catalog, std::size_t file, std::uint64_t offset) {
  for (const Entry& entry : catalog) {
    if (entry.is_splat() || entry.file != file) continue;
    if (entry.offset <= offset && offset - entry.offset < entry.bytes) return std::string(entry.name);
  }
  return {};
}

}  // namespace ht::inline v1
