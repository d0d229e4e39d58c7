#include "io/strategy/staged.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "base/format_text.hpp"
#include "io/file_source.hpp"
#include "io/port/system_error.hpp"
#include "io/port/thread_queue.hpp"
#include "io/strategy/direct_file.hpp"
#include "io/strategy/mapped_file.hpp"
#include "io/strategy/own_memory.hpp"
#include "io/strategy/staged_machine.hpp"

namespace ht::inline v1::io {
namespace {

constexpr std::uint64_t read_alignment = DirectFile::max_alignment;

// Returns for each file whether a range of it is requested. Other files may be missing and are not opened.
std::vector<bool> files_read(std::size_t files, std::span<const FileRange> ranges) {
  std::vector<bool> read(files);
  for (const auto& range : ranges) read[range.file] = true;
  return read;
}

// Returns whether the bytes were copied from the mapping. If not, a read reports the cause.
bool copy_mapped(MappedFile& mapped, const ReadRequest& request) {
  const MutableBytes into = request.into;
  // Populates all pages at once instead of one by one at first touch.
  if (!mapped.advise(request.offset, into.size(), Strategy::Advice::populate)) return false;
  return mapped
      .visit(request.offset, into.size(),
             [&](Bytes from) -> Result<void> {
               std::memcpy(into.data(), from.data(), from.size());
               return {};
             })
      .has_value();
}

// Performs the effects of the state machine and returns their results as events. The queue is destroyed
// first, because reads in flight write into the ring.
class StagedLoader {
 public:
  /// If `into` is empty, chunks are read into a ring and passed to the consumer from there.
  StagedLoader(const Sources& sources, std::span<const FileRange> ranges, std::span<const MutableBytes> into,
               const ChunkConsumer& consumer, const StagedOptions& options)
      : sources_(sources),
        into_(into),
        consumer_(consumer),
        options_(options),
        plan_(ranges, alignments_, options.chunk_bytes) {}

  Result<void> open(std::span<const FileRange> ranges) {
    direct_.reserve(sources_.size());
    files_.resize(sources_.size());
    const auto read = files_read(sources_.size(), ranges);
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (read[i]) files_[i] = dynamic_cast<const FileSource*>(sources_[i].get());
      if (read[i] && files_[i] == nullptr) only_files_ = false;
      const bool use_direct = options_.direct && files_[i] != nullptr && files_[i]->capabilities().direct;
      direct_.push_back(use_direct ? DirectFile(files_[i]->handle(), Access::read, files_[i]->port())
                                   : DirectFile());
      alignments_.push_back(direct_.back().alignment().both());
    }
    plan_ = ChunkPlan(ranges, alignments_, options_.chunk_bytes);
    slots_.resize(options_.chunks);
    const auto bytes = checked::multiply<std::uint64_t>(options_.chunks, options_.chunk_bytes);
    if (!bytes || !checked::narrow<std::ptrdiff_t>(*bytes)) return fail(Error(ErrorCode::out_of_memory));
    if (into_.empty()) {
      ring_.reset(
          static_cast<std::byte*>(std::aligned_alloc(read_alignment, static_cast<std::size_t>(*bytes))));
      if (!ring_) return fail(out_of_memory(*bytes));
    }
    first_ = sources_[ranges[0].file].get();
    open_queue(files_[ranges[0].file]);
    return {};
  }

  Result<ReadTotals> run() {
    auto [state, effect] = staged::start(options_.chunks);
    while (effect) {
      const bool stops =
          options_.work.stop.stop_requested() && std::holds_alternative<staged::Running>(state);
      const staged::Event event =
          stops ? staged::StepFailed{stopped()}
                : std::visit([&](const auto& alternative) { return perform(alternative); }, *effect);
      auto next = staged::step(state, event);
      state = std::move(next.next);
      effect = next.effect;
    }
    if (auto* const failed = std::get_if<staged::Failed>(&state)) return fail(std::move(failed->error));
    return totals_;
  }

 private:
  struct Slot {
    Chunk chunk;
    std::uint64_t done = 0;
    bool direct = false;
    std::optional<Error> error{};    // of a source that is not a file
    std::exception_ptr exception{};  // thrown by a source of the caller
  };

