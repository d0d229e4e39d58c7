#include "model/pass_check.hpp"

#include <condition_variable>
#include <deque>
#include <htensor/base/fault.hpp>
#include <htensor/hash/crc64.hpp>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/format_text.hpp"
#include "model/model_seal.hpp"

namespace ht::inline v1 {

PassCheck::PassCheck(std::filesystem::path path, std::optional<SealCheck> seal, std::optional<Own> own)
    : path_(std::move(path)), seal_(std::move(seal)), own_(own) {}

Result<PassCheck> PassCheck::make(const Files& files) {
  auto found = find_seal(files.opened, files.port);
  if (!found) {
    if (found.error().code() != ErrorCode::not_sealed || files.mapped.size() != 1) return fail(found.error());
    const auto own = HT_TRY(own_checksum(io::file_of(*files.mapped[0])));
    if (!own) return fail(found.error());
    return PassCheck(files.paths[0], std::nullopt, Own{.wanted = *own});
  }
  SealCheck::Files in_seal{.files = files.mapped, .numbers = {}, .wanted = {}};
  for (const auto& path : files.paths) in_seal.numbers.push_back(HT_TRY(found->number_of(path)));
  for (const std::size_t tensor : files.tensors) in_seal.wanted.emplace_back(files.catalog[tensor].name);
  HT_TRY(check_same_tensors(*found, files.catalog, in_seal.numbers));
  auto check = HT_TRY(SealCheck::make(std::move(found->seal), std::move(in_seal)));
  return PassCheck(files.paths[0], std::move(check), std::nullopt);
}

Result<void> PassCheck::take(const io::FileRange& range, Bytes bytes) {
  if (seal_) return seal_->take(range, bytes);
  // It may be wanted more than once.
  if (range.offset == own_->wanted.offset) own_->sum = own_->done = 0;
  if (range.offset != own_->wanted.offset + own_->done) return {};
  own_->sum = crc64nvme(bytes, own_->sum);
  own_->done += bytes.size();
  return own_->done == own_->wanted.bytes ? check_sum() : Result<void>();
}

Result<void> PassCheck::check_mapped(std::span<const io::Mapped* const> files,
                                     std::span<const io::FileRange> ranges, const WorkOptions& work) {
  if (seal_) return seal_->check_mapped(files, ranges, work);
  const auto found = HT_TRY(verify_own(*files[0], own_->wanted, {.work = work}));
  HT_TRY(found.result());
  own_->checked_bytes += own_->wanted.bytes;
  return {};
}

Result<void> PassCheck::check_tensor(std::string_view name, Bytes bytes) {
  if (seal_) return seal_->check_tensor(name, bytes);
  own_->sum = crc64nvme(bytes);
  return check_sum();
}

Result<void> PassCheck::check_sum() {
  if (own_->sum == own_->wanted.crc) {
    own_->checked_bytes += own_->wanted.bytes;
    return {};
  }
  const auto name = path_.stem().string();
  return fail(Error(ErrorCode::checksum_mismatch, "payload_is_as_its_header_says",
                    format_text("is damaged: the {} bytes of tensor '{}' do not add up to its checksum",
                                own_->wanted.bytes, name))
                  .at_path(path_.native())
                  .at_tensor(name)
                  .at_offset(own_->wanted.offset)
                  .with_hint("fetch the file again"));
}

std::uint64_t PassCheck::checked_bytes() const noexcept {
  return seal_ ? seal_->checked_bytes() : own_->checked_bytes;
}

struct CheckBehind::Shared {
  Shared(PassCheck& pass, std::span<const io::Mapped* const> mapped, bool drops)
      : check(pass), files(mapped), lets_go(drops) {}

  // So many pieces may wait, which are in the page cache anyhow: where memory is slow when it is first
  // touched, as on virtual machines, the disk need not wait for that.
  static constexpr std::size_t most = 64;

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !waiting.empty() || over; });
      if (waiting.empty()) return;
      const auto range = waiting.front();
      lock.unlock();
      auto taken = take(range);
      lock.lock();
      waiting.pop_front();
      if (!taken && !failed) failed = std::move(taken).error();
      changed.notify_all();
    }
  }

  Result<void> take(const io::FileRange& range) {
    return without_bad_alloc([&]() -> Result<void> {
      const Bytes bytes = HT_TRY(files[range.file]->range(range.offset, range.bytes));
      HT_TRY(guarded(bytes, [&] { return check.take(range, bytes); }));
      if (lets_go) return files[range.file]->advise(range.offset, range.bytes, io::Advice::drop);
      return {};
    });
  }

  Result<void> so_far() {
    if (failed) return fail(*failed);
    return {};
  }

  PassCheck& check;
  std::span<const io::Mapped* const> files;
  bool lets_go;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<io::FileRange> waiting;
  std::optional<Error> failed;
  bool over = false;
  std::jthread thread;
};

CheckBehind::CheckBehind(PassCheck& check, std::span<const io::Mapped* const> files, bool lets_go)
    : shared_(std::make_unique<Shared>(check, files, lets_go)) {
  try {
    shared_->thread = std::jthread([shared = shared_.get()] { shared->work(); });
  } catch (const std::system_error&) {
    shared_->over = true;  // no thread to be had: then it is done when it is added
  }
}

CheckBehind::~CheckBehind() { static_cast<void>(finish()); }

Result<void> CheckBehind::add(const io::FileRange& range) {
  if (!shared_->thread.joinable()) return shared_->take(range);
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [&] { return shared_->waiting.size() < Shared::most; });
  HT_TRY(shared_->so_far());
  shared_->waiting.push_back(range);
  shared_->changed.notify_all();
  return {};
}

Result<void> CheckBehind::finish() {
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->over = true;
    shared_->changed.notify_all();
  }
  if (shared_->thread.joinable()) shared_->thread.join();
  return shared_->so_far();
}

}  // namespace ht::inline v1
