#include <htensor/convert/convert.hpp>

#include <algorithm>
#include <chrono>
#include <htensor/hash/crc64.hpp>
#include <htensor/io/mapped.hpp>
#include <map>

#include "base/format_text.hpp"
#include "convert/copy_engine.hpp"
#include "convert/from_memory.hpp"
#include "convert/passing_sums.hpp"
#include "convert/renewed_seal.hpp"
#include "format/ht/ht.hpp"
#include "format/shards/numbered_name.hpp"
#include "format/shards/shard_index.hpp"
#include "integrity/regions.hpp"
#include "io/atomic_file.hpp"
#include "io/system_error.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

std::string_view option_that_allows(LossKind kind) noexcept {
  return kind == LossKind::metadata ? "--drop-metadata" : "--raw-bytes";
}

// The hint names the options that allow every loss that is still refused, and no other.
Result<void> check_losses(const ConversionPlan& plan, const ApplyOptions& options) {
  const Loss* first = nullptr;
  std::size_t count = 0;
  std::vector<std::string_view> missing;
  for (const auto& loss : plan.losses) {
    if (is_allowed(loss, options)) continue;
    if (count++ == 0) first = &loss;
    const auto option = option_that_allows(loss.kind);
    if (std::ranges::find(missing, option) == missing.end()) missing.push_back(option);
  }
  if (first == nullptr) return {};
  const std::string more = count == 1 ? std::string() : format_text("; {} more would be lost", count - 1);
  auto error =
      Error(ErrorCode::would_lose, "nothing_is_lost_unasked", first->why + more)
          .at_path(plan.files.front().path.native())
          .with_hint(format_text("{}, or allow the loss with {}", first->hint, fmt::join(missing, " ")));
  return fail(first->is_tensor ? std::move(error).at_tensor(first->name) : std::move(error));
}

// Where a seal will want the sums to begin and end, and where a header ends that is written again.
std::vector<std::uint64_t> cuts_of(const PlannedFile& file, bool is_ht) {
  std::vector<SealedTensor> tensors;
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
  if (is_ht) cuts.insert(std::ranges::upper_bound(cuts, format_ht::header_bytes), format_ht::header_bytes);
  return cuts;
}

class Application {
 public:
  Application(const ConversionPlan& plan, std::span<const io::Mapped* const> sources,
              const ApplyOptions& options, const OpenOptions& reading)
      : plan_(plan),
        sources_(sources),
        options_(options),
        reading_(reading),
        port_(reading.port != nullptr ? *reading.port : io::system_port()) {}

  // What can be known before anything is written.
  [[nodiscard]] Result<void> check() {
    HT_TRY(check_losses(plan_, options_));
    std::vector<Path> paths;
    for (const auto& file : plan_.files) {
      HT_TRY(io::AtomicFile::check_target(file.path, options_.if_exists, port_));
      if (is_set()) HT_TRY(check_is_no_source(file.path));
      paths.push_back(file.path);
    }
    if (options_.if_exists == io::IfExists::replace) {
      // While the old index exists. A seal of the old shards is not one of another model.
      converted_.removed = HT_TRY(shards_to_remove(plan_, &port_));
      paths.insert(paths.end(), converted_.removed.begin(), converted_.removed.end());
    }
    if (options_.seal) HT_TRY(ModelAccess::check_can_seal(plan_.model_path(), paths, port_));
    return {};
  }

  Result<Converted> run() {
    HT_TRY(check());
    HT_TRY(find_replaced_seal());
    targets_.reserve(plan_.files.size());
    for (const auto& file : plan_.files) HT_TRY(write(file));
    report_end();
    HT_TRY(check_stop());
    std::optional<RenewedSeal> seal;
    if (algorithm_) {
      seal.emplace(HT_TRY(new_seal()));
      HT_TRY(check_stop());
      converted_.seal = seal->path();
    }
    HT_TRY(put_in_place(seal ? &*seal : nullptr));
    // All of the new set is in place: an end of the process from here on leaves old files, and loses none.
    for (const auto& path : converted_.removed) HT_TRY(remove_file(path, port_));
    return std::move(converted_);
  }

 private:
  [[nodiscard]] bool is_set() const noexcept { return plan_.files.size() > 1; }

  // One file takes the place of another at once. Of several, the first would be there when the others are not
  // yet, and what they hold would be nowhere if it all ended then.
  [[nodiscard]] Result<void> check_is_no_source(const Path& path) const {
    const auto there = port_.stat(path);
    if (!there) return {};
    for (const auto* const source : sources_) {
      if (source == nullptr) continue;
      if (source->stat().device != there->device || source->stat().inode != there->inode) continue;
      return fail(Error(ErrorCode::in_use, "several_files_do_not_replace_their_source",
                        "is a file of the source, and a set of shards cannot replace its own source")
                      .at_path(path.native())
                      .with_hint("write the shards into another folder"));
    }
    return {};
  }