  void open_queue(const FileSource* first) {
    const bool only_reads = only_files_ && options_.mapped.empty();
    if (only_reads) {
      if (auto queue = first->port().read_queue(options_.chunks)) {
        queue_ = *std::move(queue);
        return;
      }
    }
    // Threads work where the system's queue does not, for example under a limit on locked memory. More than 8
    // threads do not make a disk faster, and each needs a stack; copying uses all processors.
    const auto threads = only_reads ? 8U : std::max(std::thread::hardware_concurrency(), 1U);
    const auto read = [this](const ReadRequest& request) { return copy_or_read(request); };
    queue_ = std::make_unique<ThreadQueue>(read, options_.chunks, threads);
  }

  // Called from many threads.
  IoResult<std::uint64_t> copy_or_read(const ReadRequest& request) {
    Slot& slot = slots_[request.tag];
    const FileRange range{slot.chunk.range.file, request.offset, request.into.size()};
    MappedFile* const mapped = options_.mapped.empty() ? nullptr : options_.mapped[range.file];
    if (mapped != nullptr && copy_mapped(*mapped, request)) return range.bytes;
    const auto* const file = files_[range.file];
    if (file != nullptr) return file->port().read_at(request.file, request.offset, request.into);
    try {
      auto done = sources_[range.file]->read(request.offset, request.into);
      if (done) return range.bytes;
      slot.error = std::move(done).error();
    } catch (...) {
      slot.exception = std::current_exception();
    }
    return tl::unexpected(std::make_error_code(std::errc::io_error));
  }

  MutableBytes memory_of(std::uint32_t slot) {
    const Chunk& chunk = slots_[slot].chunk;
    const auto bytes = static_cast<std::size_t>(chunk.range.bytes);
    if (!into_.empty())
      return into_[chunk.range_number].subspan(static_cast<std::size_t>(chunk.offset_in_range), bytes);
    return {ring_.get() + slot * options_.chunk_bytes, bytes};
  }

