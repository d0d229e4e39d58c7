#include <htensor/model/load.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <htensor/base/fault.hpp>
#include <optional>
#include <system_error>
#include <thread>

#include "base/format_text.hpp"
#include "io/choice.hpp"
#include "io/fetch_pages.hpp"
#include "io/sampled_cache.hpp"
#include "model/load_checks.hpp"
#include "model/model_access.hpp"
#include "model/model_state.hpp"
#include "model/pass_check.hpp"
#include "model/ranges.hpp"
#include "model/tensor_pieces.hpp"

namespace ht::inline v1 {
namespace {

// Gaps up to this size between tensors are read along, so that files are read in large pieces.
constexpr std::uint64_t gap_bytes = 16384;
constexpr std::uint64_t page_bytes = 4096;

// How far a stream by `mapped` is ahead of its consumer.
constexpr std::size_t stream_ahead_pieces = 16;

Error not_by(io::Strategy strategy) {
  return Error(ErrorCode::unsupported_strategy, "strategy_is_for_this_kind_of_load",
               format_text("the strategy '{}' does not apply to this kind of load", io::to_string(strategy)))
      .with_hint("use `mapped` or `read` with Model::load, `mapped` or `staged` with Model::stream");
}

std::string rate_text(double bytes_per_second) { return format_text("{:.1f} GB/s", bytes_per_second / 1e9); }

std::string threads_text(std::uint32_t threads) {
  return format_text("{} {}", threads, threads == 1 ? "thread" : "threads");
}

Result<void> answered(const std::vector<io::Answer>& answers) {
  for (const auto& answer : answers) {
    if (const auto* const failed = std::get_if<io::RequestFailed>(&answer)) return fail(*failed->error);
  }
  return {};
}

}  // namespace

// One load of a model.
class ModelLoad {
 public:
  ModelLoad(const Model& model, const LoadOptions& options, std::vector<std::size_t> tensors)
      : model_(model),
        state_(*model.state_),
        options_(options),
        tensors_(std::move(tensors)),
        ranges_(merged_ranges(*state_.catalog, tensors_)),
        bytes_(sum_of(ranges_)) {
    progress_.total_bytes = bytes_;
  }

  /// Tensors `in_memory` are not loaded again.
  Result<Loaded> load(std::vector<std::size_t> in_memory) {
    in_memory_ = std::move(in_memory);
    loaded_.resident_bytes = sum_of(merged_ranges(*state_.catalog, in_memory_));
    loaded_.wanted_bytes = bytes_ + loaded_.resident_bytes;
    HT_TRY(io::check_ring(options_.chunks, options_.chunk_bytes));
    HT_TRY(begin_check());
    const bool few = options_.use == io::Use::few;
    choose(few ? io::Use::few : io::Use::all);
    switch (loaded_.choice.strategy) {
      case io::Strategy::mapped: return finished(few ? expect_few() : fetch());
      case io::Strategy::read: return finished(read());
      case io::Strategy::staged:
        if (options_.strategy == io::Strategy::automatic) return finished(stream_through());
        [[fallthrough]];
      default: return fail(not_by(loaded_.choice.strategy));
    }
  }

  Result<Loaded> stream(const PieceConsumer& consumer) {
    HT_TRY(io::check_ring(options_.chunks, options_.chunk_bytes));
    HT_TRY(begin_check());
    choose(io::Use::one_pass);
    loaded_.wanted_bytes = loaded_.bytes = loaded_.streamed_bytes = bytes_;
    TensorPieces pieces(*state_.catalog, tensors_, consumer);
    switch (loaded_.choice.strategy) {
      case io::Strategy::mapped: return finished(hand_on_mapped(pieces));
      case io::Strategy::staged: return finished(hand_on_staged(pieces));
      default: return fail(not_by(loaded_.choice.strategy));
    }
  }

  Result<Loaded> into(std::span<const io::LoadRequest> requests) {
    HT_TRY(io::check_ring(options_.chunks, options_.chunk_bytes));
    HT_TRY(begin_check());
    loaded_.choice = {io::Strategy::external, "asked_for", "into the caller's memory"};
    ask_page_cache();
    // A tensor with two targets is read twice.
    for (const auto& request : requests) loaded_.bytes += request.range.bytes;
    loaded_.wanted_bytes = progress_.total_bytes = loaded_.bytes;
    return finished(fill(requests));
  }

