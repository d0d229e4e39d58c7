// From bytes of a file to its catalog. Parsers see bytes, never a descriptor.
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

/// What a parser has to see before it can go on: the file's bytes from `offset` to `offset + bytes`. It asks
/// for nothing that it has seen and nothing behind the file's end. What begins within the prefix, or straight
/// behind it, is answered by a longer prefix, the rest by a part of its own.
struct Need {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A part of a file that is not its beginning.
struct SeenPart {
  std::uint64_t offset = 0;
  Bytes bytes{};
};

/// The bytes of a file that a parser sees: the beginning, and the parts that the parser asked for.
class Seen {
 public:
  Seen() noexcept = default;
  /// Implicit, so that a parser takes plain bytes. `owner` keeps the prefix alive and unchanged for as long
  /// as a catalog refers to it; without one, a parser copies.
  template <std::convertible_to<Bytes> T>
  Seen(const T& prefix, std::span<const SeenPart> parts = {},  // NOLINT(google-explicit-constructor)
       std::shared_ptr<const void> owner = {}) noexcept
      : prefix_(prefix), parts_(parts), owner_(std::move(owner)) {}

  [[nodiscard]] Bytes prefix() const noexcept { return prefix_; }
  /// Null where nobody keeps the prefix.
  [[nodiscard]] const std::shared_ptr<const void>& owner() const noexcept { return owner_; }
  /// The bytes where they were seen in one piece.
  [[nodiscard]] std::optional<Bytes> range(std::uint64_t offset, std::uint64_t bytes) const noexcept;

 private:
  Bytes prefix_;
  std::span<const SeenPart> parts_;
  std::shared_ptr<const void> owner_;
};

struct ParseOptions {
  /// Names the tensor where a format holds just one and has no name for it.
  std::string_view stem{};
  /// Users' own dtypes that the file may use.
  std::span<const DTypeInfo> dtypes{};
  /// Formats of the caller's, which are tried before the library's.
  std::span<const Format> formats{};
  /// Also takes a file whose data is not all there, as of an unfinished download.
  bool headers_only = false;
  /// The most bytes that are read before the data; 0 is the format's own limit, which for safetensors is
  /// 100,000,000.
  std::uint64_t max_header_bytes = 0;
};

/// Recognises the format by content and parses it. `seen` is some of a file of `file_bytes` bytes.
/// `bad_magic` for what is no weights file, and says what it is; else the format's own errors.
[[nodiscard]] Result<Parsed> parse(const Seen& seen, std::uint64_t file_bytes,
                                   const ParseOptions& options = {});

}  // namespace ht::inline v1
