#include <htensor/base/confined_path.hpp>

#include <htensor/base/utf8.hpp>

namespace ht::inline v1 {

bool is_confined(std::string_view path) noexcept {
  using namespace std::string_view_literals;
  if (path.empty() || path.front() == '/' || path.back() == '/' ||
      path.find_first_of("\\\0"sv) != path.npos || !is_utf8(path))
    return false;
  bool names_a_file = false;
  while (!path.empty()) {
    const auto slash = path.find('/');
    const auto step = path.substr(0, slash);
    if (step == "..") return false;
    names_a_file = !step.empty() && step != ".";
    path.remove_prefix(slash == path.npos ? path.size() : slash + 1);
  }
  return names_a_file;
}

}  // namespace ht::inline v1