 private:
  [[nodiscard]] const io::Mapped& file(std::size_t number) const { return *state_.residency->file(number); }

  Result<void> begin_check() {
    if (!options_.verify) return {};
    files_ = state_.residency->mapped_files();
    check_ = HT_TRY(PassCheck::make({.opened = state_.opened,
                                     .paths = state_.paths,
                                     .mapped = files_,
                                     .catalog = *state_.catalog,
                                     .tensors = tensors_,
                                     .port = *state_.port}));
    for (const std::size_t tensor : in_memory_) {
      const auto any = HT_TRY(model_.at(tensor));
      HT_TRY(check_->check_tensor(any.name(), HT_TRY(any.bytes()), options_.work.stop));
    }
    return {};
  }

  Result<void> pass(const io::FileRange& range, Bytes bytes) {
    return check_ ? check_->take(range, bytes) : Result<void>();
  }

  void choose(io::Use use) {
    if (use != io::Use::few) ask_page_cache();
    if (options_.strategy != io::Strategy::automatic) {
      loaded_.choice = {options_.strategy, "asked_for", "requested by name"};
    } else if (ranges_.empty()) {
      loaded_.choice = {use == io::Use::one_pass ? io::Strategy::staged : io::Strategy::mapped,
                        "nothing_to_load", "nothing to load, or loaded into memory already"};
    } else {
      loaded_.choice = io::choose(facts(use));
    }
  }

  // By samples, so that it takes microseconds.
  void ask_page_cache() {
    const auto share = io::cached_share(state_.residency->mapped_files(), ranges_);
    if (!share) return;
    loaded_.cached_bytes = std::min(bytes_, static_cast<std::uint64_t>(*share * static_cast<double>(bytes_)));
  }
  [[nodiscard]] bool is_mostly_cached() const {
    return loaded_.cached_bytes && *loaded_.cached_bytes >= bytes_ / 2;
  }

  [[nodiscard]] io::Facts facts(io::Use use) const {
    io::Facts facts{.bytes = bytes_, .use = use};
    // Asking about all files would cost more than a few pages do.
    if (use == io::Use::few) return facts;
    facts.cached_bytes = loaded_.cached_bytes;
    if (use == io::Use::all) {
      facts.budget_bytes = budget_bytes();
      facts.budget_is_set = options_.budget_bytes != 0;
      facts.memory_bytes = state_.residency->memory_for(tensors_).value_or(UINT64_MAX);
    }
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
    return facts;
  }

  // A system that does not report its memory is taken for one that has enough.
  [[nodiscard]] std::uint64_t budget_bytes() const {
    if (options_.budget_bytes != 0) return options_.budget_bytes;
    const auto available = state_.port->available_memory();
    return available ? io::most_of(*available) : UINT64_MAX;
  }

  // Bytes in the page cache are copied by several threads; the others are read past it.
  io::LoadWork work_for_memory() {
    io::StagedOptions reading{.chunks = options_.chunks, .chunk_bytes = options_.chunk_bytes};
    const std::uint64_t budget = options_.budget_bytes;
    reading.ring_for_memory = budget == 0 || reading.chunks <= budget / reading.chunk_bytes;
    if (is_mostly_cached()) {
      reading.direct = false;
      reading.queueing = io::Queueing::threads;
      // Copying is faster than reading, so handing a piece to a thread costs relatively more.
      reading.chunk_bytes *= 4;
      guarded_files_ = state_.residency->guarded_files();
      reading.mapped = guarded_files_;
    }
    return work_by(std::move(reading));
  }

  io::LoadWork work_by(io::StagedOptions reading) {
    reading.stop = options_.work.stop;
    if (check_) {
      reading.on_loaded = [this](const io::Chunk& chunk, Bytes bytes) { return pass(chunk.range, bytes); };
    }
    reading.on_progress = [this](std::uint64_t done_bytes) { tell(done_bytes); };
    return {.reading = std::move(reading), .budget_bytes = options_.budget_bytes};
  }

  Result<void> read() {
    auto work = work_for_memory();
    HT_TRY(state_.residency->load(tensors_, work));
    loaded_.bytes = bytes_;
    loaded_.direct_bytes = work.done.direct_bytes;
    page_threads_ = work.page_threads;
    return {};
  }

  Result<void> fill(std::span<const io::LoadRequest> requests) {
    auto work = work_for_memory();
    io::ExternalStrategy external(state_.residency->load_files());
    HT_TRY(answered(external.answer(requests, work)));
    loaded_.direct_bytes = work.done.direct_bytes;
    return {};
  }

