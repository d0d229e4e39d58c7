// Writes a tensor to a `.ht` file, or a file of any format, atomically.
//
// The bytes are written to a temporary file beside the target, fsynced, and renamed to the target, as in
// `convert` and `save`. On an error before the rename, the old file is untouched and the temporary file is
// removed. If only the last step fails, the fsync of the folder, the new file is in place and the error says
// so. An existing file is refused unless `WriteOptions::if_exists` is `replace`. Replacing a file that is
// open or mapped is safe: its readers keep the old file. A symbolic link is replaced, not followed.
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
  /// Whether to replace an existing file; else `already_exists`. The seal of a sealed file is renewed.
  io::IfExists if_exists = io::IfExists::fail;
  /// The operating system if null; tests substitute their own Port.
  io::Port* port = nullptr;
  /// Polled at least once per MiB. A cancelled write returns `cancelled` and leaves no file behind.
  std::stop_token stop{};
};

/// Bytes of a tensor's data, or of a file. They must stay unchanged until the next call of the DataSource.
struct DataPiece {
  std::uint64_t offset = 0;
  Bytes bytes{};
};

/// Returns the next piece, in order and without overlap; nullopt after the last. Bytes that no piece covers
/// are a hole: they read as zero and use no disk space.
using DataSource = std::function<Result<std::optional<DataPiece>>()>;

/// Writes a tensor that is produced piece by piece, and so may be larger than memory. The checksum of the
/// data is stored if the pieces leave no hole. `already_exists`, `not_regular_file`, `write_failed`,
/// `no_space`, `in_use` for a file of a set that another program is writing, or the Error of the source.
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                                 std::span<const std::int64_t> dims, const DataSource& source,
                                 const WriteOptions& options = {});

/// Writes a file of any format with data that is produced piece by piece. `file` is the result of `encode`.
/// Offsets of pieces are file offsets, after the header and before `file_bytes`. `Format::finish` stores the
/// checksum of the data if the pieces leave no hole. Errors as above, and `size_mismatch` if the header is
/// longer than the file.
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const Encoded& file,
                                 const DataSource& source, const WriteOptions& options = {});

/// Writes dense row-major data in memory. `size_mismatch` if its size does not match dtype and dims.
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                                 std::span<const std::int64_t> dims, Bytes data,
                                 const WriteOptions& options = {});

/// Writes a tensor; a strided one is copied first.
template <class D, class S, class Dev>
  requires HostAccessible<Dev> && placement::CanAllocate<Dev>
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const Tensor<D, S, Dev>& tensor,
                                 const WriteOptions& options = {}) {
  constexpr auto dtype = dtype_info<std::remove_const_t<D>>();
  // The bits after the last element are zero in a file; in a view they belong to other elements.
  const bool whole_bytes = tensor.elements() % 8 * dtype.bits % 8 == 0;
  if (const auto data = tensor.bytes(); data && whole_bytes)
    return write(path, dtype, tensor.shape().extents(), *data, options);
  const auto dense = HT_TRY(tensor.copy());
  return write(path, dtype, tensor.shape().extents(), HT_TRY(dense.bytes()), options);
}

}  // namespace ht::inline v1
