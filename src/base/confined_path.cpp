#include <htensor/base/confined_path.hpp>

#include <htensor/base/utf8.hpp>

namespace ht::inline v1 {

std::string_view path_fault(std::string_view path) noexcept {
  if (path.empty()) return "is empty";
  if (!is_utf8(path)) return "is not valid UTF-8";
  if (path.find('\0') != path.npos) return "contains a NUL byte";
  // Elsewhere it separates folders as a slash does.
  if (path.find('\\') != path.npos) return "contains a backslash";
  if (path.front() == '/') return "is absolute";
  std::string_view step;
  for (std::string_view rest = path; !rest.empty();) {
    step = rest.substr(0, rest.find('/'));
    if (step == "..") return "leads out of the folder";
    rest.remove_prefix(step.size() == rest.size() ? step.size() : step.size() + 1);
  }
  if (path.back() == '/' || step == ".") return "names a folder";
  return {};
}

}  // namespace ht::inline v1
