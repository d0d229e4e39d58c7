#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <htensor/integrity/seal.hpp>
#include <set>

#include "base/format_text.hpp"
#include "integrity/model_digests.hpp"
#include "integrity/own_checksum.hpp"
#include "integrity/seal_place.hpp"
#include "integrity/seal_size.hpp"
#include "integrity/validate.hpp"
#include "io/atomic_file.hpp"
#include "model/model_access.hpp"
#include "model/model_seal.hpp"
#include "model/model_state.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// Checked before any byte is hashed.
Result<std::vector<std::string>> names_in_seal(const std::vector<Path>& paths, const SealPlace& place) {
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const auto& path : paths) {
    names.push_back(name_in_seal(path, place));
    if (const auto fault = sealed_name_fault(names.back()); !fault.empty()) {
      return fail(Error(ErrorCode::bad_name, "sealed_files_have_plain_names",
                        format_text("cannot be named in a seal: its name {}", fault))
                      .at_path(path.native())
                      .with_hint("rename the file"));
    }
  }
  return names;
}

// The seal of another model in the same folder, such as that of a second index, is not replaced.
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
            .with_hint("remove the seal if it is not needed, or move one of the models to another folder"));
  }
  return {};
}

// A seal that shows damage is evidence, and a new one would hide it.
Error keeps_seal(const Error& found, ErrorCode code, const Path& seal) {
  return Error(code, "seal_shows_no_damage",
               format_text("{}; the seal '{}' was kept", found.message(), to_utf8(seal.filename().string())))
      .at_path(found.path())
      .at_tensor(found.tensor())
      .with_hint(
          "run `htensor verify` to list all bad ranges, and download the file again; --force seals the "
          "bytes as they are");
}

Result<void> check_undamaged(const Result<Verification>& compared, const Path& seal) {
  if (!compared) return fail(compared.error());
  const auto result = compared->result();
  if (!result) return fail(keeps_seal(result.error(), ErrorCode::checksum_mismatch, seal));
  return {};
}

}  // namespace

// Every file is needed, and mapped.
Result<std::vector<const io::Mapped*>> Model::all_files() const {
  auto files = state_->residency->mapped_files();
  if (files.size() < state_->paths.size()) {
    return fail(
        Error(ErrorCode::bad_state, "model_is_mapped", "was opened with `catalog_only`, without its data")
            .at_path(state_->opened.native())
            .with_hint("open it without `catalog_only`"));
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i] != nullptr) continue;
    return fail(Error(ErrorCode::missing_shard, "sealed_files_are_all_there", "does not exist")
                    .at_path(state_->paths[i].native())
                    .with_hint("download the file"));
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
  return without_bad_alloc([&]() -> Result<SealedModel> {
    HT_TRY(ModelAccess::check_seal_size(*this, options.algorithm));
    if (options.force) return ModelAccess::seal(*this, options, {});
    auto paths = state_->paths;
    if (state_->index) paths.push_back(*state_->index);
    const auto found = find_seal(state_->opened, *state_->port);
    const bool is_named = found && std::ranges::any_of(paths, [&](const Path& path) {
                            return found->number_of(path).has_value();
                          });
    // The seal of files that do not exist any more says nothing about these.
    if (found && !is_named) return ModelAccess::seal(*this, options, {});
    if (!found) {
      if (found.error().code() == ErrorCode::bad_seal) {
        return fail(keeps_seal(found.error(), ErrorCode::bad_seal, found.error().path()));
      }
      if (found.error().code() != ErrorCode::not_sealed) return fail(found.error());
      const auto files = HT_TRY(all_files());
      const auto own = files.size() == 1 ? HT_TRY(own_checksum(io::file_of(*files[0]))) : std::nullopt;
      if (own) {
        HT_TRY(check_undamaged(verify_own(*files[0], *own, {.work = options.work}), state_->opened));
      }
      return ModelAccess::seal(*this, options, {});
    }
    HT_TRY(check_may_replace(place_of_seal(state_->opened, *state_->port), paths, *state_->port));
    const auto check = [&] {
      return check_undamaged(ModelAccess::compare(*this, *found, {.work = options.work}), found->place.seal);
    };
    // With the same algorithm the new seal shows by itself whether the files match the old one, and all bytes
    // are read once.
    const bool is_comparable = found->seal.algorithm == options.algorithm;
    if (!is_comparable) HT_TRY(check());
    const auto made = HT_TRY(ModelAccess::make_seal(*this, options, {}));
    if (is_comparable && made.seal != found->seal) HT_TRY(check());
    return ModelAccess::write_seal(made, *state_->port);
  });
}

