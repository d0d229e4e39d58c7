#include "bench/checksum/cells.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <htensor/hash/digest.hpp>
#include <string>
#include <thread>
#include <utility>

#include "bench/checksum/files.hpp"
#include "bench/harness/read_loop.hpp"
#include "bench/harness/sum.hpp"
#include "bench/load/contenders.hpp"

namespace ht::bench {
namespace {

// Maximum bytes of the byte-by-byte contender; its time is scaled to all bytes.
constexpr std::size_t max_byte_at_a_time_bytes = std::size_t{64} << 20;

struct Method {
  std::string name;
  Kind kind = Kind::other;
  Sum sum = nullptr;
  Combine combine = combine_ordered;
  /// An independent function that computes the expected answer. If null, `sum` computes it on one thread.
  Sum reference = nullptr;
  std::string note{};
  std::size_t max_bytes = SIZE_MAX;
};

std::uint64_t combine_by_xor(std::uint64_t first, std::uint64_t second, std::uint64_t /*second_bytes*/) {
  return first ^ second;
}
std::uint64_t combine_by_sum(std::uint64_t first, std::uint64_t second, std::uint64_t /*second_bytes*/) {
  return first + second;
}
std::uint64_t combine_crc64nvme(std::uint64_t first, std::uint64_t second, std::uint64_t second_bytes) {
  return crc64nvme_combine(first, second, second_bytes);
}

std::vector<Method> read_loops() {
  if (!has_avx2()) {
    return {{.name = "read loop",
             .kind = Kind::limit,
             .sum = by_plain_read,
             .combine = combine_by_xor,
             .note = "64 bits at a time, without AVX2"}};
  }
  return {{.name = "read loop",
           .kind = Kind::limit,
           .sum = by_avx2_read,
           .combine = combine_by_xor,
           .reference = by_plain_read},
          {.name = "read loop, prefetch",
           .kind = Kind::limit,
           .sum = by_avx2_read_with_prefetch,
           .combine = combine_by_xor,
           .reference = by_plain_read}};
}

std::vector<Method> methods() {
  std::vector<Method> all{
      {.name = "crc64nvme",
       .kind = Kind::ours,
       .sum = by_crc64nvme,
       .combine = combine_crc64nvme,
       .reference = expected_crc64nvme,
       .note = std::string(crc64nvme_kernel())},
      {.name = "CRC-64, byte at a time",
       .sum = by_byte_at_a_time,
       .combine = combine_crc64nvme,
       .reference = expected_crc64nvme,
       .max_bytes = max_byte_at_a_time_bytes},
      {.name = "std::accumulate",
       .sum = by_accumulate,
       .combine = combine_by_sum,
       .reference = [](Bytes bytes) { return sum_of(0, bytes); }},
      {.name = "XXH3-64", .sum = by_xxh3_64},
      {.name = "XXH3-128", .sum = by_xxh3_128},
  };
#if HT_HAVE_ISAL
  all.push_back({.name = "CRC-32C (ISA-L)", .sum = by_crc32c});
#else
  std::printf("left out: CRC-32C, as ISA-L was not installed at build time (libisal-dev)\n");
#endif
  if (has_sha256()) {
    all.push_back({.name = "SHA-256 (OpenSSL)", .sum = by_sha256});
  } else {
    std::printf("left out: SHA-256, as OpenSSL is not installed\n");
  }
  for (auto& loop : read_loops()) all.push_back(std::move(loop));
  return all;
}

class Builder {
 public:
  Builder(const Inputs& inputs, bool smoke) : inputs_(inputs), smoke_(smoke) {}

  Cells build() && {
    const unsigned threads = std::max(1U, std::thread::hardware_concurrency());
    // Large memory takes long enough in one pass; small memory is repeated for some milliseconds.
    const double small_seconds = smoke_ ? 0.0001 : 0.005;
    const auto large = inputs_.large.bytes();
    const auto small = inputs_.small.bytes();
    add_memory("memory, 1 thread", large, 1, 0);
    add_memory("memory, all threads", large, threads, 0);
    add_memory("16 KiB, 1 thread", small, 1, small_seconds);
    add_memory("16 KiB, all threads", small, threads, small_seconds);
    add_verify();
    add_load("cold, load", FreeMemory::touched);
    add_load("cold, load, untouched memory", FreeMemory::untouched);
    add_stream();
    return std::move(cells_);
  }

