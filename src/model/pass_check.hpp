// What is loaded held against the model's seal, or a `.ht`'s own checksum, as it passes by.
#pragma once

#include <filesystem>
#include <htensor/base/work.hpp>
#include <optional>
#include <span>
#include <vector>

#include "integrity/own_checksum.hpp"
#include "integrity/seal_check.hpp"
#include "io/chunks.hpp"

namespace ht::inline v1 {

class PassCheck {
 public:
  struct Files {
    const std::filesystem::path& opened;
    std::span<const std::filesystem::path> paths;
    std::span<const io::Mapped* const> mapped;
    io::Port& port;
  };
  /// Headers and sizes are checked at once. `not_sealed` where there is nothing to check against.
  [[nodiscard]] static Result<PassCheck> make(const Files& files);

  /// As SealCheck takes them.
  [[nodiscard]] Result<void> take(const io::FileRange& range, Bytes bytes);
  [[nodiscard]] Result<void> check_mapped(std::span<const io::Mapped* const> files,
                                          std::span<const io::FileRange> ranges, const WorkOptions& work);
  /// All that was to be taken has been.
  [[nodiscard]] Result<void> finish();
  [[nodiscard]] std::uint64_t checked_bytes() const noexcept;

 private:
  // Of a `.ht` without a seal.
  struct Own {
    OwnChecksum wanted;
    std::uint64_t sum = 0;
    std::uint64_t done = 0;
    bool checked = false;
  };
  PassCheck(std::filesystem::path path, std::optional<SealCheck> seal, std::optional<Own> own);

  std::filesystem::path path_;
  std::optional<SealCheck> seal_;
  std::optional<Own> own_;
};

/// Hashing on a thread of its own while the caller fetches what comes next.
class CheckBehind {
 public:
  CheckBehind(PassCheck& check, std::span<const io::Mapped* const> files);
  CheckBehind(const CheckBehind&) = delete;
  CheckBehind& operator=(const CheckBehind&) = delete;
  ~CheckBehind();

  /// Pages that are there. What went wrong with those before, if something did.
  [[nodiscard]] Result<void> add(const io::FileRange& range);
  /// Waits for all.
  [[nodiscard]] Result<void> finish();

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace ht::inline v1
