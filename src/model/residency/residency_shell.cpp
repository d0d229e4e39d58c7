#include "model/residency/residency_shell.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <new>

#include "io/strategy/automatic.hpp"
#include "io/strategy/own_memory.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {
namespace {

// How often a load that waits for another load reports its progress.
constexpr std::chrono::milliseconds wait_between_reports{100};

// Returns the alignment of a tensor's elements; numbers in blocks have at most four bytes.
std::uint64_t alignment_of(const Entry& entry) {
  constexpr std::uint64_t max_alignment = 64;
  constexpr std::uint64_t of_blocks = 4;
  if (entry.encoding != EncodingTag::dense) return of_blocks;
  std::uint64_t bytes = entry.is_typed() ? entry.bytes : 1;
  for (const auto extent : entry.dims) bytes /= static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1));
  return std::min(std::bit_floor(std::max<std::uint64_t>(bytes, 1)), max_alignment);
}

// Returns the error for a child process that returns from a callback in which the parent forked.
Error forked_during_load() {
  return Error(ErrorCode::bad_state, "load_ends_in_its_process",
               "the process forked in a callback of the load")
      .with_hint("end the child in the callback, or load again");
}

}  // namespace

tensor_state::State ResidencyShell::initial(std::size_t tensor) const {
  const Entry entry = catalog_[tensor];
  if (mapped_.sources()[entry.file] && mapped_.file(entry.file).is_mapped()) return tensor_state::Mapped{};
  return tensor_state::Unbound{};
}

ResidencyShell::~ResidencyShell() {
  try {
    delete &process_data();
  } catch (const std::bad_alloc&) {
    return;  // the parent's object stays allocated in a forked child
  }
}

ResidencyShell::ProcessData& ResidencyShell::take_over() const {
  auto data = std::make_unique<ProcessData>();
  const io::Strategy::RequestFailed ended{std::make_shared<const Error>(
      Error(ErrorCode::cancelled, "load_ends_in_its_process", "the process forked during the load")
          .with_hint("load the tensor again"))};
  unsigned forks = last_take_over_fork_count_.load();
  while (forks != data->forks && !last_take_over_fork_count_.compare_exchange_weak(forks, data->forks)) {
  }
  ProcessData* found = process_data_.load(std::memory_order_acquire);
  if (forks == data->forks) {
    // Another thread of this process is creating the object. That thread waits for no lock, so this loop is
    // short.
    for (; !found->belongs_to_this_process(); found = process_data_.load(std::memory_order_acquire))
      std::this_thread::yield();
    return *found;
  }
  if (const std::unique_lock lock(found->mutex, std::try_to_lock); lock) {
    data->states = std::move(found->states);
    data->windows = std::move(found->windows);
    data->privates = std::move(found->privates);
    data->has_states = !data->states.empty();
    for (auto& state : data->states) {
      if (std::holds_alternative<tensor_state::Loading>(state)) state = tensor_state::step(state, ended).next;
    }
  }
  // The parent's object stays allocated: threads of the parent may hold its mutex or wait for its condition,
  // whose destructor would wait for them.
  process_data_.store(data.get(), std::memory_order_release);
  return *data.release();
}

tensor_state::State ResidencyShell::state_of(std::size_t tensor) const {
  ProcessData& data = process_data();
  const std::lock_guard lock(data.mutex);
  if (data.states.empty() || std::holds_alternative<tensor_state::Unbound>(data.states[tensor]))
    return initial(tensor);
  return data.states[tensor];
}

io::Memory ResidencyShell::resident_memory(std::size_t tensor) const noexcept {
  try {
    ProcessData& data = process_data();
    if (!data.has_states.load(std::memory_order_acquire)) return {};
    const std::lock_guard lock(data.mutex);
    const auto* const resident = std::get_if<tensor_state::Resident>(&data.states[tensor]);
    return resident != nullptr ? resident->memory : io::Memory{};
  } catch (const std::bad_alloc&) {
    return {};
  }
}

