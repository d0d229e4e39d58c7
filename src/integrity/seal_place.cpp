#include "integrity/seal_place.hpp"

#include <algorithm>
#include <htensor/format/format.hpp>

#include <htensor/io/source.hpp>
#include "base/format_text.hpp"
#include "format/shards/numbered_name.hpp"
#include "model/set_journal.hpp"

namespace ht::inline v1 {
namespace {

constexpr std::string_view ending = ".htseal";
constexpr std::string_view of_folder = "model.htseal";

}  // namespace

SealPlace place_in_folder(const std::filesystem::path& folder) {
  return {.seal = folder / of_folder, .file = std::nullopt};
}

SealPlace place_of_seal(const std::filesystem::path& model, std::span<const Format> formats, io::Port& port) {
  const auto stat = port.stat(model);
  if (stat && stat->kind == io::FileKind::folder) return place_in_folder(model);
  const auto name = model.filename().string();
  if (name.ends_with(".index.json")) return place_in_folder(model.parent_path());
  auto file = model;
  // The parts of a split model have one together. Shards that an index names have none of their own.
  const auto numbered = parse_numbered_name(name);
  const auto* const format = numbered ? format_of_extension(numbered->extension, formats) : nullptr;
  if (format != nullptr && format->sharding == Sharding::parts) file.replace_filename(numbered->of(1));
  auto seal = file;
  seal += ending;
  return {.seal = std::move(seal), .file = std::move(file)};
}

std::filesystem::path seal_path(const std::filesystem::path& model, io::Port& port,
                                std::span<const Format> formats) {
  return place_of_seal(model, formats, port).seal;
}

std::vector<std::filesystem::path> sealed_paths(const Seal& seal, const SealPlace& place) {
  std::vector<std::filesystem::path> paths;
  paths.reserve(seal.files.size());
  bool named = false;
  for (const auto& file : seal.files) {
    paths.push_back(place.seal.parent_path() / file.name);
    named = named || (place.file && file.name == place.file->filename());
  }
  if (place.file && !named) paths[0] = *place.file;
  return paths;
}

Result<std::optional<std::filesystem::path>> seal_that_names(const std::filesystem::path& file,
                                                             std::span<const Format> formats,
                                                             io::Port& port) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  for (const auto& candidate : {seal_path(file, port, formats), place_in_folder(folder).seal}) {
    const auto seal = read_seal(candidate, port);
    if (!seal) {
      const auto code = seal.error().code();
      if (code == ErrorCode::not_sealed || code == ErrorCode::bad_seal) continue;
      return fail(seal.error());
    }
    const bool named = std::ranges::any_of(
        seal->files, [&](const SealedFile& each) { return each.name == file.filename(); });
    if (named) return candidate;
  }
  return std::nullopt;
}

Result<Seal> read_seal(const std::filesystem::path& path, io::Port& port) {
  return without_bad_alloc([&]() -> Result<Seal> {
    auto opened = io::FileSource::open(path, port);
    if (!opened) {
      auto error = std::move(opened).error();
      if (error.code() == ErrorCode::not_regular_file) {
        return fail(
            Error(ErrorCode::bad_seal, "seal_is_a_file", "has the name of the seal and is not a regular file")
                .at_path(path.native())
                .with_hint("move it away and seal the model"));
      }
      auto cause = error.cause();
      if (!cause) {  // an Error made when memory was short has none
        if (const auto there = port.stat(path); !there) cause = there.error();
      }
      if (!is_missing(cause)) return fail(std::move(error));
      return fail(Error(ErrorCode::not_sealed, "model_is_sealed", "the seal does not exist")
                      .at_path(path.native())
                      .with_hint("if the model is known to be good, seal it with `htensor seal`"));
    }
    const io::FileSource& file = **opened;
    if (file.stat().bytes > Seal::max_bytes) {
      return fail(Error(ErrorCode::bad_seal, "seal_is_not_too_large",
                        format_text("has {} bytes, more than the limit of {} bytes", file.stat().bytes,
                                    Seal::max_bytes))
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

}  // namespace ht::inline v1
