// The library's strategies. They work on sources and ranges, not on tensors. MappedStrategy is thread-safe;
// ReadStrategy may be used by one thread at a time. `staged` and `external` have no state: their functions
// are in staged.hpp.
#pragma once

#include <functional>
#include <htensor/io/strategy.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/strategy/mapped_file.hpp"
#include "io/strategy/staged.hpp"

namespace ht::inline v1::io {

struct MappedOptions {
  FaultPolicy faults = FaultPolicy::guarded;
  /// As MapOptions::tensor_at, with the source's number.
  std::function<std::string(std::uint32_t file, std::uint64_t offset)> tensor_at{};
};

/// Maps sources in place, with one MappedFile per source.
class MappedStrategy final : public Strategy {
 public:
  explicit MappedStrategy(const Sources& sources, const MappedOptions& options = {});

  [[nodiscard]] const Sources& sources() const noexcept { return sources_; }
  /// The source of this number must exist.
  [[nodiscard]] MappedFile& file(std::size_t number) const { return *files_[number]; }
  /// Null for missing sources.
  [[nodiscard]] std::vector<MappedFile*> files() const;

  [[nodiscard]] std::string_view name() const noexcept override { return to_string(Strategy::Kind::mapped); }
  /// `missing_shard` if the source is missing.
  Strategy::Answer answer(const Strategy::Request& request) override;

 private:
  [[nodiscard]] Result<MappedFile*> file_of(const FileRange& range) const;

  Sources sources_;
  std::vector<std::unique_ptr<MappedFile>> files_;
};

/// Loads into its own memory, which a Strategy::ReleaseRequest frees. All requests of a load fail together,
/// for instance with `budget_too_small`.
class ReadStrategy final : public Strategy {
 public:
  explicit ReadStrategy(const Sources& sources, StagedOptions options = {})
      : sources_(sources), options_(std::move(options)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return to_string(Strategy::Kind::read); }
  Strategy::Answer answer(const Strategy::Request& request) override;
  std::vector<Strategy::Answer> load(std::span<const Strategy::LoadRequest> requests,
                                     const Strategy::LoadWork& work) override;

  /// The sum over all loads.
  [[nodiscard]] const ReadTotals& totals() const noexcept { return totals_; }
  /// Number of threads that allocated pages ahead of the reads; 0 if the reads allocated them.
  [[nodiscard]] std::uint32_t page_threads() const noexcept { return page_threads_; }

 private:
  /// Returns the memory of each request.
  [[nodiscard]] Result<std::vector<Memory>> run(std::span<const Strategy::LoadRequest> requests,
                                                const Strategy::LoadWork& work);

  const Sources& sources_;
  StagedOptions options_;
  ReadTotals totals_;
  std::uint32_t page_threads_ = 0;
};

/// Returns the `bad_state` error for an answer that does not match its request.
[[nodiscard]] Error not_answered(const Strategy& strategy);
/// Returns the Error of a failed request.
[[nodiscard]] Error error_of(const Strategy& strategy, const Strategy::RequestFailed& failed);

/// Returns the expected kind of answer, or an Error.
template <class Done>
[[nodiscard]] Result<Done> done_or_error(const Strategy& strategy, Strategy::Answer answer) {
  if (auto* const done = std::get_if<Done>(&answer)) return std::move(*done);
  const auto* const failed = std::get_if<Strategy::RequestFailed>(&answer);
  return fail(failed != nullptr ? error_of(strategy, *failed) : not_answered(strategy));
}

/// Sends a request and returns its answer: `send_request<Strategy::MapDone>(strategy,
/// Strategy::MapRequest{range})`.
template <class Done>
[[nodiscard]] Result<Done> send_request(Strategy& strategy, const Strategy::Request& request) {
  return done_or_error<Done>(strategy, strategy.answer(request));
}

[[nodiscard]] Result<void> advise(Strategy& strategy, const FileRange& range, Strategy::Advice advice);

/// Returns the Strategy::LoadDone of each request, or the first failure; `bad_state` if answers are missing.
[[nodiscard]] Result<std::vector<Strategy::LoadDone>> request_load(
    Strategy& strategy, std::span<const Strategy::LoadRequest> requests, const Strategy::LoadWork& work);

}  // namespace ht::inline v1::io
