#include "testing/faulty_port.hpp"
#include "io/port/port.hpp"

#include <algorithm>

namespace ht::testing {

int FaultyPort::count(Call call) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(call);
  return found == counts_.end() ? 0 : found->second;
}

std::vector<io::Region> FaultyPort::advised_regions() const {
  const std::lock_guard lock(mutex_);
  return advised_regions_;
}

std::optional<std::error_code> FaultyPort::fault(Call call) {
  const int nth = [&] {
    const std::lock_guard lock(mutex_);
    return counts_[call]++;
  }();
  if (hook_) hook_(call, nth);
  if (const auto found = faults_.find({call, nth}); found != faults_.end()) {
    return std::make_error_code(found->second);
  }
  const auto lasting = lasting_.find(call);
  if (lasting == lasting_.end() || nth < lasting->second.first) return std::nullopt;
  return std::make_error_code(lasting->second.second);
}

io::IoResult<io::FileHandle> FaultyPort::open(const std::filesystem::path& path) {
  if (const auto error = fault(Call::open)) return tl::unexpected(*error);
  auto handle = real_.open(path);
  if (handle) ++open_files_;
  return handle;
}

io::IoResult<io::FileHandle> FaultyPort::duplicate(io::FileHandle file) {
  if (const auto error = fault(Call::duplicate)) return tl::unexpected(*error);
  auto handle = real_.duplicate(file);
  if (handle) ++open_files_;
  return handle;
}

io::IoResult<void> FaultyPort::close(io::FileHandle file) {
  // A failed close still closes the file.
  const auto error = fault(Call::close);
  auto done = real_.close(file);
  --open_files_;
  if (error) return tl::unexpected(*error);
  return done;
}

io::IoResult<io::FileStat> FaultyPort::stat(io::FileHandle file) {
  if (const auto error = fault(Call::stat)) return tl::unexpected(*error);
  return real_.stat(file);
}

io::IoResult<io::FileStat> FaultyPort::stat(const std::filesystem::path& path) {
  if (const auto error = fault(Call::stat_path)) return tl::unexpected(*error);
  return real_.stat(path);
}

io::IoResult<std::filesystem::path> FaultyPort::read_link(const std::filesystem::path& path) {
  if (const auto error = fault(Call::read_link)) return tl::unexpected(*error);
  return real_.read_link(path);
}

io::IoResult<std::vector<std::string>> FaultyPort::list(const std::filesystem::path& path) {
  if (const auto error = fault(Call::list)) return tl::unexpected(*error);
  return real_.list(path);
}

io::IoResult<std::uint64_t> FaultyPort::read_at(io::FileHandle file, std::uint64_t offset,
                                                MutableBytes into) {
  if (const auto error = fault(Call::read_at)) return tl::unexpected(*error);
  return real_.read_at(file, offset, into.first(std::min(into.size(), max_bytes_)));
}

io::IoResult<io::Region> FaultyPort::map(io::FileHandle file, std::uint64_t offset, std::uint64_t bytes) {
  if (const auto error = fault(Call::map)) return tl::unexpected(*error);
  auto region = real_.map(file, offset, bytes);
  if (region) ++mapped_regions_;
  return region;
}

io::IoResult<io::Region> FaultyPort::map_private(io::FileHandle file, std::uint64_t offset,
                                                 std::uint64_t bytes) {
  if (const auto error = fault(Call::map_private)) return tl::unexpected(*error);
  auto region = real_.map_private(file, offset, bytes);
  if (region) ++mapped_regions_;
  return region;
}

io::IoResult<void> FaultyPort::unmap(io::Region region) {
  if (const auto error = fault(Call::unmap)) return tl::unexpected(*error);
  auto done = real_.unmap(region);
  if (done) --mapped_regions_;
  return done;
}

io::IoResult<void> FaultyPort::map_over(io::Region region, io::FileHandle file, std::uint64_t offset) {
  if (const auto error = fault(Call::map_over)) return tl::unexpected(*error);
  return real_.map_over(region, file, offset);
}

io::IoResult<void> FaultyPort::advise(io::Region region, io::Strategy::Advice advice) {
  {
    const std::lock_guard lock(mutex_);
    advised_regions_.push_back(region);
  }
  if (const auto error = fault(Call::advise)) return tl::unexpected(*error);
  return real_.advise(region, advice);
}

io::IoResult<io::FileHandle> FaultyPort::reopen_direct(io::FileHandle file, io::Access access) {
  if (const auto error = fault(Call::reopen_direct)) return tl::unexpected(*error);
  auto handle = real_.reopen_direct(file, access);
  if (handle) ++open_files_;
  return handle;
}

io::IoResult<io::DirectAlignment> FaultyPort::direct_alignment(io::FileHandle file) {
  if (const auto error = fault(Call::direct_alignment)) return tl::unexpected(*error);
  return real_.direct_alignment(file);
}

// A call of `complete` is counted as `wait_for_read` and, unless that fails, as `completed_read`.
class FaultyPort::Queue final : public io::ReadQueue {
 public:
  Queue(FaultyPort& port, std::unique_ptr<io::ReadQueue> real) : port_(port), real_(std::move(real)) {
    ++port_.open_queues_;
  }
  ~Queue() override { --port_.open_queues_; }

