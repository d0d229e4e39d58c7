#include "load/model_load.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <htensor/base/fault.hpp>
#include <optional>
#include <system_error>

#include "base/fault_registry.hpp"
#include "base/format_text.hpp"
#include "io/strategy/automatic.hpp"
#include "io/strategy/parallel_pass.hpp"
#include "io/strategy/staged.hpp"
#include "load/load_verifier.hpp"
#include "load/tensor_pieces.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {
namespace {

// Gaps of at most this size between tensors are read too, so that reads stay large.
constexpr std::uint64_t max_gap_bytes = 16384;
constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t min_chunk_bytes = 65536;

// Number of pieces that a stream by `mapped` fetches ahead of its consumer.
constexpr std::size_t stream_ahead_pieces = 16;

Error strategy_mismatch(io::Strategy::Kind strategy) {
  return Error(ErrorCode::unsupported_strategy, "strategy_supports_this_load",
               format_text("strategy '{}' does not apply to this kind of load", io::to_string(strategy)))
      .with_hint("use `mapped` or `read` with ht::load, `mapped` or `staged` with ht::stream");
}

std::string rate_text(double bytes_per_second) { return format_text("{:.1f} GB/s", bytes_per_second / 1e9); }

std::string threads_text(std::uint32_t threads) {
  return format_text("{} {}", threads, threads == 1 ? "thread" : "threads");
}

// Returns a ring within the budget: reduces the number of chunks first, then their size.
Result<io::StagedOptions> ring_within(const LoadOptions& options) {
  io::StagedOptions ring{.chunks = options.chunks, .chunk_bytes = options.chunk_bytes};
  const std::uint64_t budget = options.budget_bytes;
  if (budget == 0 || ring.chunks <= budget / ring.chunk_bytes) return ring;
  const std::uint64_t min_chunks = std::min(ring.chunks, 2U);
  ring.chunks = static_cast<std::uint32_t>(std::max(budget / ring.chunk_bytes, min_chunks));
  ring.chunk_bytes = std::min(ring.chunk_bytes, budget / ring.chunks / page_bytes * page_bytes);
  if (ring.chunk_bytes >= std::min(min_chunk_bytes, options.chunk_bytes)) return ring;
  return fail(Error(ErrorCode::budget_too_small, "ring_fits_into_the_budget",
                    format_text("a budget of {} bytes is too small for the read buffers; 0 bytes were loaded",
                                budget))
                  .with_hint(format_text("use a budget of {} bytes or more", 2 * min_chunk_bytes)));
}

class ModelLoad {
 public:
  ModelLoad(const Model& model, const LoadOptions& options, std::vector<std::size_t> tensors)
      : model_(model),
        state_(ModelAccess::state(model)),
        options_(options),
        files_(state_.mapped->files()),
        tensors_(std::move(tensors)),
        ranges_(merged_ranges(*state_.catalog, tensors_)),
        bytes_(sum_of(ranges_)) {
    progress_.total_bytes = bytes_;
    for (const auto& range : ranges_) {
      if (file_numbers_.empty() || file_numbers_.back() != range.file) file_numbers_.push_back(range.file);
    }
  }

  /// `in_memory` lists tensors that are resident already; they are not loaded again.
  Result<LoadReport> load(std::vector<std::size_t> in_memory) {
    in_memory_ = std::move(in_memory);
    loaded_.resident_bytes = sum_of(merged_ranges(*state_.catalog, in_memory_));
    loaded_.requested_bytes = bytes_ + loaded_.resident_bytes;
    HT_TRY(begin());
    if (options_.custom) {
      loaded_.choice = {io::Strategy::Kind::read, "custom", std::string(options_.custom->name())};
      return finish(load_by_custom());
    }
    const bool few = options_.use == io::Strategy::Use::few;
    choose(few ? io::Strategy::Use::few : io::Strategy::Use::all);
    switch (loaded_.choice.strategy) {
      case io::Strategy::Kind::mapped: return finish(few ? advise_random_access() : fetch());
      case io::Strategy::Kind::read: return finish(read());
      case io::Strategy::Kind::staged:
        if (options_.strategy == io::Strategy::Kind::automatic) return finish(stream_and_discard());
        [[fallthrough]];
      default: return fail(strategy_mismatch(loaded_.choice.strategy));
    }
  }

