#include "cli/doctor_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <htensor/base/checked.hpp>
#include <htensor/format/encode.hpp>
#include <optional>
#include <string>
#include <tuple>

#include "cli/rows.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

// The entries that a check finds: their number, and the first.
struct Matches {
  std::size_t count = 0;
  std::optional<Entry> first;
};

Matches matching(const Catalog& catalog, const std::function<bool(const Entry&)>& test) {
  Matches found;
  for (const Entry& entry : catalog) {
    if (!test(entry)) continue;
    if (found.count++ == 0) found.first = entry;
  }
  return found;
}

std::string tensors(std::size_t count, std::string_view one, std::string_view many) {
  return count == 1 ? fmt::format("1 tensor {}", one) : fmt::format("{} tensors {}", count, many);
}

std::uint64_t end_of(const Entry& entry) { return saturating_add(entry.offset, entry.bytes); }

// In bytes; a complex number is aligned as its two halves are.
std::uint64_t alignment_of(const Entry& entry) {
  const auto dtype = find_dtype(entry.dtype);
  if (!dtype || dtype->bits < 16) return 1;
  return static_cast<std::uint64_t>(entry.dtype == C64::tag ? 4 : dtype->bits / 8);
}

bool has_control_character(std::string_view name) {
  return std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

using Warnings = std::vector<Error>;
using Files = std::span<const FileFacts>;

// Empty where the file is not one of these.
std::string path_of(const Entry& entry, Files files) {
  return entry.file < files.size() ? files[entry.file].path.string() : std::string();
}

void check_alignment(Warnings& warnings, const Catalog& catalog, Files files) {
  const auto found = matching(catalog, [](const Entry& entry) {
    return !entry.is_splat() && entry.bytes > 0 && entry.offset % alignment_of(entry) != 0;
  });
  if (!found.first) return;
  warnings.push_back(
      Error(ErrorCode::misaligned, "data_is_aligned_for_its_dtype",
            fmt::format("{} misaligned for the element's size; the first is '{}' at byte {}",
                        tensors(found.count, "is", "are"), found.first->name, found.first->offset))
          .at_path(path_of(*found.first, files))
          .at_tensor(found.first->name)
          .at_offset(found.first->offset)
          .with_hint(
              "align them with `htensor convert --canonical`; misaligned tensors are copied on access"));
}

void check_names(Warnings& warnings, const Catalog& catalog, Files files) {
  const auto odd = matching(
      catalog, [](const Entry& entry) { return entry.name.empty() || has_control_character(entry.name); });
  if (odd.first) {
    warnings.push_back(
        Error(ErrorCode::bad_name, "names_can_be_printed",
              fmt::format("{} an empty name or one with control characters; the first is '{}'",
                          tensors(odd.count, "has", "have"), printable(odd.first->name)))
            .at_path(path_of(*odd.first, files))
            .at_tensor(odd.first->name)
            .with_hint(
                "rename them with `htensor convert --rename A=B`: other programs may refuse such names"));
  }
}

void check_byte_order(Warnings& warnings, const Catalog& catalog, Files files) {
  const auto found = matching(catalog, [](const Entry& entry) { return entry.byte_order == ByteOrder::big; });
  if (!found.first) return;
  warnings.push_back(
      Error(ErrorCode::unsupported_encoding, "data_is_little_endian",
            fmt::format("{} big endian; the first is '{}'", tensors(found.count, "is", "are"),
                        found.first->name))
          .at_path(path_of(*found.first, files))
          .at_tensor(found.first->name)
          .with_hint(
              "byte-swap it with `htensor convert --usual-order`: most programs do not read big endian"));
}

void check_types(Warnings& warnings, const Catalog& catalog, Files files) {
  const auto found = matching(catalog, [](const Entry& entry) { return !entry.is_typed(); });
  if (!found.first) return;
  warnings.push_back(
      Error(ErrorCode::bad_dtype, "entries_say_what_they_are",
            fmt::format("{} neither dtype nor shape; the first is '{}'", tensors(found.count, "has", "have"),
                        found.first->name))
          .at_path(path_of(*found.first, files))
          .at_tensor(found.first->name)
          .with_hint(
              "convert the original model again with `htensor convert MODEL FILE.irpa`, which writes both"));
}

void check_overlaps(Warnings& warnings, const Catalog& catalog, Files files) {
  std::vector<Entry> entries;
  for (const Entry& entry : catalog) {
    if (!entry.is_splat() && entry.bytes > 0) entries.push_back(entry);
  }
  std::ranges::sort(entries, {},
                    [](const Entry& entry) { return std::tuple(entry.file, entry.offset, entry.name); });
  std::size_t count = 0;
  std::optional<std::pair<Entry, Entry>> first;
  // The next entry overlaps one before it if it begins before the furthest end so far.
  const Entry* furthest = nullptr;
  for (const auto& entry : entries) {
    if (furthest != nullptr && furthest->file == entry.file && entry.offset < end_of(*furthest)) {
      if (count++ == 0) first.emplace(*furthest, entry);
    }
    if (furthest == nullptr || furthest->file != entry.file || end_of(entry) > end_of(*furthest))
      furthest = &entry;
  }
  if (!first) return;
  warnings.push_back(
      Error(ErrorCode::overlap, "entries_share_no_bytes",
            fmt::format("{} bytes with another; the first is '{}' with '{}' at byte {}",
                        tensors(count, "shares", "share"), first->second.name, first->first.name,
                        first->second.offset))
          .at_path(path_of(first->second, files))
          .at_tensor(first->second.name)
          .at_offset(first->second.offset)
          .with_hint("ignore this if the tensors are tied on purpose; a write to one changes the other"));
}

std::vector<std::uint64_t> data_ends(const Catalog& catalog, std::size_t files) {
  std::vector<std::uint64_t> ends(files, 0);
  for (const Entry& entry : catalog) {
    if (!entry.is_splat() && entry.file < files) ends[entry.file] = std::max(ends[entry.file], end_of(entry));
  }
  return ends;
}

void check_trailing(Warnings& warnings, const Catalog& catalog, Files files) {
  const auto* const format = find_format(catalog.format());
  if (format == nullptr || format->file_end == nullptr) return;
  const auto ends = data_ends(catalog, files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (ends[i] == 0 || files[i].bytes <= format->file_end(catalog, ends[i])) continue;
    warnings.push_back(
        Error(ErrorCode::trailing_bytes, "files_end_with_their_data",
              fmt::format("{} bytes follow the end of the last tensor at byte {}", files[i].bytes - ends[i],
                          ends[i]))
            .at_path(files[i].path.native())
            .at_offset(ends[i])
            .with_hint("remove them with `htensor convert` to a new file: no tensor uses them"));
  }
}

}  // namespace

