#include "convert/copy/copy_engine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <htensor/base/fault.hpp>
#include <memory>

#include "base/format_text.hpp"
#include "base/workers.hpp"
#include "convert/copy/copy_parts.hpp"
#include "io/file_source.hpp"
#include "io/strategy/automatic.hpp"
#include "io/strategy/direct_file.hpp"
#include "model/relayout.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1 {
namespace {

constexpr std::uint64_t max_alignment = io::DirectFile::max_alignment;
// Larger pieces were slower, probably because the beginning of a piece leaves the CPU caches before a worker
// writes the piece.
constexpr std::uint64_t copy_piece_bytes = std::uint64_t{1} << 20;
// Per worker: one piece plus the bytes read for page alignment at both ends.
constexpr std::size_t buffer_bytes = copy_piece_bytes + 2 * max_alignment;
// Enough to keep a disk busy while a worker assembles a piece.
constexpr std::size_t max_copy_workers = 4;
// Smaller holes are not worth the lseek calls.
constexpr std::uint64_t min_hole_bytes = std::uint64_t{1} << 16;
// Limit per clone call, so that a stop is honoured between calls.
constexpr std::uint64_t max_reflink_bytes = std::uint64_t{1} << 30;

std::uint64_t align_down(std::uint64_t offset) { return offset / max_alignment * max_alignment; }
std::uint64_t align_up(std::uint64_t offset) { return align_down(offset + max_alignment - 1); }

bool is_unsupported(std::error_code cause) {
  return cause == std::errc::operation_not_supported || cause == std::errc::function_not_supported ||
         cause == std::errc::cross_device_link || cause == std::errc::invalid_argument ||
         cause == std::errc::inappropriate_io_control_operation ||
         cause == std::errc::operation_not_permitted;
}

std::uint64_t tensor_bytes(const Relayout& relayout) {
  std::uint64_t bytes = relayout.unit_bytes;
  for (const auto dim : relayout.column_major) bytes *= static_cast<std::uint64_t>(dim);
  return bytes;
}

// Reads parts of a planned file from their origins.
class PartReader {
 protected:
  PartReader(const PlannedFile& file, const CopyOptions& options)
      : file_(file), options_(options), parts_(covered_parts(file)) {}

  [[nodiscard]] const io::Source& source(const PartOrigin::Stored& from) const {
    return options_.sources[from.file]->source();
  }
  /// Null if the source is not a file.
  [[nodiscard]] const io::FileSource* file_source(const PartOrigin::Stored& from) const {
    return options_.sources[from.file]->file_source();
  }

  // `scratch` holds stored bytes of values that are converted.
  Result<void> read_part(const PlannedFile::Part& part, MutableBytes into, MutableBytes scratch) {
    if (const auto* const from = std::get_if<PartOrigin::Stored>(&part.from)) return read_source(*from, into);
    if (const auto* const reordered = std::get_if<PartOrigin::Reordered>(&part.from)) {
      return read_reordered(reordered->file, reordered->offset, *file_.relayouts[reordered->relayout],
                            reordered->result_offset, into);
    }
    if (const auto* const converted = std::get_if<PartOrigin::Converted>(&part.from))
      return read_converted(*converted, into, scratch);
    if (const auto* const memory = std::get_if<Bytes>(&part.from)) {
      // The memory may be pages of a mapped file.
      return guarded(*memory, [&] { std::ranges::copy(*memory, into.begin()); });
    }
    fill_with(into, std::get<PartOrigin::Repeated>(part.from).bytes());
    return {};
  }

  // Reads a stored range by direct I/O if the source is open for it, otherwise through the page cache.
  // Returns a view into `buffer`.
  Result<Bytes> read_direct_or_buffered(const PartOrigin::Stored& from, std::uint64_t bytes,
                                        MutableBytes buffer) {
    const auto& direct = direct_sources_[from.file];
    if (direct.is_open()) {
      const std::uint64_t begin = align_down(from.offset);
      const std::uint64_t end = align_up(from.offset + bytes);
      const auto count = file_source(from)->port().read_at(
          direct.handle(), begin, buffer.first(static_cast<std::size_t>(end - begin)));
      const auto before = static_cast<std::size_t>(from.offset - begin);
      if (count && *count >= before + bytes)
        return Bytes(buffer).subspan(before, static_cast<std::size_t>(bytes));
      // After any failure, the buffered read succeeds or reports the error.
    }
    const MutableBytes into = buffer.first(static_cast<std::size_t>(bytes));
    HT_TRY(read_source(from, into));
    return Bytes(into);
  }