  Result<LoadReport> stream(const PieceConsumer& consumer) {
    HT_TRY(begin());
    choose(io::Strategy::Use::one_pass);
    loaded_.requested_bytes = loaded_.bytes = loaded_.streamed_bytes = bytes_;
    switch (loaded_.choice.strategy) {
      case io::Strategy::Kind::mapped: return finish(stream_mapped(consumer));
      case io::Strategy::Kind::staged: return finish(stream_staged(consumer));
      default: return fail(strategy_mismatch(loaded_.choice.strategy));
    }
  }

  Result<LoadReport> load_into(std::span<const io::Strategy::LoadRequest> requests) {
    HT_TRY(begin());
    loaded_.choice = {io::Strategy::Kind::external, "requested", "into the caller's memory"};
    sample_page_cache();
    // A tensor with two targets is read twice.
    for (const auto& request : requests) loaded_.bytes += request.range.bytes;
    loaded_.requested_bytes = progress_.total_bytes = loaded_.bytes;
    return finish(fill(requests));
  }

 private:
  [[nodiscard]] io::MappedFile& file(std::size_t number) const { return state_.mapped->file(number); }

  // Checks the options and, with `verify`, the seal and resident tensors, before any byte is loaded.
  Result<void> begin() {
    HT_TRY(io::check_ring(options_.chunks, options_.chunk_bytes));
    if (!options_.verify) return {};
    verifier_ = HT_TRY(LoadVerifier::make(state_, tensors_));
    return check_in_memory(in_memory_);
  }

  /// Verifies tensors that another load made resident.
  Result<void> check_in_memory(std::span<const std::size_t> tensors) {
    for (const std::size_t tensor : tensors) {
      const auto any = HT_TRY(model_.at(tensor));
      // Another thread may have evicted the tensor; the bytes are then mapped pages of the file.
      HT_TRY(check_memory(tensor, HT_TRY(any.bytes())));
    }
    return {};
  }

  /// Verifies all bytes of a tensor. They may be mapped pages, which can fault.
  Result<void> check_memory(std::size_t tensor, Bytes bytes) {
    const auto name = (*state_.catalog)[tensor].name;
    return guarded(bytes, [&] { return verifier_->check_tensor(name, bytes, options_.work.stop); });
  }

  Result<void> verify_piece(const io::FileRange& range, Bytes bytes) {
    return verifier_ ? verifier_->take(range, bytes) : Result<void>();
  }

  void choose(io::Strategy::Use use) {
    if (use != io::Strategy::Use::few) sample_page_cache();
    if (options_.strategy != io::Strategy::Kind::automatic) {
      loaded_.choice = {options_.strategy, "requested", "requested by name"};
    } else if (ranges_.empty()) {
      loaded_.choice = {
          use == io::Strategy::Use::one_pass ? io::Strategy::Kind::staged : io::Strategy::Kind::mapped,
          "nothing_to_load", "nothing to load, or loaded into memory already"};
    } else {
      loaded_.choice = io::choose(facts(use));
    }
  }

  // Samples the page cache; takes microseconds.
  void sample_page_cache() {
    const auto share = io::cached_share(sources(), ranges_);
    if (!share) return;
    loaded_.cached_bytes = std::min(bytes_, static_cast<std::uint64_t>(*share * static_cast<double>(bytes_)));
  }
  [[nodiscard]] bool is_mostly_cached() const {
    return loaded_.cached_bytes && *loaded_.cached_bytes >= bytes_ / 2;
  }

  [[nodiscard]] io::Facts facts(io::Strategy::Use use) const {
    io::Facts facts{.bytes = bytes_, .use = use};
    for (const auto number : file_numbers_) facts.can_map = facts.can_map && file(number).is_mappable();
    // Querying all files would cost more than reading a few pages.
    if (use == io::Strategy::Use::few && facts.can_map) return facts;
    facts.cached_bytes = loaded_.cached_bytes;
    if (use != io::Strategy::Use::one_pass) {
      facts.budget_bytes = budget_bytes();
      facts.budget_is_set = options_.budget_bytes != 0;
      facts.memory_bytes = state_.residency->memory_for(tensors_).value_or(UINT64_MAX);
    }
    facts.latency = io::Source::Latency::memory;
    for (const auto number : file_numbers_) {
      const auto can = file(number).source().capabilities();
      facts.latency = std::max(facts.latency, can.latency);
      facts.can_map = facts.can_map && can.mappable;
    }
    return facts;
  }

