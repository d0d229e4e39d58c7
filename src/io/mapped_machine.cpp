#include "io/mapped_machine.hpp"

#include <array>

#include "base/format_text.hpp"

namespace ht::inline v1::io::mapped {

Step on(const Unmapped& /*state*/, const Map& /*event*/) { return {Mapping{}, MapWhole{}}; }
Step on(const Unmapped& /*state*/, const Advise& /*event*/) { return {Mapping{}, MapWhole{}}; }
// Nothing is mapped, but pages may be in the page cache.
Step on(const Unmapped& state, const Drop& /*event*/) { return {state, DropPages{}}; }

Step on(const Mapping& /*state*/, const WholeMapped& /*event*/) { return {Whole{}, Repeat{}}; }
Step on(const Mapping& /*state*/, const NoRoom& /*event*/) { return {Windowed{}, Repeat{}}; }
// The next request tries again.
Step on(const Mapping& /*state*/, const MapFailed& event) { return {Unmapped{}, Refuse{event.error}}; }

Step on(const Whole& state, const Map& /*event*/) { return {state, GiveView{}}; }
Step on(const Whole& state, const Advise& /*event*/) { return {state, AdvisePages{}}; }
Step on(const Whole& state, const Drop& /*event*/) { return {state, DropPages{}}; }

Step on(const Windowed& state, const Map& /*event*/) { return {state, GiveWindow{}}; }
Step on(const Windowed& state, const Advise& /*event*/) { return {state, AdviseWindow{}}; }
Step on(const Windowed& state, const Drop& /*event*/) { return {state, DropPages{}}; }

Step step(const State& state, const Event& event) {
  return std::visit(
      [&](const auto& s, const auto& e) -> Step {
        if constexpr (requires { on(s, e); }) {
          return on(s, e);
        } else {
          const Error error(ErrorCode::bad_state, "event_belongs_to_the_state",
                            format_text("a mapping in state {} got the unexpected event {}", name_of(state),
                                        name_of(event)));
          return {Failed{error}, Refuse{error}};
        }
      },
      state, event);
}

std::string_view name_of(const State& state) noexcept {
  constexpr std::array<std::string_view, 5> names{"Unmapped", "Mapping", "Whole", "Windowed", "Failed"};
  static_assert(names.size() == std::variant_size_v<State>);
  return names[state.index()];
}

std::string_view name_of(const Event& event) noexcept {
  constexpr std::array<std::string_view, 6> names{"Map",         "Advise", "Drop",
                                                  "WholeMapped", "NoRoom", "MapFailed"};
  static_assert(names.size() == std::variant_size_v<Event>);
  return names[event.index()];
}

}  // namespace ht::inline v1::io::mapped
