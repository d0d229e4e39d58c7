// What is loaded held against the model's seal, or a `.ht`'s own checksum, as it passes by.
#pragma once

#include <filesystem>
#include <htensor/base/work.hpp>
#include <htensor/format/catalog.hpp>
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
    const Catalog& catalog;
    /// The numbers of those that are loaded.
    std::span<const std::size_t> tensors;
    io::Port& port;
  };
  /// Headers and sizes are checked at once, and that the seal has just these tensors. `not_sealed` where
  /// there is nothing to check against.
  [[nodiscard]] static Result<PassCheck> make(const Files& files);

  /// As SealCheck takes them.
  [[nodiscard]] Result<void> take(const io::FileRange& range, Bytes bytes);
  [[nodiscard]] Result<void> check_mapped(std::span<const io::Mapped* const> files,
                                          std::span<const io::FileRange> ranges, const WorkOptions& work);
  /// Bytes of a tensor that are in memory already.
  [[nodiscard]] Result<void> check_tensor(std::string_view name, Bytes bytes);
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
  PassCheck(std::filesystem::path path, std::optional<SealCheck> seal, std::optional<Own> own);

  std::filesystem::path path_;
  std::optional<SealCheck> seal_;
  std::optional<Own> own_;
};

/// Hashing on a thread of its own while the caller fetches what comes next.
class CheckBehind {
 public:
  /// `lets_go` of pages once they are checked, for who has not the memory for all.
  CheckBehind(PassCheck& check, std::span<const io::Mapped* const> files, bool lets_go);
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
