#include "io/strategies.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/format_text.hpp"
#include "io/arena_layout.hpp"
#include "io/parallel_pass.hpp"

namespace ht::inline v1::io {
namespace {

Error not_for(Strategy strategy, std::string_view what) {
  return Error(ErrorCode::unsupported_strategy, "strategy_has_what_is_asked_for",
               format_text("the strategy '{}' cannot {}", to_string(strategy), what))
      .with_hint("use `mapped` to map files, and `read`, `staged` or `external` to load them");
}

Answer failed(Error error) { return RequestFailed{std::make_shared<const Error>(std::move(error))}; }

std::vector<FileRange> ranges_of(std::span<const LoadRequest> requests) {
  std::vector<FileRange> ranges;
  ranges.reserve(requests.size());
  for (const auto& request : requests) ranges.push_back(request.range);
  return ranges;
}

void add_up(Staged& sum, const Staged& more) {
  sum.bytes += more.bytes;
  sum.direct_bytes += more.direct_bytes;
  sum.chunks += more.chunks;
  sum.through_the_systems_queue = more.through_the_systems_queue;
}

// Gives memory its pages ahead of the reads that fill it: a direct read into memory without pages faults them
// in one after the other while the disk waits.
class PagesAhead {
 public:
  PagesAhead(const OwnMemory& memory, const ArenaLayout& layout, std::stop_token stop)
      : layout_(layout),
        pass_(pieces_of(layout.bytes),
              [&memory, all = layout.bytes](std::size_t piece, std::size_t /*end*/,
                                            Way /*way*/) -> Result<void> {
                const std::uint64_t offset = piece * piece_bytes;
                if (memory.allocate_pages(offset, std::min(piece_bytes, all - offset))) return {};
                return fail(Error(ErrorCode::out_of_memory));
              },
              {.ways = ways, .stop = std::move(stop)}) {}

  /// Waits until the memory of a chunk has its pages. Where that fails, reads fault them in as they go.
  void wait_for(const Chunk& chunk) {
    if (failed_) return;
    const std::uint64_t end = layout_.read_positions[chunk.number] + chunk.in_range + chunk.range.bytes;
    failed_ = !pass_.wait_for(static_cast<std::size_t>((end - 1) / piece_bytes));
  }

  /// 0 after a failure.
  [[nodiscard]] std::uint32_t threads() const { return failed_ ? 0 : pass_.way().threads; }

 private:
  // A multiple of large pages.
  static constexpr std::uint64_t piece_bytes = std::uint64_t{8} << 20;
  static constexpr std::array<Way, 3> ways{
      {{Engine::populate, 2}, {Engine::populate, 4}, {Engine::populate, 1}}};

  static std::vector<std::uint64_t> pieces_of(std::uint64_t bytes) {
    return std::vector<std::uint64_t>(static_cast<std::size_t>((bytes + piece_bytes - 1) / piece_bytes),
                                      piece_bytes);
  }

  const ArenaLayout& layout_;
  bool failed_ = false;
  ParallelPass pass_;
};

}  // namespace

Answer Answering::answer(const Request& request) {
  if (const auto* const asked = std::get_if<MapRequest>(&request)) {
    auto mapped = without_bad_alloc([&] { return map(*asked); });
    return mapped ? Answer(MapDone{*mapped}) : failed(std::move(mapped).error());
  }
  if (const auto* const asked = std::get_if<LoadRequest>(&request)) {
    LoadWork work;
    return answer(std::span(asked, 1), work).front();
  }
  if (const auto* const asked = std::get_if<AdviseRequest>(&request)) {
    auto advised = advise(*asked);
    return advised ? Answer(AdviseDone{}) : failed(std::move(advised).error());
  }
  auto released = release(std::get<ReleaseRequest>(request));
  return released ? Answer(ReleaseDone{}) : failed(std::move(released).error());
}

std::vector<Answer> Answering::answer(std::span<const LoadRequest> requests, LoadWork& work) {
  // Before anything is done, so that there is an answer whatever happens.
  std::vector<Answer> answers(requests.size());
  const auto loaded = without_bad_alloc([&] { return load(requests, work); });
  if (!loaded) {
    std::ranges::fill(answers, failed(loaded.error()));
    return answers;
  }
  for (std::size_t i = 0; i < answers.size(); ++i) answers[i] = LoadDone{(*loaded)[i]};
  return answers;
}

Result<Handle> Answering::map(const MapRequest& /*request*/) { return fail(not_for(strategy_, "map files")); }
Result<std::vector<Handle>> Answering::load(std::span<const LoadRequest> /*requests*/, LoadWork& /*work*/) {
  return fail(not_for(strategy_, "load into memory"));
}
Result<void> Answering::advise(const AdviseRequest& /*request*/) {
  return fail(not_for(strategy_, "take advice"));
}
Result<void> Answering::release(const ReleaseRequest& /*request*/) {
  return fail(not_for(strategy_, "release memory"));
}

void MappedStrategy::add(std::optional<Mapped> file) {
  files_.push_back(std::move(file));
  parts_of_.push_back(0);
}

Result<Handle> MappedStrategy::map(const MapRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto [number, offset, bytes] = request.range;
  if (number >= files_.size() || !files_[number]) {
    return fail(ErrorCode::missing_shard, "mapped_file_is_there",
                format_text("file {} of {} is missing and cannot be mapped", number, files_.size()));
  }
  auto& file = *files_[number];
  if (parts_of_[number] == 0) HT_TRY(file.map_again());
  HT_TRY(file.range(offset, bytes));
  const Handle handle = parts_.add(request.range);
  ++parts_of_[number];
  return handle;
}

Result<void> MappedStrategy::advise(const AdviseRequest& request) {
  const std::lock_guard lock(mutex_);
  const FileRange all = *HT_TRY(parts_.find(request.handle));
  const FileRange& part = request.part;
  const auto inside = checked::subtract(part.offset, all.offset);
  if (part.file != all.file || !inside || !checked::range_fits(*inside, part.bytes, all.bytes)) {
    return fail(ErrorCode::out_of_bounds, "advice_is_on_what_the_handle_names",
                format_text("{} bytes at byte {} of file {} are outside of the handle's range", part.bytes,
                            part.offset, part.file));
  }
  const Mapped& file = *files_[part.file];
  if (request.advice == Advice::drop) return file.forget(part.offset, part.bytes);
  return file.advise(part.offset, part.bytes, request.advice);
}

Result<void> MappedStrategy::release(const ReleaseRequest& request) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t file = HT_TRY(parts_.find(request.handle))->file;
  // While this fails, the handle is good.
  if (parts_of_[file] == 1) HT_TRY(files_[file]->unmap());
  HT_TRY(parts_.take(request.handle));
  --parts_of_[file];
  return {};
}