bool ResidencyShell::is_resident(std::size_t tensor) const {
  ProcessData& data = process_data();
  if (!data.has_states.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(data.mutex);
  return std::holds_alternative<tensor_state::Resident>(data.states[tensor]);
}

ResidencyShell::Applied ResidencyShell::ProcessData::apply(std::size_t tensor,
                                                           const tensor_state::Event& event) {
  auto step = tensor_state::step(states[tensor], event);
  states[tensor] = std::move(step.next);
  return {step.effect, std::move(step.refusal)};
}

Result<io::Strategy::MapDone> ResidencyShell::map(std::size_t tensor, std::uint64_t bytes) {
  const Entry entry = catalog_[tensor];
  ProcessData& data = process_data();
  // Before the first load, no states are allocated: a tensor is mapped as soon as `mapped_` maps its file.
  bool is_requested = false;
  if (data.has_states.load(std::memory_order_acquire)) {
    const std::lock_guard lock(data.mutex);
    is_requested = data.apply(tensor, tensor_state::Map{}).effect.has_value();
  }
  auto mapped = io::send_request<io::Strategy::MapDone>(
      mapped_, io::Strategy::MapRequest{{entry.file, entry.offset, bytes}});
  if (is_requested) {
    const std::lock_guard lock(data.mutex);
    // Another thread may have mapped the tensor, or begun or completed a load of it meanwhile.
    if (tensor_state::accepts_map_done(data.states[tensor])) {
      data.apply(tensor, mapped ? tensor_state::Event(tensor_state::MapDone{})
                                : tensor_state::Event(io::request_failed(mapped.error())));
    }
  }
  return mapped;
}

io::Memory ResidencyShell::keep_window(std::size_t tensor, const io::Memory& window) {
  ProcessData& data = process_data();
  const std::lock_guard lock(data.mutex);
  return data.windows.try_emplace(tensor, window).first->second;
}

io::Memory ResidencyShell::kept_window(std::size_t tensor) const {
  ProcessData& data = process_data();
  const std::lock_guard lock(data.mutex);
  const auto found = data.windows.find(tensor);
  return found != data.windows.end() ? found->second : io::Memory{};
}

Result<io::Memory> ResidencyShell::map_private(std::size_t tensor) {
  ProcessData& data = process_data();
  {
    const std::lock_guard lock(data.mutex);
    if (const auto found = data.privates.find(tensor); found != data.privates.end()) return found->second;
  }
  const Entry entry = catalog_[tensor];
  auto mapped = HT_TRY(io::send_request<io::Strategy::MapDone>(
      mapped_, io::Strategy::MapRequest{{entry.file, entry.offset, entry.bytes}, true}));
  if (mapped.has_other_owner) return std::move(mapped.memory);
  const std::lock_guard lock(data.mutex);
  return data.privates.try_emplace(tensor, std::move(mapped.memory)).first->second;
}

bool ResidencyShell::is_loaded_by_read(std::size_t tensor) const {
  ProcessData& data = process_data();
  const std::lock_guard lock(data.mutex);
  const auto* const resident =
      data.states.empty() ? nullptr : std::get_if<tensor_state::Resident>(&data.states[tensor]);
  return resident != nullptr && dynamic_cast<const io::ReadStrategy*>(resident->strategy.get()) != nullptr;
}

Result<void> ResidencyShell::map_all(std::span<const std::size_t> tensors) {
  const bool has_states = process_data().has_states.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_same_file = i != 0 && catalog_[tensors[i - 1]].file == catalog_[tensors[i]].file;
    if (has_states || !is_same_file) HT_TRY(map(tensors[i], 0));
  }
  return {};
}

void ResidencyShell::allocate_states(ProcessData& data) const {
  if (!data.states.empty()) return;
  std::vector<tensor_state::State> states;
  states.reserve(catalog_.size());
  for (std::size_t i = 0; i < catalog_.size(); ++i) states.push_back(initial(i));
  data.states = std::move(states);
  data.has_states.store(true, std::memory_order_release);
}

io::Strategy::LoadRequest ResidencyShell::request_for(std::size_t tensor) const {
  const Entry entry = catalog_[tensor];
  return {.range = {entry.file, entry.offset, entry.bytes}, .alignment = alignment_of(entry)};
}

Result<std::uint64_t> ResidencyShell::memory_for(std::span<const std::size_t> tensors) const {
  std::vector<io::Strategy::LoadRequest> requests;
  requests.reserve(tensors.size());
  for (const std::size_t tensor : tensors) requests.push_back(request_for(tensor));
  return HT_TRY(io::lay_out(requests)).bytes;
}