  Result<void> hand_on_staged(TensorPieces& pieces) {
    auto work = work_by(HT_TRY(ring_within(options_)));
    const auto take = [&](const io::Chunk& chunk, Bytes bytes) -> Result<void> {
      HT_TRY(pass(chunk.range, bytes));
      return pieces.take(chunk.range, bytes);
    };
    io::StagedStrategy staged(state_.residency->load_files(), take);
    std::vector<io::LoadRequest> requests;
    for (const auto& range : merged_ranges(*state_.catalog, tensors_, gap_bytes)) {
      requests.push_back({.range = range});
    }
    HT_TRY(answered(staged.answer(requests, work)));
    loaded_.direct_bytes = work.done.direct_bytes;
    return {};
  }

  /// For what exceeds the memory budget: every byte is read, and checked if that is asked for.
  Result<void> stream_through() {
    const PieceConsumer leave = [](const TensorPiece&) -> Result<void> { return {}; };
    TensorPieces pieces(*state_.catalog, tensors_, leave);
    HT_TRY(hand_on_staged(pieces));
    state_.residency->map(tensors_);
    loaded_.bytes = loaded_.streamed_bytes = bytes_;
    return {};
  }

  Result<void> hand_on_mapped(TensorPieces& pieces) {
    HT_TRY(check_unchanged());
    const std::uint64_t budget = options_.budget_bytes;
    const bool lets_go = budget != 0 && bytes_ > budget;
    const io::FetchOptions how{
        .tune = false,
        .max_ahead = lets_go ? static_cast<std::size_t>(budget / piece_bytes()) : stream_ahead_pieces};
    HT_TRY(walk_mapped(how, [&](const io::FileRange& piece) -> Result<void> {
      const auto& mapped = file(piece.file);
      const Bytes bytes = HT_TRY(mapped.range(piece.offset, piece.bytes));
      HT_TRY(guarded(bytes, [&]() -> Result<void> {
        HT_TRY(pass(piece, bytes));
        return pieces.take(piece, bytes);
      }));
      if (options_.drop_after) return mapped.forget(piece.offset, piece.bytes);
      if (lets_go) return mapped.advise(piece.offset, piece.bytes, io::Advice::drop);
      return {};
    }));
    return check_unchanged();
  }

  /// Brings all pages in.
  Result<void> fetch() {
    if (options_.strategy == io::Strategy::mapped) HT_TRY(check_fits());
    state_.residency->map(tensors_);
    HT_TRY(check_ ? fetch_and_check()
                  : walk_mapped({}, [](const io::FileRange&) -> Result<void> { return {}; }));
    loaded_.bytes = bytes_;
    return {};
  }

  [[nodiscard]] Result<void> check_fits() const {
    // Without a budget, pages that are in memory already do not need free memory.
    const bool is_set = options_.budget_bytes != 0;
    const std::uint64_t needed = is_set ? bytes_ : bytes_ - loaded_.cached_bytes.value_or(0);
    const std::uint64_t budget = budget_bytes();
    if (needed <= budget) return {};
    return fail(Error(ErrorCode::budget_too_small, "mapped_bytes_fit_into_the_budget",
                      format_text("needs {} bytes of memory but {} {} bytes; 0 bytes were loaded", needed,
                                  is_set ? "the budget is" : "a load may use", budget))
                    .with_hint("raise the budget, load fewer tensors, or use the strategy `staged`"));
  }

  /// Pages in memory are checked by all processors at once; the others as they come in.
  Result<void> fetch_and_check() {
    if (is_mostly_cached()) {
      HT_TRY(check_->check_mapped(files_, ranges_, options_.work));
      tell(bytes_);
      return {};
    }
    Fetched fetched;
    std::atomic<bool> came = true;
    Result<void> walked;
    const auto wait_for = [&](std::uint64_t bytes) -> Result<void> {
      if (fetched.wait_for(bytes)) return {};
      came = false;
      return fail(Error(ErrorCode::read_failed));  // `walked` has the cause
    };
    std::exception_ptr thrown;  // by the caller's callback for progress
    std::optional<std::jthread> fetcher;
    try {
      fetcher.emplace([&] {
        try {
          walked = fetch_for(fetched);
        } catch (...) {
          thrown = std::current_exception();
        }
      });
    } catch (const std::system_error&) {
      walked = fetch_for(fetched);  // the system starts no thread
    }
    // Also where the check throws: the fetcher must not go on to the end.
    struct GiveUp {
      Fetched& fetched;
      bool is_needed = true;
      ~GiveUp() {
        if (is_needed) fetched.give_up();
      }
    };
    GiveUp give_up{fetched};
    auto checked =
        check_->check_mapped(files_, ranges_, {.stop = options_.work.stop, .on_progress = {}}, wait_for);
    give_up.is_needed = !checked;
    if (!checked) fetched.give_up();
    fetcher.reset();
    if (thrown) std::rethrow_exception(thrown);
    return checked || !came ? walked : checked;
  }