Result<std::shared_ptr<const OwnBlock>> ReadStrategy::block(Handle handle) {
  const std::lock_guard lock(mutex_);
  return *HT_TRY(blocks_.find(handle));
}

Result<std::vector<Handle>> ReadStrategy::load(std::span<const LoadRequest> requests, LoadWork& work) {
  HT_TRY(check_ranges(files_, ranges_of(requests)));
  const auto layout = HT_TRY(lay_out(requests));
  if (layout.bytes > work.budget_bytes) {
    return fail(Error(ErrorCode::budget_too_small, "what_is_read_fits_into_the_budget",
                      format_text("needs {} bytes of memory but the budget is {} bytes; 0 bytes were loaded",
                                  layout.bytes, work.budget_bytes))
                    .with_hint("raise the budget, load fewer tensors, or use the strategy `staged`"));
  }
  std::shared_ptr<OwnMemory> memory;
  if (layout.bytes != 0)
    memory = HT_TRY(OwnMemory::allocate(layout.bytes, files_[layout.reads[0].file]->port()));
  const MutableBytes all = memory ? memory->bytes() : MutableBytes{};
  std::vector<MutableBytes> into;
  into.reserve(layout.reads.size());
  for (std::size_t i = 0; i < layout.reads.size(); ++i) {
    into.push_back(all.subspan(static_cast<std::size_t>(layout.read_positions[i]),
                               static_cast<std::size_t>(layout.reads[i].bytes)));
  }
  // A ring on the way is memory, too.
  auto reading = work.reading;
  reading.ring_for_memory = reading.chunks * reading.chunk_bytes <= work.budget_bytes - layout.bytes;
  std::optional<PagesAhead> pages;
  // Threads that copy fault in pages side by side; reads do not.
  if (memory && reading.mapped.empty()) {
    pages.emplace(*memory, layout, reading.stop);
    reading.before_read = [&](const Chunk& chunk) { pages->wait_for(chunk); };
  }
  add_up(work.done, HT_TRY(load_into(into, files_, layout.reads, reading)));
  if (pages) work.page_threads = pages->threads();
  pages.reset();
  std::vector<std::shared_ptr<const OwnBlock>> blocks_read;
  blocks_read.reserve(into.size());
  for (const auto& each : into) blocks_read.push_back(std::make_shared<const OwnBlock>(memory, each));
  std::vector<std::shared_ptr<const OwnBlock>> blocks;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t read = layout.read_of[i];
    if (requests[i].range.bytes == 0) {
      blocks.push_back(std::make_shared<const OwnBlock>());
      continue;
    }
    const Bytes bytes = all.subspan(static_cast<std::size_t>(layout.positions[i]),
                                    static_cast<std::size_t>(requests[i].range.bytes));
    blocks.push_back(std::make_shared<const OwnBlock>(memory, bytes, blocks_read[read], layout.shared[read]));
  }
  const std::lock_guard lock(mutex_);
  std::vector<Handle> handles;
  handles.reserve(blocks.size());
  blocks_.reserve(blocks.size());
  for (auto& block : blocks) handles.push_back(blocks_.add(std::move(block)));
  return handles;
}

Result<void> ReadStrategy::advise(const AdviseRequest& request) {
  const std::lock_guard lock(mutex_);
  HT_TRY(blocks_.find(request.handle));
  return fail(not_for(strategy(), "take advice on memory that is allocated"));
}

Result<void> ReadStrategy::release(const ReleaseRequest& request) {
  std::shared_ptr<const OwnBlock> block;  // goes when the lock is gone
  const std::lock_guard lock(mutex_);
  // Nobody but this table hands it out, so one count means that nobody else has it.
  if (HT_TRY(blocks_.find(request.handle))->use_count() > 1) {
    return fail(Error(ErrorCode::in_use, "nobody_holds_what_was_read", "is still in use")
                    .with_hint("destroy all tensors of that name first"));
  }
  block = HT_TRY(blocks_.take(request.handle));
  return {};
}

Result<std::vector<Handle>> StagedStrategy::load(std::span<const LoadRequest> requests, LoadWork& work) {
  add_up(work.done, HT_TRY(load_staged(files_, ranges_of(requests), consumer_, work.reading)));
  return std::vector<Handle>(requests.size());
}

Result<std::vector<Handle>> ExternalStrategy::load(std::span<const LoadRequest> requests, LoadWork& work) {
  std::vector<MutableBytes> into;
  for (const auto& request : requests) into.push_back(request.into);
  add_up(work.done, HT_TRY(load_into(into, files_, ranges_of(requests), work.reading)));
  return std::vector<Handle>(requests.size());
}

}  // namespace ht::inline v1::io
