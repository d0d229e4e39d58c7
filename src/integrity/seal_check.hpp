// Bytes held against a seal as they pass by, so that loading and verifying is one pass.
#pragma once

#include <functional>
#include <htensor/base/work.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/integrity/verify.hpp>
#include <memory>
#include <optional>
#include <span>

#include "integrity/regions.hpp"
#include "io/mapped_file.hpp"
#include "io/staged.hpp"

namespace ht::inline v1 {

class SealCheck {
 public:
  /// Headers and sizes are held against the seal at once. `files` are those that pieces will be of, and
  /// `numbers` which of the seal's each is; an Error names one of the tensors in `wanted` where it can.
  struct Files {
    io::MappedFiles files;
    std::vector<std::uint32_t> numbers;
    std::vector<std::string> wanted;
  };
  [[nodiscard]] static Result<SealCheck> make(Seal seal, Files files);

  /// Pieces in any order, but those of a tensor in theirs. `checksum_mismatch` with the first chunk that is
  /// not as it was sealed; what begins within a chunk counts from the next one on.
  [[nodiscard]] Result<void> take(const io::FileRange& range, Bytes bytes);
  /// Waits until the first so many bytes of the ranges, laid end to end, are in memory.
  using WaitFor = std::function<Result<void>(std::uint64_t bytes)>;
  /// All of these ranges where they are mapped, by all processors at once. They have to begin where a tensor
  /// does, and end so. With `wait_for`, somebody else fetches their pages meanwhile, in this order.
  [[nodiscard]] Result<void> check_mapped(io::MappedFiles files, std::span<const io::FileRange> ranges,
                                          const WorkOptions& work, const WaitFor& wait_for = {});
  /// All bytes of a tensor, wherever they are.
  [[nodiscard]] Result<void> check_tensor(std::string_view name, Bytes bytes, const std::stop_token& stop);
  /// Those of chunks that were good.
  [[nodiscard]] std::uint64_t checked_bytes() const noexcept { return checked_bytes_; }

 private:
  struct Sealed;
  explicit SealCheck(std::shared_ptr<const Sealed> sealed, Hasher hasher) noexcept;
  [[nodiscard]] Result<void> compare(const SealChunk& chunk, const Digest& found);
  [[nodiscard]] Error mismatch(const std::string& tensor, const io::FileRange& range) const;

  std::shared_ptr<const Sealed> sealed_;
  Hasher hasher_;
  std::optional<SealChunk> chunk_;  // the one that is being added up
  std::uint64_t done_ = 0;          // of that
  std::uint64_t checked_bytes_ = 0;
};

}  // namespace ht::inline v1
