// Models compared with their seals, whether they can still be opened or not.
#include <htensor/base/utf8.hpp>
#include <htensor/integrity/verify.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <optional>

#include "base/format_text.hpp"
#include "integrity/compare.hpp"
#include "integrity/found_seal.hpp"
#include "integrity/model_seal.hpp"
#include "integrity/own_checksum.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

struct OpenFiles {
  std::vector<std::unique_ptr<io::MappedFile>> owned;
  std::vector<io::MappedFile*> files;
};

// Missing files are null and reported with the others; `only` opens one file alone.
Result<OpenFiles> open_files(const FoundSeal& found, std::optional<std::uint32_t> only, io::Port& port) {
  const auto& paths = found.paths;
  OpenFiles open;
  open.files.resize(paths.size());
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    if (only && *only != i) continue;
    auto opened = io::FileSource::open(found.view.where(paths[i]), port);
    if (!opened) {
      if (opened.error().cause() == std::errc::no_such_file_or_directory) continue;
      return fail(std::move(opened).error());
    }
    open.owned.push_back(std::make_unique<io::MappedFile>(*std::move(opened)));
    open.files[i] = open.owned.back().get();
  }
  return open;
}

Result<Verification> held_against(const FoundSeal& found, io::MappedFiles files,
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
  io::MappedFile file(HT_TRY(open_member(path, port)));
  const auto own = HT_TRY(own_checksum(file.source(), options.formats));
  if (!own) return fail(no_seal);
  return verify_own(file, *own, options);
}

Result<void> check_all_sealed(const ModelState& state, const FoundSeal& found) {
  for (const auto& path : state.paths) HT_TRY(found.number_of(path));
  if (state.index) HT_TRY(found.number_of(*state.index));
  return {};
}

}  // namespace

Result<Verification> verify(const Path& path, const VerifyOptions& options) {
  return without_bad_alloc([&]() -> Result<Verification> {
    auto& port = options.port != nullptr ? *options.port : io::system_port();
    const auto found = find_seal(path, options.formats, port);
    // A model that opens says which files belong to it.
    const auto model = Model::open(path, {.formats = options.formats,
                                          .headers_only = true,
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
      // A path that neither exists nor was sealed.
      if (!number && !stat) HT_TRY(open_member(path, port));
      if (!number) return fail(number.error());
      if (found->of_more) only = *number;
    }
    if (model && !only) HT_TRY(check_all_sealed(ModelAccess::state(*model), *found));
    const auto open = HT_TRY(open_files(*found, only, port));
    return held_against(*found, open.files, options);
  });
}

Result<void> verify(const Model& model, const VerifyOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto& state = ModelAccess::state(model);
    auto& port = options.port != nullptr ? *options.port : *state.port;
    HT_TRY(ModelAccess::check_all_there(model));
    const auto found = find_seal(state.opened, state.formats, port);
    if (!found) {
      const auto files = state.mapped->files();
      if (found.error().code() != ErrorCode::not_sealed || files.size() != 1) return fail(found.error());
      const auto own = HT_TRY(own_checksum(files[0]->source(), state.formats));
      if (!own) return fail(found.error());
      return HT_TRY(verify_own(*files[0], *own, options)).result();
    }
    HT_TRY(check_all_sealed(state, *found));
    return HT_TRY(compare(model, *found, options)).result();
  });
}

Result<Verification> compare(const Model& model, const FoundSeal& found, const VerifyOptions& options) {
  const auto& state = ModelAccess::state(model);
  HT_TRY(ModelAccess::check_all_there(model));
  const auto mapped = state.mapped->files();
  // The open files are the ones in use, whatever their paths lead to by now.
  std::vector<io::MappedFile*> files(found.paths.size());
  for (std::size_t i = 0; i < mapped.size(); ++i) {
    if (const auto number = found.number_of(state.paths[i])) files[*number] = mapped[i];
  }
  std::unique_ptr<io::MappedFile> index;
  const auto index_number = state.index ? found.number_of(*state.index) : Result<std::uint32_t>(0);
  if (state.index && index_number) {
    auto& port = options.port != nullptr ? *options.port : *state.port;
    index = std::make_unique<io::MappedFile>(HT_TRY(open_member(*state.index, port)));
    files[*index_number] = index.get();
  }
  return held_against(found, files, options);
}

}  // namespace ht::inline v1
