#include "convert/pieces.hpp"

#include <algorithm>
#include <htensor/base/checked.hpp>
#include <htensor/base/fault.hpp>

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

// The most bytes that are written between two polls of the stop token.
constexpr std::size_t step_bytes = std::size_t{1} << 20;

class PieceCopy {
 public:
  PieceCopy(const Pieces& pieces, io::AtomicFile& target, const CopyOptions& options)
      : pieces_(pieces), target_(target), options_(options) {}

  Result<bool> run() {
    while (const auto piece = HT_TRY(pieces_.source())) {
      if (piece->offset < end_ || !checked::range_fits(piece->offset, piece->bytes.size(), pieces_.bytes))
        return fail(misplaced(*piece));
      HT_TRY(leave_hole(piece->offset));
      HT_TRY(write(piece->bytes));
    }
    HT_TRY(leave_hole(pieces_.bytes));
    return is_whole_;
  }

 private:
  [[nodiscard]] Error misplaced(const DataPiece& piece) const {
    return {ErrorCode::out_of_bounds, "pieces_are_in_order_and_inside",
            format_text("piece of {} bytes at byte {} is out of order: {} of {} bytes are written",
                        piece.bytes.size(), piece.offset, end_, pieces_.bytes)};
  }

  Result<void> leave_hole(std::uint64_t until) {
    if (until == end_) return {};
    is_whole_ = false;
    if (options_.watcher != nullptr) HT_TRY(options_.watcher->see_zeros(pieces_.begin + end_, until - end_));
    end_ = until;
    return {};
  }

  // At least one step, so that a stop shows even where a piece is empty.
  Result<void> write(Bytes bytes) {
    do {
      HT_TRY(check_stop());
      const Bytes step = bytes.first(std::min(step_bytes, bytes.size()));
      // A step may lie in a mapped file: a page that cannot be read is an Error.
      HT_TRY(guarded(step, [&]() -> Result<void> {
        if (options_.watcher != nullptr) HT_TRY(options_.watcher->see(pieces_.begin + end_, step));
        return target_.write(pieces_.begin + end_, step);
      }));
      end_ += step.size();
      bytes = bytes.subspan(step.size());
    } while (!bytes.empty());
    return {};
  }

  [[nodiscard]] Result<void> check_stop() const {
    if (!options_.work.stop.stop_requested()) return {};
    return fail(
        Error(ErrorCode::cancelled, "work_is_not_stopped",
              format_text("stopped: {} of {} bytes written, nothing left behind", end_, pieces_.bytes))
            .at_path(target_.target().native()));
  }

  const Pieces& pieces_;
  io::AtomicFile& target_;
  const CopyOptions& options_;
  std::uint64_t end_ = pieces_.first;
  bool is_whole_ = true;
};

}  // namespace

Result<bool> copy_pieces(const PlannedFile& file, const Pieces& pieces, io::AtomicFile& target,
                         const CopyOptions& options) {
  HT_TRY(pieces.is_dense ? target.allocate(file.bytes) : target.resize(file.bytes));
  const bool is_whole = HT_TRY(PieceCopy(pieces, target, options).run());
  HT_TRY(target.write(0, file.header));
  if (options.watcher != nullptr) HT_TRY(options.watcher->see(0, file.header));
  return is_whole;
}

}  // namespace ht::inline v1