  io::IoResult<void> submit(const io::ReadRequest& request) override {
    if (const auto error = port_.fault(Call::submit)) return tl::unexpected(*error);
    auto shortened = request;
    shortened.into = request.into.first(std::min<std::size_t>(request.into.size(), port_.max_bytes_));
    return real_->submit(shortened);
  }
  io::IoResult<io::ReadDone> complete() override {
    if (const auto error = port_.fault(Call::wait_for_read)) return tl::unexpected(*error);
    const auto error = port_.fault(Call::completed_read);
    auto done = real_->complete();
    if (done && error) done->bytes = tl::unexpected(*error);
    return done;
  }

 private:
  FaultyPort& port_;
  std::unique_ptr<io::ReadQueue> real_;
};

io::IoResult<std::unique_ptr<io::ReadQueue>> FaultyPort::read_queue(std::uint32_t depth) {
  if (const auto error = fault(Call::read_queue)) return tl::unexpected(*error);
  auto real = real_.read_queue(depth);
  if (!real) return real;
  return std::make_unique<Queue>(*this, *std::move(real));
}

io::IoResult<void> FaultyPort::cached(io::FileHandle file, std::span<io::Source::CacheQuery> parts) {
  if (const auto error = fault(Call::cached)) return tl::unexpected(*error);
  return real_.cached(file, parts);
}

io::IoResult<void> FaultyPort::drop_cached(io::FileHandle file, std::uint64_t offset, std::uint64_t bytes) {
  if (const auto error = fault(Call::drop_cached)) return tl::unexpected(*error);
  return real_.drop_cached(file, offset, bytes);
}

io::IoResult<io::FileSystem> FaultyPort::file_system(io::FileHandle file) {
  if (const auto error = fault(Call::file_system)) return tl::unexpected(*error);
  return real_.file_system(file);
}

io::IoResult<std::uint64_t> FaultyPort::available_memory() {
  if (const auto error = fault(Call::available_memory)) return tl::unexpected(*error);
  if (available_memory_) return *available_memory_;
  return real_.available_memory();
}

io::IoResult<std::uint64_t> FaultyPort::peak_memory() {
  if (const auto error = fault(Call::peak_memory)) return tl::unexpected(*error);
  return real_.peak_memory();
}

std::uint64_t FaultyPort::page_bytes() const noexcept { return real_.page_bytes(); }

io::IoResult<io::FileHandle> FaultyPort::create(const std::filesystem::path& path,
                                                std::optional<io::Source::Rights> rights) {
  if (const auto error = fault(Call::create)) return tl::unexpected(*error);
  auto handle = real_.create(path, rights);
  if (handle) ++open_files_;
  return handle;
}

io::IoResult<std::uint64_t> FaultyPort::next_data(io::FileHandle file, std::uint64_t offset) {
  if (const auto error = fault(Call::next_data)) return tl::unexpected(*error);
  return real_.next_data(file, offset);
}

io::IoResult<std::uint64_t> FaultyPort::next_hole(io::FileHandle file, std::uint64_t offset) {
  if (const auto error = fault(Call::next_hole)) return tl::unexpected(*error);
  return real_.next_hole(file, offset);
}

io::IoResult<io::FileHandle> FaultyPort::create_nameless(const std::filesystem::path& folder,
                                                         std::optional<io::Source::Rights> rights) {
  if (const auto error = fault(Call::create_nameless)) return tl::unexpected(*error);
  auto handle = real_.create_nameless(folder, rights);
  if (handle) ++open_files_;
  return handle;
}

io::IoResult<void> FaultyPort::name(io::FileHandle file, const std::filesystem::path& path) {
  if (const auto error = fault(Call::name)) return tl::unexpected(*error);
  return real_.name(file, path);
}

io::IoResult<void> FaultyPort::claim(io::FileHandle file) {
  if (const auto error = fault(Call::claim)) return tl::unexpected(*error);
  return real_.claim(file);
}

io::IoResult<void> FaultyPort::clone_range(const io::CopyRequest& request) {
  if (const auto error = fault(Call::clone_range)) return tl::unexpected(*error);
  return real_.clone_range(request);
}

io::IoResult<std::uint64_t> FaultyPort::copy_range(const io::CopyRequest& request) {
  if (const auto error = fault(Call::copy_range)) return tl::unexpected(*error);
  auto shortened = request;
  shortened.bytes = std::min(request.bytes, max_bytes_);
  return real_.copy_range(shortened);
}

io::IoResult<std::uint64_t> FaultyPort::write_at(io::FileHandle file, std::uint64_t offset, Bytes from) {
  if (const auto error = fault(Call::write_at)) return tl::unexpected(*error);
  return real_.write_at(file, offset, from.first(std::min(from.size(), max_bytes_)));
}

io::IoResult<void> FaultyPort::allocate(io::FileHandle file, std::uint64_t bytes) {
  if (const auto error = fault(Call::allocate)) return tl::unexpected(*error);
  return real_.allocate(file, bytes);
}

io::IoResult<void> FaultyPort::resize(io::FileHandle file, std::uint64_t bytes) {
  if (const auto error = fault(Call::resize)) return tl::unexpected(*error);
  return real_.resize(file, bytes);
}

io::IoResult<void> FaultyPort::sync(io::FileHandle file) {
  if (const auto error = fault(Call::sync)) return tl::unexpected(*error);
  return real_.sync(file);
}

io::IoResult<void> FaultyPort::rename(const std::filesystem::path& from, const std::filesystem::path& to,
                                      IfExists if_exists) {
  if (const auto error = fault(Call::rename)) return tl::unexpected(*error);
  return real_.rename(from, to, if_exists);
}

io::IoResult<void> FaultyPort::unlink(const std::filesystem::path& path) {
  if (const auto error = fault(Call::unlink)) return tl::unexpected(*error);
  return real_.unlink(path);
}

}  // namespace ht::testing