 private:
  void begin(Cell cell) { cells_.cells.push_back(std::move(cell)); }

  // Contenders that a goal compares have several turns per round.
  [[nodiscard]] int turns_per_round(const std::string& name, Kind kind) const {
    const Cell& cell = cells_.cells.back();
    if (cell.cache == Cache::cold) return cell.name == "cold, load" ? 3 : 1;
    return kind != Kind::other || name == "XXH3-64" ? 5 : 1;
  }

  // Adds a contender to the cell begun last.
  void add(const std::string& name, Kind kind, std::function<TurnResult()> run,
           std::uint64_t expected_answer) {
    cells_.contenders.push_back({.cell = &cells_.cells.back(),
                                 .name = name,
                                 .kind = kind,
                                 .run = std::move(run),
                                 .expected_answer = expected_answer,
                                 .turns_per_round = turns_per_round(name, kind)});
  }

  void add_memory(const std::string& name, Bytes data, unsigned threads, double min_seconds) {
    begin({.name = name, .bytes = data.size()});
    for (const auto& method : methods_) {
      const Bytes taken = data.first(std::min(data.size(), method.max_bytes));
      SumJob job{.sum = method.sum, .combine = method.combine, .parts = parts_of(taken, threads)};
      if (min_seconds > 0) job.passes = passes_for(job.sum, job.parts[0], min_seconds);
      const double scale = static_cast<double>(data.size()) / static_cast<double>(taken.size());
      const auto expected = expected_answer(method, taken, job);
      const std::string note =
          taken.size() < data.size() ? "measured on 64 MiB, time scaled to all bytes" : method.note;
      const auto run = [job = std::move(job), scale, note] {
        auto turn = run_sum(job);
        turn.seconds *= scale;
        turn.note = note;
        return turn;
      };
      add(method.name, method.kind, run, expected);
    }
  }

  // Computed once for each memory, because it takes seconds for the large one.
  std::uint64_t expected_answer(const Method& method, Bytes bytes, const SumJob& job) {
    if (method.reference == nullptr) return answer_of(job);
    const auto same = std::ranges::find_if(known_, [&](const KnownResult& known) {
      return known.sum == method.reference && known.data == bytes.data() && known.size == bytes.size();
    });
    if (same != known_.end()) return same->answer;
    known_.push_back({method.reference, bytes.data(), bytes.size(), method.reference(bytes)});
    return known_.back().answer;
  }

  void add_verify() {
    const Workload& file = inputs_.file;
    begin({.name = "warm, verify", .cache = Cache::warm, .path = file.path, .bytes = file.file_bytes});
    add("verify", Kind::ours, [&file] { return time_verify(file); }, file.file_bytes);
    const auto expected = expected_read_answer(file);
    for (const auto& loop : read_loops()) {
      const auto run = [&file, sum = loop.sum] { return read_by_mapping(file, sum); };
      add(loop.name, loop.kind, run, expected);
    }
  }

  void add_load(const std::string& name, FreeMemory memory) {
    const Workload& file = inputs_.file;
    begin(
        {.name = name, .cache = Cache::cold, .path = file.path, .bytes = file.data_bytes, .memory = memory});
    for (const bool verify : {false, true}) {
      const auto run = [&file, verify] { return all_by_load(file, {.verify = verify}); };
      add(verify ? "load --verify" : "load", Kind::ours, run, file.answers.samples);
    }
  }

  void add_stream() {
    const Workload& file = inputs_.file;
    begin({.name = "cold, stream", .cache = Cache::cold, .path = file.path, .bytes = file.data_bytes});
    for (const auto verify : {Verify::no, Verify::yes}) {
      const auto run = [&file, verify] { return time_stream(file, verify); };
      add(verify == Verify::yes ? "stream --verify" : "stream", Kind::ours, run, file.data_bytes);
    }
  }

  struct KnownResult {
    Sum sum;
    const std::byte* data;
    std::size_t size;
    std::uint64_t answer;
  };

  Cells cells_;
  const Inputs& inputs_;
  bool smoke_;
  std::vector<Method> methods_ = methods();
  std::vector<KnownResult> known_;
};

}  // namespace

Cells make_cells(const Inputs& inputs, bool smoke) { return Builder(inputs, smoke).build(); }

}  // namespace ht::bench
