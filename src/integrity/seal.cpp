#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <htensor/integrity/seal.hpp>
#include <set>

#include "base/format_text.hpp"
#include "format/shards/numbered_name.hpp"
#include "integrity/found_seal.hpp"
#include "integrity/measure.hpp"
#include "integrity/model_digests.hpp"
#include "integrity/model_seal.hpp"
#include "integrity/own_checksum.hpp"
#include "integrity/seal_place.hpp"
#include "integrity/seal_size.hpp"
#include "integrity/validate.hpp"
#include "io/atomic_file.hpp"
#include "model/model_access.hpp"
#include "model/set_replacement.hpp"

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

// Every file that belongs to the model, its index among them.
struct SealedParts {
  std::vector<io::MappedFile*> files;
  std::vector<Path> paths;
  std::unique_ptr<io::MappedFile> index;
};

Result<SealedParts> sealed_parts(const Model& model) {
  HT_TRY(ModelAccess::check_all_there(model));
  const auto& state = ModelAccess::state(model);
  SealedParts parts{.files = state.mapped->files(), .paths = state.paths, .index = nullptr};
  if (state.index) {
    parts.index = std::make_unique<io::MappedFile>(HT_TRY(open_member(*state.index, *state.port)),
                                                   io::MapOptions{.faults = state.faults});
    parts.files.push_back(parts.index.get());
    parts.paths.push_back(*state.index);
  }
  return parts;
}

Result<SealedModel> seal_as_it_is(const Model& model, const SealOptions& options) {
  return write_seal(HT_TRY(make_seal(model, options, {})), *ModelAccess::state(model).port);
}

// A model without files has no place for a seal.
Result<void> check_has_files(const ModelState& state) {
  if (state.has_path) return {};
  return fail(Error(ErrorCode::bad_state, "sealed_model_is_a_file",
                    "model was not opened by a path, and a seal lies beside a file")
                  .at_path(state.opened.native())
                  .with_hint("write the model to a file first"));
}

}  // namespace

Result<SealedModel> seal(const Model& model, const SealOptions& options) {
  return without_bad_alloc([&]() -> Result<SealedModel> {
    const auto& state = ModelAccess::state(model);
    HT_TRY(check_seal_size(model, options.algorithm));
    const auto& member = state.index ? *state.index : state.paths.front();
    const bool is_of_set =
        state.index || state.paths.size() > 1 || parse_numbered_name(member.filename().string());
    const auto lock = HT_TRY(SetLock::acquire_if(is_of_set, member, *state.port));
    if (options.force) return seal_as_it_is(model, options);
    auto paths = state.paths;
    if (state.index) paths.push_back(*state.index);
    const auto found = find_seal(state.opened, state.formats, *state.port);
    const bool is_named = found && std::ranges::any_of(paths, [&](const Path& path) {
                            return found->number_of(path).has_value();
                          });
    // The seal of files that do not exist any more says nothing about these.
    if (found && !is_named) return seal_as_it_is(model, options);
    if (!found) {
      if (found.error().code() == ErrorCode::bad_seal) {
        return fail(keeps_seal(found.error(), ErrorCode::bad_seal, found.error().path()));
      }
      if (found.error().code() != ErrorCode::not_sealed) return fail(found.error());
      HT_TRY(ModelAccess::check_all_there(model));
      const auto files = state.mapped->files();
      const auto own =
          files.size() == 1 ? HT_TRY(own_checksum(files[0]->source(), state.formats)) : std::nullopt;
      if (own) {
        HT_TRY(check_undamaged(verify_own(*files[0], *own, {.work = options.work}), state.opened));
      }
      return seal_as_it_is(model, options);
    }
    HT_TRY(check_may_replace(place_of_seal(state.opened, state.formats, *state.port), paths, *state.port));
    const auto check = [&] {
      return check_undamaged(compare(model, *found, {.work = options.work}), found->place.seal);
    };
    // With the same algorithm the new seal shows by itself whether the files match the old one, and all bytes
    // are read once.
    const bool is_comparable = found->seal.algorithm == options.algorithm;
    if (!is_comparable) HT_TRY(check());
    const auto made = HT_TRY(make_seal(model, options, {}));
    if (is_comparable && made.seal != found->seal) HT_TRY(check());
    return write_seal(made, *state.port);
  });
}

