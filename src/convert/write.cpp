#include <htensor/convert/write.hpp>

#include <algorithm>
#include <htensor/base/checked.hpp>
#include <htensor/base/fault.hpp>
#include <htensor/hash/crc64.hpp>
#include <utility>

#include "base/format_text.hpp"
#include "convert/renewed_seal.hpp"
#include "format/ht/ht.hpp"
#include "io/atomic_file.hpp"

namespace ht::inline v1 {
namespace {

// The most bytes that are written between two polls of the stop token.
constexpr std::size_t step_bytes = std::size_t{1} << 20;

tl::unexpected<Error> misplaced(const DataPiece& piece, std::uint64_t written, std::uint64_t total,
                                SourceLine where = SourceLine::here()) {
  return fail(Error(ErrorCode::out_of_bounds, "pieces_are_in_order_and_inside",
                    format_text("piece of {} bytes at byte {} is out of order: {} of {} bytes are written",
                                piece.bytes.size(), piece.offset, written, total),
                    where));
}

Result<void> check_stop(const WriteOptions& options, const std::filesystem::path& path, std::uint64_t written,
                        std::uint64_t total) {
  if (!options.stop.stop_requested()) return {};
  return fail(Error(ErrorCode::cancelled, "work_is_not_stopped",
                    format_text("stopped: {} of {} bytes written, nothing left behind", written, total))
                  .at_path(path.native()));
}

// Hands the bytes of a piece on in steps, between which a stop is honoured.
template <class Write>
Result<void> in_steps(const DataPiece& piece, const WriteOptions& options, const std::filesystem::path& path,
                      std::uint64_t total, const Write& write) {
  std::size_t done = 0;
  do {
    HT_TRY(check_stop(options, path, piece.offset + done, total));
    const Bytes step = piece.bytes.subspan(done, std::min(step_bytes, piece.bytes.size() - done));
    HT_TRY(write(DataPiece{piece.offset + done, step}));
    done += step.size();
  } while (done < piece.bytes.size());
  return {};
}

// Puts the file in place and, where it replaces a sealed one, renews the seal: see renewed_seal.hpp.
Result<void> commit_with_seal(io::AtomicFile file, const WriteOptions& options,
                              std::vector<DTypeInfo> dtypes = {}) {
  auto& port = file.port();
  const auto path = file.target();
  std::optional<ReplacedSeal> replaced;
  if (options.if_exists == io::IfExists::replace) replaced = HT_TRY(ReplacedSeal::find(path, {path}, port));
  if (!replaced || !replaced->algorithm) return std::move(file).commit();
  HT_TRY(file.sync());
  const std::span files(&file, 1);
  auto seal = HT_TRY(
      RenewedSeal::of_new_files({.opened = path, .files = files, .dtypes = std::move(dtypes), .port = port},
                                {.algorithm = *replaced->algorithm, .work = {.stop = options.stop}}));
  return commit_files(files, &seal);
}

// The data as the pieces come, summed up as long as they leave no hole.
class DataWriter {
 public:
  DataWriter(io::AtomicFile& file, const format_ht::Header& header) : file_(file), header_(header) {}

  [[nodiscard]] Result<void> check(const DataPiece& piece) const {
    if (piece.offset < end_ || !checked::range_fits(piece.offset, piece.bytes.size(), header_.data_bytes)) {
      return misplaced(piece, end_, header_.data_bytes);
    }
    return {};
  }

  Result<void> write(const DataPiece& piece) {
    if (piece.offset != end_) whole_ = false;
    if (whole_) sum_ = crc64nvme(piece.bytes, sum_);
    end_ = piece.offset + piece.bytes.size();
    return file_.write(header_.data_offset + piece.offset, piece.bytes);
  }

  [[nodiscard]] std::optional<std::uint64_t> checksum() const {
    if (!whole_ || end_ != header_.data_bytes) return std::nullopt;
    return sum_;
  }

