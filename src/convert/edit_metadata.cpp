#include <htensor/convert/edit_metadata.hpp>

#include <algorithm>
#include <array>
#include <htensor/format/format.hpp>

#include "base/format_text.hpp"
#include "convert/copy/commit.hpp"
#include "convert/copy/copy_engine.hpp"
#include "format/shards/numbered_name.hpp"
#include "format/sniff.hpp"
#include "io/atomic_file.hpp"
#include "io/file_source.hpp"
#include "io/port/system_error.hpp"
#include "io/strategy/mapped_file.hpp"
#include "model/files/read_header.hpp"
#include "model/journal/set_replacement.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

// Whether the tensors are the same, all of them moved by `by` bytes.
bool differs_only_in_offset(const Catalog& before, const Catalog& after, std::uint64_t by) {
  if (before.size() != after.size()) return false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Entry a = before[i];
    const Entry b = after[i];
    const bool same = a.name == b.name && a.dtype == b.dtype && a.encoding == b.encoding &&
                      std::ranges::equal(a.dims, b.dims) && a.byte_order == b.byte_order &&
                      a.bytes == b.bytes && a.offset + by == b.offset;
    if (!same) return false;
  }
  return true;
}

// Returns the format if the metadata of its files can be edited.
Result<const Format*> check_editable(const Catalog& catalog, std::span<const Format> more) {
  const auto* const format = find_format(catalog.format(), more);
  if (format == nullptr || format->edit == nullptr) {
    const bool has_metadata = format != nullptr && format->metadata != Format::MetadataTypes::none;
    return fail(Error(ErrorCode::unsupported_encoding, "format_has_metadata_to_edit",
                      has_metadata ? format_text("metadata of the format {} cannot be edited", format->name)
                                   : format_text("the format {} has no metadata", catalog.format()))
                    .with_hint(has_metadata ? "convert to GGUF, edit that file, and convert back"
                                            : "convert to GGUF or safetensors first"));
  }
  if (const auto split = split_info(catalog); split && split->number != 0) {
    return fail(Error(ErrorCode::bad_state, "metadata_is_in_the_first_part",
                      format_text("is part {} of {}, and the metadata of a split model is in part 1",
                                  split->number + 1, split->count))
                    .with_hint("edit part 1"));
  }
  return format;
}

class Edit {
 public:
  Edit(const Path& path, std::span<const MetadataEdit> edits, const EditOptions& options)
      : path_(path),
        edits_(edits),
        options_(options),
        port_(options.port != nullptr ? *options.port : io::system_port()) {}

  Result<EditReport> run() {
    const bool is_of_set = parse_numbered_name(path_.filename().string()).has_value();
    const auto lock = HT_TRY(SetLock::recover_and_lock(is_of_set, path_, port_));
    auto file = io::FileSource::open(path_, port_);
    if (!file) return fail(open_error(std::move(file).error()));
    const auto planned = HT_TRY(at_path(plan(**file)));
    if (edited_.changed) HT_TRY(write(planned, *std::move(file)));
    return std::move(edited_);
  }

 private:
  // Adds the path to the Error of a parser, which does not know it.
  template <class T>
  [[nodiscard]] Result<T> at_path(Result<T> result) const {
    if (result || !result.error().path().empty()) return result;
    return fail(std::move(result).error().at_path(path_.native()));
  }

  [[nodiscard]] Error not_one_file_error(std::string_view problem) const {
    return Error(ErrorCode::not_regular_file, "one_file_is_edited", std::string(problem))
        .at_path(path_.native())
        .with_hint("name one file of the model");
  }

  [[nodiscard]] Error open_error(Error error) const {
    const auto stat = port_.stat(path_);
    if (stat && stat->kind == io::FileKind::folder)
      return not_one_file_error("is a folder but an edit needs one file");
    return error;
  }