Result<void> check_can_seal(const Path& opened, const std::vector<Path>& files,
                            std::span<const Format> formats, io::Port& port) {
  const auto place = place_of_seal(opened, formats, port);
  HT_TRY(check_may_replace(place, files, port));
  HT_TRY(names_in_seal(files, place));
  return {};
}

// Before any data is read.
Result<void> check_seal_size(const Model& model, HashAlgorithm algorithm) {
  const auto& state = ModelAccess::state(model);
  if (state.is_merged) return {};  // has no seal
  HT_TRY(check_has_files(state));
  const auto parts = HT_TRY(sealed_parts(model));
  std::vector<std::uint64_t> sizes;
  sizes.reserve(parts.files.size());
  for (const auto* const file : parts.files) sizes.push_back(file->source().size());
  const auto names =
      HT_TRY(names_in_seal(parts.paths, place_of_seal(state.opened, state.formats, *state.port)));
  auto checked = check_seal_size(algorithm, *state.catalog, sizes, names);
  if (!checked) return fail(std::move(checked).error().at_path(state.opened.native()));
  return {};
}

Result<MadeSeal> make_seal(const Model& model, const SealOptions& options, const SeenDigest& seen) {
  const auto& state = ModelAccess::state(model);
  auto& port = *state.port;
  HT_TRY(check_has_files(state));
  if (state.is_merged) {
    return fail(Error(ErrorCode::bad_state, "sealed_model_has_one_path",
                      "model was opened together with other models, and a seal covers one model")
                    .at_path(state.opened.native())
                    .with_hint("seal each model by itself"));
  }
  auto place = place_of_seal(state.opened, state.formats, port);
  const auto parts = HT_TRY(sealed_parts(model));
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
  auto seal = HT_TRY(make_seal({.catalog = *state.catalog,
                                .files = parts.files,
                                .algorithm = options.algorithm,
                                .measured = std::move(measured),
                                .max_splat_bytes = options.max_splat_bytes},
                               std::move(names), options.work));
  return MadeSeal{std::move(place.seal), std::move(seal)};
}

Result<SealedModel> write_seal(const MadeSeal& made, io::Port& port) {
  const auto bytes = HT_TRY(encode_seal(made.seal));
  const auto digest = HT_TRY(digest_of(made.seal));
  auto file = HT_TRY(io::AtomicFile::create(made.path, io::IfExists::replace, port));
  HT_TRY(file.write(0, bytes));
  HT_TRY(std::move(file).commit());
  SealedModel sealed{.seal = made.path, .bytes = 0, .digest = digest};
  for (const auto& each : made.seal.files) sealed.bytes += each.bytes;
  return sealed;
}

Result<ModelDigests> hash(const Model& model, const HashOptions& options) {
  return without_bad_alloc([&]() -> Result<ModelDigests> {
    auto parts = HT_TRY(sealed_parts(model));
    auto found = HT_TRY(measure_model({.catalog = model.catalog(),
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

Result<void> validate(const AnyTensor& tensor) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto& state = ModelAccess::state(tensor);
    const Entry entry = tensor.entry();
    const Storage::FileBacked where{state.paths[entry.file], entry.offset, entry.bytes};
    HT_TRY(ModelAccess::check_is_there(state, entry));
    if (ModelAccess::is_resident(tensor) || state.mapped->file(entry.file).can_use_in_place()) {
      // A digest covers the whole tensor, also where this is a slice.
      const auto storage = HT_TRY(ModelAccess::whole(tensor).storage());
      return validate_bytes(digest_of_memory(storage.bytes()), where, state.formats, *state.port);
    }
    const auto digest_of_file = [&](HashAlgorithm algorithm) -> Result<Digest> {
      io::MappedFile* const file = &state.mapped->file(entry.file);
      const io::FileRange range{0, entry.offset, entry.bytes};
      return HT_TRY(measure({.files = std::span(&file, 1), .algorithm = algorithm}, std::span(&range, 1), {}))
          .front();
    };
    return validate_bytes(digest_of_file, where, state.formats, *state.port);
  });
}

}  // namespace ht::inline v1