 private:
  io::AtomicFile& file_;
  const format_ht::Header& header_;
  std::uint64_t end_ = 0;
  std::uint64_t sum_ = 0;
  bool whole_ = true;
};

// Whether the disk's room is taken at once; a source may leave holes, which are to take none.
enum class Room : std::uint8_t { all_now, as_written };

Result<void> write_file(const std::filesystem::path& path, format_ht::Header header, const DTypeInfo& dtype,
                        const DataSource& source, Room room, const WriteOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    auto& port = options.port != nullptr ? *options.port : io::system_port();
    auto file = HT_TRY(io::AtomicFile::create(path, options.if_exists, port));
    const std::uint64_t file_bytes = header.data_offset + header.data_bytes;
    if (room == Room::all_now) {
      HT_TRY(file.allocate(file_bytes));
    } else {
      HT_TRY(file.resize(file_bytes));
    }
    DataWriter data(file, header);
    // Pieces may lie in mapped files: what turns out to be unreadable does not become a file.
    HT_TRY(guarded([&]() -> Result<void> {
      while (const auto piece = HT_TRY(source())) {
        HT_TRY(data.check(*piece));
        HT_TRY(in_steps(*piece, options, path, header.data_bytes,
                        [&](const DataPiece& step) { return data.write(step); }));
      }
      return {};
    }));
    header.payload_crc = data.checksum();
    HT_TRY(file.write(0, format_ht::encode(header)));
    return commit_with_seal(std::move(file), options, {dtype});
  });
}

}  // namespace

Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                   std::span<const std::int64_t> dims, const DataSource& source,
                   const WriteOptions& options) {
  const auto header = HT_TRY(format_ht::describe(dtype, dims));
  return write_file(path, header, dtype, source, Room::as_written, options);
}

Result<void> write(const std::filesystem::path& path, const Encoded& file, const DataSource& source,
                   const WriteOptions& options) {
  if (file.header.size() > file.file_bytes) {
    return fail(
        ErrorCode::size_mismatch, "file_is_longer_than_its_header",
        format_text("the header has {} bytes but the file has {}", file.header.size(), file.file_bytes));
  }
  return without_bad_alloc([&]() -> Result<void> {
    auto& port = options.port != nullptr ? *options.port : io::system_port();
    auto target = HT_TRY(io::AtomicFile::create(path, options.if_exists, port));
    HT_TRY(target.resize(file.file_bytes));
    HT_TRY(target.write(0, file.header));
    std::uint64_t end = file.header.size();
    HT_TRY(guarded([&]() -> Result<void> {
      while (const auto piece = HT_TRY(source())) {
        if (piece->offset < end || !checked::range_fits(piece->offset, piece->bytes.size(), file.file_bytes))
          return misplaced(*piece, end, file.file_bytes);
        HT_TRY(in_steps(*piece, options, path, file.file_bytes, [&](const DataPiece& step) {
          auto written = target.write(step.offset, step.bytes);
          // The system says "bad address" of a mapped page that it cannot read; touching it says why.
          if (!written && written.error().cause() == std::errc::bad_address) fault::touch(step.bytes);
          return written;
        }));
        end = piece->offset + piece->bytes.size();
      }
      return {};
    }));
    return commit_with_seal(std::move(target), options);
  });
}

Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                   std::span<const std::int64_t> dims, Bytes data, const WriteOptions& options) {
  const auto header = HT_TRY(format_ht::describe(dtype, dims));
  if (header.data_bytes != data.size()) {
    return fail(
        ErrorCode::size_mismatch, "data_is_what_the_shape_needs",
        format_text("the shape needs {} bytes of data but {} were given", header.data_bytes, data.size()));
  }
  bool is_given = data.empty();
  const DataSource source = [&]() -> Result<std::optional<DataPiece>> {
    if (std::exchange(is_given, true)) return std::nullopt;
    return DataPiece{0, data};
  };
  return write_file(path, header, dtype, source, Room::all_now, options);
}

}  // namespace ht::inline v1
