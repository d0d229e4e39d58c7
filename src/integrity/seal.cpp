#include <algorithm>
#include <htensor/hash/digest.hpp>
#include <optional>
#include <set>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "format/shards/numbered_name.hpp"
#include "integrity/compare_chunks.hpp"
#include "integrity/found_seal.hpp"
#include "integrity/hash_ranges.hpp"
#include "integrity/model_seal.hpp"
#include "integrity/regions.hpp"
#include "integrity/seal_format.hpp"
#include "io/atomic_file.hpp"
#include "io/port/port.hpp"
#include "model/journal/set_replacement.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// Returns the name of each file in the seal. Names are checked before any byte is hashed.
Result<std::vector<std::string>> names_in_seal(const std::vector<Path>& paths, const SealLocation& location) {
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const auto& path : paths) {
    names.push_back(name_in_seal(path, location));
    if (const auto problem = sealed_name_problem(names.back()); !problem.empty()) {
      return fail(Error(ErrorCode::bad_name, "sealed_files_have_plain_names",
                        format_text("name cannot be stored in a seal: it {}", problem))
                      .at_path(path.native())
                      .with_hint("rename the file"));
    }
  }
  return names;
}

// Refuses to replace the seal of another model in the same folder, such as the model of another index.
Result<void> check_may_replace(const SealLocation& location, const std::vector<Path>& paths, io::Port& port) {
  const auto before = read_seal(location.seal, &port);
  if (!before) {
    const auto code = before.error().code();
    // The names in a damaged seal cannot be trusted, so the seal does not protect another model and may be
    // replaced. Without `force`, `ht::seal` refuses a damaged seal before it calls this function.
    if (code == ErrorCode::not_sealed || code == ErrorCode::bad_seal) return {};
    return fail(before.error());
  }
  std::set<Path> ours;
  for (const auto& path : paths) ours.insert(path.lexically_normal());
  for (const auto& path : sealed_paths(*before, location)) {
    if (ours.contains(path.lexically_normal()) || !HT_TRY(file_exists(path, port))) continue;
    return fail(
        Error(ErrorCode::already_exists, "existing_seal_is_of_this_model",
              format_text("is the seal of other files, such as '{}'", to_utf8(path.filename().string())))
            .at_path(location.seal.native())
            .with_hint("remove the seal if it is not needed, or move one of the models to another folder"));
  }
  return {};
}

// A seal with mismatches is evidence of damage; a new seal would hide it. `old_seal` is nullopt if the
// mismatch was found with the file's own checksum.
Error damage_error(const Error& found, ErrorCode code, const std::optional<Path>& old_seal) {
  const auto outcome = old_seal
                           ? format_text("the seal '{}' was kept", to_utf8(old_seal->filename().string()))
                           : "no seal was written";
  return Error(code, "sealed_files_are_undamaged", format_text("{}; {}", found.message(), outcome))
      .at_path(found.path())
      .at_tensor(found.tensor())
      .with_hint(
          "run `htensor verify` to list all bad ranges, and download the file again; --force seals the "
          "bytes as they are");
}

Result<void> check_undamaged(const Result<Verification>& compared, const std::optional<Path>& old_seal) {
  if (!compared) return fail(compared.error());
  const auto result = compared->result();
  if (!result) return fail(damage_error(result.error(), ErrorCode::checksum_mismatch, old_seal));
  return {};
}

// Computes the seal of a model's files, with digests of tensors if the options request them.
class ModelHasher {
 public:
  ModelHasher(const Catalog& catalog, const AllFiles& all, const HashOptions& options,
              KnownDigest known_digest)
      : catalog_(catalog), all_(all), options_(options), known_digest_(std::move(known_digest)) {
    seal_.algorithm = options.algorithm;
  }

  /// `names` are the file names in the seal. Algorithms other than CRC-64/NVME hash chunks only if
  /// `has_chunks`.
  Result<Seal> run(std::vector<std::string> names, bool has_chunks) {
    const auto empty_digest = HT_TRY(digest(options_.algorithm, {}));
    seal_.files.reserve(names.size());
    for (std::size_t i = 0; i < names.size(); ++i)
      seal_.files.push_back({std::move(names[i]), all_.files[i]->source().size(), empty_digest});
    if (options_.per_tensor) HT_TRY(list_tensors(empty_digest));
    HT_TRY(options_.algorithm == HashAlgorithm::crc64nvme ? combine_crcs() : hash_separately(has_chunks));
    return std::move(seal_);
  }

