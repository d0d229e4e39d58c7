// What is loaded held against the model's seal, or a `.ht`'s own checksum, as it passes by.
#pragma once

#include <atomic>
#include <filesystem>
#include <htensor/base/work.hpp>
#include <optional>
#include <span>

#include "integrity/own_checksum.hpp"
#include "integrity/seal_check.hpp"
#include "model/model_access.hpp"

namespace ht::inline v1 {

class PassCheck {
 public:
  /// Headers and sizes are checked at once, and that the seal has just these tensors. `not_sealed` where
  /// there is nothing to check against. `tensors` are the numbers of those that are loaded.
  [[nodiscard]] static Result<PassCheck> make(const ModelState& model, std::span<const std::size_t> tensors);

  /// As SealCheck takes them.
  [[nodiscard]] Result<void> take(const io::FileRange& range, Bytes bytes);
  [[nodiscard]] Result<void> check_mapped(io::MappedFiles files, std::span<const io::FileRange> ranges,
                                          const WorkOptions& work, const SealCheck::WaitFor& wait_for = {});
  /// Bytes of a tensor that are in memory already.
  [[nodiscard]] Result<void> check_tensor(std::string_view name, Bytes bytes, const std::stop_token& stop);
  [[nodiscard]] std::uint64_t checked_bytes() const noexcept;

 private:
  // Of a `.ht` without a seal.
  struct Own {
    OwnChecksum wanted;
    std::uint64_t sum = 0;
    std::uint64_t done = 0;
    std::uint64_t checked_bytes = 0;
  };
  [[nodiscard]] Result<void> check_sum();

  std::filesystem::path path_;  // of a `.ht` without a seal
  std::optional<SealCheck> seal_;
  std::optional<Own> own_;
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
