#include "model/residency_shell.hpp"

#include <algorithm>
#include <bit>

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
  if (const auto* const failed = std::get_if<io::RequestFailed>(&answer)) return fail(failed->error);
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

std::shared_ptr<const io::OwnBlock> ResidencyShell::resident(std::size_t tensor) const {
  // Looking a tensor up costs nothing more until something was loaded.
  if (!any_loaded_.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto* const resident = std::get_if<residency::Resident>(&states_[tensor]);
  if (resident == nullptr) return nullptr;
  return read_->block(resident->block).value_or(nullptr);
}

std::optional<io::Request> ResidencyShell::tell(std::size_t tensor, const residency::Event& event,
                                                std::optional<Error>& refusal) {
  auto step = residency::step(states_[tensor], event);
  states_[tensor] = std::move(step.next);
  if (step.refusal && !refusal) {
    // A disk's fault has a place of its own, which may be another tensor's.
    refusal = step.refusal->offset() ? *std::move(step.refusal)
                                     : std::move(*step.refusal).at_tensor(catalog_[tensor].name);
  }
  return step.effect;
}

io::LoadFiles ResidencyShell::load_files() const {
  io::LoadFiles files;
  for (std::size_t i = 0; i < mapped_.size(); ++i) {
    files.push_back(mapped_.file(i) ? &io::file_of(*mapped_.file(i)) : nullptr);
  }
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

Result<void> ResidencyShell::load(std::span<const std::size_t> tensors, io::LoadWork& work) {
  const std::lock_guard one_at_a_time(load_mutex_);
  std::vector<std::size_t> loading;
  std::vector<io::LoadRequest> requests;
  loading.reserve(tensors.size());
  requests.reserve(tensors.size());
  std::optional<Error> refusal;
  {
    const std::lock_guard lock(mutex_);
    keep_states();
    for (const std::size_t tensor : tensors) {
      const auto effect = tell(tensor, residency::Load{alignment_of(catalog_[tensor])}, refusal);
      if (!effect) continue;  // it is there already, or refuses
      loading.push_back(tensor);
      requests.push_back(std::get<io::LoadRequest>(*effect));
    }
  }
  const auto tell_all = [&](auto&& event_for) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < loading.size(); ++i) tell(loading[i], event_for(i), refusal);
  };
  try {
    // Others may look tensors up meanwhile.
    const auto answers = read_->answer(requests, work);
    tell_all([&](std::size_t i) { return event_of(answers[i]); });
  } catch (...) {
    // Memory that there is not, or what the user's own callback throws: nothing is under way any more.
    tell_all([](std::size_t) { return io::RequestFailed{Error(ErrorCode::cancelled)}; });
    throw;
  }
  if (refusal) return fail(*std::move(refusal));
  return {};
}

Result<void> ResidencyShell::evict(std::span<const std::size_t> tensors,
                                   std::span<const io::FileRange> ranges) {
  std::unique_lock lock(mutex_);
  std::optional<Error> refusal;
  std::vector<std::size_t> losing_pages;
  std::vector<io::Answer> of_file(mapped_.size(), io::AdviseDone{});
  // Until something was loaded, all are mapped, and have no more to lose than their pages.
  if (!states_.empty()) {
    losing_pages.reserve(tensors.size());
    for (const std::size_t tensor : tensors) {
      const auto effect = tell(tensor, residency::Evict{}, refusal);
      if (effect && std::holds_alternative<io::ReleaseRequest>(*effect)) {
        tell(tensor, event_of(read_->answer(*effect)), refusal);
      } else if (effect) {
        losing_pages.push_back(tensor);
      }
    }
  }
  // Pages of neighbours go together, which takes a while: others may look tensors up meanwhile.
  lock.unlock();
  for (const auto& range : ranges) {
    auto answer = mapped_.answer(io::AdviseRequest{mappings_[range.file], io::Advice::drop, range});
    const auto* const failed = std::get_if<io::RequestFailed>(&answer);
    if (failed == nullptr) continue;
    if (!refusal) refusal = failed->error;
    of_file[range.file] = std::move(answer);
  }
  lock.lock();
  for (const std::size_t tensor : losing_pages) {
    tell(tensor, event_of(of_file[catalog_[tensor].file]), refusal);
  }
  if (refusal) return fail(*std::move(refusal));
  return {};
}

}  // namespace ht::inline v1
