#include <htensor/convert/convert.hpp>

#include <algorithm>
#include <chrono>
#include <htensor/hash/digest.hpp>
#include <htensor/io/source.hpp>
#include <map>

#include "base/format_text.hpp"
#include "convert/copy/apply.hpp"
#include "convert/copy/commit.hpp"
#include "convert/write.hpp"
#include "format/shards/numbered_name.hpp"
#include "format/shards/shard_index.hpp"
#include "integrity/model_seal.hpp"
#include "integrity/regions.hpp"
#include "io/file_source.hpp"
#include "io/port/system_error.hpp"
#include "model/journal/set_replacement.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

std::string_view allowing_option(Loss::Kind kind) noexcept {
  switch (kind) {
    case Loss::Kind::metadata: return "--drop-metadata";
    case Loss::Kind::rounding: return "--round";
    case Loss::Kind::raw_bytes: break;
  }
  return "--raw-bytes";
}

}  // namespace

// The hint names the options that allow the losses that are still refused, and no other option.
Result<void> check_losses(const ConversionPlan& plan, const ApplyOptions& options) {
  const Loss* first = nullptr;
  std::size_t count = 0;
  std::vector<std::string_view> missing;
  for (const auto& loss : plan.losses) {
    if (is_allowed(loss, options)) continue;
    if (count++ == 0) first = &loss;
    const auto option = allowing_option(loss.kind);
    if (std::ranges::find(missing, option) == missing.end()) missing.push_back(option);
  }
  if (first == nullptr) return {};
  const std::string more =
      count == 1 ? std::string() : format_text("; {} more loss{}", count - 1, count == 2 ? "" : "es");
  auto error = Error(ErrorCode::would_lose, "losses_are_allowed", first->why + more)
                   .at_path(plan.files.front().path.native())
                   .with_hint(format_text("{}{}allow the loss with {}", first->hint,
                                          first->hint.empty() ? "" : ", or ", fmt::join(missing, " ")));
  return fail(first->is_tensor ? std::move(error).at_tensor(first->name) : std::move(error));
}

namespace {

// The offsets at which checksums of a seal begin or end, and the end of a header that is rewritten.
std::vector<std::uint64_t> cuts_of(const PlannedFile& file, const Pieces* pieces) {
  std::vector<Seal::Tensor> tensors;
  tensors.reserve(file.parts.size());
  for (const auto& part : file.parts) {
    tensors.push_back(
        {.name = {}, .file = 0, .offset = part.offset, .bytes = part.bytes, .digest = Digest(0)});
  }
  const std::uint64_t sizes[] = {file.bytes};
  const SealRegions regions(sizes, tensors);
  std::vector<std::uint64_t> cuts;
  cuts.reserve(static_cast<std::size_t>(regions.chunks()));
  for (std::size_t i = 0; i < regions.all().size(); ++i) {
    for (std::uint64_t nth = 0; nth < regions[i].chunks(); ++nth)
      cuts.push_back(regions.chunk(i, nth).range.offset);
  }
  if (file.finish != nullptr) cuts.push_back(file.header.size());
  if (file.finish != nullptr && pieces != nullptr) cuts.push_back(pieces->begin + pieces->min_offset);
  return cuts;
}

// The files that an index names; nullopt without an index.
Result<std::optional<std::vector<Path>>> files_of_index(const Path& path, io::Port& port) {
  if (!HT_TRY(file_exists(path, port))) return std::nullopt;
  constexpr std::uint64_t max_bytes = 100'000'000;
  const auto file = HT_TRY(io::FileSource::open(path, port));
  std::vector<Path> files;
  // A file that is not an index, or is too large for one, names no files.
  if (file->size() > max_bytes) return files;
  std::vector<std::byte> text(static_cast<std::size_t>(file->size()));
  HT_TRY(file->read(0, text));
  const auto index = parse_shard_index(text);
  if (index && *index) {
    for (const auto& name : (*index)->files) files.push_back(path.parent_path() / name);
  }
  return files;
}

// The order in which the old files of a set are removed: the index, part 1 or a file without a number, seals,
// other parts. The first of them is the file that the set is opened by.
int removal_rank(const Path& path) {
  const auto name = path.filename().string();
  if (is_index_name(name)) return 0;
  if (name.ends_with(seal_suffix)) return 2;
  const auto numbered = parse_numbered_name(name);
  return !numbered || numbered->number == 1 ? 1 : 3;
}

// The old shards and the old index that a sharded plan removes; files that it replaces are not in the list.
// An old shard is numbered like a shard of the target and, if there is an index, is named by the index.
Result<std::vector<Path>> shards_to_remove(const ConversionPlan& plan, io::Port& port) {
  std::vector<Path> old;
  if (!plan.is_sharded) return old;
  const Path folder = plan.target.parent_path();
  auto index = plan.target;
  index += index_suffix;
  const auto indexed = HT_TRY(files_of_index(index, port));
  const auto is_planned = [&](const Path& path) {
    return std::ranges::find(plan.files, path, &PlannedFile::path) != plan.files.end();
  };
  const auto names = port.list(folder.empty() ? Path(".") : folder);
  if (!names) {
    return fail(io::system_error(ErrorCode::open_failed, "folder_can_be_listed", "list the folder",
                                 folder.empty() ? Path(".") : folder, names.error()));
  }
  for (const auto& name : *names) {
    const auto path = folder / name;
    const auto numbered = parse_numbered_name(name);
    const bool is_shard = numbered && numbered->stem == plan.target.stem().string() &&
                          numbered->extension == plan.target.extension().string();
    const bool is_in_set = !indexed || std::ranges::find(*indexed, path) != indexed->end();
    if (is_shard && is_in_set && !is_planned(path)) old.push_back(path);
  }
  // The order of a directory listing is unspecified; sort it to be deterministic.
  std::ranges::sort(old);
  // Remove the index first, so that it never names a missing file.
  if (indexed && !indexed->empty() && !is_planned(index)) old.insert(old.begin(), index);
  return old;
}

}  // namespace

