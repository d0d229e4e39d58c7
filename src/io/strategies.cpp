#include "io/strategies.hpp"

#include <algorithm>

#include "base/format_text.hpp"
#include "io/arena_layout.hpp"

namespace ht::inline v1::io {
namespace {

Error not_for(Strategy strategy, std::string_view what) {
  return Error(ErrorCode::unsupported_strategy, "strategy_has_what_is_asked_for",
               format_text("strategy '{}' cannot {}", to_string(strategy), what))
      .with_hint("use `mapped` to map files; use `read`, `staged` or `external` to load them");
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
                format_text("{} bytes at byte {} of file {} are outside the range of the handle", part.bytes,
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
    return fail(
        Error(ErrorCode::budget_too_small, "what_is_read_fits_into_the_budget",
              format_text("needs {} bytes of memory but the budget is {}", layout.bytes, work.budget_bytes))
            .with_hint("raise the budget, or use the strategy `mapped` or `staged`"));
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
  add_up(work.done, HT_TRY(load_into(into, files_, layout.reads, reading)));
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
  return fail(not_for(strategy(), "take advice"));
}

Result<void> ReadStrategy::release(const ReleaseRequest& request) {
  std::shared_ptr<const OwnBlock> block;  // goes when the lock is gone
  const std::lock_guard lock(mutex_);
  // Nobody but this table hands it out, so one count means that nobody else has it.
  if (HT_TRY(blocks_.find(request.handle))->use_count() > 1) {
    return fail(Error(ErrorCode::in_use, "nobody_holds_what_was_read", "memory is still in use by a tensor")
                    .with_hint("release all tensors of that name first"));
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