  // Returns whether the memory of a chunk is aligned for direct reads.
  bool is_aligned(std::uint32_t slot) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_of(slot).data());
    return address % direct_[slots_[slot].chunk.range.file].alignment().both() == 0;
  }

  [[nodiscard]] const Source& source_of(const Slot& slot) const { return *sources_[slot.chunk.range.file]; }
  [[nodiscard]] FileHandle handle_of(const Slot& slot) const {
    const auto* const file = files_[slot.chunk.range.file];
    if (file == nullptr) return {};
    return slot.direct ? direct_[slot.chunk.range.file].handle() : file->handle();
  }

  IoResult<void> submit(std::uint32_t number) {
    const Slot& slot = slots_[number];
    return queue_->submit({.file = handle_of(slot),
                           .offset = slot.chunk.range.offset + slot.done,
                           .into = memory_of(number).subspan(static_cast<std::size_t>(slot.done)),
                           .tag = number});
  }

  Error refused(const Slot& slot, std::error_code cause) const {
    return system_error(ErrorCode::read_failed, "bytes_can_be_read", "read", source_of(slot).path(), cause)
        .at_offset(slot.chunk.range.offset + slot.done);
  }

  Error stopped() const {
    return Error(ErrorCode::cancelled, "work_is_completed",
                 format_text("stopped: {} bytes loaded", totals_.bytes))
        .at_path(first_->path().native());
  }

  staged::Event perform(const staged::Begin& begin) {
    // A chunk that a full queue refused before is started first.
    const auto chunk = waiting_ ? std::exchange(waiting_, std::nullopt) : plan_.next();
    if (!chunk) return staged::NothingLeft{};
    if (options_.before_read) options_.before_read(*chunk);
    Slot& slot = slots_[begin.slot];
    slot = {.chunk = *chunk};
    slot.direct = chunk->direct && is_aligned(begin.slot);
    const auto begun = submit(begin.slot);
    if (begun) return staged::Begun{};
    if (begun.error() == std::errc::resource_unavailable_try_again) {
      waiting_ = chunk;
      return staged::QueueFull{};
    }
    return staged::StepFailed{refused(slot, begun.error())};
  }

  staged::Event perform(const staged::BeginRest& rest) {
    const auto begun = submit(rest.slot);
    if (!begun) return staged::StepFailed{refused(slots_[rest.slot], begun.error())};
    return staged::BegunRest{};
  }

  staged::Event perform(const staged::Deliver& deliver) {
    const Slot& slot = slots_[deliver.slot];
    auto taken = consumer_(slot.chunk, memory_of(deliver.slot));
    if (!taken) return staged::StepFailed{std::move(taken).error()};
    totals_.bytes += slot.chunk.range.bytes;
    if (slot.direct) totals_.direct_bytes += slot.chunk.range.bytes;
    if (options_.work.on_progress) options_.work.on_progress(totals_.bytes);
    return staged::Delivered{};
  }

  staged::Event perform(const staged::Await& /*await*/) {
    const auto done = queue_->complete();
    if (!done) {
      return staged::StepFailed{system_error(ErrorCode::read_failed, "reads_can_be_awaited", "wait for reads",
                                             first_->path(), done.error())};
    }
    const auto number = static_cast<std::uint32_t>(done->tag);
    Slot& slot = slots_[number];
    if (!done->bytes) return after_failure(number, done->bytes.error());
    if (*done->bytes == 0) {
      return staged::ReadFailed{Error(ErrorCode::truncated, "file_size_is_unchanged",
                                      format_text("file ends at byte {} but a read needs {} bytes at byte {}",
                                                  slot.chunk.range.offset + slot.done, slot.chunk.range.bytes,
                                                  slot.chunk.range.offset))
                                    .at_path(source_of(slot).path().native())
                                    .at_offset(slot.chunk.range.offset + slot.done)
                                    .with_hint("retry when no other program writes to the file")};
    }
    slot.done += *done->bytes;
    if (slot.done == slot.chunk.range.bytes) return staged::Arrived{number};
    // The rest may start at an unaligned offset, which direct reads do not allow.
    slot.direct = false;
    return staged::ShortRead{number};
  }

  staged::Event after_failure(std::uint32_t number, std::error_code cause) {
    Slot& slot = slots_[number];
    if (slot.exception) std::rethrow_exception(std::exchange(slot.exception, nullptr));
    if (slot.error) return staged::ReadFailed{*std::exchange(slot.error, std::nullopt)};
    const bool is_transient =
        cause == std::errc::interrupted || cause == std::errc::resource_unavailable_try_again;
    // A file system may open a file for direct reads and still refuse a read.
    const bool is_direct_refused = slot.direct && cause == std::errc::invalid_argument;
    if (!is_transient && !is_direct_refused) return staged::ReadFailed{refused(slot, cause)};
    if (is_direct_refused) slot.direct = false;
    return staged::ShortRead{number};
  }

  const Sources& sources_;
  std::vector<const FileSource*> files_;  // null for sources that are not files or not read
  bool only_files_ = true;
  const Source* first_ = nullptr;  // for errors that concern all sources
  std::span<const MutableBytes> into_;
  const ChunkConsumer& consumer_;
  const StagedOptions& options_;
  std::vector<DirectFile> direct_;
  std::vector<std::uint64_t> alignments_;
  ChunkPlan plan_;
  std::optional<Chunk> waiting_;
  std::vector<Slot> slots_;
  ReadTotals totals_;
  AlignedMemory ring_;
  std::unique_ptr<ReadQueue> queue_;
};

Result<void> check_unchanged(const Sources& sources, std::span<const FileRange> ranges) {
  const auto read = files_read(sources.size(), ranges);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (read[i]) HT_TRY(sources[i]->check_unchanged());
  }
  return {};
}

// Returns whether most of the memory has the same alignment as the file ranges, so that direct reads can
// write into it.
bool is_aligned_like_files(std::span<const MutableBytes> into, std::span<const FileRange> ranges) {
  std::uint64_t aligned_bytes = 0;
  std::uint64_t all_bytes = 0;
  for (std::size_t i = 0; i < into.size(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(into[i].data());
    all_bytes += into[i].size();
    if (address % read_alignment == ranges[i].offset % read_alignment) aligned_bytes += into[i].size();
  }
  return aligned_bytes >= all_bytes - aligned_bytes;
}

Result<ReadTotals> load(std::span<const MutableBytes> into, const Sources& sources,
                        std::span<const FileRange> ranges, const ChunkConsumer& consumer,
                        const StagedOptions& options) {
  return without_bad_alloc([&]() -> Result<ReadTotals> {
    HT_TRY(check_ring(options.chunks, options.chunk_bytes));
    HT_TRY(check_ranges(sources, ranges));
    if (ranges.empty()) return ReadTotals{};
    HT_TRY(check_unchanged(sources, ranges));
    StagedLoader loader(sources, ranges, into, consumer, options);
    HT_TRY(loader.open(ranges));
    const auto totals = HT_TRY(loader.run());
    HT_TRY(check_unchanged(sources, ranges));
    return totals;
  });
}

// Checks that each range has a target of its size.
Result<void> check_sizes(std::span<const MutableBytes> into, std::span<const FileRange> ranges) {
  const auto refuse = [](std::string message) {
    return fail(Error(ErrorCode::size_mismatch, "each_target_has_the_size_of_its_range", std::move(message))
                    .with_hint("pass memory of the size of each range"));
  };
  if (into.size() != ranges.size())
    return refuse(
        format_text("number of targets is {} but number of ranges is {}", into.size(), ranges.size()));
  for (std::size_t i = 0; i < into.size(); ++i) {
    if (into[i].size() == ranges[i].bytes) continue;
    return refuse(
        format_text("target {} has {} bytes but its range has {}", i, into[i].size(), ranges[i].bytes));
  }
  return {};
}

}  // namespace

