#include "model/stored_tensor.hpp"

#include "model/model_state.hpp"

namespace ht::inline v1 {

Result<void> StoredTensor::fetch(std::uint64_t begin, std::uint64_t count) const {
  // For a few pages that is no gain.
  constexpr std::uint64_t least = std::uint64_t{1} << 16;
  if (file == nullptr || count < least) return {};
  return file->advise(offset + begin, count, io::Advice::populate);
}

Result<StoredTensor> stored_tensor(const Model& model, std::size_t index) {
  const Entry entry = (*model.state_->catalog)[index];
  HT_TRY(model.check_has_bytes(entry));
  const Bytes mapped = HT_TRY(model.mapped_bytes(entry));
  if (auto block = model.state_->residency->resident(index)) {
    const Bytes own = block->bytes();
    return StoredTensor{.bytes = own, .file = nullptr, .offset = 0, .owner = std::move(block)};
  }
  return StoredTensor{.bytes = mapped,
                      .file = &*model.state_->residency->file(entry.file),
                      .offset = entry.offset,
                      .owner = nullptr};
}

}  // namespace ht::inline v1
