#include <htensor/convert/edit_metadata.hpp>

#include <algorithm>
#include <htensor/io/mapped.hpp>

#include "convert/copy_engine.hpp"
#include "convert/edited_file.hpp"
#include "convert/renewed_seal.hpp"
#include "io/atomic_file.hpp"
#include "io/system_error.hpp"
#include "model/read_catalog.hpp"

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
    auto file = io::Opened::open(path_, port_);
    if (!file) return fail(no_file(std::move(file).error()));
    auto plan = HT_TRY(at_path(look(*file)));
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

  [[nodiscard]] Result<EditedFile> look(const io::Opened& file) const {
    const ParseOptions options{.max_header_bytes = options_.max_header_bytes};
    auto catalog = read_catalog(file, parse, options);
    if (!catalog && catalog.error().rule() == "file_is_no_json")
      return fail(several_files("is JSON, perhaps a shard index, and holds no metadata that can be edited"));
    HT_TRY(check_editable(HT_TRY(std::move(catalog))));
    // Both formats want to see nothing but a beginning. What is planned from is in memory, whatever becomes
    // of the file meanwhile.
    const std::uint64_t file_bytes = file.stat().bytes;
    std::vector<std::byte> seen;
    std::uint64_t wanted = std::min<std::uint64_t>(file_bytes, 4096);
    while (true) {
      const std::size_t known = seen.size();
      seen.resize(static_cast<std::size_t>(wanted));
      HT_TRY(file.read(known, MutableBytes(seen).subspan(known)));
      const auto parsed = HT_TRY(parse(seen, file_bytes, options));
      if (std::holds_alternative<Catalog>(parsed)) break;
      wanted = std::get<Need>(parsed).offset + std::get<Need>(parsed).bytes;
      if (wanted <= seen.size() || wanted > file_bytes) return fail(Error(ErrorCode::internal));
    }
    return plan_edit(seen, file_bytes, edits_, options_.grow, options);
  }

  Result<void> write(const EditedFile& plan, io::Opened opened) {
    const auto& file = plan.file;
    const auto source = HT_TRY(std::move(opened).map());
    auto seal = HT_TRY(RenewedSeal::prepare({.path = path_,
                                             .source = source,
                                             .header = file.header,
                                             .moved_by = plan.moved_by,
                                             .work = options_.work,
                                             .port = port_}));
    if (seal) edited_.seal = seal->path();
    const io::Mapped* const sources[] = {&source};
    auto target = HT_TRY(io::AtomicFile::create(path_, io::IfExists::replace, port_));
    edited_.copied_by = HT_TRY(copy_file(file, target, {.sources = sources, .work = options_.work}));
    HT_TRY(target.sync());
    // The header was read before: whoever changed the file since would lose what he wrote.
    HT_TRY(source.check_unchanged());
    HT_TRY(check_still_there(source.stat()));
    return commit_files(std::span(&target, 1), seal ? &*seal : nullptr);
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