class PlanExecution {
 public:
  PlanExecution(const ConversionPlan& plan, Contents contents, ApplyOptions options, OpenOptions open_options)
      : plan_(plan),
        contents_(std::move(contents)),
        options_(std::move(options)),
        open_options_(std::move(open_options)),
        port_(open_options_.port != nullptr ? *open_options_.port : io::system_port()) {}

  // The checks that are possible before the first write.
  [[nodiscard]] Result<void> check() {
    HT_TRY(check_losses(plan_, options_));
    for (const auto& file : plan_.files)
      HT_TRY(io::AtomicFile::check_target(file.path, options_.if_exists, port_));
    // A set name that is too long for a journal fails here, before the first write.
    if (plan_.files.size() > 1)
      HT_TRY(io::AtomicFile::check_target(journal_path(set_member()), IfExists::replace, port_));
    HT_TRY(find_old_shards());
    if (options_.seal) HT_TRY(check_can_seal(plan_.model_path(), affected_paths(), plan_.formats, port_));
    // Completes the list of removed files.
    HT_TRY(find_replaced_seal());
    return {};
  }

  [[nodiscard]] const std::vector<Path>& removed() const noexcept { return report_.removed; }
  void set_work(const WorkOptions& work) { options_.work = work; }

  Result<ConversionReport> run() {
    auto lock = HT_TRY(SetLock::recover_and_lock(is_set(), set_member(), port_));
    // Another writer may have replaced the set since the checks.
    HT_TRY(find_old_shards());
    HT_TRY(find_replaced_seal());
    targets_.reserve(plan_.files.size());
    for (const auto& file : plan_.files) HT_TRY(write(file));
    report_progress(plan_.bytes());
    HT_TRY(check_stop());
    std::optional<NewSeal> seal;
    if (algorithm_) {
      seal.emplace(HT_TRY(new_seal()));
      HT_TRY(check_stop());
      report_.seal = seal->path();
    }
    // All memory is allocated before the first file is in place.
    for (const auto& file : plan_.files) report_.written.push_back(file.path);
    report_.bytes = plan_.bytes();
    HT_TRY(commit(seal ? &*seal : nullptr, std::move(lock)));
    return std::move(report_);
  }

 private:
  [[nodiscard]] bool is_set() const noexcept { return plan_.files.size() > 1 || plan_.is_sharded; }

  // Any member of the set: the path of the journal derives from it.
  [[nodiscard]] const Path& set_member() const noexcept {
    return plan_.files.size() > 1 ? plan_.files.front().path : plan_.target;
  }

