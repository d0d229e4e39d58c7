// Compares models with their seals. Also works for models that can no longer be opened.
#include <htensor/integrity/seal.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <htensor/base/fault.hpp>
#include <optional>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "integrity/compare_chunks.hpp"
#include "integrity/found_seal.hpp"
#include "integrity/hash_ranges.hpp"
#include "integrity/model_seal.hpp"
#include "io/file_source.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// One row for each Verdict, in the order of the enum.
struct VerdictFacts {
  std::string_view name;
  ErrorCode code = ErrorCode::checksum_mismatch;
  std::string_view summary = "checksum mismatch";
};
constexpr std::array<VerdictFacts, 7> verdicts{{
    {"intact"},
    {"headers_match"},
    {"damaged"},
    {"grown", ErrorCode::trailing_bytes, "has extra bytes"},
    {"truncated", ErrorCode::truncated, "is truncated: bytes missing"},
    {"replaced", ErrorCode::checksum_mismatch,
     "differs from its seal in every byte range: checksum mismatch"},
    {"missing", ErrorCode::missing_shard, "does not exist: bytes missing"},
}};

const VerdictFacts& facts_of(Verification::Verdict verdict) {
  return verdicts[static_cast<std::size_t>(verdict)];
}

// Returns a text such as "the header, bytes 0–79".
std::string range_text(const Verification::BadRange& range) {
  return format_text("{}, {}",
                     range.part == Verification::Part::tensor
                         ? format_text("tensor '{}'", to_utf8(range.tensor))
                         : format_text("the {}", to_string(range.part)),
                     byte_range_text(range.offset, range.bytes));
}

// Opens the files of the seal; if `requested` has a value, only the file with this number. Files that are
// missing or not requested are null.
Result<io::Sources> open_files(const FoundSeal& found, std::optional<std::uint32_t> requested,
                               io::Port& port) {
  io::Sources sources(found.paths.size());
  for (std::uint32_t i = 0; i < sources.size(); ++i) {
    if (requested && *requested != i) continue;
    auto opened = io::FileSource::open(found.view.current_path(found.paths[i]), port);
    if (opened) {
      sources[i] = *std::move(opened);
    } else if (!is_missing(opened.error().cause())) {
      return fail(std::move(opened).error());
    }
  }
  return sources;
}

// The file with the number `requested` is reported if it is missing.
Result<Verification> compare_with_seal(const FoundSeal& found, io::MappedFiles files,
                                       const VerifyOptions& options,
                                       std::optional<std::uint32_t> requested = std::nullopt) {
  auto verification =
      HT_TRY(compare(found.seal, files, found.paths, options,
                     found.covers_other_files ? MissingFiles::skipped : MissingFiles::reported, requested));
  verification.seal = found.location.seal;
  // A file and its seal may be renamed together. If no chunk matches and the name differs too, the seal
  // belongs to another file.
  const auto& file = found.location.file;
  if (verification.verdict == Verification::Verdict::replaced && file && found.seal.files.size() == 1 &&
      file->filename() != found.seal.files[0].name) {
    return fail(Error(ErrorCode::bad_seal, "seal_belongs_to_this_file",
                      format_text("is the seal of '{}': every byte range of '{}' differs",
                                  to_utf8(found.seal.files[0].name), to_utf8(file->filename().string())))
                    .at_path(found.location.seal.native())
                    .with_hint("move the seal back beside its own file, or replace it with `htensor seal "
                               "--force`"));
  }
  return verification;
}

// Verifies a file by the checksum in its own header.
Result<Verification> verify_by_own_checksum(io::MappedFile& file, std::span<const Format> formats,
                                            const Error& error_if_no_checksum, const VerifyOptions& options) {
  const auto own = HT_TRY(own_checksum(file.source(), formats));
  if (!own) return fail(error_if_no_checksum);
  return compare_with_own_checksum(file, *own, options);
}

Result<void> check_all_sealed(const ModelState& state, const FoundSeal& found) {
  for (const auto& path : state.paths) HT_TRY(found.number_of(path));
  if (state.index) HT_TRY(found.number_of(*state.index));
  return {};
}

Error unsealed(std::string message) {
  return Error(ErrorCode::not_sealed, "tensor_is_sealed", std::move(message))
      .with_hint("if the file is known to be good, seal it with `htensor seal`");
}

// Returns the name and digest of these bytes if the file has a checksum of its own.
Result<Seal::Tensor> own_tensor_for(const Storage::FileBacked& range, const io::Source& file,
                                    std::span<const Format> formats) {
  const auto& path = range.path;
  const auto own = HT_TRY(own_checksum(file, formats));
  if (own && own->offset == range.offset && own->bytes == range.bytes)
    return Seal::Tensor{.name = path.stem().string(), .file = {}, .digest = Digest(own->crc)};
  return fail(unsealed("no seal covers this tensor").at_path(path.native()));
}

