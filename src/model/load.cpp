#include <htensor/model/load.hpp>

#include <algorithm>
#include <htensor/base/fault.hpp>

#include "base/format_text.hpp"
#include "io/choice.hpp"
#include "model/model_state.hpp"
#include "model/ranges.hpp"
#include "model/tensor_pieces.hpp"

namespace ht::inline v1 {
namespace {

// What is read along where tensors nearly touch, so that files are read in large pieces.
constexpr std::uint64_t gap_bytes = 16384;
constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t least_chunk_bytes = 65536;

Error not_by(io::Strategy strategy) {
  return Error(ErrorCode::unsupported_strategy, "strategy_is_for_this_kind_of_load",
               format_text("cannot be loaded so by '{}'", io::to_string(strategy)))
      .with_hint(
          "Model::load takes `mapped` and `read`, Model::stream `mapped` and `staged`, and "
          "Model::load_into is `external`");
}

// The ring within a budget: fewer chunks, then smaller ones.
Result<io::StagedOptions> ring_within(const LoadOptions& options) {
  io::StagedOptions ring{.chunks = options.chunks, .chunk_bytes = options.chunk_bytes};
  const std::uint64_t budget = options.budget_bytes;
  if (budget == 0 || ring.chunk_bytes == 0 || ring.chunks <= budget / ring.chunk_bytes) return ring;
  ring.chunks = static_cast<std::uint32_t>(std::max<std::uint64_t>(budget / ring.chunk_bytes, 2));
  ring.chunk_bytes = std::min(ring.chunk_bytes, budget / ring.chunks / page_bytes * page_bytes);
  if (ring.chunk_bytes >= std::min(least_chunk_bytes, options.chunk_bytes)) return ring;
  return fail(Error(ErrorCode::budget_too_small, "ring_fits_into_the_budget",
                    format_text("cannot be read through {} bytes of memory", budget))
                  .with_hint(format_text("allow {} bytes at least", 2 * least_chunk_bytes)));
}

}  // namespace

// One load of a model: what is wanted, what is known, and how far it has got.
class ModelLoad {
 public:
  ModelLoad(const Model& model, const LoadOptions& options) : state_(*model.state_), options_(options) {}

  Result<void> plan(std::vector<std::size_t> tensors) {
    tensors_ = std::move(tensors);
    ranges_ = merged_ranges(*state_.catalog, tensors_);
    progress_.total_bytes = sum_of(ranges_);
    loaded_.bytes = progress_.total_bytes;
    budget_bytes_ = options_.budget_bytes;
    // Who looks at a few alone need not wait for an answer about all.
    const bool only_maps = options_.use == io::Use::few && options_.strategy != io::Strategy::read;
    if (ranges_.empty() || only_maps) return {};
    // A system that does not tell is taken for one that has nothing in its page cache, and enough memory.
    for (const auto& [number, offset, bytes] : ranges_) {
      cached_bytes_ += file(number).cached(offset, bytes).value_or(0);
    }
    if (budget_bytes_ == 0) {
      const auto available = io::file_of(file(ranges_[0].file)).port().available_memory();
      budget_bytes_ = available ? io::most_of(*available) : UINT64_MAX;
    }
    return {};
  }

  Result<Loaded> load() {
    choose(options_.use);
    switch (loaded_.choice.strategy) {
      case io::Strategy::mapped: HT_TRY(options_.use == io::Use::few ? expect_few() : fetch()); break;
      case io::Strategy::read: HT_TRY(read()); break;
      default: return fail(not_by(loaded_.choice.strategy));
    }
    return done();
  }

  Result<Loaded> stream(const PieceConsumer& consumer) {
    choose(io::Use::one_pass);
    TensorPieces pieces(*state_.catalog, tensors_, consumer);
    switch (loaded_.choice.strategy) {
      case io::Strategy::mapped: HT_TRY(hand_on_mapped(pieces)); break;
      case io::Strategy::staged: HT_TRY(hand_on_staged(pieces)); break;
      default: return fail(not_by(loaded_.choice.strategy));
    }
    return done();
  }

  Result<Loaded> into(std::span<const io::LoadRequest> requests) {
    loaded_.choice = {io::Strategy::external, "asked_for", "The memory was given."};
    auto work = HT_TRY(work_of(reading()));
    io::ExternalStrategy external(state_.residency->load_files());
    HT_TRY(answered(external.answer(requests, work)));
    loaded_.direct_bytes = work.done.direct_bytes;
    return done();
  }

