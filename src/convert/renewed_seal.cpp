#include "convert/renewed_seal.hpp"

#include <htensor/base/utf8.hpp>
#include <utility>

#include "base/format_text.hpp"
#include "integrity/carried_seal.hpp"
#include "integrity/compare.hpp"
#include "integrity/seal_place.hpp"
#include "io/system_error.hpp"
#include "model/model_access.hpp"
#include "model/model_seal.hpp"

namespace ht::inline v1 {
namespace {

Error not_edited(const Error& found, const std::filesystem::path& seal) {
  return Error(ErrorCode::checksum_mismatch, "edited_file_matches_its_seal",
               format_text("{}; the file was not edited, because its seal '{}' would hide that",
                           found.message(), to_utf8(seal.filename().string())))
      .at_path(found.path())
      .at_tensor(found.tensor())
      .with_hint(
          "run `htensor verify` to list all bad ranges, and download the file again; `htensor seal "
          "--force` accepts the bytes as they are");
}

}  // namespace

Result<std::optional<RenewedSeal>> RenewedSeal::prepare(const Edit& edit) {
  auto found = find_seal(edit.path, edit.port);
  if (!found) {
    const auto code = found.error().code();
    // A damaged seal cannot hide anything, and verify reports it before and after.
    if (code == ErrorCode::not_sealed || code == ErrorCode::bad_seal) return std::nullopt;
    return fail(std::move(found).error());
  }
  const auto number = found->number_of(edit.path);
  if (!number) return std::nullopt;
  const EditedHeader header{.file = *number,
                            .source = edit.source,
                            .old_header_bytes = edit.header.size() - edit.moved_by,
                            .header = edit.header};
  std::vector<const io::Mapped*> files(found->paths.size());
  files[*number] = &edit.source;
  const bool reads_data = found->seal.algorithm != HashAlgorithm::crc64nvme;
  const auto compared =
      HT_TRY(compare_there(found->seal, files, found->paths, {.quick = !reads_data, .work = edit.work}));
  RenewedSeal renewed(found->place.seal, HT_TRY(encode_seal(found->seal)));
  if (const auto matches = compared.result(); !matches) {
    if (HT_TRY(is_carried_seal(found->seal, header, edit.work))) return renewed;
    return fail(not_edited(matches.error(), found->place.seal));
  }
  auto carried = carried_seal(std::move(found->seal), header, edit.work);
  if (!carried) {
    return fail(carried.error().path().empty() ? std::move(carried).error().at_path(renewed.path_.native())
                                               : std::move(carried).error());
  }
  renewed.file_.emplace(HT_TRY(io::AtomicFile::create(renewed.path_, io::IfExists::replace, edit.port)));
  HT_TRY(renewed.file_->write(0, HT_TRY(encode_seal(*carried))));
  HT_TRY(renewed.file_->sync());
  return renewed;
}

Result<void> RenewedSeal::commit() { return file_ ? std::move(*file_).commit() : Result<void>(); }

Result<std::optional<ReplacedSeal>> ReplacedSeal::find(const std::filesystem::path& opened,
                                                       const std::vector<std::filesystem::path>& files,
                                                       io::Port& port) {
  for (const auto& file : files) {
    if (const auto there = port.stat(file); !there) {
      if (there.error() == std::errc::no_such_file_or_directory) continue;
      return fail(
          io::system_error(ErrorCode::write_failed, "target_can_be_examined", "stat", file, there.error()));
    }
    auto path = HT_TRY(seal_that_names(file, port));
    if (!path) continue;
    ReplacedSeal replaced{.path = *std::move(path), .algorithm = std::nullopt};
    const bool is_of_these = replaced.path.lexically_normal() == seal_path(opened, port).lexically_normal() &&
                             ModelAccess::check_can_seal(opened, files, port);
    const auto seal = read_seal(replaced.path, port);
    if (is_of_these && seal) replaced.algorithm = seal->algorithm;
    return replaced;
  }
  return std::nullopt;
}

Result<void> remove_file(const std::filesystem::path& path, io::Port& port) {
  const auto done = port.unlink(path);
  if (done || done.error() == std::errc::no_such_file_or_directory) return {};
  return fail(Error(ErrorCode::write_failed, "old_files_can_be_removed", "cannot remove the file")
                  .at_path(path.native())
                  .because(done.error())
                  .with_hint("remove the file and try again"));
}

void RenewedSeal::roll_back(io::Port& port) noexcept {
  if (!file_) return;
  static_cast<void>(without_bad_alloc([&]() -> Result<void> {
    auto file = HT_TRY(io::AtomicFile::create(path_, io::IfExists::replace, port));
    HT_TRY(file.write(0, old_));
    return std::move(file).commit();
  }));
}

}  // namespace ht::inline v1
