// Writing a tensor to a `.ht` file, or a file of any format: all of it or nothing.
//
// The bytes go to a temporary file beside the target, to the disk, and only then to the target's name, as
// `convert` and `save` do it. Whatever fails before that, the old file is untouched and the temporary one is
// removed; should only the last step fail, the fsync of the folder, the new file is in place and the error
// says so. An existing file is refused unless `WriteOptions::if_exists` is `replace`. Replacing a file that
// is open or mapped is safe: its readers keep the old one. A link is replaced, not followed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/encode.hpp>
#include <htensor/io/port.hpp>
#include <htensor/tensor/tensor.hpp>
#include <optional>
#include <span>
#include <stop_token>

namespace ht::inline v1 {

struct WriteOptions {
  /// Whether an existing file is replaced; else `already_exists`. A sealed file gets a new seal.
  io::IfExists if_exists = io::IfExists::fail;
  /// The system, unless a test puts another in its place.
  io::Port* port = nullptr;
  /// Polled at least once for each MiB; then the write ends with `cancelled` and leaves nothing behind.
  std::stop_token stop{};
};

/// Some bytes of a tensor's data, or of a file. They have to stay as they are until the next piece is asked
/// for.
struct DataPiece {
  std::uint64_t offset = 0;
  Bytes bytes{};
};

/// Hands out the next piece, in order and without overlap, and nothing after the last. Bytes that no
/// piece covers read as zero and take no room on the disk.
using DataSource = std::function<Result<std::optional<DataPiece>>()>;

/// Writes a tensor that is made piece by piece, and so may be larger than memory. The data's checksum
/// is stored when the pieces leave no hole. `already_exists`, `not_regular_file`, `write_failed`,
/// `no_space`, `in_use` for a file of a set that another program is writing, or the Error of the source.
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                                 std::span<const std::int64_t> dims, const DataSource& source,
                                 const WriteOptions& options = {});

/// Writes a file of any format around data that is made piece by piece: `file` is what `encode` made, and the
/// pieces are at their places in the file, behind the header and before `file_bytes`. A format with
/// `Format::finish` gets the data's checksum when the pieces leave no hole. Errors as above, and
/// `size_mismatch` where the header is longer than the file.
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const Encoded& file,
                                 const DataSource& source, const WriteOptions& options = {});

/// Writes dense row-major data that is in memory. `size_mismatch` where it is not what dtype and dims
/// need.
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                                 std::span<const std::int64_t> dims, Bytes data,
                                 const WriteOptions& options = {});

/// Writes a tensor; a strided one is copied first.
template <class D, class S, class Dev>
  requires HostAccessible<Dev> && placement::CanAllocate<Dev>
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const Tensor<D, S, Dev>& tensor,
                                 const WriteOptions& options = {}) {
  constexpr auto dtype = dtype_info<std::remove_const_t<D>>();
  // The bits after the last element are zero in a file; in a view they are its neighbours'.
  const bool whole_bytes = tensor.elements() % 8 * dtype.bits % 8 == 0;
  if (const auto data = tensor.bytes(); data && whole_bytes)
    return write(path, dtype, tensor.shape().extents(), *data, options);
  const auto dense = HT_TRY(tensor.copy());
  return write(path, dtype, tensor.shape().extents(), HT_TRY(dense.bytes()), options);
}

}  // namespace ht::inline v1
