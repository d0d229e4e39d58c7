#include "convert/copy/commit.hpp"
#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "integrity/carried_seal.hpp"
#include "integrity/compare_chunks.hpp"
#include "integrity/found_seal.hpp"
#include "io/file_source.hpp"
#include "io/port/pending_port.hpp"
#include "model/journal/set_replacement.hpp"

#include <algorithm>
#include <utility>

namespace ht::inline v1 {
namespace {

Error not_edited(const Error& found, const std::filesystem::path& seal) {
  return Error(ErrorCode::checksum_mismatch, "edited_file_matches_its_seal",
               format_text("{}; the file was not edited, because a new seal '{}' would hide the damage",
                           found.message(), to_utf8(seal.filename().string())))
      .at_path(found.path())
      .at_tensor(found.tensor())
      .with_hint(
          "run `htensor verify` to list all bad ranges, and download the file again; `htensor seal "
          "--force` accepts the bytes as they are");
}

// Returns the bytes of a seal, which may be damaged; nullopt if the file does not exist.
Result<std::optional<std::vector<std::byte>>> bytes_of_seal(const std::filesystem::path& path,
                                                            io::Port& port) {
  if (const auto seal_stat = port.stat(path); !seal_stat && is_missing(seal_stat.error()))
    return std::nullopt;
  const auto file = HT_TRY(io::FileSource::open(path, port));
  if (file->size() > Seal::max_bytes) {
    return fail(Error(ErrorCode::header_too_large, "seal_size_within_limit",
                      format_text("seal has {} bytes but the limit is {}", file->size(), Seal::max_bytes))
                    .at_path(path.native())
                    .with_hint("remove the file if it is not a seal"));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(file->size()));
  HT_TRY(file->read(0, bytes));
  return bytes;
}

// Returns the seal that lists the file; nullopt if there is none. A damaged seal is left alone: verify
// reports it before and after the change.
Result<std::optional<FoundSeal>> seal_to_renew(const std::filesystem::path& file,
                                               std::span<const Format> formats, io::Port& port) {
  auto found = find_seal(file, formats, port);
  if (!found) {
    const auto code = found.error().code();
    if (code == ErrorCode::not_sealed || code == ErrorCode::bad_seal) return std::nullopt;
    return fail(std::move(found).error());
  }
  if (!found->number_of(file)) return std::nullopt;
  return *std::move(found);
}

// Whether all files of the seal are in the list.
bool names_only(const Seal& seal, const std::filesystem::path& folder,
                const std::vector<std::filesystem::path>& files) {
  return std::ranges::all_of(seal.files, [&](const Seal::File& sealed) {
    const auto path = (folder / sealed.name).lexically_normal();
    return std::ranges::any_of(files, [&](const auto& file) { return file.lexically_normal() == path; });
  });
}

}  // namespace

Result<std::optional<NewSeal>> NewSeal::prepare(const Edit& edit) {
  auto found = HT_TRY(seal_to_renew(edit.path, edit.formats, edit.port));
  if (!found) return std::nullopt;
  const std::uint32_t number = HT_TRY(found->number_of(edit.path));
  const ReplacedHeader header{.file = number,
                              .source = edit.source,
                              .old_header_bytes = edit.header.size() - edit.moved_by,
                              .header = edit.header};
  std::vector<io::MappedFile*> files(found->paths.size());
  files[number] = &edit.source;
  const bool reads_data = found->seal.algorithm != HashAlgorithm::crc64nvme;
  const auto compared = HT_TRY(compare(found->seal, files, found->paths,
                                       {.quick = !reads_data, .work = edit.work}, MissingFiles::skipped));
  NewSeal renewed(found->location.seal);
  if (const auto matches = compared.result(); !matches) {
    if (HT_TRY(is_carried_seal(found->seal, header, edit.work))) return renewed;
    return fail(not_edited(matches.error(), found->location.seal));
  }
  auto carried = carried_seal(std::move(found->seal), header, edit.work);
  if (!carried) {
    return fail(carried.error().path().empty() ? std::move(carried).error().at_path(renewed.path_.native())
                                               : std::move(carried).error());
  }
  HT_TRY(renewed.write(HT_TRY(encode_seal(*carried)), edit.port));
  return renewed;
}

Result<NewSeal> NewSeal::of_new_files(NewFiles files, const SealOptions& options, const KnownDigest& seen) {
  io::PendingPort pending(files.files, files.removed, files.port);
  // The header limit is for untrusted files; these files were just written.
  constexpr auto any_header = std::uint64_t{1} << 40;
  const auto model = HT_TRY(Model::open(files.opened, {.dtypes = std::move(files.dtypes),
                                                       .formats = std::move(files.formats),
                                                       .max_header_bytes = any_header,
                                                       .port = &pending}));
  HT_TRY(check_seal_size(model, options.algorithm));
  const auto new_seal = HT_TRY(make_seal(model, options, seen));
  NewSeal renewed(files.seal.value_or(new_seal.path));
  HT_TRY(renewed.write(HT_TRY(encode_seal(new_seal.seal)), files.port));
  return renewed;
}

Result<void> NewSeal::write(Bytes seal, io::Port& port) {
  old_ = HT_TRY(bytes_of_seal(path_, port));
  file_.emplace(HT_TRY(io::AtomicFile::create(path_, IfExists::replace, port)));
  HT_TRY(file_->write(0, seal));
  return file_->sync();
}

Result<void> commit_file(io::AtomicFile& file, NewSeal* seal) {
  auto* const seal_file = seal != nullptr ? seal->file() : nullptr;
  if (seal_file == nullptr) {
    HT_TRY(file.put_in_place());
    return std::move(file).finish();
  }
  HT_TRY(seal_file->put_in_place());
  // Without this fsync, a loss of power could keep the new file and lose its seal.
  auto placed = seal_file->sync_folder();
  if (placed) placed = file.put_in_place();
  if (!placed) {
    seal->roll_back();
    return placed;
  }
  HT_TRY(std::move(file).finish());
  return std::move(*seal_file).close();
}

Result<std::optional<ReplacedSeal>> ReplacedSeal::find(const std::filesystem::path& opened,
                                                       const std::vector<std::filesystem::path>& files,
                                                       std::span<const Format> formats, io::Port& port) {
  for (const auto& file : files) {
    const auto found = HT_TRY(seal_to_renew(file, formats, port));
    if (!found) continue;
    ReplacedSeal replaced{.path = found->location.seal, .algorithm = std::nullopt};
    const auto sealable = check_can_seal(opened, files, formats, port);
    // The old seal stays unchanged if the path of the new seal is taken by the seal of other files
    // (`already_exists`), or if a seal cannot store the name of a file (`bad_name`).
    if (!sealable && sealable.error().code() != ErrorCode::already_exists &&
        sealable.error().code() != ErrorCode::bad_name) {
      return fail(sealable.error());
    }
    const bool is_in_place =
        replaced.path.lexically_normal() == seal_path(opened, &port, formats).lexically_normal();
    replaced.path_changes = !is_in_place && names_only(found->seal, replaced.path.parent_path(), files);
    if (sealable && (is_in_place || replaced.path_changes)) replaced.algorithm = found->seal.algorithm;
    return replaced;
  }
  return std::nullopt;
}

void NewSeal::roll_back() noexcept {
  auto& port = file_->port();
  static_cast<void>(without_bad_alloc([&]() -> Result<void> {
    if (!old_) return remove_file(path_, port);
    auto file = HT_TRY(io::AtomicFile::create(path_, IfExists::replace, port));
    HT_TRY(file.write(0, *old_));
    return std::move(file).commit();
  }));
}

}  // namespace ht::inline v1
