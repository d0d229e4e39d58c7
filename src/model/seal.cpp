#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <htensor/integrity/seal.hpp>
#include <set>

#include "base/format_text.hpp"
#include "integrity/model_digests.hpp"
#include "integrity/seal_place.hpp"
#include "integrity/validate.hpp"
#include "io/atomic_file.hpp"
#include "model/model_access.hpp"
#include "model/model_seal.hpp"
#include "model/model_state.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// What a seal can call them is told before all bytes are gone over.
Result<std::vector<std::string>> names_in_seal(const std::vector<Path>& paths, const SealPlace& place) {
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const auto& path : paths) {
    names.push_back(name_in_seal(path, place));
    if (const auto fault = sealed_name_fault(names.back()); !fault.empty()) {
      return fail(Error(ErrorCode::bad_name, "sealed_files_have_plain_names",
                        format_text("cannot be named in a seal: its name {}", fault))
                      .at_path(path.native())
                      .with_hint("rename it"));
    }
  }
  return names;
}

// The seal of another model that is still there, as of a second index in the same folder, is not thrown away.
Result<void> check_may_replace(const SealPlace& place, const std::vector<Path>& paths, io::Port& port) {
  const auto before = read_seal(place.seal, port);
  if (!before) return {};
  std::set<Path> ours;
  for (const auto& path : paths) ours.insert(path.lexically_normal());
  for (const auto& path : sealed_paths(*before, place)) {
    if (ours.contains(path.lexically_normal()) || !port.stat(path)) continue;
    return fail(
        Error(ErrorCode::already_exists, "seal_of_other_files_stays",
              format_text("is the seal of other files, such as '{}'", to_utf8(path.filename().string())))
            .at_path(place.seal.native())
            .with_hint(
                "remove it if it is of no use any more, or keep the two models in folders of their own"));
  }
  return {};
}

}  // namespace

// Every file is needed, and mapped.
Result<std::vector<const io::Mapped*>> Model::all_files() const {
  auto files = state_->residency->mapped_files();
  if (files.size() < state_->paths.size()) {
    return fail(Error(ErrorCode::bad_state, "model_is_mapped", "was opened for its catalog alone")
                    .at_path(state_->opened.native())
                    .with_hint("open it without `catalog_only`"));
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i] != nullptr) continue;
    return fail(Error(ErrorCode::missing_shard, "sealed_files_are_all_there", "is not there")
                    .at_path(state_->paths[i].native())
                    .with_hint("fetch it"));
  }
  return files;
}

// Every file that belongs to the model, its index among them.
struct Model::SealedParts {
  std::vector<const io::Mapped*> files;
  std::vector<std::filesystem::path> paths;
  std::optional<io::Mapped> index;
};

Result<Model::SealedParts> Model::sealed_parts() const {
  SealedParts parts{.files = HT_TRY(all_files()), .paths = state_->paths, .index = std::nullopt};
  if (state_->index) {
    auto opened = HT_TRY(io::Opened::open(*state_->index, *state_->port));
    parts.index = HT_TRY(std::move(opened).map());
    parts.paths.push_back(*state_->index);
  }
  return parts;
}

Result<SealedModel> Model::seal(const SealOptions& options) const {
  return ModelAccess::seal(*this, options, {});
}

Result<void> ModelAccess::check_can_seal(const Path& opened, const std::vector<Path>& files, io::Port& port) {
  const auto place = place_of_seal(opened, port);
  HT_TRY(check_may_replace(place, files, port));
  HT_TRY(names_in_seal(files, place));
  return {};
}

Result<SealedModel> ModelAccess::seal(const Model& model, const SealOptions& options, const Seen& seen) {
  return without_bad_alloc([&]() -> Result<SealedModel> {
    const auto& state = *model.state_;
    auto& port = *state.port;
    const auto place = place_of_seal(state.opened, port);
    auto parts = HT_TRY(model.sealed_parts());
    if (parts.index) parts.files.push_back(&*parts.index);
    HT_TRY(check_may_replace(place, parts.paths, port));
    auto names = HT_TRY(names_in_seal(parts.paths, place));
    Measure measured;
    if (seen) {
      measured = [&](std::span<const io::FileRange> ranges) -> Result<std::vector<Digest>> {
        std::vector<Digest> digests;
        digests.reserve(ranges.size());
        for (const auto& range : ranges) {
          digests.push_back(HT_TRY(seen(parts.paths[range.file], range.offset, range.bytes)));
        }
        return digests;
      };
    }
    const auto seal = HT_TRY(make_seal({.catalog = *state.catalog,
                                        .files = parts.files,
                                        .algorithm = options.algorithm,
                                        .measured = std::move(measured)},
                                       std::move(names), options.work));
    const auto bytes = HT_TRY(encode_seal(seal));
    auto file = HT_TRY(io::AtomicFile::create(place.seal, io::IfExists::replace, port));
    HT_TRY(file.write(0, bytes));
    HT_TRY(std::move(file).commit());
    SealedModel sealed{.seal = place.seal, .bytes = 0, .digest = HT_TRY(digest_of(seal))};
    for (const auto& each : seal.files) sealed.bytes += each.bytes;
    return sealed;
  });
}

Result<ModelDigests> Model::hash(const HashOptions& options) const {
  return without_bad_alloc([&]() -> Result<ModelDigests> {
    auto parts = HT_TRY(sealed_parts());
    if (parts.index) parts.files.push_back(&*parts.index);
    auto found = HT_TRY(
        measure_model({.catalog = *state_->catalog, .files = parts.files, .algorithm = options.algorithm},
                      options.per_tensor, options.work));
    ModelDigests digests{.digest = HT_TRY(digest_of_files(options.algorithm, found.files)),
                         .files = {},
                         .tensors = std::move(found.tensors)};
    for (std::size_t i = 0; i < found.files.size(); ++i) {
      digests.files.push_back({std::move(parts.paths[i]), found.files[i]});
    }
    return digests;
  });
}

Result<void> Model::validate(std::string_view name) const {
  return without_bad_alloc([&]() -> Result<void> {
    const std::size_t tensor = HT_TRY(index_of(name));
    const Entry entry = (*state_->catalog)[tensor];
    HT_TRY(check_has_bytes(entry));
    const auto storage = HT_TRY(storage_of(tensor));
    const Storage::FileBacked where{state_->paths[entry.file], entry.offset, entry.bytes};
    return validate_bytes(storage.bytes(), where, *state_->port);
  });
}

}  // namespace ht::inline v1