  // If the system does not report its available memory, the budget is unlimited.
  [[nodiscard]] std::uint64_t budget_bytes() const {
    if (options_.budget_bytes != 0) return options_.budget_bytes;
    const auto available = state_.port->available_memory();
    return available ? io::usable_memory(*available) : UINT64_MAX;
  }

  // If most bytes are in the page cache, several threads copy them; otherwise direct reads bypass the cache.
  io::StagedOptions read_options() {
    io::StagedOptions reading{.chunks = options_.chunks, .chunk_bytes = options_.chunk_bytes};
    const std::uint64_t budget = options_.budget_bytes;
    reading.ring_for_memory = budget == 0 || reading.chunks <= budget / reading.chunk_bytes;
    if (is_mostly_cached()) {
      reading.direct = false;
      // Copying is faster than reading, so the cost of handing a piece to a thread weighs more.
      if (const auto larger = checked::multiply<std::uint64_t>(reading.chunk_bytes, 4))
        reading.chunk_bytes = *larger;
      copyable_files_ = files_;
      std::ranges::replace_if(
          copyable_files_, [](const auto* each) { return each != nullptr && each->must_read(); }, nullptr);
      reading.mapped = copyable_files_;
    }
    return reading;
  }

  io::Strategy::LoadWork work() {
    io::Strategy::LoadWork work{.budget_bytes = options_.budget_bytes, .stop = options_.work.stop};
    if (verifier_)
      work.on_loaded = [this](const io::FileRange& range, Bytes bytes) { return verify_piece(range, bytes); };
    work.on_progress = [this](std::uint64_t done_bytes) { report(done_bytes); };
    return work;
  }

  Result<void> read() {
    const auto read = std::make_shared<io::ReadStrategy>(sources(), read_options());
    HT_TRY(load_by(read, work()));
    loaded_.direct_bytes = read->totals().direct_bytes;
    page_threads_ = read->page_threads();
    return {};
  }

  /// A strategy of the caller may return other bytes than it passes to `on_loaded`, if it calls it at all.
  /// Therefore the memory that it returned is verified.
  Result<void> load_by_custom() {
    auto unchecked = work();
    unchecked.on_loaded = {};
    ResidencyShell::CheckMemory check;
    if (verifier_) check = [this](std::size_t tensor, Bytes bytes) { return check_memory(tensor, bytes); };
    HT_TRY(load_by(options_.custom, std::move(unchecked), check));
    if (verifier_) loaded_.verified_bytes = loaded_.bytes;
    return {};
  }

  Result<void> load_by(const std::shared_ptr<io::Strategy>& strategy, io::Strategy::LoadWork work,
                       const ResidencyShell::CheckMemory& check = {}) {
    // A load on another thread may have made tensors resident since this load began.
    const auto resident = HT_TRY(state_.residency->load(tensors_, strategy, std::move(work), check));
    if (verifier_) HT_TRY(check_in_memory(resident));
    loaded_.bytes = bytes_;
    if (resident.empty()) return {};
    auto loaded = tensors_;
    std::erase_if(loaded, [&](std::size_t tensor) { return std::ranges::binary_search(resident, tensor); });
    loaded_.bytes = sum_of(merged_ranges(*state_.catalog, loaded));
    loaded_.resident_bytes = loaded_.requested_bytes - loaded_.bytes;
    return {};
  }

  Result<void> fill(std::span<const io::Strategy::LoadRequest> requests) {
    std::vector<MutableBytes> into;
    std::vector<io::FileRange> ranges;
    for (const auto& request : requests) {
      into.push_back(request.into);
      ranges.push_back(request.range);
    }
    auto options = read_options();
    options.work = work();
    loaded_.direct_bytes = HT_TRY(io::load_into(into, sources(), ranges, options)).direct_bytes;
    return {};
  }