  /// What lies around a page that is touched is not read along: a disk that reads far ahead would be busy
  /// with that.
  Result<void> expect_few() { return advise_files(io::Advice::random); }
  /// Brings the pages in.
  Result<void> fetch() {
    return walk_mapped([](Bytes) -> Result<void> { return {}; });
  }
  void tell(std::uint64_t done_bytes) {
    // What is read along between tensors is none of theirs.
    progress_.done_bytes = std::min(done_bytes, progress_.total_bytes);
    progress_.elapsed = std::chrono::steady_clock::now() - begin_;
    if (options_.work.on_progress) options_.work.on_progress(progress_);
  }
  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return progress_.total_bytes; }

 private:
  [[nodiscard]] const io::Mapped& file(std::size_t number) const { return *state_.residency->file(number); }

  void choose(io::Use use) {
    if (options_.strategy != io::Strategy::automatic) {
      loaded_.choice = {options_.strategy, "asked_for", "It was asked for."};
      return;
    }
    io::Facts facts{.bytes = progress_.total_bytes,
                    .cached_bytes = cached_bytes_,
                    .budget_bytes = budget_bytes_,
                    .use = use};
    std::optional<std::uint32_t> last;
    for (const auto& range : ranges_) {
      if (last == range.file) continue;
      const auto& opened = io::file_of(file(range.file));
      const auto system = opened.port().file_system(opened.handle()).value_or(io::FileSystem::unknown);
      // The slowest of the files counts.
      const bool is_far = system == io::FileSystem::network || system == io::FileSystem::user_space;
      if (!last || is_far || facts.file_system == io::FileSystem::memory) facts.file_system = system;
      last = range.file;
    }
    loaded_.choice = io::choose(facts);
  }

  // What is in the page cache is copied by several threads at once; what is not goes past it.
  [[nodiscard]] Result<io::StagedOptions> reading() const {
    auto reading = HT_TRY(ring_within(options_));
    if (cached_bytes_ >= progress_.total_bytes / 2) {
      reading.direct = false;
      reading.queueing = io::Queueing::threads;
    }
    return reading;
  }

  Result<io::LoadWork> work_of(Result<io::StagedOptions> options) {
    io::LoadWork work{.reading = HT_TRY(std::move(options)), .budget_bytes = budget_bytes_};
    work.reading.stop = options_.work.stop;
    work.reading.on_progress = [this](std::uint64_t done_bytes) { tell(done_bytes); };
    return work;
  }

  static Result<void> answered(const std::vector<io::Answer>& answers) {
    for (const auto& answer : answers) {
      if (const auto* const failed = std::get_if<io::RequestFailed>(&answer)) return fail(failed->error);
    }
    return {};
  }

  Result<void> read() {
    auto work = HT_TRY(work_of(reading()));
    HT_TRY(state_.residency->load(tensors_, work));
    loaded_.direct_bytes = work.done.direct_bytes;
    return {};
  }

  Result<void> hand_on_staged(TensorPieces& pieces) {
    auto work = HT_TRY(work_of(ring_within(options_)));
    io::StagedStrategy staged(state_.residency->load_files(), [&](const io::Chunk& chunk, Bytes bytes) {
      return pieces.take(chunk.range, bytes);
    });
    std::vector<io::LoadRequest> requests;
    for (const auto& range : merged_ranges(*state_.catalog, tensors_, gap_bytes)) {
      requests.push_back({.range = range});
    }
    HT_TRY(answered(staged.answer(requests, work)));
    loaded_.direct_bytes = std::min(work.done.direct_bytes, loaded_.bytes);
    return {};
  }

  Result<void> hand_on_mapped(TensorPieces& pieces) {
    HT_TRY(check_unchanged());
    HT_TRY(walk_mapped([&](Bytes bytes) -> Result<void> {
      return guarded(bytes, [&] { return pieces.take(piece_, bytes); });
    }));
    return check_unchanged();
  }

