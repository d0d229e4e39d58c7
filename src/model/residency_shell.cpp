#include "model/residency_shell.hpp"

#include <algorithm>
#include <bit>

#include "io/arena_layout.hpp"
#include "io/choice.hpp"
#include "io/file.hpp"
#include "model/ranges.hpp"

namespace ht::inline v1 {
namespace {

residency::Event event_of(const io::Answer& answer) {
  return std::visit([](const auto& each) -> residency::Event { return each; }, answer);
}

// What a tensor's elements need; blocks have numbers of up to four bytes in them.
std::uint64_t alignment_of(const Entry& entry) {
  constexpr std::uint64_t most = 64;
  constexpr std::uint64_t of_blocks = 4;
  if (entry.encoding != EncodingTag::dense) return of_blocks;
  std::uint64_t bytes = entry.is_typed() ? entry.bytes : 1;
  for (const auto extent : entry.dims) bytes /= static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1));
  return std::min(std::bit_floor(std::max<std::uint64_t>(bytes, 1)), most);
}

}  // namespace

Result<void> ResidencyShell::add_file(std::optional<io::Mapped> file) {
  const auto number = static_cast<std::uint32_t>(mapped_.size());
  const io::FileRange all{number, file ? file->offset() : 0, file ? file->bytes().size() : 0};
  const bool is_there = file.has_value();
  mapped_.add(std::move(file));
  mappings_.emplace_back();
  if (!is_there) return {};
  const auto answer = mapped_.answer(io::MapRequest{all});
  if (const auto* const failed = std::get_if<io::RequestFailed>(&answer)) return fail(*failed->error);
  mappings_.back() = std::get<io::MapDone>(answer).handle;
  return {};
}

residency::State ResidencyShell::initial(std::size_t tensor) const {
  const Entry entry = catalog_[tensor];
  if (mappings_[entry.file] == io::Handle{}) return residency::Unbound{};
  const std::uint64_t bytes = entry.is_splat() ? 0 : entry.bytes;
  const auto bound =
      residency::step(residency::Unbound{}, residency::Bind{{entry.file, entry.offset, bytes}});
  return residency::step(bound.next, io::MapDone{mappings_[entry.file]}).next;
}

residency::State ResidencyShell::state_of(std::size_t tensor) const {
  const std::lock_guard lock(mutex_);
  return states_.empty() ? initial(tensor) : states_[tensor];
}

std::shared_ptr<const io::OwnBlock> ResidencyShell::pinned(std::size_t tensor) const noexcept {
  if (!any_loaded_.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto* const resident = std::get_if<residency::Resident>(&states_[tensor]);
  if (resident == nullptr) return nullptr;
  return read_->block(resident->block).value_or(nullptr);
}

bool ResidencyShell::is_resident(std::size_t tensor) const {
  if (!any_loaded_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  return std::holds_alternative<residency::Resident>(states_[tensor]);
}

residency::Step ResidencyShell::tell(std::size_t tensor, const residency::Event& event) {
  auto step = residency::step(states_[tensor], event);
  states_[tensor] = step.next;
  return step;
}

io::LoadFiles ResidencyShell::load_files() const {
  io::LoadFiles files;
  for (std::size_t i = 0; i < mapped_.size(); ++i) {
    files.push_back(mapped_.file(i) ? &io::file_of(*mapped_.file(i)) : nullptr);
  }
  return files;
}

std::vector<const io::Mapped*> ResidencyShell::mapped_files() const {
  std::vector<const io::Mapped*> files;
  files.reserve(mapped_.files().size());
  for (const auto& each : mapped_.files()) files.push_back(each ? &*each : nullptr);
  return files;
}

std::vector<const io::Mapped*> ResidencyShell::guarded_files() const {
  auto files = mapped_files();
  std::ranges::replace_if(
      files, [](const io::Mapped* file) { return file != nullptr && !file->is_guarded(); }, nullptr);
  return files;
}

void ResidencyShell::keep_states() {
  if (!states_.empty()) return;
  std::vector<residency::State> states;
  states.reserve(catalog_.size());
  for (std::size_t i = 0; i < catalog_.size(); ++i) states.push_back(initial(i));
  read_.emplace(load_files());
  states_ = std::move(states);
  any_loaded_.store(true, std::memory_order_release);
}

io::LoadRequest ResidencyShell::request_for(std::size_t tensor) const {
  const Entry entry = catalog_[tensor];
  return {.range = {entry.file, entry.offset, entry.bytes}, .alignment = alignment_of(entry)};
}

Result<std::uint64_t> ResidencyShell::memory_for(std::span<const std::size_t> tensors) const {
  std::vector<io::LoadRequest> requests;
  requests.reserve(tensors.size());
  for (const std::size_t tensor : tensors) requests.push_back(request_for(tensor));
  return HT_TRY(io::lay_out(requests)).bytes;
}

void ResidencyShell::map(std::span<const std::size_t> tensors) {
  if (!any_loaded_.load(std::memory_order_acquire)) return;  // all are mapped
  const std::lock_guard lock(mutex_);
  for (const std::size_t tensor : tensors) tell(tensor, residency::Map{});
}

Result<void> ResidencyShell::load(std::span<const std::size_t> tensors, io::LoadWork& work) {
  if (tensors.empty()) return {};
  std::unique_lock lock(mutex_);
  if (loader_ == std::this_thread::get_id()) {
    return fail(Error(ErrorCode::in_use, "loads_are_not_nested", "tensor is being loaded by this thread")
                    .with_hint("do not load from a callback of a load"));
  }
  nobody_loads_.wait(lock, work.reading.stop, [&] { return loader_ == std::thread::id(); });
  if (work.reading.stop.stop_requested()) {
    return fail(ErrorCode::cancelled, "work_is_not_stopped", "stopped: 0 bytes loaded");
  }
  struct Turn {
    ResidencyShell& shell;
    std::unique_lock<std::mutex>& held;
    ~Turn() {
      if (!held.owns_lock()) held.lock();
      shell.loader_ = {};
      shell.nobody_loads_.notify_one();
    }
  };
  loader_ = std::this_thread::get_id();
  const Turn turn{*this, lock};
  keep_states();
  lock.unlock();
  return load_alone(tensors, work);
}

Result<void> ResidencyShell::load_alone(std::span<const std::size_t> tensors, io::LoadWork& work) {
  if (work.budget_bytes == 0) {
    // Asked here, where nobody else is about to take what there is.
    auto& port = io::file_of(*file(catalog_[tensors[0]].file)).port();
    const auto available = port.available_memory();
    work.budget_bytes = available ? io::most_of(*available) : UINT64_MAX;
  }
  std::vector<std::size_t> loading;
  std::vector<io::LoadRequest> requests;
  loading.reserve(tensors.size());
  requests.reserve(tensors.size());
  const auto thrown = std::make_shared<const Error>(ErrorCode::cancelled);
  std::shared_ptr<const Error> refusal;
  const auto tell_all = [&](auto&& event_for) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < loading.size(); ++i) {
      const auto step = tell(loading[i], event_for(i));
      if (step.refusal && !refusal) refusal = step.refusal;
    }
  };
  {
    const std::lock_guard lock(mutex_);
    for (const std::size_t tensor : tensors) {
      const auto step = tell(tensor, residency::Load{alignment_of(catalog_[tensor])});
      if (!step.effect) continue;  // it is there already
      loading.push_back(tensor);
      requests.push_back(std::get<io::LoadRequest>(*step.effect));
    }
  }
  try {
    // Others may look tensors up meanwhile.
    const auto answers = read_->answer(requests, work);
    tell_all([&](std::size_t i) { return event_of(answers[i]); });
  } catch (...) {
    // Memory that there is not, or what the user's own callback throws: nothing is under way any more.
    tell_all([&](std::size_t) { return io::RequestFailed{thrown}; });
    throw;
  }
  if (refusal) return fail(*refusal);
  return {};
}

