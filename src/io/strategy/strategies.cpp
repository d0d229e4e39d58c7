#include "io/strategy/strategies.hpp"

#include <algorithm>
#include <array>
#include <htensor/base/bytes.hpp>

#include "base/format_text.hpp"
#include "io/file_source.hpp"
#include "io/strategy/own_memory.hpp"
#include "io/strategy/parallel_pass.hpp"

namespace ht::inline v1::io {
namespace {

// Allocates pages ahead of the reads that fill them: a direct read into memory without pages faults them in
// one after the other while the disk waits.
class PagesAhead {
 public:
  PagesAhead(const OwnMemory& memory, const ArenaLayout& layout, std::stop_token stop)
      : layout_(layout),
        pass_(pieces_of(layout.bytes),
              [&memory, all = layout.bytes](std::size_t piece, std::size_t /*end*/,
                                            FetchMethod /*method*/) -> Result<void> {
                const std::uint64_t offset = piece * piece_bytes;
                if (memory.allocate_pages(offset, std::min(piece_bytes, all - offset))) return {};
                return fail(Error(ErrorCode::out_of_memory));
              },
              {.methods = methods, .stop = std::move(stop)}) {}

  /// Waits until the pages of a chunk's memory are allocated. If that fails, the reads fault them in.
  void wait_for(const Chunk& chunk) {
    if (failed_) return;
    const std::uint64_t end =
        layout_.read_positions[chunk.range_number] + chunk.offset_in_range + chunk.range.bytes;
    failed_ = !pass_.wait_for(static_cast<std::size_t>((end - 1) / piece_bytes));
  }

  /// 0 after a failure.
  [[nodiscard]] std::uint32_t threads() const { return failed_ ? 0 : pass_.method().threads; }

