#include <htensor/model/model.hpp>

#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <htensor/format/parse.hpp>
#include <htensor/io/mapped.hpp>

#include "base/format_text.hpp"
#include "model/nearest.hpp"
#include "model/read_catalog.hpp"

namespace ht::inline v1 {

struct Model::State {
  Catalog catalog;
  std::vector<std::filesystem::path> paths;
  std::vector<io::Mapped>
      files;  // as many as paths, in the same order; none where only the catalog was wanted
  std::vector<DTypeInfo> dtypes;
};

Model::Model(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

Result<Model> Model::open(const std::filesystem::path& path, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<Model> {
    auto file = HT_TRY(io::Opened::open(path, options.port != nullptr ? *options.port : io::system_port()));
    const std::string stem = to_utf8(path.stem().string());
    auto catalog = read_catalog(
        file, parse, {.stem = stem, .dtypes = options.dtypes, .headers_only = options.headers_only});
    if (!catalog) return fail(std::move(catalog).error().at_path(path.native()));
    auto state = std::make_shared<State>(
        State{.catalog = *std::move(catalog), .paths = {path}, .files = {}, .dtypes = {}});
    if (!options.catalog_only) state->files.push_back(HT_TRY(std::move(file).map()));
    state->dtypes = options.dtypes;
    return Model(std::move(state));
  });
}

const Catalog& Model::catalog() const& noexcept { return state_->catalog; }

const std::vector<std::filesystem::path>& Model::files() const& noexcept { return state_->paths; }

Result<DTypeInfo> Model::dtype(DTypeTag tag) const {
  const auto found = find_dtype(tag, state_->dtypes);
  if (!found) return fail(unknown_dtype(tag));
  return *found;
}

Error Model::located(Error error, std::string_view name) const {
  const auto index = state_->catalog.find(name);
  const auto file = index ? state_->catalog[*index].file : 0;
  return std::move(error).at_path(state_->paths[file].native()).at_tensor(name);
}

Result<Model::Found> Model::find(std::string_view name, const DTypeInfo& wanted) const {
  return without_bad_alloc([&]() -> Result<Found> {
    const auto& catalog = state_->catalog;
    const auto index = catalog.find(name);
    if (!index) {
      Error error(ErrorCode::not_found, "tensor_is_there", format_text("has no tensor named '{}'", name));
      const auto nearest = nearest_name(catalog, name);
      const std::string hint =
          nearest ? format_text("did you mean '{}'?", *nearest)
          : catalog.size() == 1
              ? format_text("its only tensor is '{}'", catalog[0].name)
              : format_text("it has {} tensors: list them with `htensor ls`", catalog.size());
      return fail(located(std::move(error).with_hint(hint), name));
    }
    const Entry entry = catalog[*index];
    if (entry.dtype != wanted.tag) {
      const auto stored = HT_TRY(dtype(entry.dtype));
      return fail(located(Error(ErrorCode::dtype_mismatch, "dtype_is_the_one_asked_for",
                                format_text("tensor '{}' is {} [{}], but {} was asked for", name, stored.name,
                                            fmt::join(entry.dims, ", "), wanted.name))
                              .with_hint(format_text("ask for {}, and widen with cast or as", stored.name)),
                          name));
    }
    if (state_->files.empty()) {
      return fail(located(Error(ErrorCode::bad_state, "model_is_mapped", "was opened for its catalog alone")
                              .with_hint("open it without catalog_only"),
                          name));
    }
    const auto& file = state_->files[entry.file];
    const auto bytes = file.range(entry.offset, entry.bytes);
    if (!bytes) {
      return fail(located(Error(ErrorCode::truncated, "tensor_is_all_there",
                                format_text("tensor '{}' ends at byte {}, but the file has {}", name,
                                            entry.offset + entry.bytes, file.stat().bytes))
                              .at_offset(entry.offset),
                          name));
    }
    return Found{entry.dims,
                 HT_TRY(Storage::file_backed(
                     file.owner(), *bytes,
                     {.locator = state_->paths[entry.file], .offset = entry.offset, .bytes = entry.bytes}))};
  });
}

}  // namespace ht::inline v1
