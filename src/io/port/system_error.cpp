#include "io/port/system_error.hpp"

#include <array>
#include <new>
#include <string>
#include <utility>

#include "base/format_text.hpp"

namespace ht::inline v1::io {
namespace {

using HintFor = std::pair<std::errc, std::string_view>;
constexpr std::array hints{
    HintFor{std::errc::no_such_file_or_directory,
            "check the path; a relative path starts at the current folder"},
    HintFor{std::errc::permission_denied, "change the permissions with chmod, or ask the owner"},
    HintFor{std::errc::operation_not_permitted, "change the permissions with chmod, or ask the owner"},
    HintFor{std::errc::too_many_files_open, "raise the limit on open files (ulimit -n)"},
    HintFor{std::errc::not_enough_memory, "free memory, or raise the limit on address space (ulimit -v)"},
    HintFor{std::errc::no_space_on_device, "free disk space, or write to another disk"},
    HintFor{std::errc::file_too_large,
            "raise the limit on file sizes (ulimit -f), or write to another file system"},
    HintFor{std::errc::read_only_file_system, "write to a file system that is not read-only"},
    HintFor{std::errc::io_error, "check the disk or network, for instance in the system log (dmesg)"},
    HintFor{std::errc::not_a_directory, "check the path: one of its parents is a file"},
    HintFor{std::errc::too_many_symbolic_link_levels, "remove the loop of symbolic links in the path"},
    HintFor{std::errc::filename_too_long, "use a shorter name"},
};

std::string message_of(std::error_code cause) noexcept {
  try {
    return cause.message();
  } catch (const std::bad_alloc&) {
    return {};
  }
}

class NoPortCategory final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "htensor_port"; }
  [[nodiscard]] std::string message(int /*value*/) const override {
    return "this build of htensor does not support the operating system";
  }
  [[nodiscard]] std::error_condition default_error_condition(int /*value*/) const noexcept override {
    return std::errc::function_not_supported;
  }
};

}  // namespace

std::error_code no_port() noexcept {
  static const NoPortCategory category;
  return {1, category};
}

Error system_error(ErrorCode code, std::string_view rule, std::string_view action,
                   const std::filesystem::path& path, std::error_code cause, SourceLine where) {
  if (cause == no_port()) code = ErrorCode::unsupported_platform;
  Error error = Error(code, rule, format_text("cannot {}: {}", action, message_of(cause)), where)
                    .at_path(path.native())
                    .with_cause(cause);
  if (cause == no_port()) return std::move(error).with_hint("use a build of htensor for this system");
  for (const auto& [errc, hint] : hints) {
    if (cause == errc) return std::move(error).with_hint(hint);
  }
  return std::move(error).with_hint("retry, or look up the system's error");
}

}  // namespace ht::inline v1::io