std::vector<io::FileRange> ResidencyShell::pages_of(std::span<const std::size_t> tensors) const {
  std::vector<std::int64_t> staying(mapped_.size());
  for (const Entry& entry : catalog_) {
    if (!entry.is_splat() && entry.bytes != 0) ++staying[entry.file];
  }
  for (const std::size_t tensor : tensors) --staying[catalog_[tensor].file];
  std::vector<io::FileRange> pages;
  for (const auto& range : merged_ranges(catalog_, tensors)) {
    if (staying[range.file] > 0) {
      pages.push_back(range);
    } else if (pages.empty() || pages.back().file != range.file) {
      // The page cache drops its larger pieces whole or not at all: all of the file at once, where nothing
      // of it stays.
      pages.push_back({range.file, file(range.file)->offset(), file(range.file)->bytes().size()});
    }
  }
  return pages;
}

Result<void> ResidencyShell::evict(std::span<const std::size_t> tensors) {
  std::optional<Error> refusal;
  const auto keep = [&](const std::shared_ptr<const Error>& error, std::size_t tensor) {
    if (error && !refusal) refusal = Error(*error).at_tensor(catalog_[tensor].name);
  };
  std::vector<std::size_t> losing_pages;
  std::vector<io::Answer> of_file(mapped_.size(), io::AdviseDone{});
  // Until something was loaded, all are mapped, and have no more to lose than their pages.
  if (any_loaded_.load(std::memory_order_acquire)) {
    losing_pages.reserve(tensors.size());
    for (const std::size_t tensor : tensors) {
      // One by one, as giving memory back takes a while, and others may look tensors up meanwhile.
      const std::lock_guard lock(mutex_);
      const auto step = tell(tensor, residency::Evict{});
      keep(step.refusal, tensor);
      if (!step.effect) continue;
      if (std::holds_alternative<io::ReleaseRequest>(*step.effect)) {
        keep(tell(tensor, event_of(read_->answer(*step.effect))).refusal, tensor);
      } else {
        losing_pages.push_back(tensor);
      }
    }
  }
  // Pages of neighbours go together.
  for (const auto& range : pages_of(tensors)) {
    auto answer = mapped_.answer(io::AdviseRequest{mappings_[range.file], io::Advice::drop, range});
    const auto* const failed = std::get_if<io::RequestFailed>(&answer);
    if (failed == nullptr) continue;
    if (!refusal) refusal = *failed->error;
    of_file[range.file] = std::move(answer);
  }
  const std::lock_guard lock(mutex_);
  for (const std::size_t tensor : losing_pages) {
    // Somebody may have begun to load it meanwhile: then it has lost nothing.
    if (!std::holds_alternative<residency::Mapped>(states_[tensor])) continue;
    tell(tensor, event_of(of_file[catalog_[tensor].file]));
  }
  if (refusal) return fail(*std::move(refusal));
  return {};
}

}  // namespace ht::inline v1