  // A sealed target gets a new seal of the same algorithm, whether one was asked for or not.
  Result<void> find_replaced_seal() {
    if (options_.seal) algorithm_ = HashAlgorithm::crc64nvme;
    if (options_.if_exists == io::IfExists::fail) return {};
    std::vector<Path> paths;
    paths.reserve(plan_.files.size() + converted_.removed.size());
    for (const auto& file : plan_.files) paths.push_back(file.path);
    paths.insert(paths.end(), converted_.removed.begin(), converted_.removed.end());
    const auto replaced = HT_TRY(ReplacedSeal::find(plan_.model_path(), paths, port_));
    if (!replaced) return {};
    if (replaced->algorithm) algorithm_ = replaced->algorithm;
    if (!algorithm_) converted_.stale_seal = replaced->path;
    if (algorithm_ && replaced->is_obsolete) converted_.removed.push_back(replaced->path);
    return {};
  }

  Result<void> write(const PlannedFile& file) {
    targets_.push_back(HT_TRY(io::AtomicFile::create(file.path, options_.if_exists, port_)));
    auto& target = targets_.back();
    // A .ht has its data's checksum in its header.
    const bool is_ht = plan_.format == "ht";
    PassingSums* sums = nullptr;
    if (sums_are_sealed() || is_ht)
      sums = &sums_.try_emplace(file.path.lexically_normal(), cuts_of(file, is_ht)).first->second;
    const auto by = HT_TRY(copy_file(file, target, {.sources = sources_, .watcher = sums, .work = work()}));
    if (is_ht) HT_TRY(finish_ht(file, target, *sums));
    HT_TRY(target.sync());
    done_before_ += file.bytes;
    converted_.copied_by.reflink += by.reflink;
    converted_.copied_by.direct += by.direct;
    converted_.copied_by.copy_file_range += by.copy_file_range;
    converted_.copied_by.read_write += by.read_write;
    return {};
  }

  // The bytes of all files count.
  [[nodiscard]] WorkOptions work() const {
    if (!options_.work.on_progress) return options_.work;
    const auto tell = [this, before = done_before_](const Progress& now) {
      options_.work.on_progress({.done_bytes = before + now.done_bytes,
                                 .total_bytes = plan_.bytes(),
                                 .elapsed = std::chrono::steady_clock::now() - begin_});
    };
    return {.stop = options_.work.stop, .on_progress = tell};
  }

  void report_end() const {
    if (!options_.work.on_progress) return;
    options_.work.on_progress({.done_bytes = plan_.bytes(),
                               .total_bytes = plan_.bytes(),
                               .elapsed = std::chrono::steady_clock::now() - begin_});
  }

  // Honours a stop that was requested during fsync.
  [[nodiscard]] Result<void> check_stop() const {
    if (!options_.work.stop.stop_requested()) return {};
    return fail(Error(ErrorCode::cancelled, "work_is_not_stopped",
                      format_text("stopped: {0} of {0} bytes written, nothing left behind", plan_.bytes()))
                    .at_path(plan_.files.front().path.native()));
  }

  static Result<void> finish_ht(const PlannedFile& file, const io::AtomicFile& target, PassingSums& sums) {
    const auto& data = file.parts;
    std::vector<std::byte> header(file.header.begin(), file.header.begin() + format_ht::header_bytes);
    const auto sum = data.empty() ? crc64nvme({}) : HT_TRY(sums.sum_of(data[0].offset, data[0].bytes));
    format_ht::store_payload_crc(std::span(header).first<format_ht::header_bytes>(), sum);
    HT_TRY(target.write(0, header));
    return sums.see_instead(0, header);
  }

  Result<void> put_in_place(RenewedSeal* seal) {
    // So that nobody ever takes some old and some new files for one model; the index goes first. Where the
    // new shards have other names than the old ones, the new index replaces the old one at once.
    std::vector<Path> replaced;
    if (is_set() && options_.if_exists == io::IfExists::replace && replaces_a_shard()) {
      replaced.reserve(plan_.files.size());
      for (auto file = plan_.files.rbegin(); file != plan_.files.rend(); ++file) {
        if (port_.stat(file->path)) replaced.push_back(file->path);
      }
    }
    // All memory is had before the first file is in place: what is there then is told.
    for (const auto& file : plan_.files) converted_.written.push_back(file.path);
    converted_.bytes = plan_.bytes();
    return commit_files(targets_, seal, replaced);
  }