  Result<void> stream_staged(const PieceConsumer& consumer) {
    TensorPieces pieces(*state_.catalog, tensors_, consumer);
    const auto take = [&](const io::Chunk& chunk, Bytes bytes) -> Result<void> {
      HT_TRY(verify_piece(chunk.range, bytes));
      return pieces.take(chunk.range, bytes);
    };
    auto staged_options = HT_TRY(ring_within(options_));
    staged_options.work = work();
    const auto ranges = merged_ranges(*state_.catalog, tensors_, max_gap_bytes);
    loaded_.direct_bytes = HT_TRY(io::load_staged(sources(), ranges, take, staged_options)).direct_bytes;
    return {};
  }

  /// For tensors that exceed the memory budget: reads every byte, verifies it with `verify`, and discards it.
  Result<void> stream_and_discard() {
    HT_TRY(stream_staged([](const TensorPiece&) -> Result<void> { return {}; }));
    loaded_.bytes = loaded_.streamed_bytes = bytes_;
    return {};
  }

  Result<void> stream_mapped(const PieceConsumer& consumer) {
    TensorPieces pieces(*state_.catalog, tensors_, consumer);
    HT_TRY(check_unchanged());
    const std::uint64_t budget = options_.budget_bytes;
    const bool drops_pieces = budget != 0 && bytes_ > budget;
    const io::FetchOptions fetch_options{
        .tune = false,
        .max_ahead = drops_pieces ? static_cast<std::size_t>(budget / piece_bytes()) : stream_ahead_pieces};
    HT_TRY(walk_mapped(fetch_options, [&](const io::FileRange& piece) -> Result<void> {
      HT_TRY(file(piece.file).visit(piece.offset, piece.bytes, [&](Bytes bytes) -> Result<void> {
        HT_TRY(verify_piece(piece, bytes));
        return pieces.take(piece, bytes);
      }));
      if (options_.drop_after) return io::advise(*state_.mapped, piece, io::Strategy::Advice::evict);
      if (drops_pieces) return io::advise(*state_.mapped, piece, io::Strategy::Advice::drop);
      return {};
    }));
    return check_unchanged();
  }

  /// Fetches all pages of the mapped tensors.
  Result<void> fetch() {
    if (options_.strategy == io::Strategy::Kind::mapped) HT_TRY(check_fits());
    HT_TRY(state_.residency->map_all(tensors_));
    HT_TRY(verifier_ ? fetch_and_check()
                     : walk_mapped({}, [](const io::FileRange&) -> Result<void> { return {}; }));
    loaded_.bytes = bytes_;
    return {};
  }

  [[nodiscard]] Result<void> check_fits() const {
    // Cached pages need no free memory, but count towards a budget that the caller has set.
    const bool is_set = options_.budget_bytes != 0;
    const std::uint64_t needed = is_set ? bytes_ : bytes_ - loaded_.cached_bytes.value_or(0);
    const std::uint64_t budget = budget_bytes();
    if (needed <= budget) return {};
    return fail(Error(ErrorCode::budget_too_small, "mapped_bytes_fit_into_the_budget",
                      format_text("needs {} bytes of memory but {} {} bytes; 0 bytes were loaded", needed,
                                  is_set ? "the budget is" : "a load may use", budget))
                    .with_hint("raise the budget, load fewer tensors, or use the strategy `staged`"));
  }

  /// Verifies cached pages on all processors at once; verifies other pages while they are fetched.
  Result<void> fetch_and_check() {
    if (is_mostly_cached()) return check_fetched({});
    // The checksum of a `.ht` file needs all its bytes.
    if (verifier_->needs_all_bytes()) return fetch_then_check();
    FetchProgress fetched;
    std::atomic<bool> pages_fetched = true;
    const auto wait_for = [&](std::uint64_t bytes) -> Result<void> {
      if (fetched.wait_for(bytes)) return {};
      pages_fetched = false;
      return fail(Error(ErrorCode::read_failed));  // `walk` returns the cause
    };
    std::future<Result<void>> walk;
    try {
      walk = std::async(std::launch::async, [&] {
        fault::unblock_signal();
        return fetch_for(fetched);
      });
    } catch (const std::system_error&) {
      return fetch_then_check();  // no thread can be started
    }
    Result<void> checked;
    try {
      checked = check_fetched(wait_for);
    } catch (...) {
      fetched.cancel();  // stops the fetching thread early
      throw;
    }
    if (!checked) fetched.cancel();
    const auto walked = walk.get();
    return checked || !pages_fetched ? walked : checked;
  }

