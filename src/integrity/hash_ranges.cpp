#include "integrity/hash_ranges.hpp"

#include <algorithm>
#include <atomic>
#include <htensor/hash/digest.hpp>

#include "base/format_text.hpp"
#include "base/workers.hpp"
#include "io/strategy/automatic.hpp"
#include "io/strategy/staged.hpp"

namespace ht::inline v1 {
namespace {

// Bytes fetched and hashed between two polls of the stop token.
constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;
constexpr std::uint64_t min_fetch_bytes = std::uint64_t{1} << 16;

class RangeHasher {
 public:
  RangeHasher(const HashJob& job, std::span<const io::FileRange> ranges, const WorkOptions& work)
      : job_(job), ranges_(ranges), work_(work) {
    progress_.total_bytes = io::sum_of(ranges);
  }

  Result<std::vector<Digest>> run() {
    digests_.assign(ranges_.size(), HT_TRY(digest(job_.algorithm, {})));
    HT_TRY(check_unchanged());
    HT_TRY(prefers_one_pass() ? hash_in_one_pass() : hash_in_parallel());
    HT_TRY(check_unchanged());
    return std::move(digests_);
  }

 private:
  // One pass of large direct reads is fastest for data that is not in the page cache. Hashing on all
  // processors is faster if the algorithm is slower than a disk, or if ranges overlap.
  [[nodiscard]] bool prefers_one_pass() const {
    if (job_.algorithm == HashAlgorithm::sha256 || job_.wait_for) return false;
    const auto is_out_of_order = [](const io::FileRange& first, const io::FileRange& second) {
      return std::tuple(first.file, io::end_of(first)) > std::tuple(second.file, second.offset);
    };
    if (std::ranges::adjacent_find(ranges_, is_out_of_order) != ranges_.end()) return false;
    // An unknown share counts as not cached.
    return io::cached_share(sources(), ranges_).value_or(0) < 0.5;
  }

  [[nodiscard]] Result<void> check_unchanged() const {
    io::MappedFile* last = nullptr;
    for (const auto& range : ranges_) {
      io::MappedFile* const file = job_.files[range.file];
      if (file != last) HT_TRY(file->source().check_unchanged());
      last = file;
    }
    return {};
  }

  Result<void> hash_in_parallel() {
    Jobs jobs{.count = ranges_.size(), .threads = 0, .run = {}, .meanwhile = [this] { return poll_stop(); }};
    std::vector<Hasher> hashers;
    hashers.reserve(workers_for(jobs));
    for (std::size_t i = 0; i < workers_for(jobs); ++i) {
      hashers.push_back(HT_TRY(Hasher::make(job_.algorithm)));
    }
    jobs.run = [&](std::size_t job, std::size_t worker) { return hash_range(job, hashers[worker]); };
    return run_all(jobs);
  }

  Result<void> hash_range(std::size_t number, Hasher& hasher) {
    const auto& [file, offset, bytes] = ranges_[number];
    io::MappedFile& mapped = *job_.files[file];
    if (job_.wait_for) HT_TRY(job_.wait_for(number));
    for (std::uint64_t done = 0; done < bytes;) {
      const std::uint64_t count = std::min(piece_bytes, bytes - done);
      // Populates all pages at once instead of one by one at first touch; not worth the call for a few pages.
      if (count >= min_fetch_bytes && !job_.wait_for && !mapped.must_read())
        HT_TRY(mapped.advise(offset + done, count, io::Strategy::Advice::populate));
      HT_TRY(mapped.visit(offset + done, count, [&](Bytes piece) -> Result<void> {
        hasher.update(piece);
        return {};
      }));
      done += count;
      done_bytes_ += count;
      if (work_.stop.stop_requested()) return fail(stopped());
    }
    digests_[number] = hasher.finish();
    return {};
  }