  // Of other algorithms the files are read again.
  [[nodiscard]] bool sums_are_sealed() const noexcept { return algorithm_ == HashAlgorithm::crc64nvme; }

  // Whether a file other than the index has the name of a new shard.
  [[nodiscard]] bool replaces_a_shard() const {
    return std::ranges::any_of(plan_.files, [this](const PlannedFile& file) {
      return parse_numbered_name(file.path.filename().string()) && port_.stat(file.path);
    });
  }

  Result<RenewedSeal> new_seal() {
    const ModelAccess::Seen seen = [&](const Path& file, std::uint64_t offset,
                                       std::uint64_t bytes) -> Result<Digest> {
      const auto found = sums_.find(file.lexically_normal());
      if (found == sums_.end()) return fail(Error(ErrorCode::internal).at_path(file.native()));
      return Digest(HT_TRY(found->second.sum_of(offset, bytes)));
    };
    return RenewedSeal::of_new_files({.opened = plan_.model_path(),
                                      .files = targets_,
                                      .removed = converted_.removed,
                                      .dtypes = reading_.dtypes,
                                      .port = port_},
                                     {.algorithm = *algorithm_, .work = options_.work},
                                     sums_are_sealed() ? seen : ModelAccess::Seen());
  }

  const ConversionPlan& plan_;
  std::span<const io::Mapped* const> sources_;
  const ApplyOptions& options_;
  const OpenOptions& reading_;
  io::Port& port_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<io::AtomicFile> targets_;
  std::map<Path, PassingSums> sums_;
  std::uint64_t done_before_ = 0;
  std::optional<HashAlgorithm> algorithm_;  // of the target's seal, if it gets one
  Converted converted_;
};

// The files that an index names; nothing where there is no index.
Result<std::optional<std::vector<Path>>> files_of_index(const Path& path, io::Port& port) {
  if (!port.stat(path)) return std::nullopt;
  constexpr std::uint64_t max_bytes = 100'000'000;
  const auto file = HT_TRY(io::Opened::open(path, port));
  std::vector<Path> files;
  // A file that is not an index, or too large for one, proves nothing about other files.
  if (file.stat().bytes > max_bytes) return files;
  std::vector<std::byte> text(static_cast<std::size_t>(file.stat().bytes));
  HT_TRY(file.read(0, text));
  const auto index = parse_shard_index(text);
  if (index && *index) {
    for (const auto& name : (*index)->files) files.push_back(path.parent_path() / name);
  }
  return files;
}

}  // namespace

Result<std::vector<Path>> shards_to_remove(const ConversionPlan& plan, io::Port* given) {
  return without_bad_alloc([&]() -> Result<std::vector<Path>> {
    std::vector<Path> old;
    if (!plan.is_sharded) return old;
    auto& port = given != nullptr ? *given : io::system_port();
    const Path folder = plan.target.parent_path();
    auto index = plan.target;
    index += ".index.json";
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
      const bool is_of_the_set = !indexed || std::ranges::find(*indexed, path) != indexed->end();
      if (is_shard && is_of_the_set && !is_planned(path)) old.push_back(path);
    }
    // Deterministic: the system lists in any order.
    std::ranges::sort(old);
    // The index goes first, so that it never names a file that is gone.
    if (indexed && !indexed->empty() && !is_planned(index)) old.insert(old.begin(), index);
    return old;
  });
}

bool is_allowed(const Loss& loss, const ApplyOptions& options) noexcept {
  return options.lossy || (loss.kind == LossKind::metadata ? options.drop_metadata : options.raw_bytes);
}

Result<Converted> apply_from(const ConversionPlan& plan, std::span<const io::Mapped* const> sources,
                             const ApplyOptions& options, const OpenOptions& reading) {
  return without_bad_alloc([&] { return Application(plan, sources, options, reading).run(); });
}

Result<Converted> apply(const ConversionPlan& plan, const Model& source, const ApplyOptions& options) {
  return without_bad_alloc([&]() -> Result<Converted> {
    const auto files = HT_TRY(ModelAccess::files(source));
    return apply_from(plan, files, options, ModelAccess::open_options(source));
  });
}

Result<void> can_apply(const ConversionPlan& plan, const Model& source, const ApplyOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto files = HT_TRY(ModelAccess::files(source));
    return Application(plan, files, options, ModelAccess::open_options(source)).check();
  });
}

Result<Converted> convert(const Model& source, const Path& target, const ConvertOptions& options,
                          const ApplyOptions& how) {
  return apply(HT_TRY(plan_conversion(source.catalog(), target, options)), source, how);
}

}  // namespace ht::inline v1