 private:
  // A multiple of the size of a huge page.
  static constexpr std::uint64_t piece_bytes = std::uint64_t{8} << 20;
  static constexpr std::array<FetchMethod, 3> methods{
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

Strategy::RequestFailed request_failed(Error error) {
  return {std::make_shared<const Error>(std::move(error))};
}

Strategy::RequestFailed not_supported(const Strategy& strategy, std::string_view action) {
  return request_failed(
      Error(ErrorCode::unsupported_strategy, "strategy_supports_the_request",
            format_text("strategy '{}' cannot {}", strategy.name(), action))
          .with_hint("use `mapped` to map files, and `read`, `staged` or `external` to load them"));
}

std::vector<Strategy::Answer> Strategy::load(std::span<const Strategy::LoadRequest> requests,
                                             const Strategy::LoadWork& work) {
  std::vector<Strategy::Answer> answers;
  answers.reserve(requests.size());
  std::uint64_t done_bytes = 0;
  const auto load_one = [&](const Strategy::LoadRequest& request) -> Strategy::Answer {
    if (work.stop.stop_requested()) {
      return request_failed(Error(ErrorCode::cancelled, "work_is_completed",
                                  format_text("stopped: {} bytes loaded", done_bytes)));
    }
    auto answered = answer(request);
    const auto* const loaded = std::get_if<Strategy::LoadDone>(&answered);
    if (loaded == nullptr) return answered;
    const auto seen = work.on_loaded ? work.on_loaded(request.range, loaded->memory.bytes) : Result<void>();
    if (!seen) return request_failed(seen.error());
    done_bytes += request.range.bytes;
    if (work.on_progress) work.on_progress(done_bytes);
    return answered;
  };
  for (const auto& request : requests) {
    answers.push_back(load_one(request));
    if (!std::holds_alternative<Strategy::RequestFailed>(answers.back())) continue;
    const Strategy::Answer failed = answers.back();
    answers.assign(requests.size(), failed);
    break;
  }
  return answers;
}

Error not_answered(const Strategy& strategy) {
  return Error(ErrorCode::bad_state, "strategy_answers_each_request",
               format_text("strategy '{}' returned answers that do not match the requests", strategy.name()))
      .with_hint("return one answer for each request, with memory of the size of its range");
}

Error error_of(const Strategy& strategy, const Strategy::RequestFailed& failed) {
  return failed.error ? *failed.error : not_answered(strategy);
}

Result<void> advise(Strategy& strategy, const FileRange& range, Strategy::Advice advice) {
  HT_TRY(send_request<Strategy::AdviseDone>(strategy, Strategy::AdviseRequest{range, advice}));
  return {};
}

Result<std::vector<Strategy::LoadDone>> request_load(Strategy& strategy,
                                                     std::span<const Strategy::LoadRequest> requests,
                                                     const Strategy::LoadWork& work) {
  auto answers = strategy.load(requests, work);
  if (answers.size() != requests.size()) return fail(not_answered(strategy));
  std::vector<Strategy::LoadDone> loaded;
  loaded.reserve(answers.size());
  for (auto& answer : answers)
    loaded.push_back(HT_TRY(done_or_error<Strategy::LoadDone>(strategy, std::move(answer))));
  return loaded;
}

MappedStrategy::MappedStrategy(const Sources& sources, const MappedOptions& options) : sources_(sources) {
  files_.reserve(sources.size());
  for (std::uint32_t i = 0; i < sources.size(); ++i) {
    MapOptions of_file{.faults = options.faults, .tensor_at = {}};
    if (options.tensor_at) {
      of_file.tensor_at = [name = options.tensor_at, i](std::uint64_t offset) { return name(i, offset); };
    }
    files_.push_back(sources[i] ? std::make_unique<MappedFile>(sources[i], std::move(of_file)) : nullptr);
  }
}

std::vector<MappedFile*> MappedStrategy::files() const {
  std::vector<MappedFile*> files;
  files.reserve(files_.size());
  for (const auto& file : files_) files.push_back(file.get());
  return files;
}

Strategy::Answer MappedStrategy::answer(const Strategy::Request& request) {
  if (const auto* const map_request = std::get_if<Strategy::MapRequest>(&request)) {
    const auto& [number, offset, bytes] = map_request->range;
    const auto file = file_of(map_request->range);
    auto done = !file                     ? fail(file.error())
                : map_request->is_private ? (*file)->map_private(offset, bytes)
                                          : (*file)->map(offset, bytes);
    return done ? Answer(*std::move(done)) : request_failed(std::move(done).error());
  }
  if (const auto* const advise_request = std::get_if<Strategy::AdviseRequest>(&request)) {
    const auto& [number, offset, bytes] = advise_request->range;
    const auto file = file_of(advise_request->range);
    auto done = file ? (*file)->advise(offset, bytes, advise_request->advice) : fail(file.error());
    return done ? Strategy::Answer(Strategy::AdviseDone{}) : request_failed(std::move(done).error());
  }
  if (const auto* const release_request = std::get_if<Strategy::ReleaseRequest>(&request)) {
    for (const auto& file : files_) {
      const auto is_released = file ? file->release(*release_request->memory) : false;
      if (!is_released) return request_failed(is_released.error());
      if (*is_released) return Strategy::ReleaseDone{};
    }
    *release_request->memory = {};  // the mapping itself stays
    return Strategy::ReleaseDone{};
  }
  return not_supported(*this, "load into memory");
}

Result<MappedFile*> MappedStrategy::file_of(const FileRange& range) const {
  if (range.file < files_.size() && files_[range.file]) return files_[range.file].get();
  return fail(Error(ErrorCode::missing_shard, "mapped_file_exists",
                    format_text("file at index {} of {} files is missing and cannot be mapped", range.file,
                                files_.size()))
                  .with_hint("download the missing files into the same folder"));
}

Strategy::Answer ReadStrategy::answer(const Strategy::Request& request) {
  if (const auto* const load_request = std::get_if<Strategy::LoadRequest>(&request))
    return load(std::span(load_request, 1), {}).front();
  const auto* const release_request = std::get_if<Strategy::ReleaseRequest>(&request);
  if (release_request == nullptr)
    return not_supported(*this, std::holds_alternative<Strategy::MapRequest>(request)
                                    ? "map files"
                                    : "give advice to the kernel");
  if (release_request->memory->owner.use_count() > 1) {
    const auto references = release_request->memory->owner.use_count() - 1;
    return request_failed(Error(ErrorCode::in_use, "memory_is_not_in_use",
                                format_text("memory is still in use: {} references", references))
                              .with_hint("release all tensors that use this memory first"));
  }
  *release_request->memory = {};
  return Strategy::ReleaseDone{};
}

std::vector<Strategy::Answer> ReadStrategy::load(std::span<const Strategy::LoadRequest> requests,
                                                 const Strategy::LoadWork& work) {
  // Allocated first, so that each request gets an answer even when out of memory.
  std::vector<Strategy::Answer> answers(requests.size());
  auto memory = without_bad_alloc([&] { return run(requests, work); });
  if (memory) {
    std::ranges::transform(*memory, answers.begin(),
                           [](Memory& each) { return Strategy::LoadDone{std::move(each)}; });
  } else {
    std::ranges::fill(answers, Strategy::Answer(request_failed(std::move(memory).error())));
  }
  return answers;
}

Result<std::vector<Memory>> ReadStrategy::run(std::span<const Strategy::LoadRequest> requests,
                                              const Strategy::LoadWork& work) {
  std::vector<FileRange> ranges;
  ranges.reserve(requests.size());
  for (const auto& request : requests) ranges.push_back(request.range);
  HT_TRY(check_ranges(sources_, ranges));
  const auto layout = HT_TRY(lay_out(requests));
  if (layout.bytes > work.budget_bytes) {
    return fail(Error(ErrorCode::budget_too_small, "loaded_bytes_fit_the_budget",
                      format_text("needs {} bytes of memory but the budget is {} bytes; 0 bytes were loaded",
                                  layout.bytes, work.budget_bytes))
                    .with_hint("raise the budget, load fewer tensors, or use the strategy `staged`"));
  }
  std::shared_ptr<OwnMemory> memory;
  if (layout.bytes != 0) {
    const auto* const local = dynamic_cast<const FileSource*>(sources_[layout.reads[0].file].get());
    memory = HT_TRY(OwnMemory::allocate(layout.bytes, local != nullptr ? local->port() : system_port()));
  }
  const MutableBytes all = memory ? memory->bytes() : MutableBytes{};
  std::vector<MutableBytes> into;
  into.reserve(layout.reads.size());
  for (std::size_t i = 0; i < layout.reads.size(); ++i) {
    into.push_back(all.subspan(static_cast<std::size_t>(layout.read_positions[i]),
                               static_cast<std::size_t>(layout.reads[i].bytes)));
  }
  auto options = options_;
  options.work = work;
  // The ring counts against the budget too.
  const auto ring_bytes = checked::multiply<std::uint64_t>(options.chunks, options.chunk_bytes);
  options.ring_for_memory = ring_bytes && *ring_bytes <= work.budget_bytes - layout.bytes;
  std::optional<PagesAhead> pages;
  // Copying threads fault in pages in parallel; reads do not.
  if (memory && options.mapped.empty()) {
    pages.emplace(*memory, layout, work.stop);
    options.before_read = [&](const Chunk& chunk) { pages->wait_for(chunk); };
  }
  const auto loaded = HT_TRY(load_into(into, sources_, layout.reads, options));
  totals_.bytes += loaded.bytes;
  totals_.direct_bytes += loaded.direct_bytes;
  if (pages) page_threads_ = pages->threads();
  pages.reset();
  std::vector<std::shared_ptr<const void>> parts_read;
  parts_read.reserve(into.size());
  for (const auto& each : into) parts_read.push_back(own_part(memory, each));
  std::vector<Memory> parts;
  parts.reserve(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t read = layout.read_of[i];
    if (requests[i].range.bytes == 0) {
      parts.push_back({{}, std::make_shared<const Bytes>()});
      continue;
    }
    const Bytes bytes = all.subspan(static_cast<std::size_t>(layout.positions[i]),
                                    static_cast<std::size_t>(requests[i].range.bytes));
    parts.push_back({bytes, own_part(memory, bytes, parts_read[read], layout.shared[read])});
  }
  return parts;
}

}  // namespace ht::inline v1::io