  Result<void> check_unchanged() const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (i == 0 || ranges_[i].file != ranges_[i - 1].file) HT_TRY(file(ranges_[i].file).check_unchanged());
    }
    return {};
  }

  Result<void> check_stop() const {
    if (!options_.work.stop.stop_requested()) return {};
    return fail(Error(ErrorCode::cancelled, "work_is_not_stopped",
                      format_text("was stopped with {} of {} bytes loaded", progress_.done_bytes,
                                  progress_.total_bytes))
                    .at_path(state_.opened.native()));
  }

  /// Whole files, as the system keeps each part that differs from its neighbours apart.
  Result<void> advise_files(io::Advice advice) const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (i != 0 && ranges_[i].file == ranges_[i - 1].file) continue;
      const auto& mapped = file(ranges_[i].file);
      HT_TRY(mapped.advise(mapped.offset(), mapped.bytes().size(), advice));
    }
    return {};
  }

  /// Piece by piece: each is fetched, handed to `each`, and let go of where not all may stay.
  template <class Each>
  Result<void> walk_mapped(Each&& each) {
    const bool lets_go = options_.budget_bytes != 0 && progress_.total_bytes > options_.budget_bytes;
    const std::uint64_t piece_bytes = HT_TRY(ring_within(options_)).chunk_bytes;
    std::uint64_t done_bytes = 0;
    // Whoever expected a few before would fetch page by page.
    HT_TRY(advise_files(io::Advice::normal));
    for (const auto& range : ranges_) {
      const auto& mapped = file(range.file);
      for (std::uint64_t done = 0; done < range.bytes; done += piece_.bytes) {
        HT_TRY(check_stop());
        piece_ = {range.file, range.offset + done, std::min(piece_bytes, range.bytes - done)};
        HT_TRY(mapped.advise(piece_.offset, piece_.bytes, io::Advice::populate));
        HT_TRY(each(HT_TRY(mapped.range(piece_.offset, piece_.bytes))));
        if (options_.drop_after) {
          HT_TRY(mapped.forget(piece_.offset, piece_.bytes));
        } else if (lets_go) {
          HT_TRY(mapped.advise(piece_.offset, piece_.bytes, io::Advice::drop));
        }
        done_bytes += piece_.bytes;
        tell(done_bytes);
      }
    }
    return {};
  }

  Result<Loaded> done() {
    tell(progress_.total_bytes);
    loaded_.elapsed = progress_.elapsed;
    if (options_.drop_after) {
      for (const auto& [number, offset, bytes] : ranges_) HT_TRY(file(number).forget(offset, bytes));
    }
    return loaded_;
  }

  const Model::State& state_;
  const LoadOptions& options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<std::size_t> tensors_;
  std::vector<io::FileRange> ranges_;
  std::uint64_t cached_bytes_ = 0;
  std::uint64_t budget_bytes_ = 0;
  io::FileRange piece_;
  Progress progress_;
  Loaded loaded_;
};

Result<Loaded> Model::load(const LoadOptions& options) const {
  return without_bad_alloc([&]() -> Result<Loaded> {
    ModelLoad load(*this, options);
    HT_TRY(load.plan(HT_TRY(tensors_matching(options.glob))));
    return placed(load.load());
  });
}

Result<Loaded> Model::stream(const PieceConsumer& consumer, const LoadOptions& options) const {
  return without_bad_alloc([&]() -> Result<Loaded> {
    ModelLoad load(*this, options);
    HT_TRY(load.plan(HT_TRY(tensors_matching(options.glob))));
    return placed(load.stream(consumer));
  });
}

Result<Loaded> Model::load_into(std::span<const Target> targets, const LoadOptions& options) const {
  return without_bad_alloc([&]() -> Result<Loaded> {
    std::vector<std::size_t> tensors;
    std::vector<io::LoadRequest> requests;
    for (const auto& [name, into] : targets) {
      const std::size_t index = HT_TRY(index_of(name));
      const Entry entry = (*state_->catalog)[index];
      HT_TRY(check_has_bytes(entry));
      HT_TRY(mapped_bytes(entry));
      if (into.size() != entry.bytes) {
        return fail(located(
            Error(ErrorCode::size_mismatch, "target_is_as_large_as_its_tensor",
                  format_text("tensor '{}' has {} bytes, and its target {}", name, entry.bytes, into.size())),
            name));
      }
      if (entry.bytes == 0) continue;
      tensors.push_back(index);
      requests.push_back({.range = {entry.file, entry.offset, entry.bytes}, .into = into});
    }
    ModelLoad load(*this, options);
    HT_TRY(load.plan(std::move(tensors)));
    return placed(load.into(requests));
  });
}

Result<std::uint64_t> Model::prefetch(std::string_view glob, const WorkOptions& options) const {
  auto fetched = load({.strategy = io::Strategy::mapped, .glob = std::string(glob), .work = options});
  if (!fetched) return fail(std::move(fetched).error());
  return fetched->bytes;
}

}  // namespace ht::inline v1