  Result<void> fetch_for(Fetched& fetched) {
    // Also where the callback throws: the check waits for pieces.
    struct End {
      Fetched& fetched;
      ~End() { fetched.end(); }
    };
    const End end{fetched};
    return without_bad_alloc([&] {
      return walk_mapped({}, [&](const io::FileRange& piece) -> Result<void> {
        fetched.add(piece.bytes);
        if (fetched.is_given_up()) return fail(Error(ErrorCode::cancelled));
        return {};
      });
    });
  }

  /// Without readahead, which would keep the disk busy with pages that are not needed.
  Result<void> expect_few() {
    state_.residency->map(tensors_);
    progress_.total_bytes = 0;
    return advise_files(io::Advice::random);
  }

  /// Whole files: the kernel splits a mapping at each change of advice.
  [[nodiscard]] Result<void> advise_files(io::Advice advice) const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (i != 0 && ranges_[i].file == ranges_[i - 1].file) continue;
      const auto& mapped = file(ranges_[i].file);
      HT_TRY(mapped.advise(mapped.offset(), mapped.bytes().size(), advice));
    }
    return {};
  }

  [[nodiscard]] Result<void> check_unchanged() const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (i == 0 || ranges_[i].file != ranges_[i - 1].file) HT_TRY(file(ranges_[i].file).check_unchanged());
    }
    return {};
  }

  [[nodiscard]] Result<void> check_stop() const {
    if (!options_.work.stop.stop_requested()) return {};
    return fail(
        Error(ErrorCode::cancelled, "work_is_not_stopped",
              format_text("stopped: {} of {} bytes loaded", progress_.done_bytes, progress_.total_bytes))
            .at_path(state_.opened.native()));
  }

  /// Two chunks, or as much as the budget allows.
  [[nodiscard]] std::uint64_t piece_bytes() const {
    constexpr std::uint64_t most = std::uint64_t{1} << 29;
    const std::uint64_t budget = options_.budget_bytes != 0 ? options_.budget_bytes : UINT64_MAX;
    return std::min(2 * std::min(options_.chunk_bytes, most),
                    std::max(budget / page_bytes * page_bytes, page_bytes));
  }

  /// Fetches all pages and calls `each` with the pieces in order, on this thread.
  template <class Each>
  Result<void> walk_mapped(io::FetchOptions how, Each&& each) {
    // An earlier load of a few has turned off readahead.
    HT_TRY(advise_files(io::Advice::normal));
    how.piece_bytes = piece_bytes();
    how.cached = is_mostly_cached();
    how.stop = options_.work.stop;
    std::uint64_t done_bytes = 0;
    const auto take = [&](const io::FileRange& piece) -> Result<void> {
      HT_TRY(check_stop());
      HT_TRY(each(piece));
      done_bytes += piece.bytes;
      tell(done_bytes);
      return {};
    };
    const auto fetched = io::fetch_pages(state_.residency->mapped_files(), ranges_, take, how);
    if (!fetched) {
      HT_TRY(check_stop());
      return fail(fetched.error());
    }
    if (!ranges_.empty()) fetched_by_ = *fetched;
    return {};
  }

  void tell(std::uint64_t done_bytes) {
    // Gaps between tensors are read along, and do not count.
    progress_.done_bytes = std::min(done_bytes, progress_.total_bytes);
    progress_.elapsed = std::chrono::steady_clock::now() - begin_;
    if (options_.work.on_progress) options_.work.on_progress(progress_);
  }

  Result<Loaded> finished(Result<void> done) {
    if (check_) loaded_.verified_bytes = check_->checked_bytes();
    loaded_.elapsed = std::chrono::steady_clock::now() - begin_;
    if (options_.drop_after) {
      // Also after a failure.
      for (const auto& [number, offset, bytes] : state_.residency->pages_of(tensors_)) {
        auto dropped = file(number).forget(offset, bytes);
        if (done && !dropped) done = std::move(dropped);
      }
    }
    if (!done) return fail(std::move(done).error());
    tell(progress_.total_bytes);
    loaded_.direct_bytes = std::min(loaded_.direct_bytes, loaded_.bytes);
    add_how();
    return loaded_;
  }

  /// How bytes were fetched, and how fast, where some were read.
  void add_how() {
    if (loaded_.bytes == 0) return;
    auto& reason = loaded_.choice.reason;
    if (fetched_by_) {
      if (loaded_.cached_bytes == loaded_.bytes) return;
      const auto& [way, rate] = *fetched_by_;
      reason +=
          format_text("; pages populated by {}{} at {}", threads_text(way.threads),
                      way.engine == io::Engine::read_ahead ? " after readahead calls" : "", rate_text(rate));
    } else if (loaded_.choice.strategy != io::Strategy::mapped) {
      const double seconds = std::chrono::duration<double>(loaded_.elapsed).count();
      reason += loaded_.direct_bytes != 0 ? "; direct reads" : "; reads through the page cache";
      if (page_threads_ != 0) reason += " into pages allocated by " + threads_text(page_threads_);
      if (seconds > 0) reason += " at " + rate_text(static_cast<double>(loaded_.bytes) / seconds);
    }
  }

  const Model& model_;
  const ModelState& state_;
  const LoadOptions& options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<std::size_t> tensors_;
  std::vector<io::FileRange> ranges_;
  std::uint64_t bytes_;
  std::vector<const io::Mapped*> guarded_files_;
  std::vector<const io::Mapped*> files_;     // only where something is checked
  std::optional<io::FetchedBy> fetched_by_;  // only where pages were
  std::uint32_t page_threads_ = 0;
  std::vector<std::size_t> in_memory_;
  std::optional<PassCheck> check_;
  Progress progress_;
  Loaded loaded_;
};

