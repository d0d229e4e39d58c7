#include "load/window_machine.hpp"

#include <algorithm>
#include <concepts>
#include <htensor/base/checked.hpp>
#include <type_traits>
#include <utility>

#include "base/format_text.hpp"

namespace ht::inline v1::window {
namespace {

// Number of layers from `from` to `to` in the usual order of entering, which wraps around.
std::size_t distance(const Books& books, std::size_t from, std::size_t to) {
  return to >= from ? to - from : to + books.layers.size() - from;
}

bool needs_room(const Books::Layer& layer) { return !layer.stays && layer.place == Place::away; }

// Returns the next effect needed to fetch a layer. Returns nullopt if a layer that is entered earlier would
// have to be dropped. Layers are counted from `from`, the current layer or the next to be entered.
std::optional<Effect> way_to(const Books& books, std::size_t layer, std::size_t from) {
  const auto& wanted = books.layers[layer];
  std::uint64_t room = books.room - books.taken;
  if (!needs_room(wanted) || wanted.bytes <= room) return Effect{Action::fetch, layer};
  std::optional<std::size_t> last;
  // Start with the layer just before `from`, which is entered last.
  for (std::size_t away = books.layers.size() - 1; away > distance(books, from, layer); --away) {
    const std::size_t other = (from + away) % books.layers.size();
    if (books.layers[other].stays || books.layers[other].place == Place::away) continue;
    if (!last) last = other;
    room += books.layers[other].bytes;
    if (wanted.bytes <= room) return Effect{Action::drop, *last};
  }
  return std::nullopt;
}

std::optional<Effect> way_ahead(const Books& books) {
  if (!books.entered || books.undropped || books.missing == 0) return std::nullopt;
  bool is_full = false;
  for (std::size_t ahead = 1; ahead < books.layers.size(); ++ahead) {
    const std::size_t layer = (*books.entered + ahead) % books.layers.size();
    if (books.layers[layer].place == Place::here) continue;
    if (books.unfetched && books.unfetched->layer == layer) return std::nullopt;
    // After a layer that waits for room, fetch only layers with reserved room: another would take that room.
    if (is_full && needs_room(books.layers[layer])) continue;
    if (auto effect = way_to(books, layer, *books.entered)) return effect;
    is_full = true;
  }
  return std::nullopt;
}

void begin(Books& books, const Effect& effect) {
  auto& layer = books.layers[effect.layer];
  if (effect.action == Action::fetch && needs_room(layer)) books.taken += layer.bytes;
  if (layer.place == Place::here) ++books.missing;
  layer.place = Place::partly;
}

void end(Books& books, const Effect& effect) {
  auto& layer = books.layers[effect.layer];
  if (effect.action == Action::fetch) {
    layer.place = Place::here;
    --books.missing;
  } else {
    layer.place = Place::away;
    books.taken -= layer.bytes;
  }
}

// Continues when no Enter is pending, or when `answer` answers it.
Step go_on(Books&& books, std::optional<Answer> answer = {}) {
  const auto effect = way_ahead(books);
  if (!effect) return {Idle{std::move(books)}, {}, std::move(answer)};
  begin(books, *effect);
  return {Ahead{std::move(books), *effect}, effect, std::move(answer)};
}

// Fetches a layer that an Enter waits for.
Step serve(Books&& books, std::size_t wanted) {
  // Every layer fits into the room once the others are dropped.
  const auto effect = *way_to(books, wanted, wanted);
  begin(books, effect);
  return {Awaited{std::move(books), effect, wanted}, effect};
}

// Returns the answer to an Enter if it is known at once. In any case the previous layer is no longer entered.
std::optional<Answer> answer_now(Books& books, std::size_t layer) {
  books.entered.reset();
  if (auto error = std::exchange(books.undropped, {})) return Answer{std::move(error)};
  if (books.unfetched && books.unfetched->layer == layer) {
    Answer answer{std::move(books.unfetched->error)};
    books.unfetched.reset();
    return answer;
  }
  if (books.layers[layer].place != Place::here) return std::nullopt;
  books.entered = layer;
  return Answer{};
}

template <class State, class Event>
constexpr bool awaits_answer = std::is_same_v<Event, Enter> || std::is_same_v<State, Awaited>;

// The transition table.

Step on(Idle&& state, Enter&& event) {
  auto answer = answer_now(state.books, event.layer);
  if (!answer) return serve(std::move(state.books), event.layer);
  return go_on(std::move(state.books), std::move(answer));
}
Step on(Idle&& /*state*/, Stop&& event) { return {Stopped{std::move(event.error)}}; }

Step on(Ahead&& state, Enter&& event) {
  auto answer = answer_now(state.books, event.layer);
  if (!answer) return {Awaited{std::move(state.books), state.effect, event.layer}};
  return {std::move(state), {}, std::move(answer)};
}
Step on(Ahead&& state, Done&& /*event*/) {
  end(state.books, state.effect);
  return go_on(std::move(state.books));
}
Step on(Ahead&& state, NotDone&& event) {
  if (state.effect.action == Action::fetch) {
    state.books.unfetched.emplace(Books::Unfetched{state.effect.layer, std::move(event.error)});
  } else {
    state.books.undropped = std::move(event.error);
  }
  return go_on(std::move(state.books));
}
Step on(Ahead&& /*state*/, Stop&& event) { return {Stopping{std::move(event.error)}}; }

Step on(Awaited&& state, Done&& /*event*/) {
  end(state.books, state.effect);
  if (state.effect != Effect{Action::fetch, state.wanted}) return serve(std::move(state.books), state.wanted);
  state.books.entered = state.wanted;
  return go_on(std::move(state.books), Answer{});
}
Step on(Awaited&& state, NotDone&& event) {
  const auto& [action, layer] = state.effect;
  if (action == Action::drop || layer == state.wanted)
    return go_on(std::move(state.books), Answer{std::move(event.error)});
  state.books.unfetched.emplace(Books::Unfetched{layer, std::move(event.error)});
  return serve(std::move(state.books), state.wanted);
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

Books books_for(std::span<const std::uint64_t> layer_bytes, std::uint64_t budget) {
  // Layers may share bytes, so their sum may overflow.
  std::uint64_t total = 0;
  for (const auto bytes : layer_bytes) total = checked::add(total, bytes).value_or(UINT64_MAX);
  const bool fits = total <= budget;
  const std::uint64_t most_staying = fits ? total : budget - std::min(budget, two_largest(layer_bytes));
  const double share = fits ? 1 : static_cast<double>(most_staying) / static_cast<double>(total);
  Books books{.missing = layer_bytes.size()};
  books.layers.reserve(layer_bytes.size());
  std::uint64_t staying = 0;
  const auto fits_too = [&](std::uint64_t bytes) { return bytes <= most_staying - staying; };
  double seen = 0;
  for (const auto bytes : layer_bytes) {
    // Staying layers are limited to their share of the bytes so far, which spreads them evenly.
    seen += static_cast<double>(bytes);
    const bool stays = fits || (fits_too(bytes) && static_cast<double>(staying + bytes) <= seen * share);
    if (stays) staying += bytes;
    books.layers.push_back({.bytes = bytes, .stays = stays});
  }
  // The remaining bytes may suffice for small layers.
  for (auto& layer : books.layers) {
    if (layer.stays || !fits_too(layer.bytes)) continue;
    layer.stays = true;
    staying += layer.bytes;
  }
  books.room = budget - staying;
  return books;
}

Step step(State&& state, Event&& event) {
  return std::visit(
      [&]<class S, class E>(S&& s, E&& e) -> Step {
        if constexpr (requires { on(std::forward<S>(s), std::forward<E>(e)); }) {
          return on(std::forward<S>(s), std::forward<E>(e));
        } else {
          const Error error(
              ErrorCode::bad_state, "event_belongs_to_the_state",
              format_text("window in state {} got the unexpected event {}", name_of(state), name_of(event)));
          Step refused{Failed{error}};
          if constexpr (awaits_answer<S, E>) refused.answer = Answer{error};
          return refused;
        }
      },
      std::move(state), std::move(event));
}

}  // namespace ht::inline v1::window
