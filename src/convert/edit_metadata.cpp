#include <htensor/convert/edit_metadata.hpp>

#include <algorithm>
#include <array>

#include "convert/copy_engine.hpp"
#include "convert/edited_file.hpp"
#include "convert/renewed_seal.hpp"
#include "format/shards/numbered_name.hpp"
#include "format/sniff.hpp"
#include "io/atomic_file.hpp"
#include "io/mapped_file.hpp"
#include "io/system_error.hpp"
#include "model/read_header.hpp"
#include "model/set_replacement.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

class Edit {
 public:
  Edit(const Path& path, std::span<const MetadataEdit> edits, const EditOptions& options)
      : path_(path),
        edits_(edits),
        options_(options),
        port_(options.port != nullptr ? *options.port : io::system_port()) {}

  Result<Edited> run() {
    const bool is_of_set = parse_numbered_name(path_.filename().string()).has_value();
    const auto lock = HT_TRY(SetLock::acquire_if(is_of_set, path_, port_));
    auto file = io::FileSource::open(path_, port_);
    if (!file) return fail(no_file(std::move(file).error()));
    auto plan = HT_TRY(at_path(look(**file)));
    edited_.metadata = std::move(plan.metadata);
    edited_.changed = plan.changed;
    edited_.moved_by = plan.moved_by;
    if (!plan.changed) return std::move(edited_);
    plan.file.path = path_;
    HT_TRY(write(plan, *std::move(file)));
    return std::move(edited_);
  }

 private:
  // Parsers name no path, as they know none.
  template <class T>
  [[nodiscard]] Result<T> at_path(Result<T> result) const {
    if (result || !result.error().path().empty()) return result;
    return fail(std::move(result).error().at_path(path_.native()));
  }

  [[nodiscard]] Error several_files(std::string_view what) const {
    return Error(ErrorCode::not_regular_file, "one_file_is_edited", std::string(what))
        .at_path(path_.native())
        .with_hint("name one file of the model");
  }

  [[nodiscard]] Error no_file(Error error) const {
    const auto stat = port_.stat(path_);
    if (stat && stat->kind == io::FileKind::folder)
      return several_files("is a folder, and an edit changes one file");
    return error;
  }

  [[nodiscard]] Result<EditedFile> look(const io::Source& file) const {
    const ParseOptions options{.formats = options_.formats, .max_header_bytes = options_.max_header_bytes};
    // The plan is made from memory, so a file that changes meanwhile does not change it.
    const auto header = read_header(file, parse, options);
    if (header)
      return plan_edit(header->catalog, header->prefix, file.size(), {edits_, options_.grow}, options);
    if (header.error().code() == ErrorCode::bad_magic && HT_TRY(is_json(file)))
      return fail(several_files("is JSON, perhaps a shard index, and holds no metadata that can be edited"));
    return fail(header.error());
  }

  [[nodiscard]] static Result<bool> is_json(const io::Source& file) {
    std::array<std::byte, sniffed_bytes> buffer{};
    const auto prefix = MutableBytes(buffer).first(
        static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), sniffed_bytes)));
    HT_TRY(file.read(0, prefix));
    return is_json_file(prefix, file.size());
  }

  Result<void> write(const EditedFile& plan, const std::shared_ptr<const io::FileSource>& opened) {
    const auto& file = plan.file;
    io::MappedFile source(opened);
    auto seal = HT_TRY(RenewedSeal::prepare({.path = path_,
                                             .source = source,
                                             .header = file.header,
                                             .moved_by = plan.moved_by,
                                             .work = options_.work,
                                             .formats = options_.formats,
                                             .port = port_}));
    if (seal) edited_.seal = seal->path();
    io::MappedFile* const sources[] = {&source};
    auto target = HT_TRY(io::AtomicFile::create(path_, io::IfExists::replace, port_));
    edited_.copied_by = HT_TRY(copy_file(file, target, {.sources = sources, .work = options_.work}));
    HT_TRY(target.sync());
    // The header was read before: whoever changed the file since would lose what he wrote.
    HT_TRY(opened->check_unchanged());
    HT_TRY(check_still_there(opened->stat()));
    return commit_file(target, seal ? &*seal : nullptr);
  }

  [[nodiscard]] Result<void> check_still_there(const io::FileStat& before) const {
    const auto now = port_.stat(path_);
    if (!now) {
      return fail(io::system_error(ErrorCode::changed_underfoot, "file_can_be_found_again", "stat", path_,
                                   now.error()));
    }
    const bool is_same = now->device == before.device && now->inode == before.inode;
    if (is_same && now->rights == before.rights) return {};
    return fail(Error(ErrorCode::changed_underfoot, "file_is_not_replaced_meanwhile",
                      "was replaced by another program during the edit, and stays unchanged")
                    .at_path(path_.native())
                    .with_hint("run the command again"));
  }

  const Path& path_;
  std::span<const MetadataEdit> edits_;
  const EditOptions& options_;
  io::Port& port_;
  Edited edited_;
};

}  // namespace

Result<Edited> edit_metadata(const Path& file, std::span<const MetadataEdit> edits,
                             const EditOptions& options) {
  return without_bad_alloc([&] { return Edit(file, edits, options).run(); });
}

}  // namespace ht::inline v1
