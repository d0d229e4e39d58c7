#include <algorithm>
#include <htensor/base/fault.hpp>
#include <htensor/base/utf8.hpp>
#include <htensor/integrity/seal.hpp>

#include "base/format_text.hpp"
#include "integrity/compare.hpp"
#include "integrity/model_digests.hpp"
#include "integrity/own_checksum.hpp"
#include "integrity/seal_place.hpp"
#include "integrity/validate.hpp"
#include "io/atomic_file.hpp"
#include "model/model_seal.hpp"
#include "model/model_state.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// Files that are no part of the catalog and belong to the model all the same.
Result<std::optional<io::Mapped>> map_index(const std::optional<Path>& index, io::Port& port) {
  if (!index) return std::nullopt;
  auto opened = HT_TRY(io::Opened::open(*index, port));
  return HT_TRY(std::move(opened).map());
}

}  // namespace

std::string name_in_seal(const Path& file, const SealPlace& place) {
  return file.lexically_normal()
      .lexically_relative(place.seal.parent_path().lexically_normal())
      .generic_string();
}

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

Result<SealedModel> Model::seal(const SealOptions& options) const {
  return without_bad_alloc([&]() -> Result<SealedModel> {
    auto& port = *state_->port;
    const auto place = place_of_seal(state_->opened, port);
    auto files = HT_TRY(all_files());
    const auto index = HT_TRY(map_index(state_->index, port));
    std::vector<std::string> names;
    for (const auto& path : state_->paths) names.push_back(name_in_seal(path, place));
    if (index) {
      files.push_back(&*index);
      names.push_back(name_in_seal(*state_->index, place));
    }
    const auto seal =
        HT_TRY(make_seal({.catalog = *state_->catalog, .files = files, .algorithm = options.algorithm},
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
    const auto files = HT_TRY(all_files());
    auto found =
        HT_TRY(measure_model({.catalog = *state_->catalog, .files = files, .algorithm = options.algorithm},
                             options.per_tensor, options.work));
    const auto whole = HT_TRY(digest_of_files(options.algorithm, found.files));
    return ModelDigests{
        .digest = whole, .files = std::move(found.files), .tensors = std::move(found.tensors)};
  });
}

Result<void> Model::verify(const VerifyOptions& options) const {
  return without_bad_alloc([&]() -> Result<void> {
    auto& port = options.port != nullptr ? *options.port : *state_->port;
    const auto mapped = HT_TRY(all_files());
    const auto place = place_of_seal(state_->opened, port);
    const auto seal = read_seal(place.seal, port);
    if (!seal) {
      if (seal.error().code() != ErrorCode::not_sealed || mapped.size() != 1) return fail(seal.error());
      const auto own = HT_TRY(own_checksum(io::file_of(*mapped[0])));
      if (!own) return fail(seal.error());
      return HT_TRY(verify_own(*mapped[0], *own, options)).result();
    }
    // What is open is what is used, whatever has its name by now.
    const auto paths = sealed_paths(*seal, place);
    std::vector<const io::Mapped*> files(paths.size());
    const auto index = HT_TRY(map_index(state_->index, port));
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const auto same = [&](const Path& path) {
        return path.lexically_normal() == paths[i].lexically_normal();
      };
      const auto found = std::ranges::find_if(state_->paths, same);
      if (found != state_->paths.end()) {
        files[i] = mapped[static_cast<std::size_t>(found - state_->paths.begin())];
      } else if (index && same(*state_->index)) {
        files[i] = &*index;
      }
    }
    return HT_TRY(compare(*seal, files, paths, options)).result();
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
