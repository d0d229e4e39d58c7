#include "model/journal/set_journal.hpp"
#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "format/shards/numbered_name.hpp"
#include "format/shards/shard_index.hpp"
#include "io/atomic_file.hpp"
#include "io/file_source.hpp"
#include "io/port/system_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <htensor/hash/digest.hpp>
#include <set>

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

constexpr std::string_view magic = "htensor-journal-1";
// The same limit as for an index: a journal has only two entries per shard.
constexpr std::uint64_t max_bytes = 100'000'000;

Error not_well_formed(std::string message) {
  return Error(ErrorCode::bad_header, "journal_is_well_formed", std::move(message))
      .with_hint("remove the journal, and write the set again");
}

bool is_temporary(std::string_view name) {
  return name.starts_with(io::temporary_prefix) && name.ends_with(io::temporary_suffix) &&
         name.find('/') == std::string_view::npos;
}

// An untrusted journal must not rename or remove files outside the set that it is stored beside.
bool is_of_set(std::string_view name, std::string_view set_name) {
  if (name == folder_seal_name) return true;
  if (name.ends_with(seal_suffix)) name.remove_suffix(seal_suffix.size());
  if (is_index_name(name)) name.remove_suffix(index_suffix.size());
  return name.find('/') == std::string_view::npos && set_name_of(Path(name)) == set_name;
}

Error not_of_the_set(std::string_view name, std::string_view set_name) {
  return Error(
             ErrorCode::path_escapes, "journal_names_files_of_its_set",
             format_text("journal names '{}', which is not a file of '{}'", to_utf8(name), to_utf8(set_name)))
      .with_hint("remove the journal, and write the set again");
}

Result<std::vector<std::string_view>> fields_of(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::size_t sum_digits = 16;
  if (!text.starts_with(magic) || text.size() < sum_digits + 1 || text.back() != '\0')
    return fail(not_well_formed("file is not a journal of htensor"));
  const auto body = text.substr(0, text.size() - sum_digits - 1);
  if (text.substr(body.size(), sum_digits) != fmt::format("{:016x}", crc64nvme(bytes.first(body.size()))))
    return fail(not_well_formed("checksum mismatch in the journal"));
  std::vector<std::string_view> fields;
  for (std::size_t at = 0; at < body.size();) {
    const auto end = body.find('\0', at);
    if (end == std::string_view::npos)
      return fail(not_well_formed("last field of the journal has no zero byte"));
    fields.push_back(body.substr(at, end - at));
    at = end + 1;
  }
  return fields;
}

}  // namespace

bool is_missing(std::error_code cause) noexcept {
  return cause == std::errc::no_such_file_or_directory || cause == std::errc::filename_too_long;
}

std::string set_name_of(const Path& member) {
  auto name = member.filename().string();
  if (is_index_name(name)) name.resize(name.size() - index_suffix.size());
  // The name of a set may itself look like the name of a shard.
  while (const auto numbered = parse_numbered_name(name)) name = numbered->stem + numbered->extension;
  return name;
}

Path journal_path(const Path& member) {
  return member.parent_path() /
         fmt::format("{}{}{}", io::temporary_prefix, set_name_of(member), io::journal_suffix);
}

std::vector<std::byte> encode_journal(const SetJournal& journal) {
  std::string text(magic);
  text += '\0';
  const auto add = [&](std::string_view kind, const SetJournal::File& file) {
    for (const std::string_view field : {kind, std::string_view(file.temporary), std::string_view(file.name)})
      text.append(field) += '\0';
  };
  for (const auto& file : journal.old_files) add("old", file);
  for (const auto& file : journal.new_files) add("new", file);
  text += fmt::format("{:016x}", crc64nvme(bytes_of(text)));
  text += '\0';
  const Bytes bytes = bytes_of(text);
  return {bytes.begin(), bytes.end()};
}

Result<SetJournal> parse_journal(Bytes bytes, std::string_view set_name) {
  const auto fields = HT_TRY(fields_of(bytes));
  constexpr std::size_t per_file = 3;
  if (fields.empty() || fields[0] != magic || fields.size() % per_file != 1)
    return fail(not_well_formed("fields of the journal are not complete"));
  SetJournal journal;
  std::set<std::string_view> temporaries;
  for (std::size_t i = 1; i < fields.size(); i += per_file) {
    const auto kind = fields[i];
    const auto temporary = fields[i + 1];
    const auto name = fields[i + 2];
    if (kind != "old" && kind != "new")
      return fail(
          not_well_formed(format_text("journal has an entry of the unknown kind '{}'", to_utf8(kind))));
    if (!is_of_set(name, set_name)) return fail(not_of_the_set(name, set_name));
    if (!is_temporary(temporary)) return fail(not_of_the_set(temporary, set_name));
    if (!temporaries.insert(temporary).second)
      return fail(not_well_formed(format_text("journal names '{}' twice", to_utf8(temporary))));
    auto& files = kind == "old" ? journal.old_files : journal.new_files;
    files.push_back({std::string(name), std::string(temporary)});
  }
  if (journal.new_files.empty()) return fail(not_well_formed("journal has no new files"));
  return journal;
}