  Result<void> read_source(const PartOrigin::Stored& from, MutableBytes into) {
    auto done = source(from).read(from.offset, into);
    // If the file was truncated meanwhile, report it as changed.
    if (!done) HT_TRY(source(from).check_unchanged());
    return done;
  }

  // Reads a tensor whose layout is changed, from byte `result_offset` of the new layout on.
  Result<void> read_reordered(std::uint32_t file, std::uint64_t offset, const Relayout& relayout,
                              std::uint64_t result_offset, MutableBytes into) {
    const PartOrigin::Stored from{file, offset};
    return relayout_into(
        into, relayout, result_offset, [&](std::uint64_t first, MutableBytes units) -> Result<void> {
          if (relayout.column_major.empty())
            return read_source({from.file, from.offset + first * relayout.unit_bytes}, units);
          // The elements are scattered over the tensor, and each may need a disk read.
          if (options_.work.stop.stop_requested()) return fail(stopped());
          io::MappedFile& mapped = *options_.sources[from.file];
          if (!mapped.map_for_use_in_place()) {
            return read_units(units, relayout, first, [&](std::uint64_t at, MutableBytes unit) {
              return read_source({from.file, from.offset + at}, unit);
            });
          }
          return mapped.visit(from.offset, tensor_bytes(relayout), [&](Bytes stored) -> Result<void> {
            copy_units(units, stored, relayout, first);
            return {};
          });
        });
  }

  // Fills `into` with bytes of the converted tensor, from its byte `from.result_offset` on. Converts in steps
  // of whole blocks; `scratch` holds the stored bytes of one step.
  Result<void> read_converted(const PartOrigin::Converted& from, MutableBytes into, MutableBytes scratch) {
    const PlannedFile::ValueChange& change = file_.changes[from.change];
    const auto bytes_of = [](const ElementType& type, std::uint64_t elements) {
      return values::stored_bytes(type, static_cast<std::int64_t>(elements));
    };
    // A number of elements that is a whole number of blocks and of bytes in both types. The larger block size
    // is a multiple of the smaller: both are powers of two.
    const std::uint64_t unit = std::max({std::uint64_t{change.from.block_elements},
                                         std::uint64_t{change.to.block_elements}, std::uint64_t{8}});
    const std::uint64_t unit_bytes = bytes_of(change.to, unit);
    const std::uint64_t max_step =
        std::max(copy_piece_bytes / 2 / bytes_of(change.from, unit), std::uint64_t{1}) * unit;
    const std::uint64_t end = from.result_offset + into.size();
    std::vector<std::byte> partial;
    for (std::uint64_t at = from.result_offset; at < end;) {
      if (options_.work.stop.stop_requested()) return fail(stopped());
      const std::uint64_t first = at / unit_bytes * unit;
      const std::uint64_t begin = bytes_of(change.to, first);
      const std::uint64_t units = (end - begin + unit_bytes - 1) / unit_bytes;
      const std::uint64_t count = std::min({units * unit, max_step, change.elements - first});
      const Bytes stored = HT_TRY(read_stored(from, change, first, count, scratch));
      const std::uint64_t converted_end = begin + bytes_of(change.to, count);
      const auto convert_to = [&](std::byte* target) {
        values::convert_values({change.from, change.to, change.rounding}, stored.data(), target,
                               static_cast<std::int64_t>(count), first);
      };
      const std::uint64_t stop = std::min(end, converted_end);
      const MutableBytes target = into.subspan(static_cast<std::size_t>(at - from.result_offset),
                                               static_cast<std::size_t>(stop - at));
      if (begin == at && converted_end <= end) {
        convert_to(target.data());
      } else {
        partial.resize(static_cast<std::size_t>(converted_end - begin));
        convert_to(partial.data());
        std::ranges::copy(std::span(partial).subspan(static_cast<std::size_t>(at - begin), target.size()),
                          target.begin());
      }
      at = stop;
    }
    return {};
  }