Result<std::vector<std::size_t>> ResidencyShell::load(std::span<const std::size_t> tensors,
                                                      const std::shared_ptr<io::Strategy>& strategy,
                                                      io::Strategy::LoadWork work, const CheckMemory& check) {
  if (tensors.empty()) return std::vector<std::size_t>();
  ProcessData& data = process_data();
  std::unique_lock lock(data.mutex);
  if (data.loader == std::this_thread::get_id()) {
    return fail(Error(ErrorCode::in_use, "loads_are_not_nested", "tensor is being loaded by this thread")
                    .with_hint("do not load from a callback of a load"));
  }
  // Calls `on_progress` regularly, because a caller may request a stop only there.
  while (!data.load_ended.wait_for(lock, work.stop, wait_between_reports, [&] {
    return data.loader == std::thread::id();
  }) && !work.stop.stop_requested()) {
    if (!work.on_progress) continue;
    lock.unlock();
    work.on_progress(0);
    if (!data.belongs_to_this_process()) return fail(forked_during_load());
    lock.lock();
  }
  if (work.stop.stop_requested()) {
    return fail(ErrorCode::cancelled, "work_is_completed", "stopped: 0 bytes loaded");
  }
  struct LoadScope {
    ProcessData& data;
    std::unique_lock<std::mutex>& held;
    ~LoadScope() {
      if (!data.belongs_to_this_process()) return;
      if (!held.owns_lock()) held.lock();
      data.loader = {};
      // Wake all: a single woken thread might return because of a stop request.
      data.load_ended.notify_all();
    }
  };
  data.loader = std::this_thread::get_id();
  const LoadScope scope{data, lock};
  allocate_states(data);
  lock.unlock();
  return perform_load(data, tensors, strategy, std::move(work), check);
}

Result<std::vector<std::size_t>> ResidencyShell::perform_load(ProcessData& data,
                                                              std::span<const std::size_t> tensors,
                                                              const std::shared_ptr<io::Strategy>& strategy,
                                                              io::Strategy::LoadWork work,
                                                              const CheckMemory& check) {
  if (work.budget_bytes == 0) {
    // Queried here, because no other load can allocate now.
    const auto available = port_.available_memory();
    work.budget_bytes = available ? io::usable_memory(*available) : UINT64_MAX;
  }
  std::vector<std::size_t> loading;
  std::vector<std::size_t> resident;
  std::vector<io::Strategy::LoadRequest> requests;
  loading.reserve(tensors.size());
  resident.reserve(tensors.size());
  requests.reserve(tensors.size());
  const auto thrown = std::make_shared<const Error>(ErrorCode::cancelled);
  {
    const std::lock_guard lock(data.mutex);
    for (const std::size_t tensor : tensors) {
      if (data.apply(tensor, tensor_state::Load{}).effect) {
        loading.push_back(tensor);
        requests.push_back(request_for(tensor));
      } else {
        resident.push_back(tensor);
      }
    }
  }
  const auto fail_all = [&](const std::shared_ptr<const Error>& error) {
    if (!data.belongs_to_this_process()) return;
    const std::lock_guard lock(data.mutex);
    for (const std::size_t tensor : loading) data.apply(tensor, io::Strategy::RequestFailed{error});
  };
  try {
    // Without the lock: other threads may look up tensors meanwhile.
    auto loaded = io::request_load(*strategy, requests, work);
    if (!data.belongs_to_this_process()) return fail(forked_during_load());
    for (std::size_t i = 0; loaded && i < loading.size(); ++i) {
      const auto& memory = (*loaded)[i].memory;
      const auto bytes = requests[i].range.bytes;
      if (memory.bytes.size() != bytes || (bytes != 0 && !memory.owner)) {
        loaded = fail(io::not_answered(*strategy).at_tensor(catalog_[loading[i]].name));
      } else if (check) {
        if (auto checked = check(loading[i], memory.bytes); !checked)
          loaded = fail(std::move(checked).error());
      }
    }
    if (!loaded) {
      fail_all(std::make_shared<const Error>(loaded.error()));
      return fail(std::move(loaded).error());
    }
    const std::lock_guard lock(data.mutex);
    for (std::size_t i = 0; i < loading.size(); ++i)
      data.apply(loading[i], tensor_state::LoadDone{std::move((*loaded)[i].memory), strategy});
  } catch (...) {
    // Out of memory, or an exception of the user's callback. No read is in flight.
    fail_all(thrown);
    throw;
  }
  return resident;
}

std::uint64_t ResidencyShell::bytes_in_file(const Entry& entry) const {
  if (entry.is_splat()) return 0;
  const auto& source = mapped_.sources()[entry.file];
  const std::uint64_t size = source ? source->size() : 0;
  return std::min(entry.bytes, size - std::min(size, entry.offset));
}

