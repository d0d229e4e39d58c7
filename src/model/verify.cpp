// Models held against their seals, whether they can still be opened or not.
#include <htensor/base/utf8.hpp>
#include <htensor/model/model.hpp>
#include <optional>

#include "base/format_text.hpp"
#include "integrity/compare.hpp"
#include "integrity/own_checksum.hpp"
#include "model/model_access.hpp"
#include "model/model_seal.hpp"
#include "model/model_state.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

struct OpenFiles {
  std::vector<std::optional<io::Mapped>> mapped;
  std::vector<const io::Mapped*> files;
};

// Missing files are null and reported with the others; `only` opens one file alone.
Result<OpenFiles> open_files(const std::vector<Path>& paths, std::optional<std::uint32_t> only,
                             io::Port& port) {
  OpenFiles open;
  open.mapped.resize(paths.size());
  open.files.resize(paths.size());
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    if (only && *only != i) continue;
    auto opened = io::Opened::open(paths[i], port);
    if (!opened) {
      if (opened.error().cause() == std::errc::no_such_file_or_directory) continue;
      return fail(std::move(opened).error());
    }
    open.mapped[i] = HT_TRY((*std::move(opened)).map());
    open.files[i] = &*open.mapped[i];
  }
  return open;
}

Result<Verification> held_against(const FoundSeal& found, std::span<const io::Mapped* const> files,
                                  const VerifyOptions& options) {
  auto answer = HT_TRY(found.of_more ? compare_there(found.seal, files, found.paths, options)
                                     : compare(found.seal, files, found.paths, options));
  answer.seal = found.place.seal;
  // A file and its seal may be renamed together. If every byte differs and the name does too, the seal
  // belongs to another file.
  const auto& file = found.place.file;
  if (answer.verdict == Verdict::replaced && file && found.seal.files.size() == 1 &&
      file->filename() != found.seal.files[0].name) {
    return fail(Error(ErrorCode::bad_seal, "seal_is_of_this_file",
                      format_text("is the seal of '{}': every byte range of '{}' differs",
                                  to_utf8(found.seal.files[0].name), to_utf8(file->filename().string())))
                    .at_path(found.place.seal.native())
                    .with_hint("move the seal back beside its own file, or replace it with `htensor seal "
                               "--force`"));
  }
  return answer;
}

// A `.ht` may have a checksum of its own; otherwise the file is not sealed.
Result<Verification> by_own_checksum(const Path& path, const Error& no_seal, const VerifyOptions& options,
                                     io::Port& port) {
  auto opened = HT_TRY(io::Opened::open(path, port));
  const auto file = HT_TRY(std::move(opened).map());
  const auto own = HT_TRY(own_checksum(io::file_of(file)));
  if (!own) return fail(no_seal);
  return verify_own(file, *own, options);
}

}  // namespace

Result<Verification> verify(const Path& path, const VerifyOptions& options) {
  return without_bad_alloc([&]() -> Result<Verification> {
    auto& port = options.port != nullptr ? *options.port : io::system_port();
    const auto found = find_seal(path, port);
    // A model that opens says which files belong to it.
    const auto model = Model::open(path, {.headers_only = true,
                                          .catalog_only = true,
                                          .max_header_bytes = options.max_header_bytes,
                                          .port = &port});
    if (!found) {
      if (found.error().code() != ErrorCode::not_sealed) return fail(found.error());
      const auto stat = port.stat(path);
      const bool is_folder = stat && stat->kind == io::FileKind::folder;
      if (!is_folder) return by_own_checksum(path, found.error(), options, port);
      if (!model || model->files().size() != 1) return fail(found.error());
      return by_own_checksum(model->files()[0], found.error(), options, port);
    }
    const auto stat = port.stat(path);
    std::optional<std::uint32_t> only;
    if (!stat || stat->kind != io::FileKind::folder) {
      const auto number = found->number_of(path);
      // One that neither is there nor was ever sealed.
      if (!number && !stat) HT_TRY(io::Opened::open(path, port));
      if (!number) return fail(number.error());
      if (found->of_more) only = *number;
    }
    if (model && !only) HT_TRY(model->check_all_sealed(*found));
    const auto open = HT_TRY(open_files(found->paths, only, port));
    return held_against(*found, open.files, options);
  });
}

Result<void> Model::check_all_sealed(const FoundSeal& found) const {
  for (const auto& path : state_->paths) HT_TRY(found.number_of(path));
  if (state_->index) HT_TRY(found.number_of(*state_->index));
  return {};
}

Result<void> Model::verify(const VerifyOptions& options) const {
  return without_bad_alloc([&]() -> Result<void> {
    auto& port = options.port != nullptr ? *options.port : *state_->port;
    const auto mapped = HT_TRY(all_files());
    const auto found = find_seal(state_->opened, port);
    if (!found) {
      if (found.error().code() != ErrorCode::not_sealed || mapped.size() != 1) return fail(found.error());
      const auto own = HT_TRY(own_checksum(io::file_of(*mapped[0])));
      if (!own) return fail(found.error());
      return HT_TRY(verify_own(*mapped[0], *own, options)).result();
    }
    HT_TRY(check_all_sealed(*found));
    return HT_TRY(ModelAccess::compare(*this, *found, options)).result();
  });
}

Result<Verification> ModelAccess::compare(const Model& model, const FoundSeal& found,
                                          const VerifyOptions& options) {
  const auto& state = *model.state_;
  const auto mapped = HT_TRY(model.all_files());
  // The open files are the ones in use, whatever their paths lead to by now.
  std::vector<const io::Mapped*> files(found.paths.size());
  for (std::size_t i = 0; i < mapped.size(); ++i) {
    if (const auto number = found.number_of(state.paths[i])) files[*number] = mapped[i];
  }
  std::optional<io::Mapped> index;
  const auto index_number = state.index ? found.number_of(*state.index) : Result<std::uint32_t>(0);
  if (state.index && index_number) {
    auto& port = options.port != nullptr ? *options.port : *state.port;
    auto opened = HT_TRY(io::Opened::open(*state.index, port));
    index = HT_TRY(std::move(opened).map());
    files[*index_number] = &*index;
  }
  return held_against(found, files, options);
}

}  // namespace ht::inline v1
