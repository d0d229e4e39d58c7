// Compares bytes with the model's seal, or with a `.ht` file's own checksum, while they are loaded, so that
// loading and verifying take one pass.
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

/// Verifies bytes while they are loaded.
class LoadVerifier {
 public:
  /// Checks headers and sizes, and that the seal lists every tensor of the model. `not_sealed` if there is
  /// neither a seal nor a checksum. `tensors` are the indices of the loaded tensors: an Error names one of
  /// them if possible.
  [[nodiscard]] static Result<LoadVerifier> make(const ModelState& model,
                                                 std::span<const std::size_t> tensors);

  /// Checks a piece. Pieces come in any order, except that the pieces of one tensor come in file order. A
  /// chunk is checked if pieces of consecutive calls cover it from its first to its last byte.
  /// `checksum_mismatch` names the first bad chunk.
  [[nodiscard]] Result<void> take(const io::FileRange& range, Bytes bytes);
  /// Waits until the first `bytes` of the concatenated ranges are in memory.
  using WaitFor = std::function<Result<void>(std::uint64_t bytes)>;
  /// Checks mapped ranges on all processors. Each range has to begin and end where a tensor does. With
  /// `wait_for`, another thread fetches the pages meanwhile, in the order of the ranges.
  [[nodiscard]] Result<void> check_mapped(io::MappedFiles files, std::span<const io::FileRange> ranges,
                                          const WorkOptions& work, const WaitFor& wait_for = {});
  /// Whether `check_mapped` waits for all bytes before it checks the first one.
  [[nodiscard]] bool needs_all_bytes() const noexcept { return own_.has_value(); }
  /// Checks all bytes of a tensor that is in memory already.
  [[nodiscard]] Result<void> check_tensor(std::string_view name, Bytes bytes, const std::stop_token& stop);
  /// Bytes that `take` and `check_mapped` have verified.
  [[nodiscard]] std::uint64_t checked_bytes() const noexcept { return checked_bytes_; }

 private:
  struct SealState {
    struct Current {
      Hasher hasher;
      std::optional<SealChunk> chunk{};  // nullopt between chunks
      std::uint64_t done = 0;            // hashed bytes of the chunk
    };
    Seal seal{};
    SealRegions regions;
    std::vector<std::uint32_t> numbers{};        // file numbers in the seal, by file of the model
    std::vector<std::filesystem::path> paths{};  // paths of the seal's files
    std::vector<std::string> requested{};        // names of the loaded tensors, sorted
    std::map<std::string_view, const Seal::Tensor*> tensors{};
    Current current;
  };
  // For a `.ht` file without a seal.
  struct OwnChecksumState {
    std::filesystem::path path;
    Format::OwnChecksum expected;
    std::uint64_t sum = 0;
    std::uint64_t done = 0;
  };

  LoadVerifier() = default;
  [[nodiscard]] Result<void> compare_own_checksum();
  [[nodiscard]] Result<void> compare_chunk(const SealChunk& chunk, const Digest& found);

  std::optional<SealState> sealed_;
  std::optional<OwnChecksumState> own_;
  std::uint64_t checked_bytes_ = 0;
};

/// Progress of fetching pages, shared between the fetching thread and the threads that wait for the pages.
class FetchProgress {
 public:
  void add(std::uint64_t bytes) noexcept;
  /// Marks the end of fetching, after the last page or a failure.
  void end() noexcept;
  /// Waits for the first `bytes`. Returns whether they were fetched.
  [[nodiscard]] bool wait_for(std::uint64_t bytes) const noexcept;
  /// Cancels fetching, because no thread waits for the pages any more.
  void cancel() noexcept { is_cancelled_ = true; }
  [[nodiscard]] bool is_cancelled() const noexcept { return is_cancelled_; }

 private:
  static constexpr std::uint64_t ended_bit = std::uint64_t{1} << 63;
  std::atomic<std::uint64_t> bytes_ = 0;  // with `ended_bit` once fetching has ended
  std::atomic<bool> is_cancelled_ = false;
};

}  // namespace ht::inline v1