Result<Loaded> Model::load(const LoadOptions& options) const {
  return without_bad_alloc([&]() -> Result<Loaded> {
    auto tensors = HT_TRY(tensors_matching(options.glob));
    std::vector<std::size_t> in_memory;
    std::erase_if(tensors, [&](std::size_t index) {
      if (!state_->residency->is_resident(index)) return false;
      in_memory.push_back(index);
      return true;
    });
    return placed(ModelLoad(*this, options, std::move(tensors)).load(std::move(in_memory)));
  });
}

Result<Loaded> Model::stream(const PieceConsumer& consumer, const LoadOptions& options) const {
  return without_bad_alloc([&]() -> Result<Loaded> {
    return placed(ModelLoad(*this, options, HT_TRY(tensors_matching(options.glob))).stream(consumer));
  });
}

Result<Loaded> Model::load_into(std::span<const Target> targets, const LoadOptions& options) const {
  return without_bad_alloc([&]() -> Result<Loaded> {
    HT_TRY(check_apart(targets));
    std::vector<std::size_t> tensors;
    std::vector<io::LoadRequest> requests;
    for (const auto& [name, into] : targets) {
      const std::size_t index = HT_TRY(index_of(name));
      const Entry entry = (*state_->catalog)[index];
      HT_TRY(ModelAccess::check_is_there(*this, entry));
      if (into.size() != entry.bytes) {
        return fail(Error(ErrorCode::size_mismatch, "target_is_as_large_as_its_tensor",
                          format_text("tensor '{}' has {} bytes but its target has {}", name, entry.bytes,
                                      into.size()))
                        .at_path(state_->paths[entry.file].native())
                        .at_tensor(name));
      }
      if (entry.bytes == 0) continue;
      tensors.push_back(index);
      requests.push_back({.range = {entry.file, entry.offset, entry.bytes}, .into = into});
    }
    return placed(ModelLoad(*this, options, std::move(tensors)).into(requests));
  });
}

Result<std::uint64_t> Model::prefetch(const NameFilter& glob, const WorkOptions& options) const {
  return without_bad_alloc([&]() -> Result<std::uint64_t> {
    // A prefetch is never too large: the kernel drops pages that do not fit.
    const auto fetched = HT_TRY(
        load({.strategy = io::Strategy::mapped, .glob = glob, .budget_bytes = UINT64_MAX, .work = options}));
    return fetched.bytes;
  });
}

}  // namespace ht::inline v1
