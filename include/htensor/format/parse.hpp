// Parses bytes of a file to its catalog. Parsers do no I/O.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace ht::inline v1 {

/// Bytes that a parser needs to continue: from `offset` to `offset + bytes` of the file. They are within the
/// file and include bytes that the parser has not seen. A range that begins within or directly after the
/// prefix is supplied as a longer prefix, any other range as a SeenPart.
struct Need {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A part of a file that is not its beginning.
struct SeenPart {
  std::uint64_t offset = 0;
  Bytes bytes{};
};

/// The bytes of a file that a parser sees: the prefix, and the parts that the parser requested.
class Seen {
 public:
  Seen() noexcept = default;
  /// Implicit, so that a parser takes plain bytes. `owner` keeps the prefix alive and unchanged for as long
  /// as a catalog refers to it; without an owner, the parser copies.
  template <std::convertible_to<Bytes> T>
  Seen(const T& prefix, std::span<const SeenPart> parts = {},  // NOLINT(google-explicit-constructor)
       std::shared_ptr<const void> owner = {}) noexcept
      : prefix_(prefix), parts_(parts), owner_(std::move(owner)) {}

  [[nodiscard]] Bytes prefix() const noexcept { return prefix_; }
  /// Null if the prefix has no owner.
  [[nodiscard]] const std::shared_ptr<const void>& owner() const noexcept { return owner_; }
  /// The bytes of the range, if they were seen contiguously.
  [[nodiscard]] std::optional<Bytes> range(std::uint64_t offset, std::uint64_t bytes) const noexcept;

 private:
  Bytes prefix_;
  std::span<const SeenPart> parts_;
  std::shared_ptr<const void> owner_;
};

struct ParseOptions {
  /// The tensor's name in formats that store one tensor without a name.
  std::string_view stem{};
  /// User-defined dtypes that the file may use.
  std::span<const DTypeInfo> dtypes{};
  /// The caller's formats, tried before the library's.
  std::span<const Format> formats{};
  /// Also accepts a file with incomplete data, such as an unfinished download.
  bool headers_only = false;
  /// The maximum number of bytes to read before the data; 0 is the format's own limit, which for safetensors
  /// is 100,000,000.
  std::uint64_t max_header_bytes = 0;
};

/// Recognises the format by content and parses it. `seen` is a part of a file of `file_bytes` bytes.
/// `bad_magic` if the file is not a weights file; the error names its type if known. Else the errors of the
/// format.
[[nodiscard]] Result<Parsed> parse(const Seen& seen, std::uint64_t file_bytes,
                                   const ParseOptions& options = {});

}  // namespace ht::inline v1