  // Must run while the old index exists.
  Result<void> find_old_shards() {
    if (options_.if_exists == IfExists::replace) report_.removed = HT_TRY(shards_to_remove(plan_, port_));
    return {};
  }

  // All files that are replaced or removed. A seal that names the removed shards belongs to this model.
  [[nodiscard]] std::vector<Path> affected_paths() const {
    std::vector<Path> paths;
    paths.reserve(plan_.files.size() + report_.removed.size());
    for (const auto& file : plan_.files) paths.push_back(file.path);
    paths.insert(paths.end(), report_.removed.begin(), report_.removed.end());
    return paths;
  }

  // Must run after `find_old_shards`, while the old seal exists. A sealed target gets a new seal of the same
  // algorithm, even if the options do not request one.
  Result<void> find_replaced_seal() {
    algorithm_ = options_.seal ? std::optional(HashAlgorithm::crc64nvme) : std::nullopt;
    kept_seal_.reset();
    report_.stale_seal.reset();
    if (options_.if_exists == IfExists::fail) return {};
    const auto replaced =
        HT_TRY(ReplacedSeal::find(plan_.model_path(), affected_paths(), plan_.formats, port_));
    if (!replaced) return {};
    if (replaced->algorithm) algorithm_ = replaced->algorithm;
    // The old seal cannot be renewed, for example because it also covers other files, so it becomes stale. A
    // requested new seal does not replace the old one, because it has another path.
    if (!replaced->algorithm) report_.stale_seal = replaced->path;
    if (!replaced->algorithm || !replaced->path_changes) return {};
    if (is_set()) {
      report_.removed.push_back(replaced->path);
    } else {
      // The seal of the folder covers this file alone. The new seal keeps the path of the old one, so both
      // the folder and the file stay verifiable.
      kept_seal_ = replaced->path;
    }
    return {};
  }

  Result<void> write(const PlannedFile& file) {
    targets_.push_back(HT_TRY(io::AtomicFile::create(file.path, options_.if_exists, port_)));
    auto& target = targets_.back();
    CopyChecksums* sums = nullptr;
    if (seal_uses_copy_sums() || file.finish != nullptr)
      sums = &sums_.try_emplace(file.path.lexically_normal(), cuts_of(file, contents_.pieces)).first->second;
    const CopyOptions copy{.sources = contents_.sources, .sums = sums, .work = work()};
    bool is_whole = true;
    CopiedBy by;
    if (contents_.pieces != nullptr) {
      is_whole = HT_TRY(write_pieces(file, *contents_.pieces, target, copy));
    } else {
      by = HT_TRY(copy_file(file, target, copy));
    }
    if (file.finish != nullptr && is_whole) HT_TRY(finish_header(file, target, *sums));
    HT_TRY(target.sync());
    done_before_ += file.bytes;
    report_.copied_by.reflink += by.reflink;
    report_.copied_by.direct += by.direct;
    report_.copied_by.copy_file_range += by.copy_file_range;
    report_.copied_by.read_write += by.read_write;
    return {};
  }

  // Reports progress over the bytes of all files.
  [[nodiscard]] WorkOptions work() const {
    if (!options_.work.on_progress) return options_.work;
    const auto forward = [this, before = done_before_](const Progress& now) {
      report_progress(before + now.done_bytes);
    };
    return {.stop = options_.work.stop, .on_progress = forward};
  }

  void report_progress(std::uint64_t done_bytes) const {
    if (!options_.work.on_progress) return;
    options_.work.on_progress({.done_bytes = done_bytes,
                               .total_bytes = plan_.bytes(),
                               .elapsed = std::chrono::steady_clock::now() - begin_});
  }

  // Honours a stop that was requested during fsync.
  [[nodiscard]] Result<void> check_stop() const {
    if (!options_.work.stop.stop_requested()) return {};
    return fail(stopped_write(plan_.files.front().path, plan_.bytes(), plan_.bytes()));
  }

  // The checksum of a range of a written file.
  static Result<std::uint64_t> sum_of(const Path& file, CopyChecksums& sums, std::uint64_t offset,
                                      std::uint64_t bytes) {
    auto sum = sums.sum_of(offset, bytes);
    if (!sum) return fail(std::move(sum).error().at_path(file.native()).at_offset(offset));
    return sum;
  }

