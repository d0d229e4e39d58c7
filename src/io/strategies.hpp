// The strategies as those who answer: each gets requests of residency and answers every one exactly once.
// They know files and ranges, and nothing of tensors. May be used from many threads.
#pragma once

#include <htensor/io/mapped.hpp>
#include <htensor/io/strategy.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "io/handles.hpp"
#include "io/own_memory.hpp"
#include "io/requests.hpp"
#include "io/staged.hpp"

namespace ht::inline v1::io {

/// How loads are done, and what became of them.
struct LoadWork {
  StagedOptions reading{};
  /// The most memory that may be taken.
  std::uint64_t budget_bytes = UINT64_MAX;
  /// Added up.
  Staged done{};
  /// Threads that gave memory its pages ahead of the reads; 0: the reads did.
  std::uint32_t page_threads = 0;
};

class Answering {
 public:
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;
  virtual ~Answering() = default;

  [[nodiscard]] Strategy strategy() const noexcept { return strategy_; }

  [[nodiscard]] Answer answer(const Request& request);
  /// Several loads at once, whose reads are under way together: as many answers, in the same order. They fail
  /// together.
  [[nodiscard]] std::vector<Answer> answer(std::span<const LoadRequest> requests, LoadWork& work);

 protected:
  explicit Answering(Strategy strategy) noexcept : strategy_(strategy) {}

 private:
  // What a strategy does not have is `unsupported_strategy`.
  [[nodiscard]] virtual Result<Handle> map(const MapRequest& request);
  [[nodiscard]] virtual Result<std::vector<Handle>> load(std::span<const LoadRequest> requests,
                                                         LoadWork& work);
  [[nodiscard]] virtual Result<void> advise(const AdviseRequest& request);
  [[nodiscard]] virtual Result<void> release(const ReleaseRequest& request);

  Strategy strategy_;
};

/// One mapping a file, whoever asks for a part of it. The last handle that is given back unmaps it; where
/// that fails, the handle stays good for another try. A file that was unmapped is mapped again when it is
/// asked for.
class MappedStrategy final : public Answering {
 public:
  MappedStrategy() : Answering(Strategy::mapped) {}

  /// A file, or none where it is missing; its number is the count of those before.
  void add(std::optional<Mapped> file);
  /// By its number. For looking at bytes: it stays mapped while a handle of a part of it is held.
  [[nodiscard]] const std::optional<Mapped>& file(std::size_t number) const { return files_[number]; }
  [[nodiscard]] const std::vector<std::optional<Mapped>>& files() const noexcept { return files_; }
  [[nodiscard]] std::size_t size() const noexcept { return files_.size(); }

 private:
  Result<Handle> map(const MapRequest& request) override;
  Result<void> advise(const AdviseRequest& request) override;
  Result<void> release(const ReleaseRequest& request) override;

  std::mutex mutex_;
  std::vector<std::optional<Mapped>> files_;
  std::vector<std::uint64_t> parts_of_;  // a file
  HandleTable<FileRange> parts_;
};

/// Files that loads are of: those that are missing are null.
using LoadFiles = std::vector<const File*>;

/// Into memory of its own. Giving back what somebody else holds is `in_use`.
class ReadStrategy final : public Answering {
 public:
  explicit ReadStrategy(LoadFiles files) : Answering(Strategy::read), files_(std::move(files)) {}

  /// What was loaded; keeps it in memory while it is held.
  [[nodiscard]] Result<std::shared_ptr<const OwnBlock>> block(Handle handle);

 private:
  Result<std::vector<Handle>> load(std::span<const LoadRequest> requests, LoadWork& work) override;
  Result<void> advise(const AdviseRequest& request) override;
  Result<void> release(const ReleaseRequest& request) override;

  LoadFiles files_;
  std::mutex mutex_;
  HandleTable<std::shared_ptr<const OwnBlock>> blocks_;
};

/// To a consumer, by way of a ring; nothing is kept.
class StagedStrategy final : public Answering {
 public:
  StagedStrategy(LoadFiles files, ChunkConsumer consumer)
      : Answering(Strategy::staged), files_(std::move(files)), consumer_(std::move(consumer)) {}

 private:
  Result<std::vector<Handle>> load(std::span<const LoadRequest> requests, LoadWork& work) override;

  LoadFiles files_;
  ChunkConsumer consumer_;
};

/// Into memory of the caller's; nothing is kept.
class ExternalStrategy final : public Answering {
 public:
  explicit ExternalStrategy(LoadFiles files) : Answering(Strategy::external), files_(std::move(files)) {}

 private:
  Result<std::vector<Handle>> load(std::span<const LoadRequest> requests, LoadWork& work) override;

  LoadFiles files_;
};

}  // namespace ht::inline v1::io
