#include "integrity/found_seal.hpp"
#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "format/shards/numbered_name.hpp"
#include "format/shards/shard_index.hpp"
#include "io/file_source.hpp"

#include <algorithm>
#include <htensor/format/format.hpp>
#include <htensor/io/source.hpp>

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

std::string normalized(const Path& path) { return path.lexically_normal().generic_string(); }

}  // namespace

SealLocation seal_location_in_folder(const Path& folder) { return {.seal = folder / folder_seal_name}; }

SealLocation seal_location_of(const Path& model, std::span<const Format> formats, io::Port& port) {
  const auto stat = port.stat(model);
  if (stat && stat->kind == io::FileKind::folder) return seal_location_in_folder(model);
  const auto name = model.filename().string();
  if (is_index_name(name)) return seal_location_in_folder(model.parent_path());
  auto file = model;
  // The parts of a split model share one seal. A shard that an index names can also be opened alone, and then
  // has a seal of its own.
  const auto numbered = parse_numbered_name(name);
  const auto* const format = numbered ? format_of_extension(numbered->extension, formats) : nullptr;
  if (format != nullptr && format->sharding == Format::Sharding::parts)
    file.replace_filename(numbered->name_of_part(1));
  auto seal = file;
  seal += seal_suffix;
  return {.seal = std::move(seal), .file = std::move(file)};
}

Path seal_path(const Path& model, io::Port* optional_port, std::span<const Format> formats) {
  return seal_location_of(model, formats, optional_port != nullptr ? *optional_port : io::system_port()).seal;
}

std::string name_in_seal(const Path& file, const SealLocation& location) {
  const auto folder = location.seal.parent_path().lexically_normal();
  const auto normal = file.lexically_normal();
  return (folder.empty() ? normal : normal.lexically_relative(folder)).generic_string();
}

std::vector<Path> sealed_paths(const Seal& seal, const SealLocation& location) {
  std::vector<Path> paths;
  paths.reserve(seal.files.size());
  bool named = false;
  for (const auto& file : seal.files) {
    paths.push_back(location.seal.parent_path() / file.name);
    named = named || (location.file && file.name == location.file->filename());
  }
  if (location.file && !named) paths[0] = *location.file;
  return paths;
}

Result<Seal> read_seal(const Path& path, io::Port* optional_port) {
  io::Port& port = optional_port != nullptr ? *optional_port : io::system_port();
  return without_bad_alloc([&]() -> Result<Seal> {
    auto opened = io::FileSource::open(path, port);
    if (!opened) {
      auto error = std::move(opened).error();
      if (error.code() == ErrorCode::not_regular_file) {
        return fail(
            Error(ErrorCode::bad_seal, "seal_is_a_file", "is not a regular file, so it cannot be a seal")
                .at_path(path.native())
                .with_hint("move it away and seal the model"));
      }
      auto cause = error.cause();
      if (!cause) {  // an Error created when out of memory has no cause
        if (const auto stat = port.stat(path); !stat) cause = stat.error();
      }
      if (!is_missing(cause)) return fail(std::move(error));
      return fail(Error(ErrorCode::not_sealed, "model_is_sealed", "the seal does not exist")
                      .at_path(path.native())
                      .with_hint("if the model is known to be good, seal it with `htensor seal`"));
    }
    const io::FileSource& file = **opened;
    if (file.stat().bytes > Seal::max_bytes) {
      return fail(
          Error(ErrorCode::bad_seal, "seal_file_size_within_limit",
                format_text("seal has {} bytes but the limit is {}", file.stat().bytes, Seal::max_bytes))
              .at_path(path.native())
              .with_hint("replace the seal with `htensor seal --force`"));
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(file.stat().bytes));
    HT_TRY(file.read(0, bytes));
    auto seal = parse_seal(bytes);
    if (!seal) return fail(std::move(seal).error().at_path(path.native()));
    return seal;
  });
}

Result<std::uint32_t> FoundSeal::number_of(const Path& path) const {
  const auto found = numbers.find(normalized(path));
  if (found != numbers.end()) return found->second;
  return fail(Error(ErrorCode::not_sealed, "every_file_is_sealed",
                    format_text("is not listed in the seal '{}'", to_utf8(location.seal.filename().string())))
                  .at_path(path.native())
                  .with_hint("if it belongs to the model and is known to be good, run `htensor seal` again"));
}

Result<FoundSeal> find_seal(const ModelState& model, io::Port& port) {
  if (model.has_path) return find_seal(model.opened, model.formats, port);
  return fail(Error(ErrorCode::not_sealed, "model_is_sealed",
                    "model was not opened by a path, so it has no seal file")
                  .at_path(model.opened.native())
                  .with_hint("open the model by its path"));
}

Result<FoundSeal> find_seal(const Path& path, std::span<const Format> formats, io::Port& port) {
  FoundSeal found{.seal = {}, .location = seal_location_of(path, formats, port)};
  found.view = HT_TRY(SetView::of_path(path, port));
  auto seal = read_seal(found.view.current_path(found.location.seal), &port);
  if (!seal && seal.error().code() == ErrorCode::not_sealed && found.location.file) {
    // The file may have been sealed together with others in its folder.
    const auto in_folder = seal_location_in_folder(path.parent_path());
    auto others = read_seal(found.view.current_path(in_folder.seal), &port);
    if (!others && others.error().code() != ErrorCode::not_sealed) return fail(std::move(others).error());
    if (others && std::ranges::find(others->files, name_in_seal(path, in_folder), &Seal::File::name) !=
                      others->files.end()) {
      found.location = in_folder;
      found.covers_other_files = others->files.size() > 1;
      seal = std::move(others);
    }
  }
  if (!seal) return fail(std::move(seal).error());
  found.paths = sealed_paths(*seal, found.location);
  for (std::uint32_t i = 0; i < found.paths.size(); ++i) found.numbers.emplace(normalized(found.paths[i]), i);
  found.seal = *std::move(seal);
  return found;
}

}  // namespace ht::inline v1
