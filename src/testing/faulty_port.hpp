// The system's Port with injected faults: any call can fail, be interrupted, or transfer fewer bytes.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "io/port/port.hpp"

namespace ht::testing {

enum class Call {
  open,
  duplicate,
  close,
  stat,
  stat_path,
  read_link,
  list,
  read_at,
  map,
  map_private,
  unmap,
  map_over,
  advise,
  reopen_direct,
  direct_alignment,
  read_queue,
  submit,
  completed_read,  // `ReadQueue::complete`: a fault becomes the result of the completed read
  wait_for_read,   // `ReadQueue::complete`: a fault makes the call fail
  cached,
  drop_cached,
  file_system,
  available_memory,
  peak_memory,
  next_data,
  next_hole,
  create,
  create_nameless,
  name,
  claim,
  clone_range,
  copy_range,
  write_at,
  allocate,
  resize,
  sync,
  rename,
  unlink,
};

/// All kinds of calls, in the order of their declaration.
inline constexpr auto all_calls = [] {
  std::array<Call, static_cast<std::size_t>(Call::unlink) + 1> calls{};
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i] = static_cast<Call>(i);
  return calls;
}();

/// Whether the call changes the names in a folder, or waits for the disk. Tests interrupt a writer only at
/// such calls: between two of them, the visible files stay the same.
[[nodiscard]] constexpr bool is_crash_point(Call call) noexcept {
  return call == Call::create || call == Call::name || call == Call::rename || call == Call::unlink ||
         call == Call::sync;
}

/// Thread-safe once the faults are set.
class FaultyPort final : public io::Port {
 public:
  /// Makes the nth call of a kind (from 0) fail with `error`; later calls of that kind succeed.
  void fail_at(Call call, int nth, std::errc error) { faults_[{call, nth}] = error; }
  /// Makes all calls of a kind fail with `error`, from the nth on.
  void fail_from(Call call, int nth, std::errc error) { lasting_[call] = {nth, error}; }
  void clear_faults() {
    faults_.clear();
    lasting_.clear();
  }
  /// Limits the bytes of one read or write.
  void set_max_bytes(std::uint64_t bytes) { max_bytes_ = bytes; }
  /// Sets the result of `available_memory`.
  void set_available_memory(std::uint64_t bytes) { available_memory_ = bytes; }
  /// Sets a hook that runs before each call, to simulate events between calls. Several threads may run it at
  /// the same time.
  void before_each(std::function<void(Call, int)> hook) { hook_ = std::move(hook); }
  /// The number of calls of a kind.
  [[nodiscard]] int count(Call call) const;
  /// The regions of all calls of `advise`, in order.
  [[nodiscard]] std::vector<io::Region> advised_regions() const;
  [[nodiscard]] int open_files() const { return open_files_; }
  [[nodiscard]] int mapped_regions() const { return mapped_regions_; }
  [[nodiscard]] int open_queues() const { return open_queues_; }

  io::IoResult<io::FileHandle> open(const std::filesystem::path& path) override;
  io::IoResult<io::FileHandle> duplicate(io::FileHandle file) override;
  io::IoResult<void> close(io::FileHandle file) override;
  io::IoResult<io::FileStat> stat(io::FileHandle file) override;
  io::IoResult<io::FileStat> stat(const std::filesystem::path& path) override;
  io::IoResult<std::filesystem::path> read_link(const std::filesystem::path& path) override;
  io::IoResult<std::vector<std::string>> list(const std::filesystem::path& path) override;
  io::IoResult<std::uint64_t> read_at(io::FileHandle file, std::uint64_t offset, MutableBytes into) override;
  io::IoResult<io::Region> map(io::FileHandle file, std::uint64_t offset, std::uint64_t bytes) override;
  io::IoResult<io::Region> map_private(io::FileHandle file, std::uint64_t offset,
                                       std::uint64_t bytes) override;
  io::IoResult<void> unmap(io::Region region) override;
  io::IoResult<void> map_over(io::Region region, io::FileHandle file, std::uint64_t offset) override;
  io::IoResult<void> advise(io::Region region, io::Strategy::Advice advice) override;
  io::IoResult<io::FileHandle> reopen_direct(io::FileHandle file, io::Access access) override;
  io::IoResult<io::DirectAlignment> direct_alignment(io::FileHandle file) override;
  io::IoResult<std::unique_ptr<io::ReadQueue>> read_queue(std::uint32_t depth) override;
  io::IoResult<void> cached(io::FileHandle file, std::span<io::Source::CacheQuery> parts) override;
  io::IoResult<void> drop_cached(io::FileHandle file, std::uint64_t offset, std::uint64_t bytes) override;
  io::IoResult<io::FileSystem> file_system(io::FileHandle file) override;
  io::IoResult<std::uint64_t> available_memory() override;
  io::IoResult<std::uint64_t> peak_memory() override;
  [[nodiscard]] std::uint64_t page_bytes() const noexcept override;
  io::IoResult<io::FileHandle> create(const std::filesystem::path& path,
                                      std::optional<io::Source::Rights> rights) override;
  io::IoResult<std::uint64_t> next_data(io::FileHandle file, std::uint64_t offset) override;
  io::IoResult<std::uint64_t> next_hole(io::FileHandle file, std::uint64_t offset) override;
  io::IoResult<io::FileHandle> create_nameless(const std::filesystem::path& folder,
                                               std::optional<io::Source::Rights> rights) override;
  io::IoResult<void> name(io::FileHandle file, const std::filesystem::path& path) override;
  io::IoResult<void> claim(io::FileHandle file) override;
  io::IoResult<void> clone_range(const io::CopyRequest& request) override;
  io::IoResult<std::uint64_t> copy_range(const io::CopyRequest& request) override;
  io::IoResult<std::uint64_t> write_at(io::FileHandle file, std::uint64_t offset, Bytes from) override;
  io::IoResult<void> allocate(io::FileHandle file, std::uint64_t bytes) override;
  io::IoResult<void> resize(io::FileHandle file, std::uint64_t bytes) override;
  io::IoResult<void> sync(io::FileHandle file) override;
  io::IoResult<void> rename(const std::filesystem::path& from, const std::filesystem::path& to,
                            IfExists if_exists) override;
  io::IoResult<void> unlink(const std::filesystem::path& path) override;

 private:
  class Queue;
  /// Counts the call and returns its injected fault, if any.
  std::optional<std::error_code> fault(Call call);

  io::Port& real_ = io::system_port();
  mutable std::mutex mutex_;
  std::map<std::pair<Call, int>, std::errc> faults_;
  std::map<Call, std::pair<int, std::errc>> lasting_;
  std::map<Call, int> counts_;
  std::vector<io::Region> advised_regions_;
  std::function<void(Call, int)> hook_;
  std::uint64_t max_bytes_ = UINT64_MAX;
  std::optional<std::uint64_t> available_memory_;
  std::atomic<int> open_files_ = 0;
  std::atomic<int> mapped_regions_ = 0;
  std::atomic<int> open_queues_ = 0;
};

}  // namespace ht::testing