  Result<void> hash_in_one_pass() {
    auto hasher = HT_TRY(Hasher::make(job_.algorithm));
    std::size_t number = 0;
    std::uint64_t done = 0;  // hashed bytes of range `number`
    // Adjacent ranges are read as one, so a chunk may end anywhere in a range.
    const auto take = [&](const io::Chunk& /*chunk*/, Bytes bytes) -> Result<void> {
      while (!bytes.empty()) {
        const std::uint64_t left = ranges_[number].bytes - done;
        const Bytes piece =
            bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, bytes.size())));
        hasher.update(piece);
        bytes = bytes.subspan(piece.size());
        done += piece.size();
        while (number < ranges_.size() && done == ranges_[number].bytes) {
          digests_[number++] = hasher.finish();
          done = 0;
        }
      }
      return {};
    };
    io::StagedOptions staged_options;
    staged_options.work.stop = work_.stop;
    staged_options.work.on_progress = [this](std::uint64_t bytes) {
      done_bytes_ = bytes;
      report_progress();
    };
    HT_TRY(io::load_staged(sources(), merge_adjacent(), take, staged_options));
    return {};
  }

  [[nodiscard]] io::Sources sources() const {
    io::Sources sources;
    sources.reserve(job_.files.size());
    for (const auto* const file : job_.files)
      sources.push_back(file != nullptr ? file->shared_source() : nullptr);
    return sources;
  }

  [[nodiscard]] std::vector<io::FileRange> merge_adjacent() const {
    std::vector<io::FileRange> merged;
    for (const auto& range : ranges_) {
      if (range.bytes == 0) continue;
      if (!merged.empty() && merged.back().file == range.file && io::end_of(merged.back()) == range.offset) {
        merged.back().bytes += range.bytes;
      } else {
        merged.push_back(range);
      }
    }
    return merged;
  }

  [[nodiscard]] Error stopped() const {
    return Error(ErrorCode::cancelled, "work_is_completed",
                 format_text("stopped: {} of {} bytes hashed", done_bytes_.load(), progress_.total_bytes))
        .at_path(job_.files[ranges_[0].file]->source().path().native());
  }

  Result<void> poll_stop() {
    report_progress();
    if (work_.stop.stop_requested() && done_bytes_ < progress_.total_bytes) return fail(stopped());
    return {};
  }

  void report_progress() {
    if (!work_.on_progress) return;
    progress_.done_bytes = done_bytes_;
    progress_.elapsed = std::chrono::steady_clock::now() - begin_;
    work_.on_progress(progress_);
  }

  const HashJob& job_;
  std::span<const io::FileRange> ranges_;
  const WorkOptions& work_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> done_bytes_ = 0;
  Progress progress_;
  std::vector<Digest> digests_;
};

// Computes the CRC of a repeated pattern by doubling.
std::uint64_t crc_of_repeated(Bytes pattern, std::uint64_t times) {
  std::uint64_t sum = 0;
  std::uint64_t doubled = crc64nvme(pattern);
  for (std::uint64_t bytes = pattern.size(); times != 0; times >>= 1, bytes *= 2) {
    if ((times & 1) != 0) sum = crc64nvme_combine(sum, doubled, bytes);
    doubled = crc64nvme_combine(doubled, doubled, bytes);
  }
  return sum;
}

}  // namespace

Result<std::vector<Digest>> hash_ranges(const HashJob& job, std::span<const io::FileRange> ranges,
                                        const WorkOptions& work) {
  return without_bad_alloc([&] { return RangeHasher(job, ranges, work).run(); });
}

Result<Digest> digest_in_memory(HashAlgorithm algorithm, Bytes bytes, const WorkOptions& work) {
  auto hasher = HT_TRY(Hasher::make(algorithm));
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t done = 0; done < bytes.size();) {
    if (work.stop.stop_requested()) {
      return fail(Error(ErrorCode::cancelled, "work_is_completed",
                        format_text("stopped: {} of {} bytes hashed", done, bytes.size())));
    }
    const std::size_t count = std::min<std::size_t>(piece_bytes, bytes.size() - done);
    hasher.update(bytes.subspan(done, count));
    done += count;
    if (work.on_progress) work.on_progress({done, bytes.size(), std::chrono::steady_clock::now() - begin});
  }
  return hasher.finish();
}

Result<Digest> digest_of_splat(HashAlgorithm algorithm, Bytes pattern, std::uint64_t bytes,
                               const std::stop_token& stop) {
  const std::uint64_t times = bytes / pattern.size();
  const Bytes rest = pattern.first(static_cast<std::size_t>(bytes % pattern.size()));
  if (algorithm == HashAlgorithm::crc64nvme) {
    return Digest(crc64nvme(rest, crc_of_repeated(pattern, times)));
  }
  auto hasher = HT_TRY(Hasher::make(algorithm));
  // The piece holds one or more whole patterns.
  std::vector<std::byte> piece;
  while (piece.empty() || piece.size() + pattern.size() <= 65536)
    piece.insert(piece.end(), pattern.begin(), pattern.end());
  const std::uint64_t whole = bytes - rest.size();
  for (std::uint64_t done = 0; done < whole;) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), whole - done));
    if (stop.stop_requested()) {
      return fail(Error(ErrorCode::cancelled, "work_is_completed",
                        format_text("stopped: {} of {} bytes of a splat hashed", done, bytes)));
    }
    hasher.update(Bytes(piece).first(count));
    done += count;
  }
  hasher.update(rest);
  return hasher.finish();
}

}  // namespace ht::inline v1
