#include <sys/stat.h>

#include <vector>

#include "bench/convert/contenders.hpp"
#include "bench/harness/child.hpp"
#include "bench/harness/must.hpp"
#include "bench/harness/open_file.hpp"

namespace ht::bench {
namespace {

using Path = std::filesystem::path;

std::uint64_t answer_of(const Workload& source, const Path& target) {
  must(std::filesystem::file_size(target) == source.file_bytes, "the copy has another size");
  const OpenFile file(target);
  const Mapping mapping(file, source.file_bytes);
  return sample_answer(source, mapping.data());
}

}  // namespace

TurnResult time_cp(const Workload& source, const Path& target) {
  const Stopwatch watch;
  run_or_fail({"cp", "--reflink=never", source.path.string(), target.string()});
  run_or_fail({"sync", target.string()});
  const double seconds = watch.seconds();
  return {seconds, answer_of(source, target)};
}

TurnResult time_dd(const Workload& source, const Path& target) {
  const Stopwatch watch;
  run_or_fail(dd_command(source.path, target));
  const double seconds = watch.seconds();
  return {seconds, answer_of(source, target)};
}

bool can_copy_by_dd(const Workload& source, const Path& target) {
  auto command = dd_command(source.path, target);
  command.emplace_back("count=1");
  const bool can = run_child(command).wait_status == 0;
  std::filesystem::remove(target);
  return can;
}

TurnResult time_read_write_loop(const Workload& source, const Path& target) {
  const Stopwatch watch;
  {
    const OpenFile from(source.path);
    const int to = ::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    system_must(to >= 0, target.string());
    std::vector<char> buffer(std::size_t{1} << 20);
    for (;;) {
      const auto count = ::read(from.fd(), buffer.data(), buffer.size());
      system_must(count >= 0, source.path.string());
      if (count == 0) break;
      system_must(::write(to, buffer.data(), static_cast<std::size_t>(count)) == count, target.string());
    }
    system_must(::fsync(to) == 0, target.string());
    system_must(::close(to) == 0, target.string());
  }
  const double seconds = watch.seconds();
  return {seconds, answer_of(source, target)};
}

}  // namespace ht::bench
