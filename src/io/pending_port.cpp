#include "io/pending_port.hpp"

namespace ht::inline v1::io {

PendingPort::PendingPort(std::span<const AtomicFile> files, std::span<const std::filesystem::path> removed,
                         Port& port)
    : port_(port) {
  for (const auto& file : files) {
    files_.emplace(file.target().lexically_normal(), file.handle());
    handles_.insert(file.handle().value);
  }
  for (const auto& path : removed) removed_.insert(path.lexically_normal());
}

IoResult<FileHandle> PendingPort::open(const std::filesystem::path& path) {
  const auto normal = path.lexically_normal();
  if (const auto found = files_.find(normal); found != files_.end()) return found->second;
  if (removed_.contains(normal))
    return tl::unexpected(std::make_error_code(std::errc::no_such_file_or_directory));
  return port_.open(path);
}

IoResult<void> PendingPort::close(FileHandle file) {
  return handles_.contains(file.value) ? IoResult<void>() : port_.close(file);
}

IoResult<FileStat> PendingPort::stat(const std::filesystem::path& path) {
  const auto normal = path.lexically_normal();
  if (const auto found = files_.find(normal); found != files_.end()) return port_.stat(found->second);
  if (removed_.contains(normal))
    return tl::unexpected(std::make_error_code(std::errc::no_such_file_or_directory));
  return port_.stat(path);
}

}  // namespace ht::inline v1::io
