// What is loaded held against the model's seal, or a `.ht`'s own checksum, as it passes by, so that loading
// and verifying is one pass.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <htensor/base/work.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "integrity/regions.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {

class PassCheck {
 public:
  /// Headers and sizes are checked at once, and that the seal has just these tensors. `not_sealed` where
  /// there is nothing to check against. `tensors` are the numbers of those that are loaded: an Error names
  /// one of them where it can.
  [[nodiscard]] static Result<PassCheck> make(const ModelState& model, std::span<const std::size_t> tensors);

  /// Pieces in any order, but those of a tensor in theirs. `checksum_mismatch` with the first chunk that is
  /// not as it was sealed; what begins within a chunk counts from the next one on.
  [[nodiscard]] Result<void> take(const io::FileRange& range, Bytes bytes);
  /// Waits until the first so many bytes of the ranges, laid end to end, are in memory.
  using WaitFor = std::function<Result<void>(std::uint64_t bytes)>;
  /// All of these ranges where they are mapped, by all processors at once. They have to begin where a tensor
  /// does, and end so. With `wait_for`, somebody else fetches their pages meanwhile, in this order.
  [[nodiscard]] Result<void> check_mapped(io::MappedFiles files, std::span<const io::FileRange> ranges,
                                          const WorkOptions& work, const WaitFor& wait_for = {});
  /// All bytes of a tensor of the catalog that are in memory already.
  [[nodiscard]] Result<void> check_tensor(std::string_view name, Bytes bytes, const std::stop_token& stop);
  /// Those of chunks that were good.
  [[nodiscard]] std::uint64_t checked_bytes() const noexcept { return checked_bytes_; }

 private:
  struct Sealed {
    struct Current {
      Hasher hasher;
      std::optional<SealChunk> chunk{};  // the one that is being added up
      std::uint64_t done = 0;            // of that
    };
    Seal seal{};
    SealRegions regions;
    std::vector<std::uint32_t> numbers{};        // which of the seal's files each file is
    std::vector<std::filesystem::path> paths{};  // of the seal's files
    std::vector<std::string> wanted{};           // in order
    std::map<std::string_view, const SealedTensor*> tensors{};
    Current current;
  };
  // Of a `.ht` without a seal.
  struct Own {
    std::filesystem::path path;
    OwnChecksum wanted;
    std::uint64_t sum = 0;
    std::uint64_t done = 0;
  };

  PassCheck() = default;
  [[nodiscard]] Result<void> check_sum();
  [[nodiscard]] Result<void> compare_chunk(const SealChunk& chunk, const Digest& found);

  std::optional<Sealed> sealed_;
  std::optional<Own> own_;
  std::uint64_t checked_bytes_ = 0;
};

/// How far pages have been fetched, for those who wait for them.
class Fetched {
 public:
  void add(std::uint64_t bytes) noexcept;
  /// No more will come, be it that all are there or that something failed.
  void end() noexcept;
  /// Whether they came.
  [[nodiscard]] bool wait_for(std::uint64_t bytes) const noexcept;
  /// Whoever waits wants no more.
  void give_up() noexcept { given_up_ = true; }
  [[nodiscard]] bool is_given_up() const noexcept { return given_up_; }

 private:
  static constexpr std::uint64_t over = std::uint64_t{1} << 63;
  std::atomic<std::uint64_t> bytes_ = 0;  // with the bit for "no more"
  std::atomic<bool> given_up_ = false;
};

}  // namespace ht::inline v1