Result<std::shared_ptr<const io::FileSource>> open_journal(const Path& path, io::Port& port) {
  // An Error created when out of memory has no cause, so check with stat first.
  if (const auto stat = port.stat(path); !stat && is_missing(stat.error())) return nullptr;
  auto file = io::FileSource::open(path, port);
  if (!file && is_missing(file.error().cause())) return nullptr;
  return file;
}

Result<SetJournal> read_journal(const io::Source& file, std::string_view set_name) {
  const auto read = [&]() -> Result<SetJournal> {
    if (file.size() > max_bytes) {
      return fail(
          not_well_formed(format_text("journal has {} bytes but the limit is {}", file.size(), max_bytes)));
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(file.size()));
    HT_TRY(file.read(0, bytes));
    return parse_journal(bytes, set_name);
  };
  auto journal = read();
  if (journal || !journal.error().path().empty()) return journal;
  return fail(std::move(journal).error().at_path(file.path().native()));
}

Result<bool> is_committed(const SetJournal& journal, const Path& folder, io::Port& port) {
  if (journal.old_files.empty()) return true;
  const auto exists = [&](const std::string& name) -> Result<bool> {
    const auto stat = port.stat(folder / name);
    if (stat || is_missing(stat.error())) return stat.has_value();
    return fail(io::system_error(ErrorCode::open_failed, "file_can_be_examined", "stat", folder / name,
                                 stat.error()));
  };
  if (HT_TRY(exists(journal.old_files[0].temporary))) return true;
  // Old files are removed only after the last new file was renamed into place.
  return !HT_TRY(exists(journal.new_files.back().temporary));
}

Result<std::optional<SetJournal>> SetView::add(const Path& path, std::string_view set_name, io::Port& port) {
  const auto file = HT_TRY(open_journal(path, port));
  if (!file) return std::nullopt;
  auto journal = HT_TRY(read_journal(*file, set_name));
  const auto folder = path.parent_path();
  if (!HT_TRY(is_committed(journal, folder, port))) return std::nullopt;
  for (const auto& each : journal.new_files)
    temporaries_.emplace((folder / each.name).lexically_normal(), folder / each.temporary);
  port_ = &port;
  return journal;
}

Result<SetView> SetView::of_set(const Path& member, io::Port& port) {
  SetView view;
  HT_TRY(view.add(journal_path(member), set_name_of(member), port));
  return view;
}

Result<SetView> SetView::of_folder(const Path& folder, std::vector<std::string>& names, io::Port& port) {
  SetView view;
  std::set<std::string> all;
  for (const auto& name : names) {
    if (!name.starts_with(io::temporary_prefix) || !name.ends_with(io::journal_suffix)) continue;
    auto set_name = std::string_view(name).substr(io::temporary_prefix.size());
    set_name.remove_suffix(std::min(set_name.size(), io::journal_suffix.size()));
    const auto journal = HT_TRY(view.add(folder / name, set_name, port));
    if (!journal) continue;
    if (all.empty()) all.insert(names.begin(), names.end());
    for (const auto& old : journal->old_files) all.erase(old.name);
    for (const auto& each : journal->new_files) all.insert(each.name);
  }
  if (!all.empty()) names.assign(all.begin(), all.end());
  return view;
}

Result<SetView> SetView::of_path(const Path& path, io::Port& port) {
  const auto stat = port.stat(path);
  if (!stat || stat->kind != io::FileKind::folder) return of_set(path, port);
  auto names = port.list(path);
  if (!names) return SetView();
  return of_folder(path, *names, port);
}

Path SetView::current_path(const Path& path) const {
  if (temporaries_.empty()) return path;
  const auto found = temporaries_.find(path.lexically_normal());
  return found != temporaries_.end() && port_->stat(found->second) ? found->second : path;
}

Result<std::shared_ptr<const io::FileSource>> open_member(const Path& path, io::Port& port) {
  auto file = io::FileSource::open(path, port);
  if (file || !is_missing(file.error().cause())) return file;
  const auto view = HT_TRY(SetView::of_set(path, port));
  return view.is_empty() ? std::move(file) : io::FileSource::open(view.current_path(path), port);
}

}  // namespace ht::inline v1