std::vector<io::FileRange> ResidencyShell::ranges_in_files(std::span<const std::size_t> tensors) const {
  auto ranges = merged_ranges(catalog_, tensors);
  for (auto& range : ranges)
    range.bytes = std::min(range.bytes, mapped_.sources()[range.file]->size() - range.offset);
  return ranges;
}

std::vector<io::FileRange> ResidencyShell::pages_of(std::span<const std::size_t> tensors) const {
  // The list may name a tensor several times.
  std::vector<bool> is_named(catalog_.size());
  for (const std::size_t tensor : tensors) is_named[tensor] = true;
  // By file: whether a tensor that is not in the list has bytes in the file.
  std::vector<bool> has_other_tensors(mapped_.sources().size());
  for (std::size_t i = 0; i < catalog_.size(); ++i) {
    const Entry entry = catalog_[i];
    if (!is_named[i] && bytes_in_file(entry) != 0) has_other_tensors[entry.file] = true;
  }
  std::vector<io::FileRange> pages;
  for (const auto& range : ranges_in_files(tensors)) {
    if (has_other_tensors[range.file]) {
      pages.push_back(range);
    } else if (pages.empty() || pages.back().file != range.file) {
      // The page cache drops large folios only as a whole, so the whole file is evicted if the list has all
      // of its tensors.
      pages.push_back({range.file, 0, mapped_.sources()[range.file]->size()});
    }
  }
  return pages;
}

// Returns the error if the strategy cannot release the memory, for instance because it has other owners;
// null on success.
std::shared_ptr<const Error> ResidencyShell::release(ProcessData& data, std::size_t tensor) {
  auto& resident = std::get<tensor_state::Resident>(data.states[tensor]);
  const auto strategy = resident.strategy;
  const auto done =
      io::send_request<io::Strategy::ReleaseDone>(*strategy, io::Strategy::ReleaseRequest{&resident.memory});
  if (!done) return data.apply(tensor, io::request_failed(done.error())).refusal;
  return data.apply(tensor, io::Strategy::ReleaseDone{}).refusal;
}

Result<void> ResidencyShell::evict(std::span<const std::size_t> tensors) {
  ProcessData& data = process_data();
  std::optional<Error> refusal;
  const auto keep_first = [&](const std::shared_ptr<const Error>& error, std::size_t tensor) {
    if (error && !refusal) refusal = Error(*error).at_tensor(catalog_[tensor].name);
  };
  std::vector<std::size_t> dropped;
  std::vector<std::size_t> released;
  // Until a tensor is loaded, eviction only drops pages.
  if (data.has_states.load(std::memory_order_acquire)) {
    dropped.reserve(tensors.size());
    released.reserve(tensors.size());
    for (const std::size_t tensor : tensors) {
      // Lock per tensor: releasing memory is slow, and other threads look up tensors meanwhile.
      const std::lock_guard lock(data.mutex);
      const auto step = data.apply(tensor, tensor_state::Evict{});
      keep_first(step.refusal, tensor);
      if (step.effect == tensor_state::Request::drop_pages) dropped.push_back(tensor);
      if (step.effect != tensor_state::Request::release) continue;
      const auto error = release(data, tensor);
      keep_first(error, tensor);
      if (!error) released.push_back(tensor);
    }
    released.insert(released.end(), dropped.begin(), dropped.end());
    tensors = released;
  }
  // Adjacent ranges are evicted together.
  std::vector<std::shared_ptr<const Error>> error_of_file(mapped_.sources().size());
  for (const auto& range : pages_of(tensors)) {
    const auto done = io::advise(mapped_, range, io::Strategy::Advice::evict);
    if (done) continue;
    if (!refusal) refusal = done.error();
    error_of_file[range.file] = std::make_shared<const Error>(done.error());
  }
  const std::lock_guard lock(data.mutex);
  for (const std::size_t tensor : dropped) {
    const auto residence = tensor_state::residence_of(data.states[tensor]);
    // Another thread has loaded the tensor meanwhile or is loading it; its state is not changed.
    if (residence == TensorResidency::Residence::loading || residence == TensorResidency::Residence::resident)
      continue;
    const auto& error = error_of_file[catalog_[tensor].file];
    data.apply(tensor,
               error ? tensor_state::Event(io::Strategy::RequestFailed{error}) : io::Strategy::AdviseDone{});
  }
  if (refusal) return fail(*std::move(refusal));
  return {};
}

}  // namespace ht::inline v1
