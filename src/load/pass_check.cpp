#include "load/pass_check.hpp"

#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <htensor/hash/crc64.hpp>

#include "base/format_text.hpp"
#include "integrity/found_seal.hpp"
#include "integrity/measure.hpp"

namespace ht::inline v1 {

Result<PassCheck> PassCheck::make(const ModelState& model, std::span<const std::size_t> tensors) {
  const auto files = model.mapped->files();
  PassCheck check;
  auto found = find_seal(model.opened, model.formats, *model.port);
  if (!found) {
    if (found.error().code() != ErrorCode::not_sealed || files.size() != 1) return fail(found.error());
    const auto own = HT_TRY(own_checksum(files[0]->source(), model.formats));
    if (!own) return fail(found.error());
    check.path_ = model.paths[0];
    check.own_ = Own{.wanted = *own};
    return check;
  }
  SealCheck::Files in_seal{.files = files, .numbers = {}, .wanted = {}};
  for (const auto& path : model.paths) in_seal.numbers.push_back(HT_TRY(found->number_of(path)));
  for (const std::size_t tensor : tensors) in_seal.wanted.emplace_back((*model.catalog)[tensor].name);
  HT_TRY(check_same_tensors(*found, *model.catalog, in_seal.numbers));
  check.seal_ = HT_TRY(SealCheck::make(std::move(found->seal), std::move(in_seal)));
  return check;
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

Result<void> PassCheck::check_mapped(io::MappedFiles files, std::span<const io::FileRange> ranges,
                                     const WorkOptions& work, const SealCheck::WaitFor& wait_for) {
  if (seal_) return seal_->check_mapped(files, ranges, work, wait_for);
  if (wait_for) HT_TRY(wait_for(own_->wanted.bytes));
  const auto found = HT_TRY(verify_own(*files[0], own_->wanted, {.work = work}));
  HT_TRY(found.result());
  own_->checked_bytes += own_->wanted.bytes;
  return {};
}

Result<void> PassCheck::check_tensor(std::string_view name, Bytes bytes, const std::stop_token& stop) {
  if (seal_) return seal_->check_tensor(name, bytes, stop);
  own_->sum = HT_TRY(digest_in_memory(HashAlgorithm::crc64nvme, bytes, stop)).crc64nvme();
  return check_sum();
}

Result<void> PassCheck::check_sum() {
  if (own_->sum == own_->wanted.crc) {
    own_->checked_bytes += own_->wanted.bytes;
    return {};
  }
  const auto name = path_.stem().string();
  return fail(
      Error(ErrorCode::checksum_mismatch, "payload_is_as_its_header_says",
            format_text("checksum mismatch in tensor '{}', bytes {}–{}", to_utf8(name), own_->wanted.offset,
                        own_->wanted.offset + std::max<std::uint64_t>(own_->wanted.bytes, 1) - 1))
          .at_path(path_.native())
          .at_tensor(name)
          .at_offset(own_->wanted.offset)
          .with_hint("download the file again"));
}

std::uint64_t PassCheck::checked_bytes() const noexcept {
  return seal_ ? seal_->checked_bytes() : own_->checked_bytes;
}

void Fetched::add(std::uint64_t bytes) noexcept {
  bytes_ += bytes;
  bytes_.notify_all();
}

void Fetched::end() noexcept {
  bytes_ |= over;
  bytes_.notify_all();
}

bool Fetched::wait_for(std::uint64_t bytes) const noexcept {
  for (std::uint64_t there = bytes_;; there = bytes_) {
    if ((there & ~over) >= bytes) return true;
    if ((there & over) != 0) return false;
    bytes_.wait(there);
  }
}

}  // namespace ht::inline v1
