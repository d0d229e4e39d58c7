// Shared code of state machines. A machine is a set of overloads `on(State, Event)` in the namespace of its
// states. The overloads are the transition table; a pair without an overload is refused.
#pragma once

#include <string_view>
#include <type_traits>
#include <variant>

namespace ht::inline v1 {

/// The name of a type without its namespaces.
template <class T>
[[nodiscard]] consteval std::string_view type_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of(";]"));
  return name.substr(name.rfind(':') + 1);
}

/// The name of the state, event or effect that the variant holds.
template <class... Ts>
[[nodiscard]] std::string_view name_of(const std::variant<Ts...>& value) {
  return std::visit([](const auto& held) { return type_name<std::remove_cvref_t<decltype(held)>>(); }, value);
}

/// Returns `on(state, event)` if the table has the pair, else `refuse()`.
template <class Step, class States, class Events, class Refuse>
[[nodiscard]] Step step_of(const States& state, const Events& event, const Refuse& refuse) {
  return std::visit(
      [&](const auto& s, const auto& e) -> Step {
        if constexpr (requires { on(s, e); }) {
          return on(s, e);
        } else {
          return refuse();
        }
      },
      state, event);
}

}  // namespace ht::inline v1
