// Keeps the states of a model's tensors and performs the requests of their machines. May be used from many
// threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <htensor/format/catalog.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "io/strategies.hpp"
#include "model/residency_machine.hpp"

namespace ht::inline v1 {

class ResidencyShell {
 public:
  /// All have to outlive it.
  ResidencyShell(const Catalog& catalog, io::MappedStrategy& mapped, io::Port& port)
      : catalog_(catalog), mapped_(mapped), port_(port) {}

  [[nodiscard]] tensor_state::State state_of(std::size_t tensor) const;
  [[nodiscard]] bool is_resident(std::size_t tensor) const;
  /// The tensor's bytes where they are in memory of the model's own, else nothing.
  [[nodiscard]] io::Memory resident_memory(std::size_t tensor) const noexcept;

  /// `bytes` of the tensor from its beginning on in place, for tensors that are not resident. The tensor has
  /// a file and is not a splat.
  [[nodiscard]] Result<io::MapDone> map(std::size_t tensor, std::uint64_t bytes);
  /// Keeps a window of the tensor until the model goes, unless one was kept before. Returns the kept one.
  [[nodiscard]] io::Memory keep_window(std::size_t tensor, const io::Memory& window);
  /// The window of the tensor that was kept, else nothing.
  [[nodiscard]] io::Memory kept_window(std::size_t tensor) const;
  /// The tensors are going to be used in place.
  [[nodiscard]] Result<void> map_all(std::span<const std::size_t> tensors);

  /// The memory that loading the tensors needs.
  [[nodiscard]] Result<std::uint64_t> memory_for(std::span<const std::size_t> tensors) const;
  /// Loads tensors whose files are there, and returns those that another load has made resident before. One
  /// load at a time. A budget of 0 is most of the available memory. `bad_state` for a strategy that breaks
  /// its contract.
  [[nodiscard]] Result<std::vector<std::size_t>> load(std::span<const std::size_t> tensors,
                                                      const std::shared_ptr<io::Strategy>& strategy,
                                                      io::LoadWork work);

  /// The ranges that leave the page cache with the tensors.
  [[nodiscard]] std::vector<io::FileRange> pages_of(std::span<const std::size_t> tensors) const;
  /// Tensors that cannot be evicted stay; the first error is returned once all others are evicted.
  [[nodiscard]] Result<void> evict(std::span<const std::size_t> tensors);

 private:
  struct Applied {
    std::optional<tensor_state::Ask> effect;
    std::shared_ptr<const Error> refusal;
  };

  [[nodiscard]] tensor_state::State initial(std::size_t tensor) const;
  [[nodiscard]] io::LoadRequest request_for(std::size_t tensor) const;
  /// Moves the tensor to its next state.
  Applied apply(std::size_t tensor, const tensor_state::Event& event);
  /// Before the first load.
  void keep_states();
  [[nodiscard]] Result<std::vector<std::size_t>> load_alone(std::span<const std::size_t> tensors,
                                                            const std::shared_ptr<io::Strategy>& strategy,
                                                            io::LoadWork work);
  [[nodiscard]] std::shared_ptr<const Error> release(std::size_t tensor);

  const Catalog& catalog_;
  io::MappedStrategy& mapped_;
  io::Port& port_;
  mutable std::mutex mutex_;
  std::thread::id loader_;  // the thread that loads at this moment
  std::condition_variable_any load_ended_;
  // Of all tensors, once one was loaded. Before that, a tensor's state is that of its file.
  std::vector<tensor_state::State> states_;
  std::atomic<bool> any_loaded_ = false;
  std::map<std::size_t, io::Memory> windows_;  // by tensor
};

}  // namespace ht::inline v1
