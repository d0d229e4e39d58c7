#include <htensor/convert/save.hpp>

#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <htensor/base/fault.hpp>
#include <utility>

#include "base/format_text.hpp"
#include "convert/copy/apply.hpp"
#include "convert/write.hpp"
#include "format/ht/ht.hpp"

namespace ht::inline v1 {
namespace {

// Bytes written between two polls of the stop token, at most.
constexpr std::size_t step_bytes = std::size_t{1} << 20;

Result<void> write_file(const std::filesystem::path& path, const EncodedFile& file, const Pieces& pieces,
                        std::vector<DTypeInfo> dtypes, const WriteOptions& options) {
  return without_bad_alloc([&]() -> Result<void> {
    ConversionPlan plan;
    plan.target = path;
    plan.files.push_back(
        {.path = path, .bytes = file.file_bytes, .header = file.header, .finish = file.finish});
    HT_TRY(apply_from(plan, {.sources = {}, .pieces = &pieces},
                      {.if_exists = options.if_exists, .work = {.stop = options.stop}},
                      {.dtypes = std::move(dtypes), .port = options.port}));
    return {};
  });
}

Result<void> write_ht(const std::filesystem::path& path, const format_ht::Header& header,
                      const DTypeInfo& dtype, const DataSource& source, bool is_dense,
                      const WriteOptions& options) {
  return without_bad_alloc([&] {
    const auto encoded = format_ht::encode(header);
    return write_file(
        path,
        {.header = {encoded.begin(), encoded.end()},
         .offsets = {},
         .file_bytes = header.data_offset + header.data_bytes,
         .finish = format_ht::finish},
        {.source = source, .begin = header.data_offset, .bytes = header.data_bytes, .is_dense = is_dense},
        {dtype}, options);
  });
}

}  // namespace

Result<bool> write_pieces(const PlannedFile& file, const Pieces& pieces, io::AtomicFile& target,
                          const CopyOptions& options) {
  HT_TRY(pieces.is_dense ? target.allocate(file.bytes) : target.resize(file.bytes));
  std::uint64_t end = pieces.min_offset;
  bool is_whole = true;
  const auto leave_hole = [&](std::uint64_t until) {
    if (until == end) return;
    is_whole = false;
    if (options.sums != nullptr) options.sums->add_zeros(pieces.begin + end, until - end);
    end = until;
  };
  const auto write_step = [&](Bytes step) -> Result<void> {
    if (options.work.stop.stop_requested()) return fail(stopped_write(target.target(), end, pieces.bytes));
    // A step may be in a mapped file: a page that cannot be read becomes an Error.
    HT_TRY(guarded(step, [&]() -> Result<void> {
      if (options.sums != nullptr) options.sums->add_bytes(pieces.begin + end, step);
      return target.write(pieces.begin + end, step);
    }));
    end += step.size();
    return {};
  };
  while (const auto piece = HT_TRY(pieces.source())) {
    if (piece->offset < end || !checked::range_fits(piece->offset, piece->bytes.size(), pieces.bytes)) {
      return fail(
          Error(
              ErrorCode::out_of_bounds, "pieces_are_in_order_and_inside",
              format_text("piece of {} bytes at byte {} is out of order or outside the data: {} of {} bytes "
                          "are written",
                          piece->bytes.size(), piece->offset, end, pieces.bytes))
              .with_hint("return pieces inside the data, in ascending order, without overlap"));
    }
    leave_hole(piece->offset);
    // At least one step, so that a stop is honoured even if a piece is empty.
    Bytes left = piece->bytes;
    do {
      const Bytes step = left.first(std::min(step_bytes, left.size()));
      HT_TRY(write_step(step));
      left = left.subspan(step.size());
    } while (!left.empty());
  }
  leave_hole(pieces.bytes);
  HT_TRY(target.write(0, file.header));
  if (options.sums != nullptr) options.sums->add_bytes(0, file.header);
  return is_whole;
}

Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                   std::span<const std::int64_t> dims, const DataSource& source,
                   const WriteOptions& options) {
  return write_ht(path, HT_TRY(format_ht::make_header(dtype, dims)), dtype, source, false, options);
}

Result<void> write(const std::filesystem::path& path, const EncodedFile& file, const DataSource& source,
                   const WriteOptions& options) {
  if (file.header.size() > file.file_bytes) {
    return fail(
        Error(ErrorCode::size_mismatch, "file_contains_its_header",
              format_text("the header has {} bytes but the file has {}", file.header.size(), file.file_bytes))
            .with_hint("pass the EncodedFile that encode returned"));
  }
  return write_file(path, file,
                    {.source = source, .min_offset = file.header.size(), .bytes = file.file_bytes}, {},
                    options);
}

Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                   std::span<const std::int64_t> dims, Bytes data, const WriteOptions& options) {
  const auto header = HT_TRY(format_ht::make_header(dtype, dims));
  if (header.data_bytes != data.size()) {
    return fail(Error(ErrorCode::size_mismatch, "data_size_matches_the_shape",
                      format_text("the shape needs {} bytes of data but {} were given", header.data_bytes,
                                  data.size()))
                    .with_hint("pass the shape of the data"));
  }
  bool is_given = data.empty();
  const DataSource source = [&]() -> Result<std::optional<DataPiece>> {
    if (std::exchange(is_given, true)) return std::nullopt;
    return DataPiece{0, data};
  };
  return write_ht(path, header, dtype, source, true, options);
}

}  // namespace ht::inline v1