// Returns the tensor of the seal with these bytes; nullopt if there is no seal or it does not list them.
Result<std::optional<Seal::Tensor>> sealed_tensor_for(const Storage::FileBacked& range,
                                                      const Result<FoundSeal>& found) {
  if (!found && found.error().code() != ErrorCode::not_sealed) return fail(found.error());
  const auto number = found ? found->number_of(range.path) : fail(found.error());
  if (!number) return std::nullopt;
  for (const auto& tensor : found->seal.tensors) {
    if (tensor.file == *number && tensor.offset == range.offset && tensor.bytes == range.bytes) return tensor;
  }
  return std::nullopt;
}

// Returns the sealed name and digest of a tensor of a model. Looks first in the seal of the opened path,
// which may also list files in other folders; then in the seal of the tensor's file, because each of several
// models that were opened together has its own seal; then in the header of the file.
Result<Seal::Tensor> sealed_tensor_for(const Storage::FileBacked& range, const ModelState& state,
                                       const io::Source& file) {
  auto sealed = HT_TRY(sealed_tensor_for(range, find_seal(state, *state.port)));
  if (!sealed && state.has_path && range.path != state.opened)
    sealed = HT_TRY(sealed_tensor_for(range, find_seal(range.path, state.formats, *state.port)));
  if (sealed) return *std::move(sealed);
  return own_tensor_for(range, file, state.formats);
}

// Compares all bytes outside tensors with the model's seal. This verifies splats: their patterns are in the
// header, so the expanded bytes are not hashed.
Result<void> verify_headers(const ModelState& state, const WorkOptions& work) {
  const auto found = HT_TRY(find_seal(state, *state.port));
  HT_TRY(check_all_sealed(state, found));
  const auto open = state.mapped->files();
  std::vector<io::MappedFile*> files(found.paths.size());
  for (std::size_t i = 0; i < open.size(); ++i) files[HT_TRY(found.number_of(state.paths[i]))] = open[i];
  // Skips missing files: the index is not open here, and a missing external file has no header to compare.
  return HT_TRY(compare(found.seal, files, found.paths, {.quick = true, .work = work}, MissingFiles::skipped))
      .result();
}

// Computes the digest of a tensor's bytes with the given algorithm.
using DigestOf = std::function<Result<Digest>(HashAlgorithm)>;

// Returns the function for bytes in memory, which may be mapped.
DigestOf digest_of_memory(Bytes bytes, const WorkOptions& work = {}) {
  return [bytes, work](HashAlgorithm algorithm) {
    return guarded(bytes, [&] { return digest_in_memory(algorithm, bytes, work); });
  };
}

// `range` is the location of the bytes in their file.
Result<void> validate_bytes(const DigestOf& compute_digest, const Storage::FileBacked& range,
                            const Seal::Tensor& sealed) {
  const auto found = HT_TRY(compute_digest(sealed.digest.algorithm()));
  if (found == sealed.digest) return {};
  return fail(Error(ErrorCode::checksum_mismatch, "tensor_matches_its_checksum",
                    format_text("checksum mismatch in tensor '{}', {}", to_utf8(sealed.name),
                                byte_range_text(range.offset, range.bytes)))
                  .at_path(range.path.native())
                  .at_tensor(sealed.name)
                  .at_offset(range.offset)
                  .with_hint("download the file again"));
}

}  // namespace

std::string_view to_string(Verification::Verdict verdict) noexcept { return facts_of(verdict).name; }

std::string_view to_string(Verification::Part part) noexcept {
  switch (part) {
    case Verification::Part::header: return "header";
    case Verification::Part::tensor: return "tensor";
    case Verification::Part::gap: return "gap";
    case Verification::Part::tail: return "tail";
  }
  return "unknown";
}

Result<void> Verification::result() const {
  if (is_intact()) return {};
  if (bad.empty()) {
    return fail(Error(facts_of(verdict).code, "files_are_intact", "differs from its seal")
                    .with_hint("download the file again"));
  }
  constexpr std::size_t max_ranges = 10;
  const auto found = std::ranges::find(bad, file, &BadRange::file);
  const auto begin = found == bad.end() ? std::size_t{0} : static_cast<std::size_t>(found - bad.begin());
  const auto& first = bad[begin];
  // A missing file of 0 bytes has no range to name.
  const bool is_empty_file = verdict == Verdict::missing && first.bytes == 0;
  std::string message(is_empty_file ? "does not exist" : facts_of(verdict).summary);
  for (std::size_t i = is_empty_file ? 1 : 0; i < std::min(bad.size(), max_ranges); ++i) {
    const auto& range = bad[(begin + i) % bad.size()];
    const std::string_view separator = i == 0 ? " in" : is_empty_file && i == 1 ? "; other bad ranges:" : ",";
    message += format_text("{} {}", separator, range_text(range));
    if (range.file != first.file) message += format_text(" of '{}'", to_utf8(range.file.string()));
  }
  if (bad.size() > max_ranges) {
    const std::size_t others = bad.size() - max_ranges;
    message += format_text(" and {} more range{}", others, others == 1 ? "" : "s");
  }
  return fail(Error(facts_of(verdict).code, "files_are_intact", std::move(message))
                  .at_path(first.file.native())
                  .at_tensor(first.tensor)
                  .at_offset(first.offset)
                  .with_hint("download the file again; `htensor verify` lists all bad ranges"));
}

