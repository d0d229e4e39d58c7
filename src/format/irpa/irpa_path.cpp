#include "format/irpa/irpa_path.hpp"

#include <htensor/base/utf8.hpp>

namespace ht::inline v1::format_irpa {

std::string_view path_fault(std::string_view path) noexcept {
  if (path.empty()) return "is empty";
  if (!is_utf8(path)) return "is no UTF-8";
  if (path.find('\0') != path.npos) return "has a zero byte in it";
  // Elsewhere it separates folders as a slash does.
  if (path.find('\\') != path.npos) return "has a backslash in it";
  if (path.front() == '/') return "is absolute";
  for (std::string_view rest = path; !rest.empty();) {
    const auto part = rest.substr(0, rest.find('/'));
    if (part == "..") return "leads out of the folder";
    rest.remove_prefix(part.size() == rest.size() ? part.size() : part.size() + 1);
  }
  return {};
}

}  // namespace ht::inline v1::format_irpa