 private:
  Result<void> list_tensors(const Digest& empty_digest) {
    seal_.tensors.reserve(catalog_.size());
    for (const Entry& entry : catalog_) {
      if (options_.work.stop.stop_requested()) {
        return fail(
            Error(ErrorCode::cancelled, "work_is_completed",
                  format_text("stopped: {} of {} tensors listed", seal_.tensors.size(), catalog_.size())));
      }
      Seal::Tensor tensor{.name = std::string(entry.name),
                          .file = entry.file,
                          .offset = entry.offset,
                          .bytes = entry.bytes,
                          .digest = empty_digest};
      if (entry.is_splat()) {
        tensor.file = std::nullopt;
        tensor.offset = 0;
        HT_TRY(check_splat_size(entry));
        tensor.digest =
            HT_TRY(digest_of_splat(options_.algorithm, entry.splat, entry.bytes, options_.work.stop));
      }
      seal_.tensors.push_back(std::move(tensor));
    }
    return {};
  }

  [[nodiscard]] Result<void> check_splat_size(const Entry& entry) const {
    if (options_.algorithm == HashAlgorithm::crc64nvme || entry.bytes <= options_.max_splat_bytes) return {};
    return fail(
        Error(ErrorCode::budget_too_small, "splat_bytes_within_limit",
              format_text("tensor '{}': splat has {} bytes but the limit for {} is {}", to_utf8(entry.name),
                          entry.bytes, to_string(options_.algorithm), options_.max_splat_bytes))
            .at_tensor(entry.name)
            .with_hint("raise the limit with --max-splat, or use --algorithm crc64nvme, which does "
                       "not process every byte"));
  }

  void keep_chunks(std::span<const Digest> digests) {
    seal_.chunks.reserve(digests.size() * digest_bytes(options_.algorithm));
    for (const auto& digest : digests) {
      seal_.chunks.insert(seal_.chunks.end(), digest.bytes().begin(), digest.bytes().end());
    }
  }

  [[nodiscard]] Result<std::vector<Digest>> digests_of(std::span<const io::FileRange> ranges) const {
    if (!known_digest_)
      return hash_ranges({.files = all_.files, .algorithm = options_.algorithm}, ranges, options_.work);
    std::vector<Digest> digests;
    digests.reserve(ranges.size());
    for (const auto& range : ranges)
      digests.push_back(HT_TRY(known_digest_(all_.paths[range.file], range.offset, range.bytes)));
    return digests;
  }

  // Reads each byte once: all other digests are combined from the CRCs of the chunks.
  Result<void> combine_crcs() {
    const SealRegions regions(seal_);
    std::vector<io::FileRange> ranges;
    ranges.reserve(static_cast<std::size_t>(regions.chunks()));
    regions.each_chunk([&](const SealChunk& chunk) { ranges.push_back(chunk.range); });
    const auto digests = HT_TRY(digests_of(ranges));
    keep_chunks(digests);
    // The CRC from the beginning of the file to the beginning of each chunk.
    std::vector<std::uint64_t> before;
    before.reserve(ranges.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      auto& file = seal_.files[ranges[i].file].digest;
      before.push_back(file.crc64nvme());
      file = Digest(crc64nvme_combine(file.crc64nvme(), digests[i].crc64nvme(), ranges[i].bytes));
    }
    for (auto& tensor : seal_.tensors) {
      if (!tensor.file || tensor.bytes == 0) continue;
      const auto& file = seal_.files[*tensor.file];
      const std::uint64_t end = tensor.offset + tensor.bytes;
      const auto sum_at = [&](std::uint64_t offset) {
        return offset == file.bytes
                   ? file.digest.crc64nvme()
                   : before[static_cast<std::size_t>(regions.chunk_at(*tensor.file, offset).number)];
      };
      // CRCs are linear: combining the CRC up to the tensor's begin with the CRC up to its end cancels the
      // bytes before the tensor.
      tensor.digest = Digest(crc64nvme_combine(sum_at(tensor.offset), sum_at(end), tensor.bytes));
    }
    return {};
  }