  // The stored bytes of some elements, row-major and little-endian.
  Result<Bytes> read_stored(const PartOrigin::Converted& from, const PlannedFile::ValueChange& change,
                            std::uint64_t first, std::uint64_t count, MutableBytes scratch) {
    const std::uint64_t begin = values::stored_bytes(change.from, static_cast<std::int64_t>(first));
    const std::uint64_t bytes = values::stored_bytes(change.from, static_cast<std::int64_t>(count));
    if (!change.relayout) return read_direct_or_buffered({from.file, from.offset + begin}, bytes, scratch);
    const MutableBytes into = scratch.first(static_cast<std::size_t>(bytes));
    HT_TRY(read_reordered(from.file, from.offset, *change.relayout, begin, into));
    return Bytes(into);
  }

  Result<void> check_sources() {
    for (const auto* const source : options_.sources) {
      if (source != nullptr) HT_TRY(source->source().check_unchanged());
    }
    return {};
  }

  // The progress callback runs first, because it may request the stop.
  [[nodiscard]] Result<void> check_stop() const {
    report_progress();
    if (!options_.work.stop.stop_requested()) return {};
    return fail(stopped());
  }

  [[nodiscard]] Error stopped() const { return stopped_write(file_.path, done_, file_.bytes); }

  void report_progress() const {
    if (!options_.work.on_progress) return;
    options_.work.on_progress({.done_bytes = std::min(done_.load(), file_.bytes),
                               .total_bytes = file_.bytes,
                               .elapsed = std::chrono::steady_clock::now() - begin_});
  }

  const PlannedFile& file_;
  const CopyOptions& options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::vector<PlannedFile::Part> parts_;
  std::vector<io::DirectFile> direct_sources_;
  std::atomic<std::uint64_t> done_ = 0;
};

class FileCopy : PartReader {
 public:
  FileCopy(const PlannedFile& file, io::AtomicFile& target, const CopyOptions& options)
      : PartReader(file, options), target_(target) {}

  Result<CopiedBy> run() {
    HT_TRY(target_.resize(file_.bytes));
    record_gaps_as_holes();
    HT_TRY(skip_holes());
    if (options_.sums == nullptr) HT_TRY(share_blocks());
    // Allocating the whole file first reports a full disk at once and keeps the file contiguous.
    if (is_fully_written_) HT_TRY(target_.allocate(file_.bytes));
    const io::DirectFile direct(target_.handle(), io::Access::write, target_.port());
    direct_ = &direct;
    open_sources();
    HT_TRY(copy_pieces());
    HT_TRY(check_sources());
    return copied_by_;
  }

 private:
  // Replaces each stored part by the parts that `replace` appends to its last argument; other parts stay.
  template <class Replace>
  Result<void> replace_stored(const Replace& replace) {
    std::vector<PlannedFile::Part> left;
    left.reserve(parts_.size());
    for (const auto& part : parts_) {
      if (std::holds_alternative<PartOrigin::Stored>(part.from)) {
        HT_TRY(check_stop());
        HT_TRY(replace(part, std::get<PartOrigin::Stored>(part.from), left));
      } else {
        left.push_back(part);
      }
    }
    parts_ = std::move(left);
    return {};
  }

  // `covered_parts` turned small gaps into parts of zeros. The remaining gaps are not written.
  void record_gaps_as_holes() {
    std::uint64_t end = 0;
    for (const auto& part : parts_) {
      if (part.offset > end) add_hole(end, part.offset - end);
      end = part.offset + part.bytes;
    }
    if (end < file_.bytes) add_hole(end, file_.bytes - end);
  }

  // Marks bytes that are not written.
  void add_hole(std::uint64_t offset, std::uint64_t bytes) {
    is_fully_written_ = false;
    if (options_.sums != nullptr) options_.sums->add_zeros(offset, bytes);
  }