  // Stores the checksum of the data in the header.
  Result<void> finish_header(const PlannedFile& file, const io::AtomicFile& target,
                             CopyChecksums& sums) const {
    std::uint64_t sum = 0;
    if (contents_.pieces != nullptr) {
      const auto begin = contents_.pieces->begin + contents_.pieces->min_offset;
      sum = HT_TRY(sum_of(file.path, sums, begin, file.bytes - begin));
    }
    for (const auto& part : file.parts)
      sum = crc64nvme_combine(sum, HT_TRY(sum_of(file.path, sums, part.offset, part.bytes)), part.bytes);
    auto header = file.header;
    file.finish(header, sum);
    HT_TRY(target.write(0, header));
    sums.replace(0, header);
    return {};
  }

  // The files of a set are renamed through a journal.
  Result<void> commit(NewSeal* seal, std::optional<SetLock> lock) {
    if (!lock || (targets_.size() == 1 && report_.removed.empty()))
      return commit_file(targets_.front(), seal);
    const bool replaces = options_.if_exists == IfExists::replace;
    auto* const seal_file = seal != nullptr ? seal->file() : nullptr;
    // The order in which the new files get their names: the file that the set is opened by is the last one,
    // and the seal directly before it.
    std::vector<io::AtomicFile*> files;
    files.reserve(targets_.size() + 1);
    const auto is_model_file = [&](const io::AtomicFile& file) {
      return file.target() == plan_.model_path();
    };
    for (auto& target : targets_) {
      if (!is_model_file(target)) files.push_back(&target);
    }
    if (seal_file != nullptr) files.push_back(seal_file);
    files.push_back(&*std::ranges::find_if(targets_, is_model_file));
    std::vector<Path> old = report_.removed;
    old.reserve(old.size() + files.size());
    for (const auto* const file : files) {
      const bool can_replace = replaces || file == seal_file;
      if (can_replace && HT_TRY(file_exists(file->target(), port_))) old.push_back(file->target());
    }
    // Sorted and without duplicates, as the journal requires.
    std::ranges::sort(old, {}, [](const Path& path) { return std::pair(removal_rank(path), path); });
    old.erase(std::ranges::unique(old).begin(), old.end());
    return std::move(*lock).replace(old, files);
  }

  // Whether the seal uses checksums taken during the copy. With another algorithm, or if the data comes in
  // pieces, the written files are read again.
  [[nodiscard]] bool seal_uses_copy_sums() const noexcept {
    return algorithm_ == HashAlgorithm::crc64nvme && contents_.pieces == nullptr;
  }

  Result<NewSeal> new_seal() {
    const KnownDigest seen = [&](const Path& file, std::uint64_t offset,
                                 std::uint64_t bytes) -> Result<Digest> {
      const auto found = sums_.find(file.lexically_normal());
      if (found == sums_.end()) return fail(Error(ErrorCode::internal).at_path(file.native()));
      return Digest(HT_TRY(sum_of(file, found->second, offset, bytes)));
    };
    return NewSeal::of_new_files({.opened = plan_.model_path(),
                                  .files = targets_,
                                  .removed = report_.removed,
                                  .seal = kept_seal_,
                                  .dtypes = open_options_.dtypes,
                                  .formats = plan_.formats,
                                  .port = port_},
                                 {.algorithm = *algorithm_, .work = options_.work},
                                 seal_uses_copy_sums() ? seen : KnownDigest());
  }

  const ConversionPlan& plan_;
  Contents contents_;
  ApplyOptions options_;
  OpenOptions open_options_;
  io::Port& port_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<io::AtomicFile> targets_;
  std::map<Path, CopyChecksums> sums_;
  std::uint64_t done_before_ = 0;
  std::optional<HashAlgorithm> algorithm_;  // of the target's seal, if it gets one
  std::optional<Path> kept_seal_;           // the path of the target's seal, unless it is the default one
  ConversionReport report_;
};

