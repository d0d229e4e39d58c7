#include "integrity/found_seal.hpp"

#include <algorithm>
#include <htensor/base/utf8.hpp>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

std::string plain(const Path& path) { return path.lexically_normal().generic_string(); }

}  // namespace

Result<std::uint32_t> FoundSeal::number_of(const Path& path) const {
  const auto found = numbers.find(plain(path));
  if (found != numbers.end()) return found->second;
  return fail(Error(ErrorCode::not_sealed, "every_file_is_sealed",
                    format_text("is not listed in the seal '{}'", to_utf8(place.seal.filename().string())))
                  .at_path(path.native())
                  .with_hint("if it belongs to the model and is known to be good, run `htensor seal` again"));
}

Result<FoundSeal> find_seal(const Path& named, std::span<const Format> formats, io::Port& port) {
  FoundSeal found{.seal = {}, .place = place_of_seal(named, formats, port), .paths = {}, .numbers = {}};
  found.view = HT_TRY(SetView::around(named, port));
  auto seal = read_seal(found.view.where(found.place.seal), port);
  if (!seal && seal.error().code() == ErrorCode::not_sealed && found.place.file) {
    // It may have been sealed with the others in its folder.
    const auto in_folder = place_in_folder(named.parent_path());
    auto others = read_seal(found.view.where(in_folder.seal), port);
    if (others && std::ranges::find(others->files, name_in_seal(named, in_folder), &SealedFile::name) !=
                      others->files.end()) {
      found.place = in_folder;
      found.of_more = others->files.size() > 1;
      seal = std::move(others);
    }
  }
  if (!seal) return fail(std::move(seal).error());
  found.paths = sealed_paths(*seal, found.place);
  for (std::uint32_t i = 0; i < found.paths.size(); ++i) found.numbers.emplace(plain(found.paths[i]), i);
  found.seal = *std::move(seal);
  return found;
}

std::string name_in_seal(const Path& file, const SealPlace& place) {
  const auto folder = place.seal.parent_path().lexically_normal();
  const auto normal = file.lexically_normal();
  return (folder.empty() ? normal : normal.lexically_relative(folder)).generic_string();
}

Result<void> check_same_tensors(const FoundSeal& found, const Catalog& catalog,
                                std::span<const std::uint32_t> numbers) {
  std::map<std::string_view, const SealedTensor*> sealed;
  for (const auto& tensor : found.seal.tensors) sealed.emplace(tensor.name, &tensor);
  for (const Entry& entry : catalog) {
    const auto it = sealed.find(entry.name);
    if (it != sealed.end()) {
      const SealedTensor& tensor = *it->second;
      const bool same = entry.is_splat()
                            ? !tensor.file
                            : tensor.file == numbers[entry.file] && tensor.offset == entry.offset;
      if (same && tensor.bytes == entry.bytes) continue;
    }
    return fail(Error(ErrorCode::bad_seal, "seal_has_the_models_tensors",
                      format_text("does not list tensor '{}' at its place in the model", to_utf8(entry.name)))
                    .at_path(found.place.seal.native())
                    .at_tensor(entry.name)
                    .with_hint("run `htensor verify` to compare the files with the seal"));
  }
  return {};
}

}  // namespace ht::inline v1