  Result<void> skip_holes() {
    return replace_stored([&](PlannedFile::Part part, const PartOrigin::Stored& from,
                              std::vector<PlannedFile::Part>& left) -> Result<void> {
      const auto* const file = file_source(from);
      while (file != nullptr && part.bytes >= min_hole_bytes) {
        HT_TRY(check_stop());
        const std::uint64_t at = std::get<PartOrigin::Stored>(part.from).offset;
        const auto data = file->port().next_data(file->handle(), at);
        const bool is_hole_to_end = !data && data.error() == std::errc::no_such_device_or_address;
        if (!data && !is_hole_to_end) break;  // the file system does not report holes
        // The hole has whole pages, so the rest of the part keeps its alignment.
        const std::uint64_t hole = is_hole_to_end ? part.bytes : align_down(std::min(*data - at, part.bytes));
        if (hole >= min_hole_bytes) {
          add_hole(part.offset, hole);
          done_ += hole;
          part = without_first(part, hole);
          continue;
        }
        const auto end = file->port().next_hole(file->handle(), std::max(at, data.value_or(at)));
        if (!end || *end - at >= part.bytes) break;
        left.push_back(first_of(part, *end - at));
        part = without_first(part, *end - at);
      }
      if (part.bytes != 0) left.push_back(part);
      return {};
    });
  }

  Result<void> share_blocks() {
    std::vector<bool> refused(options_.sources.size(), false);
    return replace_stored([&](const PlannedFile::Part& part, const PartOrigin::Stored& from,
                              std::vector<PlannedFile::Part>& left) -> Result<void> {
      const std::uint64_t begin = align_up(part.offset);
      const std::uint64_t end = align_down(part.offset + part.bytes);
      const auto* const file = file_source(from);
      const bool can_share = file != nullptr && part.offset % max_alignment == from.offset % max_alignment;
      std::uint64_t at = begin;
      while (can_share && at < end && !refused[from.file]) {
        HT_TRY(check_stop());
        const std::uint64_t count = std::min(end - at, max_reflink_bytes);
        const auto done = target_.port().clone_range({.from = file->handle(),
                                                      .from_offset = from.offset + (at - part.offset),
                                                      .to = target_.handle(),
                                                      .to_offset = at,
                                                      .bytes = count});
        if (!done && done.error() == std::errc::interrupted) continue;
        if (!done && !is_unsupported(done.error())) {
          return fail(target_.failed("blocks_can_be_shared", "share blocks with its source", done.error())
                          .at_offset(at));
        }
        refused[from.file] = !done;
        if (done) at += count;
      }
      const std::uint64_t shared = at > begin ? at - begin : 0;
      if (shared == 0) {
        left.push_back(part);
        return {};
      }
      is_fully_written_ = false;  // shared blocks must not be allocated again
      copied_by_.reflink += shared;
      done_ += shared;
      if (begin > part.offset) left.push_back(first_of(part, begin - part.offset));
      if (part.offset + part.bytes > at) left.push_back(without_first(part, at - part.offset));
      return {};
    });
  }

  // Opens sources for direct I/O if less than half of their bytes is in the page cache, or the share is
  // unknown.
  void open_sources() {
    std::vector<std::vector<io::FileRange>> ranges(options_.sources.size());
    for (const auto& part : parts_) {
      if (const auto* const from = std::get_if<PartOrigin::Stored>(&part.from)) {
        ranges[from->file].push_back({from->file, from->offset, part.bytes});
      } else if (const auto* const converted = std::get_if<PartOrigin::Converted>(&part.from)) {
        const PlannedFile::ValueChange& change = file_.changes[converted->change];
        const auto bytes = values::stored_bytes(change.from, static_cast<std::int64_t>(change.elements));
        ranges[converted->file].push_back({converted->file, converted->offset, bytes});
      }
    }
    direct_sources_.reserve(ranges.size());
    io::Sources sources;
    for (const auto* const file : options_.sources)
      sources.push_back(file != nullptr ? file->shared_source() : nullptr);
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const bool is_file = !ranges[i].empty() && options_.sources[i]->file_source() != nullptr;
      const bool cold =
          is_file && direct_->is_open() && io::cached_share(sources, ranges[i]).value_or(0) < 0.5;
      if (!cold) {
        direct_sources_.emplace_back();
        continue;
      }
      const auto& file = *options_.sources[i]->file_source();
      direct_sources_.emplace_back(file.handle(), io::Access::read, file.port());
    }
  }