  Result<void> fetch_then_check() {
    HT_TRY(walk_mapped({}, [](const io::FileRange&) -> Result<void> { return {}; }));
    return check_fetched({});
  }

  /// Verifies the pages and reports the verified bytes on this thread, the thread of the caller. Progress
  /// never decreases, also if all pages were reported as fetched before.
  Result<void> check_fetched(const LoadVerifier::WaitFor& wait_for) {
    const std::uint64_t fetched_bytes = progress_.done_bytes;
    const auto on_progress = [&](const Progress& progress) {
      report(std::max(fetched_bytes, progress.done_bytes));
    };
    return verifier_->check_mapped(files_, ranges_, {.stop = options_.work.stop, .on_progress = on_progress},
                                   wait_for);
  }

  /// Fetches pages on a second thread while the thread of the caller checks them. Reports no progress,
  /// because callbacks run on the thread of the caller only.
  Result<void> fetch_for(FetchProgress& fetched) {
    // Ends fetching also after an exception; otherwise the check would wait for pieces forever.
    struct End {
      FetchProgress& fetched;
      ~End() { fetched.end(); }
    };
    const End end{fetched};
    return without_bad_alloc([&] {
      return walk_pages({}, [&](const io::FileRange& piece, std::uint64_t) -> Result<void> {
        fetched.add(piece.bytes);
        if (fetched.is_cancelled()) return fail(Error(ErrorCode::cancelled));
        return {};
      });
    });
  }

  /// Disables readahead, which would read pages that are not needed.
  Result<void> advise_random_access() {
    HT_TRY(state_.residency->map_all(tensors_));
    progress_.total_bytes = 0;
    return advise_files(io::Strategy::Advice::random);
  }

  /// Advises whole files, because the kernel splits a mapping at each change of advice.
  [[nodiscard]] Result<void> advise_files(io::Strategy::Advice advice) const {
    for (const auto number : file_numbers_)
      HT_TRY(io::advise(*state_.mapped, {number, 0, file(number).source().size()}, advice));
    return {};
  }

  [[nodiscard]] Result<void> check_unchanged() const {
    for (const auto number : file_numbers_) HT_TRY(file(number).source().check_unchanged());
    return {};
  }

  [[nodiscard]] Result<void> check_stop(std::uint64_t done_bytes) const {
    if (!options_.work.stop.stop_requested()) return {};
    return fail(Error(ErrorCode::cancelled, "work_is_completed",
                      format_text("stopped: {} of {} bytes loaded", done_bytes, bytes_))
                    .at_path(state_.opened.native()));
  }

  /// Two chunks, or as much as the budget allows.
  [[nodiscard]] std::uint64_t piece_bytes() const {
    constexpr std::uint64_t max_chunk_bytes = std::uint64_t{1} << 29;
    const std::uint64_t budget = options_.budget_bytes != 0 ? options_.budget_bytes : UINT64_MAX;
    return std::min(2 * std::min(options_.chunk_bytes, max_chunk_bytes),
                    std::max(budget / page_bytes * page_bytes, page_bytes));
  }

  /// Fetches all pages, and on this thread calls `each` with the pieces in order and reports progress.
  template <class Each>
  Result<void> walk_mapped(io::FetchOptions fetch_options, Each&& each) {
    return walk_pages(std::move(fetch_options),
                      [&](const io::FileRange& piece, std::uint64_t done_bytes) -> Result<void> {
                        HT_TRY(each(piece));
                        report(done_bytes);
                        return {};
                      });
  }

  /// Fetches all pages and calls `each` on this thread with each piece in order and with the total bytes of
  /// the pieces so far.
  template <class Each>
  Result<void> walk_pages(io::FetchOptions fetch_options, Each&& each) {
    // An earlier load with `Strategy::Use::few` may have disabled readahead.
    HT_TRY(advise_files(io::Strategy::Advice::normal));
    fetch_options.piece_bytes = piece_bytes();
    fetch_options.cached = is_mostly_cached();
    fetch_options.stop = options_.work.stop;
    std::uint64_t done_bytes = 0;
    const auto take = [&](const io::FileRange& piece) -> Result<void> {
      HT_TRY(check_stop(done_bytes));
      HT_TRY(each(piece, done_bytes + piece.bytes));
      done_bytes += piece.bytes;
      return {};
    };
    const auto fetched = io::fetch_pages(files_, ranges_, take, fetch_options);
    if (!fetched) {
      HT_TRY(check_stop(done_bytes));
      return fail(fetched.error());
    }
    if (!ranges_.empty()) fetch_summary_ = *fetched;
    return {};
  }