std::uint64_t end_of(const FileRange& range) noexcept {
  return checked::add(range.offset, range.bytes).value_or(UINT64_MAX);
}

std::uint64_t sum_of(std::span<const FileRange> ranges) noexcept {
  std::uint64_t all = 0;
  for (const auto& range : ranges) all = checked::add(all, range.bytes).value_or(UINT64_MAX);
  return all;
}

std::optional<Chunk> ChunkPlan::next() noexcept {
  while (range_ < ranges_.size() && done_ == ranges_[range_].bytes) {
    ++range_;
    done_ = 0;
  }
  if (range_ == ranges_.size()) return std::nullopt;
  const FileRange& range = ranges_[range_];
  const std::uint64_t offset = range.offset + done_;
  const std::uint64_t left = range.bytes - done_;
  const std::uint64_t alignment = alignments_[range.file];
  Chunk chunk{.range = {range.file, offset, std::min(left, chunk_bytes_)},
              .range_number = range_,
              .offset_in_range = done_};
  if (alignment != 0) {
    const std::uint64_t to_aligned = (alignment - offset % alignment) % alignment;
    if (to_aligned != 0) {
      chunk.range.bytes = std::min(left, to_aligned);
    } else if (left >= alignment) {
      chunk.range.bytes -= chunk.range.bytes % alignment;
      chunk.direct = true;
    }
  }
  done_ += chunk.range.bytes;
  return chunk;
}

Result<void> check_ring(std::uint32_t chunks, std::uint64_t chunk_bytes) {
  if (chunks != 0 && chunks <= staged::Ring::max_slots && chunk_bytes != 0 &&
      chunk_bytes % read_alignment == 0) {
    return {};
  }
  return fail(Error(ErrorCode::bad_state, "ring_size_is_valid",
                    format_text("a ring of {} chunks of {} bytes is not possible", chunks, chunk_bytes))
                  .with_hint("use 1 to 64 chunks, each a multiple of 4096 bytes"));
}

Result<void> check_ranges(const Sources& sources, std::span<const FileRange> ranges) {
  for (const auto& range : ranges) {
    if (range.file < sources.size() && sources[range.file] &&
        checked::range_fits(range.offset, range.bytes, sources[range.file]->size())) {
      continue;
    }
    return fail(Error(ErrorCode::out_of_bounds, "loaded_ranges_are_in_their_files",
                      format_text("{} bytes at byte {} are outside the file at index {} of {} files",
                                  range.bytes, range.offset, range.file, sources.size()))
                    .with_hint("download missing or incomplete files again"));
  }
  return {};
}

Result<ReadTotals> load_staged(const Sources& sources, std::span<const FileRange> ranges,
                               const ChunkConsumer& consumer, const StagedOptions& options) {
  return load({}, sources, ranges, consumer, options);
}

Result<ReadTotals> load_into(std::span<const MutableBytes> into, const Sources& sources,
                             std::span<const FileRange> ranges, const StagedOptions& options) {
  HT_TRY(check_sizes(into, ranges));
  const bool by_ring = options.direct && options.ring_for_memory && !is_aligned_like_files(into, ranges);
  const auto take = [&](const Chunk& chunk, Bytes bytes) -> Result<void> {
    if (by_ring)
      std::ranges::copy(
          bytes, into[chunk.range_number].begin() + static_cast<std::ptrdiff_t>(chunk.offset_in_range));
    return options.work.on_loaded ? options.work.on_loaded(chunk.range, bytes) : Result<void>();
  };
  return load(by_ring ? std::span<const MutableBytes>() : into, sources, ranges, take, options);
}

}  // namespace ht::inline v1::io