Result<Verification> compare_with_seal(const Path& path, const VerifyOptions& options) {
  return without_bad_alloc([&]() -> Result<Verification> {
    auto& port = options.port != nullptr ? *options.port : io::system_port();
    const auto found = find_seal(path, options.formats, port);
    // If the model can be opened, it lists the files that belong to it.
    const auto model = Model::open(path, {.formats = options.formats,
                                          .allow_incomplete = true,
                                          .catalog_only = true,
                                          .max_header_bytes = options.max_header_bytes,
                                          .port = &port});
    const auto stat = port.stat(path);
    const bool is_folder = stat && stat->kind == io::FileKind::folder;
    if (!found) {
      const bool is_one_file = !is_folder || (model && model->files().size() == 1);
      if (found.error().code() != ErrorCode::not_sealed || !is_one_file) return fail(found.error());
      io::MappedFile file(HT_TRY(open_member(is_folder ? model->files()[0] : path, port)));
      return verify_by_own_checksum(file, options.formats, found.error(), options);
    }
    std::optional<std::uint32_t> requested;
    if (!is_folder) {
      const auto number = found->number_of(path);
      // The path neither exists nor is in the seal: report the failed open.
      if (!number && !stat) HT_TRY(open_member(path, port));
      if (!number) return fail(number.error());
      if (found->covers_other_files) requested = *number;
    }
    if (model && !requested) HT_TRY(check_all_sealed(ModelAccess::state(*model), *found));
    const io::MappedStrategy open(HT_TRY(open_files(*found, requested, port)));
    return compare_with_seal(*found, open.files(), options, requested);
  });
}

Result<void> verify(const Model& model, const VerifyOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto& state = ModelAccess::state(model);
    auto& port = options.port != nullptr ? *options.port : *state.port;
    HT_TRY(ModelAccess::check_all_exist(model));
    const auto found = find_seal(state, port);
    if (!found) {
      const auto files = state.mapped->files();
      if (found.error().code() != ErrorCode::not_sealed || files.size() != 1) return fail(found.error());
      return HT_TRY(verify_by_own_checksum(*files[0], state.formats, found.error(), options)).result();
    }
    HT_TRY(check_all_sealed(state, *found));
    return HT_TRY(compare(model, *found, options)).result();
  });
}

Result<Verification> compare(const Model& model, const FoundSeal& found, const VerifyOptions& options) {
  // Compares the files that the model has open, even if their paths name other files by now.
  const auto all =
      HT_TRY(all_files_of(model, options.port != nullptr ? *options.port : *ModelAccess::state(model).port));
  std::vector<io::MappedFile*> files(found.paths.size());
  for (std::size_t i = 0; i < all.files.size(); ++i) {
    if (const auto number = found.number_of(all.paths[i])) files[*number] = all.files[i];
  }
  return compare_with_seal(found, files, options);
}

Result<void> verify(const Storage& storage) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto* const range = std::get_if<Storage::FileBacked>(&storage.origin());
    if (range == nullptr)
      return fail(unsealed("the tensor's memory does not come from a file, so no seal covers it")
                      .with_hint("pass a tensor of a model that was opened by its path"));
    auto& port = io::system_port();
    const auto sealed = HT_TRY(sealed_tensor_for(*range, find_seal(range->path, {}, port)));
    return validate_bytes(
        digest_of_memory(storage.bytes()), *range,
        sealed ? *sealed : HT_TRY(own_tensor_for(*range, *HT_TRY(open_member(range->path, port)), {})));
  });
}

Result<void> verify(const AnyTensor& tensor, const WorkOptions& work) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto& state = ModelAccess::state(tensor);
    const Entry entry = tensor.entry();
    if (entry.is_splat()) {
      HT_TRY(ModelAccess::check_has_data(state));
      auto verified = verify_headers(state, work);
      if (!verified) return fail(std::move(verified).error().at_tensor(entry.name));
      return {};
    }
    const Storage::FileBacked where{state.paths[entry.file], entry.offset, entry.bytes};
    HT_TRY(ModelAccess::check_available(state, entry));
    const auto sealed = HT_TRY(sealed_tensor_for(where, state, state.mapped->file(entry.file).source()));
    if (ModelAccess::is_resident(tensor) || state.mapped->file(entry.file).map_for_use_in_place()) {
      // A digest covers the whole tensor, even if this is a slice.
      const auto storage = HT_TRY(ModelAccess::whole(tensor).storage());
      return validate_bytes(digest_of_memory(storage.bytes(), work), where, sealed);
    }
    const auto digest_of_file = [&](HashAlgorithm algorithm) -> Result<Digest> {
      io::MappedFile* const file = &state.mapped->file(entry.file);
      const io::FileRange range{0, entry.offset, entry.bytes};
      return HT_TRY(hash_ranges({.files = std::span(&file, 1), .algorithm = algorithm}, std::span(&range, 1),
                                work))
          .front();
    };
    return validate_bytes(digest_of_file, where, sealed);
  });
}

}  // namespace ht::inline v1