  // The file with the new header and one part: all bytes after the old header. The plan is made from the
  // header in memory, so a concurrent change of the file does not affect it.
  Result<PlannedFile> plan(const io::Source& file) {
    const ParseOptions options{.formats = options_.formats, .max_header_bytes = options_.max_header_bytes};
    const auto read = read_header(file, parse, options);
    if (!read && read.error().code() == ErrorCode::bad_magic && HT_TRY(is_json(file)))
      return fail(
          not_one_file_error("is JSON, perhaps a shard index, and holds no metadata that can be edited"));
    if (!read) return fail(read.error());
    const auto& before = read->catalog;
    const Bytes old_prefix = read->prefix;
    const auto* const format = HT_TRY(check_editable(before, options.formats));
    const auto new_metadata = HT_TRY(apply_edits(before.metadata(), edits_));
    auto header = HT_TRY(format->edit({old_prefix, file.size(), before, new_metadata, options_.grow}));
    const std::uint64_t data_bytes = file.size() - header.replaced_bytes;
    const std::uint64_t begin = header.bytes.size();
    edited_.moved_by = begin - header.replaced_bytes;
    // Bytes of the old header that were not read are padding before the data.
    const std::size_t common_bytes = std::min(header.bytes.size(), old_prefix.size());
    edited_.changed = edited_.moved_by != 0 || !std::ranges::equal(Bytes(header.bytes).first(common_bytes),
                                                                   old_prefix.first(common_bytes));
    PlannedFile planned{.path = path_, .bytes = begin + data_bytes, .header = std::move(header.bytes)};
    if (data_bytes != 0)
      planned.parts.push_back(
          {.offset = begin, .bytes = data_bytes, .from = PartOrigin::Stored{0, header.replaced_bytes}});
    // The parser must find the same tensors after any edit.
    const auto parsed = HT_TRY(format->parse(planned.header, planned.bytes, options));
    const auto* const after = std::get_if<Catalog>(&parsed);
    if (after == nullptr || !differs_only_in_offset(before, *after, edited_.moved_by))
      return fail(Error(ErrorCode::internal));
    edited_.metadata = after->metadata();
    return planned;
  }

  [[nodiscard]] static Result<bool> is_json(const io::Source& file) {
    std::array<std::byte, sniffed_bytes> buffer{};
    const auto prefix = MutableBytes(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), sniffed_bytes)));
    HT_TRY(file.read(0, prefix));
    return is_json_file(prefix, file.size());
  }

  Result<void> write(const PlannedFile& file, const std::shared_ptr<const io::FileSource>& opened) {
    io::MappedFile source(opened);
    auto seal = HT_TRY(NewSeal::prepare({.path = path_,
                                         .source = source,
                                         .header = file.header,
                                         .moved_by = edited_.moved_by,
                                         .work = options_.work,
                                         .formats = options_.formats,
                                         .port = port_}));
    if (seal) edited_.seal = seal->path();
    io::MappedFile* const sources[] = {&source};
    auto target = HT_TRY(io::AtomicFile::create(path_, IfExists::replace, port_));
    edited_.copied_by = HT_TRY(copy_file(file, target, {.sources = sources, .work = options_.work}));
    HT_TRY(target.sync());
    // The header was read before. Without this check, a change by another writer since then would be lost.
    HT_TRY(opened->check_unchanged());
    HT_TRY(check_same_file(opened->stat()));
    return commit_file(target, seal ? &*seal : nullptr);
  }

  [[nodiscard]] Result<void> check_same_file(const io::FileStat& before) const {
    const auto now = port_.stat(path_);
    if (!now) {
      return fail(io::system_error(ErrorCode::changed_underfoot, "edited_file_still_exists", "stat", path_,
                                   now.error()));
    }
    const bool is_same = now->device == before.device && now->inode == before.inode;
    if (is_same && now->rights == before.rights) return {};
    return fail(
        Error(ErrorCode::changed_underfoot, "file_is_not_replaced_during_the_edit",
              "was replaced, or its owner or permissions changed, during the edit; nothing was written")
            .at_path(path_.native())
            .with_hint("run the command again"));
  }

  const Path& path_;
  std::span<const MetadataEdit> edits_;
  const EditOptions& options_;
  io::Port& port_;
  EditReport edited_;
};

}  // namespace

Result<EditReport> edit_metadata(const Path& file, std::span<const MetadataEdit> edits,
                                 const EditOptions& options) {
  return without_bad_alloc([&] { return Edit(file, edits, options).run(); });
}

}  // namespace ht::inline v1