  // For digests that cannot be combined: hashes whole files, tensors and chunks separately.
  Result<void> hash_separately(bool has_chunks) {
    std::vector<io::FileRange> ranges;
    std::vector<Digest*> targets;
    for (std::uint32_t i = 0; i < seal_.files.size(); ++i) {
      ranges.push_back({i, 0, seal_.files[i].bytes});
      targets.push_back(&seal_.files[i].digest);
    }
    for (auto& tensor : seal_.tensors) {
      if (!tensor.file || tensor.bytes == 0) continue;
      ranges.push_back({*tensor.file, tensor.offset, tensor.bytes});
      targets.push_back(&tensor.digest);
    }
    if (has_chunks)
      SealRegions(seal_).each_chunk([&](const SealChunk& chunk) { ranges.push_back(chunk.range); });
    const auto digests = HT_TRY(digests_of(ranges));
    for (std::size_t i = 0; i < targets.size(); ++i) *targets[i] = digests[i];
    keep_chunks(std::span(digests).subspan(targets.size()));
    return {};
  }

  const Catalog& catalog_;
  const AllFiles& all_;
  const HashOptions& options_;
  KnownDigest known_digest_;
  Seal seal_;
};

Result<SealedModel> write_seal(const UnwrittenSeal& unwritten, io::Port& port) {
  const auto bytes = HT_TRY(encode_seal(unwritten.seal));
  const auto digest = HT_TRY(digest_of(unwritten.seal));
  auto file = HT_TRY(io::AtomicFile::create(unwritten.path, IfExists::replace, port));
  HT_TRY(file.write(0, bytes));
  HT_TRY(std::move(file).commit());
  SealedModel sealed{.seal = unwritten.path, .bytes = 0, .digest = digest};
  for (const auto& each : unwritten.seal.files) sealed.bytes += each.bytes;
  return sealed;
}

Result<SealedModel> make_and_write_seal(const Model& model, const SealOptions& options) {
  return write_seal(HT_TRY(make_seal(model, options, {})), *ModelAccess::state(model).port);
}

// Fails if no seal can cover the model.
Result<void> check_is_sealable(const ModelState& state) {
  if (!state.has_path) {
    return fail(Error(ErrorCode::bad_state, "sealed_model_is_a_file",
                      "model was not opened by a path, so it has no seal file")
                    .at_path(state.opened.native())
                    .with_hint("write the model to a file first"));
  }
  if (state.is_merged) {
    return fail(Error(ErrorCode::bad_state, "sealed_model_has_one_path",
                      "model was opened together with other models, and a seal covers one model")
                    .at_path(state.opened.native())
                    .with_hint("seal each model by itself"));
  }
  return {};
}

}  // namespace

Result<AllFiles> all_files_of(const Model& model, io::Port& port) {
  HT_TRY(ModelAccess::check_all_exist(model));
  const auto& state = ModelAccess::state(model);
  AllFiles all{.files = state.mapped->files(), .paths = state.paths};
  if (state.index) {
    all.index = std::make_unique<io::MappedFile>(HT_TRY(open_member(*state.index, port)),
                                                 io::MapOptions{.faults = state.faults});
    all.files.push_back(all.index.get());
    all.paths.push_back(*state.index);
  }
  return all;
}