  Result<void> copy_pieces() {
    const auto pieces = pieces_of(parts_, copy_piece_bytes);
    std::vector<std::shared_ptr<void>> buffers(
        std::min(max_copy_workers, std::max<std::size_t>(pieces.size(), 1)));
    // The second half holds the stored bytes of values that are converted.
    const std::size_t allocated = file_.changes.empty() ? buffer_bytes : 2 * buffer_bytes;
    for (auto& buffer : buffers) {
      buffer.reset(std::aligned_alloc(max_alignment, allocated), std::free);
      if (!buffer) return fail(out_of_memory(allocated));
    }
    return run_all({.count = pieces.size(),
                    .threads = buffers.size(),
                    .run = [&](std::size_t job, std::size_t worker) -> Result<void> {
                      auto* const buffer = static_cast<std::byte*>(buffers[worker].get());
                      HT_TRY(copy(pieces[job], {buffer, allocated}));
                      done_ += pieces[job].bytes;
                      return {};
                    },
                    .meanwhile = [&] { return check_stop(); }});
  }

  Result<void> copy(const CopyPiece& piece, MutableBytes buffer) {
    if (!direct_->is_open() && options_.sums == nullptr && HT_TRY(copy_by_system(piece))) return {};
    const Bytes bytes = HT_TRY(assemble(piece, buffer));
    if (options_.sums != nullptr) options_.sums->add_bytes(piece.offset, bytes);
    return write(piece, bytes, buffer);
  }

  // Returns false if the piece is not entirely from one file or the system cannot copy it.
  Result<bool> copy_by_system(const CopyPiece& piece) {
    const PlannedFile::Part part = within(piece, parts_[piece.first_part]);
    const auto* const from = std::get_if<PartOrigin::Stored>(&part.from);
    if (piece.parts != 1 || from == nullptr || system_refuses_ || file_source(*from) == nullptr) return false;
    for (std::uint64_t done = 0; done < part.bytes;) {
      const auto count = target_.port().copy_range({.from = file_source(*from)->handle(),
                                                    .from_offset = from->offset + done,
                                                    .to = target_.handle(),
                                                    .to_offset = part.offset + done,
                                                    .bytes = part.bytes - done});
      if (!count && count.error() == std::errc::interrupted) continue;
      if (!count && is_unsupported(count.error())) {
        system_refuses_ = true;
        return false;
      }
      if (!count) {
        return fail(target_.failed("bytes_can_be_copied", "copy data into the file", count.error())
                        .at_offset(part.offset + done));
      }
      // Some systems return 0 for files that they cannot copy. Reading the file instead reports the cause.
      if (*count == 0) return false;
      done += *count;
    }
    std::atomic_ref(copied_by_.copy_file_range) += part.bytes;
    return true;
  }

  // Returns the bytes of a piece, which are somewhere in the buffer.
  Result<Bytes> assemble(const CopyPiece& piece, MutableBytes buffer) {
    if (piece.parts == 1) {
      const PlannedFile::Part only = within(piece, parts_[piece.first_part]);
      if (const auto* const from = std::get_if<PartOrigin::Stored>(&only.from)) {
        return read_direct_or_buffered(*from, only.bytes, buffer);
      }
    }
    // Equal alignment in memory and in the file avoids a memmove before a direct write.
    const MutableBytes room = buffer.subspan(static_cast<std::size_t>(piece.offset % max_alignment),
                                             static_cast<std::size_t>(piece.bytes));
    for (std::size_t i = 0; i < piece.parts; ++i) {
      const PlannedFile::Part part = within(piece, parts_[piece.first_part + i]);
      HT_TRY(read_part(part,
                       room.subspan(static_cast<std::size_t>(part.offset - piece.offset),
                                    static_cast<std::size_t>(part.bytes)),
                       buffer.subspan(buffer_bytes)));
    }
    return Bytes(room);
  }