  void report(std::uint64_t done_bytes) {
    // Gaps between tensors may be read too, so `done_bytes` may exceed the total.
    progress_.done_bytes = std::min(done_bytes, progress_.total_bytes);
    progress_.elapsed = std::chrono::steady_clock::now() - begin_;
    if (options_.work.on_progress) options_.work.on_progress(progress_);
  }

  Result<LoadReport> finish(Result<void> done) {
    if (verifier_) loaded_.verified_bytes += verifier_->checked_bytes() + loaded_.resident_bytes;
    loaded_.elapsed = std::chrono::steady_clock::now() - begin_;
    if (const auto peak = state_.port->peak_memory()) loaded_.peak_memory_bytes = *peak;
    if (options_.drop_after) {
      // Pages are evicted also after a failure.
      for (const auto& range : state_.residency->pages_of(tensors_)) {
        auto dropped = io::advise(*state_.mapped, range, io::Strategy::Advice::evict);
        if (done && !dropped) done = std::move(dropped);
      }
    }
    if (!done) return fail(std::move(done).error());
    report(progress_.total_bytes);
    loaded_.direct_bytes = std::min(loaded_.direct_bytes, loaded_.bytes);
    describe_fetch();
    return loaded_;
  }

  /// Appends to the reason how bytes were fetched, and how fast, if any were read.
  void describe_fetch() {
    if (loaded_.bytes == 0) return;
    auto& reason = loaded_.choice.reason;
    if (fetch_summary_) {
      if (loaded_.cached_bytes == loaded_.bytes) return;
      const auto& [method, rate] = *fetch_summary_;
      reason += format_text("; pages populated by {}{} at {}", threads_text(method.threads),
                            method.engine == io::Engine::read_ahead ? " after readahead calls" : "",
                            rate_text(rate));
    } else if (loaded_.choice.strategy != io::Strategy::Kind::mapped) {
      const double seconds = std::chrono::duration<double>(loaded_.elapsed).count();
      reason += loaded_.direct_bytes != 0 ? "; direct reads" : "; reads through the page cache";
      if (page_threads_ != 0) reason += " into pages allocated by " + threads_text(page_threads_);
      if (seconds > 0) reason += " at " + rate_text(static_cast<double>(loaded_.bytes) / seconds);
    }
  }

  [[nodiscard]] const io::Sources& sources() const { return state_.mapped->sources(); }

  const Model& model_;
  const ModelState& state_;
  const LoadOptions& options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<io::MappedFile*> files_;
  std::vector<std::size_t> tensors_;
  std::vector<io::FileRange> ranges_;
  std::vector<std::uint32_t> file_numbers_;  // files of the ranges, without duplicates
  std::uint64_t bytes_;
  std::vector<io::MappedFile*> copyable_files_;
  std::optional<io::FetchSummary> fetch_summary_;  // set if pages were fetched
  std::uint32_t page_threads_ = 0;
  std::vector<std::size_t> in_memory_;
  std::optional<LoadVerifier> verifier_;
  Progress progress_;
  LoadReport loaded_;
};

}  // namespace

Result<LoadReport> load_tensors(const Model& model, const LoadOptions& options,
                                std::vector<std::size_t> tensors, std::vector<std::size_t> in_memory) {
  return ModelLoad(model, options, std::move(tensors)).load(std::move(in_memory));
}

Result<LoadReport> stream_tensors(const Model& model, const LoadOptions& options,
                                  std::vector<std::size_t> tensors, const PieceConsumer& consumer) {
  return ModelLoad(model, options, std::move(tensors)).stream(consumer);
}

Result<LoadReport> load_tensors_into(const Model& model, const LoadOptions& options,
                                     std::vector<std::size_t> tensors,
                                     std::span<const io::Strategy::LoadRequest> requests) {
  return ModelLoad(model, options, std::move(tensors)).load_into(requests);
}

}  // namespace ht::inline v1
