// Keeps the states of a model's tensors and performs the requests of their state machines. Thread-safe.
//
// Fork: a load of the parent does not exist in a forked child. The tensors of the load are `Failed` in the
// child and can be loaded again. If the fork happens while another thread changes a state (which takes
// microseconds) or releases memory, the child cannot use the states and starts without them: its tensors are
// mapped and not resident, the memory of the parent's loads stays allocated, and `map_private` makes new
// mappings.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <htensor/format/catalog.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/workers.hpp"
#include "io/port/port.hpp"
#include "io/strategy/strategies.hpp"
#include "model/residency/residency_machine.hpp"

namespace ht::inline v1 {

class ResidencyShell {
 public:
  /// All arguments have to outlive this object.
  ResidencyShell(const Catalog& catalog, io::MappedStrategy& mapped, io::Port& port)
      : catalog_(catalog), mapped_(mapped), port_(port) {}
  ResidencyShell(const ResidencyShell&) = delete;
  ResidencyShell& operator=(const ResidencyShell&) = delete;
  ~ResidencyShell();

  [[nodiscard]] tensor_state::State state_of(std::size_t tensor) const;
  [[nodiscard]] bool is_resident(std::size_t tensor) const;
  /// Returns the tensor's bytes if they are in memory owned by the model, else empty memory.
  [[nodiscard]] io::Memory resident_memory(std::size_t tensor) const noexcept;

  /// Maps the first `bytes` bytes of a tensor that is not resident. The tensor has a file and is not a splat.
  [[nodiscard]] Result<io::Strategy::MapDone> map(std::size_t tensor, std::uint64_t bytes);
  /// Keeps a window of the tensor until the model is destroyed, unless one is kept already. Returns the kept
  /// window. A window is a mapping of this tensor alone, made if the address space has no room for the whole
  /// file.
  [[nodiscard]] io::Memory keep_window(std::size_t tensor, const io::Memory& window);
  /// Returns the kept window of the tensor, else empty memory.
  [[nodiscard]] io::Memory kept_window(std::size_t tensor) const;
  /// Maps a tensor in private, writable memory. Windows and copies are kept until the model is destroyed, so
  /// that all requests for the tensor get the same memory.
  [[nodiscard]] Result<io::Memory> map_private(std::size_t tensor);
  /// Whether the tensor is resident and was loaded by the strategy `read`, whose memory is writable.
  [[nodiscard]] bool is_loaded_by_read(std::size_t tensor) const;
  /// Maps tensors for use in place.
  [[nodiscard]] Result<void> map_all(std::span<const std::size_t> tensors);

  /// Returns the memory needed to load the tensors.
  [[nodiscard]] Result<std::uint64_t> memory_for(std::span<const std::size_t> tensors) const;
  /// Checks the memory that a strategy returned for a tensor, before the tensor becomes resident. An Error
  /// ends the load.
  using CheckMemory = std::function<Result<void>(std::size_t tensor, Bytes bytes)>;
  /// Loads tensors whose files exist, and returns those that another load made resident before. Loads are
  /// serialized; a load that waits for another one calls `on_progress` meanwhile and honours a stop. A budget
  /// of 0 is most of the available memory. `bad_state` for a strategy that breaks its contract.
  [[nodiscard]] Result<std::vector<std::size_t>> load(std::span<const std::size_t> tensors,
                                                      const std::shared_ptr<io::Strategy>& strategy,
                                                      io::Strategy::LoadWork work,
                                                      const CheckMemory& check = {});

  /// Returns how many bytes of the tensor its file has: fewer than its size if the file is incomplete, 0 if
  /// it is missing and for a splat.
  [[nodiscard]] std::uint64_t bytes_in_file(const Entry& entry) const;
  /// Returns the file ranges of the tensors, as far as their files have them.
  [[nodiscard]] std::vector<io::FileRange> ranges_in_files(std::span<const std::size_t> tensors) const;
  /// Returns the file ranges to evict from the page cache when these tensors are evicted.
  [[nodiscard]] std::vector<io::FileRange> pages_of(std::span<const std::size_t> tensors) const;
  /// Evicts tensors that have bytes in their files. Tensors that cannot be evicted stay; returns the first
  /// error after all others are evicted.
  [[nodiscard]] Result<void> evict(std::span<const std::size_t> tensors);

 private:
  struct Applied {
    std::optional<tensor_state::Request> effect;
    std::shared_ptr<const Error> refusal;
  };

  // All data that threads change, and their mutex. Belongs to the process that created it.
  struct ProcessData {
    const unsigned forks = fork_count();
    std::mutex mutex;
    std::thread::id loader;  // the thread that is loading now
    std::condition_variable_any load_ended;
    // States of all tensors, allocated at the first load. Before that, a tensor is `Mapped` if its file is
    // mapped, else `Unbound`.
    std::vector<tensor_state::State> states;
    std::atomic<bool> has_states = false;        // whether `states` is allocated
    std::map<std::size_t, io::Memory> windows;   // by tensor
    std::map<std::size_t, io::Memory> privates;  // by tensor

    [[nodiscard]] bool belongs_to_this_process() const noexcept { return forks == fork_count(); }
    /// Moves the tensor to its next state.
    Applied apply(std::size_t tensor, const tensor_state::Event& event);
  };

  /// Returns the data of this process. Throws std::bad_alloc, only in a forked child.
  [[nodiscard]] ProcessData& process_data() const {
    ProcessData* const found = process_data_.load(std::memory_order_acquire);
    return found->belongs_to_this_process() ? *found : take_over();
  }
  /// Moves the parent's data to an object of this process.
  [[nodiscard]] ProcessData& take_over() const;
  [[nodiscard]] tensor_state::State initial(std::size_t tensor) const;
  [[nodiscard]] io::Strategy::LoadRequest request_for(std::size_t tensor) const;
  /// Allocates the states before the first load.
  void allocate_states(ProcessData& data) const;
  /// Loads tensors. No other load may run.
  [[nodiscard]] Result<std::vector<std::size_t>> perform_load(ProcessData& data,
                                                              std::span<const std::size_t> tensors,
                                                              const std::shared_ptr<io::Strategy>& strategy,
                                                              io::Strategy::LoadWork work,
                                                              const CheckMemory& check);
  [[nodiscard]] std::shared_ptr<const Error> release(ProcessData& data, std::size_t tensor);

  const Catalog& catalog_;
  io::MappedStrategy& mapped_;
  io::Port& port_;
  mutable std::atomic<ProcessData*> process_data_ = new ProcessData();
  // Decides which thread of a forked child replaces `process_data_`: the one that changes this number to the
  // fork count of the child. Initially the fork count of the process that created the shell.
  mutable std::atomic<unsigned> last_take_over_fork_count_ = fork_count();
};

}  // namespace ht::inline v1