  Result<void> write(const CopyPiece& piece, Bytes bytes, MutableBytes buffer) {
    const std::uint64_t begin = align_up(piece.offset);
    const std::uint64_t end = align_down(piece.offset + piece.bytes);
    if (!direct_->is_open() || begin >= end) {
      HT_TRY(target_.write(piece.offset, bytes));
      count(piece, copied_by_.read_write);
      return {};
    }
    const auto before = static_cast<std::size_t>(begin - piece.offset);
    const auto middle_bytes = static_cast<std::size_t>(end - begin);
    // Partial pages at both ends go through the page cache; no direct write touches these pages.
    HT_TRY(target_.write(piece.offset, bytes.first(before)));
    HT_TRY(target_.write(end, bytes.subspan(before + middle_bytes)));
    Bytes middle = bytes.subspan(before, middle_bytes);
    if (reinterpret_cast<std::uintptr_t>(middle.data()) % direct_->alignment().memory != 0) {
      std::memmove(buffer.data(), middle.data(), middle.size());
      middle = Bytes(buffer).first(middle_bytes);
    }
    auto done = target_.write_by(direct_->handle(), begin, middle);
    if (!done && done.error().cause() == std::errc::invalid_argument) {
      // The file system accepted O_DIRECT but rejects the write.
      HT_TRY(target_.write(begin, middle));
      count(piece, copied_by_.read_write);
      return {};
    }
    HT_TRY(std::move(done));
    count(piece, copied_by_.direct);
    return {};
  }

  // Counts the bytes that come from sources. The header, gaps, splats and tensors in memory do not count.
  void count(const CopyPiece& piece, std::uint64_t& counter) {
    for (std::size_t i = 0; i < piece.parts; ++i) {
      const auto& part = parts_[piece.first_part + i];
      const bool is_copied = std::holds_alternative<PartOrigin::Stored>(part.from) ||
                             std::holds_alternative<PartOrigin::Reordered>(part.from) ||
                             std::holds_alternative<PartOrigin::Converted>(part.from);
      if (is_copied) std::atomic_ref(counter) += within(piece, part).bytes;
    }
  }

  io::AtomicFile& target_;
  const io::DirectFile* direct_ = nullptr;
  bool is_fully_written_ = true;  // false if the file has holes or shared blocks
  std::atomic<bool> system_refuses_ = false;
  CopiedBy copied_by_;  // several workers add to it
};

// Fills memory instead of a file.
class MemoryCopy : PartReader {
 public:
  MemoryCopy(const PlannedFile& file, const CopyOptions& options) : PartReader(file, options) {}

  Result<void> run(MutableBytes into) {
    // Gaps between the parts are zeros.
    std::uint64_t end = 0;
    for (const auto& part : parts_) {
      clear(into, end, part.offset);
      end = part.offset + part.bytes;
    }
    clear(into, end, file_.bytes);
    direct_sources_.resize(options_.sources.size());
    const auto pieces = pieces_of(parts_, copy_piece_bytes);
    Jobs jobs;
    jobs.count = pieces.size();
    jobs.run = [&](std::size_t job, std::size_t worker) -> Result<void> {
      auto& scratch = scratch_[worker];
      scratch.resize(file_.changes.empty() ? 0 : buffer_bytes);
      const CopyPiece& piece = pieces[job];
      for (std::size_t i = 0; i < piece.parts; ++i) {
        const PlannedFile::Part part = within(piece, parts_[piece.first_part + i]);
        HT_TRY(read_part(part, slice(into, part.offset, part.bytes), scratch));
      }
      done_ += piece.bytes;
      return {};
    };
    jobs.meanwhile = [&] { return check_stop(); };
    scratch_.resize(workers_for(jobs));
    HT_TRY(run_all(jobs));
    return check_sources();
  }

 private:
  static MutableBytes slice(MutableBytes into, std::uint64_t offset, std::uint64_t bytes) {
    return into.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
  }
  static void clear(MutableBytes into, std::uint64_t begin, std::uint64_t end) {
    std::ranges::fill(slice(into, begin, end - begin), std::byte{});
  }

  std::vector<std::vector<std::byte>> scratch_;  // one per worker
};

}  // namespace

Error stopped_write(const std::filesystem::path& path, std::uint64_t written, std::uint64_t bytes) {
  return Error(ErrorCode::cancelled, "work_is_completed",
               format_text("stopped: {} of {} bytes written; the target is unchanged", written, bytes))
      .at_path(path.native());
}

Result<CopiedBy> copy_file(const PlannedFile& file, io::AtomicFile& target, const CopyOptions& options) {
  return without_bad_alloc([&] { return FileCopy(file, target, options).run(); });
}

Result<void> copy_to_memory(const PlannedFile& file, MutableBytes into, const CopyOptions& options) {
  return without_bad_alloc([&] { return MemoryCopy(file, options).run(into); });
}

}  // namespace ht::inline v1
