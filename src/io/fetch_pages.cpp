#include "io/fetch_pages.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "io/mapped_file.hpp"
#include "io/parallel_pass.hpp"

namespace ht::inline v1::io {
namespace {

// Which way is fastest depends on the disk, its readahead setting and the processors.
constexpr std::array<Way, 6> cold_ways{{{Engine::populate, 2},
                                        {Engine::read_ahead, 2},
                                        {Engine::populate, 1},
                                        {Engine::populate, 4},
                                        {Engine::read_ahead, 1},
                                        {Engine::read_ahead, 4}}};
constexpr std::array<Way, 1> cached_ways{{{Engine::populate, 1}}};
constexpr std::uint64_t pieces_per_trial = 8;
// How far readahead calls are ahead of the faults.
constexpr std::size_t read_ahead_pieces = 4;

std::span<const Way> ways_for(const FetchOptions& options) {
  if (options.cached) return cached_ways;
  return options.tune ? cold_ways : std::span(cold_ways).first(1);
}

std::vector<FileRange> pieces_of(std::span<const FileRange> ranges, std::uint64_t piece_bytes) {
  std::vector<FileRange> pieces;
  for (const auto& range : ranges) {
    for (std::uint64_t done = 0; done < range.bytes; done += pieces.back().bytes) {
      pieces.push_back({range.file, range.offset + done, std::min(piece_bytes, range.bytes - done)});
    }
  }
  return pieces;
}

}  // namespace

Result<FetchedBy> fetch_pages(MappedFiles files, std::span<const FileRange> ranges, const PieceFetched& each,
                              const FetchOptions& options) {
  const auto pieces = pieces_of(ranges, options.piece_bytes);
  std::vector<std::uint64_t> sizes;
  sizes.reserve(pieces.size());
  for (const auto& piece : pieces) sizes.push_back(piece.bytes);
  const auto advise = [&](const FileRange& piece, Advice advice) {
    return files[piece.file]->advise(piece.offset, piece.bytes, advice);
  };
  const auto fetch = [&](std::size_t number, std::size_t end, Way way) -> Result<void> {
    const std::size_t later = number + read_ahead_pieces;
    if (way.engine == Engine::read_ahead && later < end) {
      // A failure is found, and reported, when that piece is populated.
      static_cast<void>(advise(pieces[later], Advice::will_need));
    }
    return advise(pieces[number], Advice::populate);
  };
  ParallelPass pass(std::move(sizes), fetch,
                    {.ways = ways_for(options),
                     .trial_bytes = pieces_per_trial * options.piece_bytes,
                     .max_ahead = options.max_ahead,
                     .stop = options.stop});
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    HT_TRY(pass.wait_for(i));
    HT_TRY(each(pieces[i]));
  }
  return FetchedBy{pass.way(), pass.rate()};
}

}  // namespace ht::inline v1::io
