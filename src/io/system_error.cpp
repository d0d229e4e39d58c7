#include "io/system_error.hpp"

#include <array>
#include <new>
#include <string>
#include <utility>

#include "base/format_text.hpp"

namespace ht::inline v1::io {
namespace {

struct HintFor {
  std::errc cause;
  std::string_view hint;
};

constexpr std::array hints{
    HintFor{std::errc::no_such_file_or_directory,
            "check the spelling; a relative path starts at the current folder"},
    HintFor{std::errc::permission_denied, "you lack the permission: ask the owner, or change it with chmod"},
    HintFor{std::errc::operation_not_permitted,
            "you lack the permission: ask the owner, or change it with chmod"},
    HintFor{std::errc::too_many_files_open, "raise the limit on open files (ulimit -n)"},
    HintFor{std::errc::not_enough_memory, "raise the limit on address space (ulimit -v) or free some memory"},
    HintFor{std::errc::no_space_on_device, "free some space on the disk, or write to another one"},
    HintFor{std::errc::file_too_large, "the file system or a limit (ulimit -f) allows no file of that size"},
    HintFor{std::errc::read_only_file_system, "the file system is mounted read-only: write to another one"},
    HintFor{std::errc::io_error, "the disk or the network under it failed: look at the system's log"},
    HintFor{std::errc::not_a_directory, "a part of the path is a file and not a folder"},
    HintFor{std::errc::too_many_symbolic_link_levels, "the links in the path lead in a circle"},
    HintFor{std::errc::filename_too_long, "choose a shorter name"},
};

std::string words_of(std::error_code cause) noexcept {
  try {
    return cause.message();
  } catch (const std::bad_alloc&) {
    return {};
  }
}

constexpr std::string_view otherwise = "look the system's words up, or try again";

}  // namespace

Error system_error(ErrorCode code, std::string_view rule, std::string_view action,
                   const std::filesystem::path& path, std::error_code cause, SourceLine where) {
  Error error = Error(code, rule, format_text("could not be {}: {}", action, words_of(cause)), where)
                    .at_path(path.native())
                    .because(cause);
  for (const auto& [errc, hint] : hints) {
    if (cause == errc) return std::move(error).with_hint(hint);
  }
  return std::move(error).with_hint(otherwise);
}

}  // namespace ht::inline v1::io