Result<SealedModel> seal(const Model& model, const SealOptions& options) {
  return without_bad_alloc([&]() -> Result<SealedModel> {
    const auto& state = ModelAccess::state(model);
    HT_TRY(check_seal_size(model, options.algorithm));
    const auto& member = state.index ? *state.index : state.paths.front();
    const bool is_of_set =
        state.index || state.paths.size() > 1 || parse_numbered_name(member.filename().string());
    const auto lock = HT_TRY(SetLock::recover_and_lock(is_of_set, member, *state.port));
    if (options.force) return make_and_write_seal(model, options);
    auto paths = state.paths;
    if (state.index) paths.push_back(*state.index);
    const auto found = find_seal(state.opened, state.formats, *state.port);
    const bool is_named = found && std::ranges::any_of(paths, [&](const Path& path) {
                            return found->number_of(path).has_value();
                          });
    // A seal of other files does not apply to these files, so there is nothing to compare. `make_seal`
    // refuses to replace that seal while the other files exist.
    if (found && !is_named) return make_and_write_seal(model, options);
    if (!found) {
      if (found.error().code() == ErrorCode::bad_seal) {
        return fail(damage_error(found.error(), ErrorCode::bad_seal, Path(found.error().path())));
      }
      if (found.error().code() != ErrorCode::not_sealed) return fail(found.error());
      HT_TRY(ModelAccess::check_all_exist(model));
      const auto files = state.mapped->files();
      const auto own =
          files.size() == 1 ? HT_TRY(own_checksum(files[0]->source(), state.formats)) : std::nullopt;
      if (own) {
        HT_TRY(check_undamaged(compare_with_own_checksum(*files[0], *own, {.work = options.work}),
                               std::nullopt));
      }
      return make_and_write_seal(model, options);
    }
    HT_TRY(check_may_replace(seal_location_of(state.opened, state.formats, *state.port), paths, *state.port));
    const auto check = [&] {
      return check_undamaged(compare(model, *found, {.work = options.work}), found->location.seal);
    };
    // With the same algorithm the new seal is compared with the old one, so all bytes are read only once.
    const bool is_comparable = found->seal.algorithm == options.algorithm;
    if (!is_comparable) HT_TRY(check());
    const auto unwritten = HT_TRY(make_seal(model, options, {}));
    if (is_comparable && unwritten.seal != found->seal) HT_TRY(check());
    return write_seal(unwritten, *state.port);
  });
}

Result<void> check_can_seal(const Path& opened, const std::vector<Path>& files,
                            std::span<const Format> formats, io::Port& port) {
  const auto location = seal_location_of(opened, formats, port);
  HT_TRY(check_may_replace(location, files, port));
  HT_TRY(names_in_seal(files, location));
  return {};
}

Result<void> check_seal_size(const Model& model, HashAlgorithm algorithm) {
  const auto& state = ModelAccess::state(model);
  HT_TRY(check_is_sealable(state));
  const auto all = HT_TRY(all_files_of(model, *state.port));
  std::vector<std::uint64_t> sizes;
  sizes.reserve(all.files.size());
  for (const auto* const file : all.files) sizes.push_back(file->source().size());
  const auto names =
      HT_TRY(names_in_seal(all.paths, seal_location_of(state.opened, state.formats, *state.port)));
  auto checked = check_seal_size(algorithm, *state.catalog, sizes, names);
  if (!checked) return fail(std::move(checked).error().at_path(state.opened.native()));
  return {};
}

Result<UnwrittenSeal> make_seal(const Model& model, const SealOptions& options,
                                const KnownDigest& known_digest) {
  const auto& state = ModelAccess::state(model);
  auto& port = *state.port;
  HT_TRY(check_is_sealable(state));
  auto location = seal_location_of(state.opened, state.formats, port);
  const auto all = HT_TRY(all_files_of(model, port));
  HT_TRY(check_may_replace(location, all.paths, port));
  auto names = HT_TRY(names_in_seal(all.paths, location));
  const HashOptions hashing{.algorithm = options.algorithm,
                            .per_tensor = true,
                            .work = options.work,
                            .max_splat_bytes = options.max_splat_bytes};
  auto seal = HT_TRY(without_bad_alloc(
      [&] { return ModelHasher(*state.catalog, all, hashing, known_digest).run(std::move(names), true); }));
  return UnwrittenSeal{std::move(location.seal), std::move(seal)};
}

Result<ModelDigests> hash(const Model& model, const HashOptions& options) {
  return without_bad_alloc([&]() -> Result<ModelDigests> {
    auto all = HT_TRY(all_files_of(model, *ModelAccess::state(model).port));
    const auto seal = HT_TRY(ModelHasher(model.catalog(), all, options, {})
                                 .run(std::vector<std::string>(all.paths.size()), false));
    ModelDigests digests{.digest = HT_TRY(digest_of(seal)), .files = {}, .tensors = {}};
    for (std::size_t i = 0; i < seal.files.size(); ++i)
      digests.files.push_back({std::move(all.paths[i]), seal.files[i].digest});
    for (const auto& tensor : seal.tensors) digests.tensors.push_back(tensor.digest);
    return digests;
  });
}

}  // namespace ht::inline v1