std::vector<Error> warnings_of(const Catalog& catalog, std::span<const FileFacts> files) {
  Warnings warnings;
  check_alignment(warnings, catalog, files);
  check_names(warnings, catalog, files);
  check_byte_order(warnings, catalog, files);
  check_types(warnings, catalog, files);
  check_overlaps(warnings, catalog, files);
  check_trailing(warnings, catalog, files);
  for (auto& warning : reader_warnings(catalog.format(), catalog)) warnings.push_back(std::move(warning));
  return warnings;
}

std::vector<Error> missing_data(const Catalog& catalog, std::span<const FileFacts> files) {
  constexpr std::size_t max_names = 3;
  const auto ends = data_ends(catalog, files.size());
  std::vector<Error> errors;
  for (std::uint32_t file = 0; file < files.size(); ++file) {
    const std::uint64_t bytes = files[file].bytes;
    if (ends[file] <= bytes) continue;
    std::size_t whole = 0;
    std::vector<Entry> damaged;
    for (const Entry& entry : catalog) {
      if (entry.file != file || entry.is_splat()) continue;
      if (end_of(entry) <= bytes) {
        ++whole;
      } else {
        damaged.push_back(entry);
      }
    }
    std::string names;
    for (const auto& entry : std::span(damaged).first(std::min(damaged.size(), max_names)))
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", entry.name);
    errors.push_back(
        Error(ErrorCode::truncated, "files_are_whole",
              fmt::format(
                  "{} of {} bytes are missing at the end: {} of {} tensors are complete, {} cut: {}{}",
                  ends[file] - bytes, ends[file], whole, whole + damaged.size(),
                  damaged.size() == 1 ? "1 is" : fmt::format("{} are", damaged.size()), names,
                  damaged.size() > max_names ? fmt::format(" and {} more", damaged.size() - max_names) : ""))
            .at_path(files[file].path.native())
            .at_tensor(damaged[0].name)
            .at_offset(bytes)
            .with_hint("resume or repeat the download; `htensor ls --headers-only` lists all tensors"));
  }
  return errors;
}

}  // namespace ht::cli