namespace {

Error plan_mismatch(const Path& target, std::string message, const Path& source) {
  return Error(ErrorCode::changed_underfoot, "plan_belongs_to_the_model", std::move(message))
      .at_path((source.empty() ? target : source).native())
      .with_hint("plan the conversion again");
}

// The files must be those that the plan was made from.
Result<void> check_sources(const ConversionPlan& plan, io::MappedFiles files) {
  if (plan.sources.empty() && !files.empty()) {
    return fail(plan_mismatch(plan.target, "the plan was made from a catalog alone, without files", {}));
  }
  if (files.size() != plan.sources.size()) {
    return fail(plan_mismatch(plan.target,
                              format_text("the plan was made from {} files but this model has {}",
                                          plan.sources.size(), files.size()),
                              {}));
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& before = plan.sources[i];
    const auto& source = files[i]->source();
    const auto now = source.identity();
    if (!before || before->identity.device != now.device || before->identity.object != now.object)
      return fail(plan_mismatch(plan.target, "is not the file that the plan was made from", source.path()));
    if (io::may_have_changed(before->identity, now, before->path != source.path()))
      return fail(plan_mismatch(plan.target, "was modified since the plan was made", source.path()));
  }
  return {};
}

}  // namespace

CheckedPlan::CheckedPlan(std::shared_ptr<PlanExecution> execution) noexcept
    : execution_(std::move(execution)) {}
CheckedPlan::CheckedPlan(CheckedPlan&&) noexcept = default;
CheckedPlan& CheckedPlan::operator=(CheckedPlan&&) noexcept = default;
CheckedPlan::~CheckedPlan() = default;

const std::vector<Path>& CheckedPlan::removed() const noexcept { return execution_->removed(); }

Result<ConversionReport> CheckedPlan::apply(const WorkOptions& work) && {
  return without_bad_alloc([&] {
    const auto execution = std::move(execution_);
    execution->set_work(work);
    return execution->run();
  });
}

Result<CheckedPlan> check_plan(const ConversionPlan& plan, const Model& source, const ApplyOptions& options) {
  return without_bad_alloc([&]() -> Result<CheckedPlan> {
    HT_TRY(ModelAccess::check_all_exist(source));
    auto files = ModelAccess::state(source).mapped->files();
    HT_TRY(check_sources(plan, files));
    CheckedPlan checked(std::make_shared<PlanExecution>(plan, Contents{.sources = std::move(files)}, options,
                                                        ModelAccess::open_options(source)));
    HT_TRY(checked.execution_->check());
    return checked;
  });
}

std::vector<std::optional<ConversionPlan::Source>> identities_of(const Model& source) {
  std::vector<std::optional<ConversionPlan::Source>> identities;
  for (const auto& file : ModelAccess::state(source).mapped->sources()) {
    identities.push_back(file ? std::optional(ConversionPlan::Source{file->path(), file->identity()})
                              : std::nullopt);
  }
  return identities;
}

bool is_allowed(const Loss& loss, const ApplyOptions& options) noexcept {
  switch (loss.kind) {
    case Loss::Kind::metadata: return options.lossy || options.drop_metadata;
    case Loss::Kind::rounding: return options.lossy || options.round;
    case Loss::Kind::raw_bytes: break;
  }
  return options.lossy || options.raw_bytes;
}

Result<std::vector<Path>> check_target(const ConversionPlan& plan, const ApplyOptions& options,
                                       const OpenOptions& open_options) {
  return without_bad_alloc([&]() -> Result<std::vector<Path>> {
    PlanExecution execution(plan, {}, options, open_options);
    HT_TRY(execution.check());
    return execution.removed();
  });
}

Result<ConversionReport> apply_from(const ConversionPlan& plan, Contents contents,
                                    const ApplyOptions& options, const OpenOptions& open_options) {
  return without_bad_alloc([&]() -> Result<ConversionReport> {
    PlanExecution execution(plan, std::move(contents), options, open_options);
    HT_TRY(execution.check());
    return execution.run();
  });
}

Result<ConversionReport> apply(const ConversionPlan& plan, const Model& source, const ApplyOptions& options) {
  return HT_TRY(check_plan(plan, source, options)).apply(options.work);
}

Result<ConversionReport> convert(const Model& source, const Path& target, const ConvertOptions& options,
                                 const ApplyOptions& apply_options) {
  return apply(HT_TRY(plan_conversion(source, target, options)), source, apply_options);
}

}  // namespace ht::inline v1
