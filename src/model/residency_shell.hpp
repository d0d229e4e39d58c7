// Performs what the residency machines of a model's tensors ask for, and keeps their states. May be used from
// many threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <htensor/format/catalog.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "io/strategies.hpp"
#include "model/residency_machine.hpp"

namespace ht::inline v1 {

class ResidencyShell {
 public:
  /// The catalog has to outlive it.
  explicit ResidencyShell(const Catalog& catalog) : catalog_(catalog) {}

  /// While the model is being opened: the next file, or none where it is missing.
  [[nodiscard]] Result<void> add_file(std::optional<io::Mapped> file);

  [[nodiscard]] std::size_t file_count() const noexcept { return mapped_.size(); }
  /// Mapped as long as this lives.
  [[nodiscard]] const std::optional<io::Mapped>& file(std::size_t number) const {
    return mapped_.file(number);
  }
  [[nodiscard]] const std::vector<std::optional<io::Mapped>>& files() const noexcept {
    return mapped_.files();
  }

  [[nodiscard]] residency::State state_of(std::size_t tensor) const;
  /// The tensor's bytes where they are in memory of the model's own, else null.
  [[nodiscard]] std::shared_ptr<const io::OwnBlock> pinned(std::size_t tensor) const noexcept;
  [[nodiscard]] bool is_resident(std::size_t tensor) const;

  /// For strategies that load; those that are missing are null.
  [[nodiscard]] io::LoadFiles load_files() const;
  /// Those whose pages can be touched whatever becomes of the file; the others are null.
  [[nodiscard]] std::vector<const io::Mapped*> guarded_files() const;
  /// Null where a file is missing.
  [[nodiscard]] std::vector<const io::Mapped*> mapped_files() const;

  /// What loading these takes in memory.
  [[nodiscard]] Result<std::uint64_t> memory_for(std::span<const std::size_t> tensors) const;
  /// Tensors that are in a file that is there. Those that are in memory already stay there. One load at a
  /// time, so that a second one finds what the first has brought. A budget of 0 is most of what is available.
  [[nodiscard]] Result<void> load(std::span<const std::size_t> tensors, io::LoadWork& work);
  /// Tensors that are not in memory of the model's own are used by their mappings from now on.
  void map(std::span<const std::size_t> tensors);
  /// What is dropped from the page cache where these go.
  [[nodiscard]] std::vector<io::FileRange> pages_of(std::span<const std::size_t> tensors) const;
  /// What cannot be evicted stays; the first of these is told once all others are gone.
  [[nodiscard]] Result<void> evict(std::span<const std::size_t> tensors);

 private:
  [[nodiscard]] residency::State initial(std::size_t tensor) const;
  [[nodiscard]] io::LoadRequest request_for(std::size_t tensor) const;
  /// What has happened to a tensor: its state becomes the next; what io is to do about it, and what is
  /// refused, is the answer.
  residency::Step tell(std::size_t tensor, const residency::Event& event);
  /// Before the first load.
  void keep_states();
  [[nodiscard]] Result<void> load_alone(std::span<const std::size_t> tensors, io::LoadWork& work);

  const Catalog& catalog_;
  io::MappedStrategy mapped_;
  std::vector<io::Handle> mappings_;  // of each file
  mutable std::optional<io::ReadStrategy> read_;
  mutable std::mutex mutex_;
  std::thread::id loader_;  // who loads at this moment, if somebody does
  std::condition_variable_any nobody_loads_;
  // Of all tensors once one was loaded: before that each is as it was at first, which costs nothing.
  std::vector<residency::State> states_;
  std::atomic<bool> any_loaded_ = false;
};

}  // namespace ht::inline v1