Result<void> ModelAccess::check_can_seal(const Path& opened, const std::vector<Path>& files, io::Port& port) {
  const auto place = place_of_seal(opened, port);
  HT_TRY(check_may_replace(place, files, port));
  HT_TRY(names_in_seal(files, place));
  return {};
}

// Before any data is read.
Result<void> ModelAccess::check_seal_size(const Model& model, HashAlgorithm algorithm) {
  const auto& state = *model.state_;
  if (state.is_merged) return {};  // has no seal
  auto parts = HT_TRY(model.sealed_parts());
  if (parts.index) parts.files.push_back(&*parts.index);
  std::vector<std::uint64_t> sizes;
  sizes.reserve(parts.files.size());
  for (const auto* const file : parts.files) sizes.push_back(file->bytes().size());
  const auto names = HT_TRY(names_in_seal(parts.paths, place_of_seal(state.opened, *state.port)));
  auto checked = ht::check_seal_size(algorithm, *state.catalog, sizes, names);
  if (!checked) return fail(std::move(checked).error().at_path(state.opened.native()));
  return {};
}

Result<MadeSeal> ModelAccess::make_seal(const Model& model, const SealOptions& options, const Seen& seen) {
  const auto& state = *model.state_;
  auto& port = *state.port;
  if (state.is_merged) {
    return fail(Error(ErrorCode::bad_state, "sealed_model_has_one_path",
                      "model was opened together with other models, and a seal covers one model")
                    .at_path(state.opened.native())
                    .with_hint("seal each model by itself"));
  }
  auto place = place_of_seal(state.opened, port);
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
  auto seal = HT_TRY(ht::make_seal({.catalog = *state.catalog,
                                    .files = parts.files,
                                    .algorithm = options.algorithm,
                                    .measured = std::move(measured),
                                    .max_splat_bytes = options.max_splat_bytes},
                                   std::move(names), options.work));
  return MadeSeal{std::move(place.seal), std::move(seal)};
}

Result<SealedModel> ModelAccess::write_seal(const MadeSeal& made, io::Port& port) {
  const auto bytes = HT_TRY(encode_seal(made.seal));
  auto file = HT_TRY(io::AtomicFile::create(made.path, io::IfExists::replace, port));
  HT_TRY(file.write(0, bytes));
  HT_TRY(std::move(file).commit());
  SealedModel sealed{.seal = made.path, .bytes = 0, .digest = HT_TRY(digest_of(made.seal))};
  for (const auto& each : made.seal.files) sealed.bytes += each.bytes;
  return sealed;
}

Result<SealedModel> ModelAccess::seal(const Model& model, const SealOptions& options, const Seen& seen) {
  return without_bad_alloc([&]() -> Result<SealedModel> {
    return write_seal(HT_TRY(make_seal(model, options, seen)), *model.state_->port);
  });
}

Result<ModelDigests> Model::hash(const HashOptions& options) const {
  return without_bad_alloc([&]() -> Result<ModelDigests> {
    auto parts = HT_TRY(sealed_parts());
    if (parts.index) parts.files.push_back(&*parts.index);
    auto found = HT_TRY(measure_model({.catalog = *state_->catalog,
                                       .files = parts.files,
                                       .algorithm = options.algorithm,
                                       .max_splat_bytes = options.max_splat_bytes},
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
    const auto tensor = HT_TRY((*this)[name]);
    const Entry entry = tensor.entry();
    const Storage::FileBacked where{state_->paths[entry.file], entry.offset, entry.bytes};
    return validate_bytes(HT_TRY(tensor.bytes()), where, *state_->port);
  });
}

}  // namespace ht::inline v1
