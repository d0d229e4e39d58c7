#include "load/window/window_machine.hpp"

#include <algorithm>
#include <concepts>
#include <htensor/base/bytes.hpp>
#include <type_traits>
#include <utility>

#include "base/format_text.hpp"

namespace ht::inline v1::window {
namespace {

// Number of layers from `from` to `to` in the usual order of entering, which wraps around.
std::size_t distance(const Ledger& ledger, std::size_t from, std::size_t to) {
  return to >= from ? to - from : to + ledger.layers.size() - from;
}

bool needs_room(const Ledger::Layer& layer) { return !layer.is_kept && layer.presence == Presence::absent; }

// Returns the next effect needed to fetch a layer. Returns nullopt if that requires dropping a layer that
// will be entered before it. The order of entering begins at `from`, the entered or the requested layer.
std::optional<Effect> next_effect_for(const Ledger& ledger, std::size_t layer, std::size_t from) {
  const auto& requested = ledger.layers[layer];
  std::uint64_t room = ledger.room - ledger.taken;
  if (!needs_room(requested) || requested.bytes <= room) return Effect{Action::fetch, layer};
  std::optional<std::size_t> last;
  // Start with the layer just before `from`, which is entered last.
  for (std::size_t away = ledger.layers.size() - 1; away > distance(ledger, from, layer); --away) {
    const std::size_t other = (from + away) % ledger.layers.size();
    if (ledger.layers[other].is_kept || ledger.layers[other].presence == Presence::absent) continue;
    if (!last) last = other;
    room += ledger.layers[other].bytes;
    if (requested.bytes <= room) return Effect{Action::drop, *last};
  }
  return std::nullopt;
}

std::optional<Effect> prefetch_effect(const Ledger& ledger) {
  if (!ledger.entered || ledger.drop_error || ledger.missing == 0) return std::nullopt;
  bool is_full = false;
  for (std::size_t ahead = 1; ahead < ledger.layers.size(); ++ahead) {
    const std::size_t layer = (*ledger.entered + ahead) % ledger.layers.size();
    if (ledger.layers[layer].presence == Presence::present) continue;
    if (ledger.layers[layer].fetch_error) return std::nullopt;
    // After a layer that waits for room, fetch only layers with reserved room; others would take the room
    // that it waits for.
    if (is_full && needs_room(ledger.layers[layer])) continue;
    if (auto effect = next_effect_for(ledger, layer, *ledger.entered)) return effect;
    is_full = true;
  }
  return std::nullopt;
}

void begin(Ledger& ledger, const Effect& effect) {
  auto& layer = ledger.layers[effect.layer];
  if (effect.action == Action::fetch && needs_room(layer)) ledger.taken += layer.bytes;
  if (layer.presence == Presence::present) ++ledger.missing;
  layer.presence = Presence::partial;
}

void end(Ledger& ledger, const Effect& effect) {
  auto& layer = ledger.layers[effect.layer];
  if (effect.action == Action::fetch) {
    layer.presence = Presence::present;
    --ledger.missing;
  } else {
    layer.presence = Presence::absent;
    ledger.taken -= layer.bytes;
  }
}

// Starts the next prefetch. Called when no Enter is pending, or when `answer` answers it.
Step proceed(Ledger&& ledger, std::optional<Answer> answer = {}) {
  const auto effect = prefetch_effect(ledger);
  if (!effect) return {Idle{std::move(ledger)}, {}, std::move(answer)};
  begin(ledger, *effect);
  return {Ahead{std::move(ledger), *effect}, effect, std::move(answer)};
}

// Fetches a layer that an Enter waits for.
Step fetch_awaited(Ledger&& ledger, std::size_t requested) {
  // Every layer fits into the room once the others are dropped.
  const auto effect = *next_effect_for(ledger, requested, requested);
  begin(ledger, effect);
  return {Awaited{std::move(ledger), effect, requested}, effect};
}

// Returns the answer to an Enter if it is known at once. In any case the previous layer is no longer entered.
std::optional<Answer> answer_at_once(Ledger& ledger, std::size_t layer) {
  ledger.entered.reset();
  if (auto error = std::exchange(ledger.drop_error, {})) return Answer{std::move(error)};
  if (auto error = std::exchange(ledger.layers[layer].fetch_error, {})) return Answer{std::move(error)};
  if (ledger.layers[layer].presence != Presence::present) return std::nullopt;
  ledger.entered = layer;
  return Answer{};
}

template <class State, class Event>
constexpr bool awaits_answer = std::is_same_v<Event, Enter> || std::is_same_v<State, Awaited>;

// The transition table.

Step on(Idle&& state, Enter&& event) {
  auto answer = answer_at_once(state.ledger, event.layer);
  if (!answer) return fetch_awaited(std::move(state.ledger), event.layer);
  return proceed(std::move(state.ledger), std::move(answer));
}
Step on(Idle&& /*state*/, Stop&& event) { return {Stopped{std::move(event.error)}}; }

Step on(Ahead&& state, Enter&& event) {
  auto answer = answer_at_once(state.ledger, event.layer);
  if (!answer) return {Awaited{std::move(state.ledger), state.effect, event.layer}};
  return {std::move(state), {}, std::move(answer)};
}
Step on(Ahead&& state, Done&& /*event*/) {
  end(state.ledger, state.effect);
  return proceed(std::move(state.ledger));
}
Step on(Ahead&& state, EffectFailed&& event) {
  if (state.effect.action == Action::fetch) {
    state.ledger.layers[state.effect.layer].fetch_error = std::move(event.error);
  } else {
    state.ledger.drop_error = std::move(event.error);
  }
  return proceed(std::move(state.ledger));
}
Step on(Ahead&& /*state*/, Stop&& event) { return {Stopping{std::move(event.error)}}; }

Step on(Awaited&& state, Done&& /*event*/) {
  end(state.ledger, state.effect);
  if (state.effect != Effect{Action::fetch, state.requested})
    return fetch_awaited(std::move(state.ledger), state.requested);
  state.ledger.entered = state.requested;
  return proceed(std::move(state.ledger), Answer{});
}
Step on(Awaited&& state, EffectFailed&& event) {
  const auto& [action, layer] = state.effect;
  if (action == Action::drop || layer == state.requested)
    return proceed(std::move(state.ledger), Answer{std::move(event.error)});
  state.ledger.layers[layer].fetch_error = std::move(event.error);
  return fetch_awaited(std::move(state.ledger), state.requested);
}
Step on(Awaited&& /*state*/, Stop&& event) {
  Answer answer{event.error};
  return {Stopping{std::move(event.error)}, {}, std::move(answer)};
}

template <class S>
concept IsOver = std::same_as<S, Stopping> || std::same_as<S, Stopped> || std::same_as<S, Failed>;

template <IsOver S>
Step on(S&& state, Enter&& /*event*/) {
  Answer answer{state.error};
  return {std::forward<S>(state), {}, std::move(answer)};
}
template <IsOver S>
Step on(S&& state, Stop&& /*event*/) {
  return {std::forward<S>(state)};
}
template <class E>
  requires(!std::same_as<E, Enter> && !std::same_as<E, Stop>)
Step on(Stopping&& state, E&& /*event*/) {
  return {Stopped{std::move(state.error)}};
}

}  // namespace

std::uint64_t two_largest(std::span<const std::uint64_t> layer_bytes) noexcept {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  for (const auto bytes : layer_bytes) {
    second = std::max(second, std::min(first, bytes));
    first = std::max(first, bytes);
  }
  return checked::add(first, second).value_or(UINT64_MAX);
}

Ledger make_ledger(std::span<const std::uint64_t> layer_bytes, std::uint64_t budget) {
  // Layers may share bytes, so their sum may overflow.
  std::uint64_t total = 0;
  for (const auto bytes : layer_bytes) total = checked::add(total, bytes).value_or(UINT64_MAX);
  const bool fits = total <= budget;
  const std::uint64_t max_kept_bytes = fits ? total : budget - std::min(budget, two_largest(layer_bytes));
  const double share = fits ? 1 : static_cast<double>(max_kept_bytes) / static_cast<double>(total);
  Ledger ledger{.missing = layer_bytes.size()};
  ledger.layers.reserve(layer_bytes.size());
  std::uint64_t kept_bytes = 0;
  const auto has_room_for = [&](std::uint64_t bytes) { return bytes <= max_kept_bytes - kept_bytes; };
  double bytes_so_far = 0;
  for (const auto bytes : layer_bytes) {
    // Kept layers are limited to their share of the bytes so far, which spreads them evenly.
    bytes_so_far += static_cast<double>(bytes);
    const bool is_kept =
        fits || (has_room_for(bytes) && static_cast<double>(kept_bytes + bytes) <= bytes_so_far * share);
    if (is_kept) kept_bytes += bytes;
    ledger.layers.push_back({.bytes = bytes, .is_kept = is_kept});
  }
  // The remaining bytes may suffice for small layers.
  for (auto& layer : ledger.layers) {
    if (layer.is_kept || !has_room_for(layer.bytes)) continue;
    layer.is_kept = true;
    kept_bytes += layer.bytes;
  }
  ledger.room = budget - kept_bytes;
  return ledger;
}

Step step(State&& state, Event&& event) {
  return std::visit(
      [&]<class S, class E>(S&& s, E&& e) -> Step {
        if constexpr (requires { on(std::forward<S>(s), std::forward<E>(e)); }) {
          return on(std::forward<S>(s), std::forward<E>(e));
        } else {
          const Error error(
              ErrorCode::bad_state, "event_is_valid_in_the_state",
              format_text("window in state {} got the unexpected event {}", name_of(state), name_of(event)));
          Step refused{Failed{error}};
          if constexpr (awaits_answer<S, E>) refused.answer = Answer{error};
          return refused;
        }
      },
      std::move(state), std::move(event));
}

}  // namespace ht::inline v1::window
