#include <algorithm>
#include <array>
#include <htensor/load/load.hpp>
#include <htensor/model/model.hpp>
#include <unordered_map>
#include <vector>

#include "bench/harness/page_cache.hpp"
#include "bench/harness/sum.hpp"
#include "bench/load/contenders.hpp"

namespace ht::bench {
namespace {

Bytes bytes_of(const Model& model, const TensorRange& range) {
  return value_of(model.storage(range.name)).bytes();
}

std::string note_of(const LoadReport& loaded) {
  return std::string(to_string(loaded.choice.strategy)) + ": " + std::string(loaded.choice.code);
}

void must_have_all_bytes(const Workload& workload, const LoadReport& loaded) {
  must(loaded.bytes == workload.data_bytes, "not all bytes were loaded");
}

}  // namespace

TurnResult all_by_load(const Workload& workload, const LoadOptions& options) {
  const Stopwatch watch;
  const auto model = value_of(Model::open(workload.path));
  const auto loaded = value_of(ht::load(model, options));
  const double seconds = watch.seconds();
  must_have_all_bytes(workload, loaded);
  must(!options.verify || loaded.verified_bytes >= workload.data_bytes, "not all bytes were verified");
  must(loaded.choice.strategy != io::Strategy::Kind::mapped || is_warm(workload.path),
       "fetched pages are not resident");
  const auto answer =
      sample_answer(workload, [&](const TensorRange& range) { return bytes_of(model, range); });
  return {seconds, answer, note_of(loaded)};
}

TurnResult all_by_load_into(const Workload& workload, const Destination& into) {
  into.overwrite_samples(workload);
  std::vector<Target> targets;
  for (const auto& range : workload.tensors) {
    targets.push_back({range.name, {into.data() + range.offset, static_cast<std::size_t>(range.bytes)}});
  }
  const Stopwatch watch;
  const auto model = value_of(Model::open(workload.path));
  const auto loaded = value_of(ht::load_into(model, targets));
  const double seconds = watch.seconds();
  must_have_all_bytes(workload, loaded);
  return {seconds, sample_answer(workload, into.data()), note_of(loaded)};
}

TurnResult one_pass_by_stream(const Workload& workload, io::Strategy::Kind strategy) {
  std::uint64_t sum = 0;
  const auto take = [&](const TensorPiece& piece) -> Result<void> {
    sum += sum_of(workload.tensors[piece.index].offset + piece.offset, piece.bytes);
    return {};
  };
  const Stopwatch watch;
  const auto model = value_of(Model::open(workload.path));
  const auto loaded = value_of(ht::stream(model, take, {.strategy = strategy}));
  const double seconds = watch.seconds();
  must_have_all_bytes(workload, loaded);
  return {seconds, sum, note_of(loaded)};
}

TurnResult few_by_load(const Workload& workload, io::Strategy::Kind strategy) {
  // `read` loads only matching tensors; other strategies do not need the pattern.
  const std::string glob = strategy == io::Strategy::Kind::read ? workload.few_glob : "*";
  const Stopwatch watch;
  const auto model = value_of(Model::open(workload.path));
  const auto loaded =
      value_of(ht::load(model, {.strategy = strategy, .use = io::Strategy::Use::few, .filter = glob}));
  const auto answer = few_answer(workload, [&](const TensorRange& range) { return bytes_of(model, range); });
  return {watch.seconds(), answer, note_of(loaded)};
}

TurnResult few_by_stream(const Workload& workload) {
  std::unordered_map<std::string_view, std::array<std::byte, 2>> first;
  const auto take = [&](const TensorPiece& piece) -> Result<void> {
    // The piece at offset 0 contains the whole first element, because pieces are large.
    if (piece.offset == 0)
      std::ranges::copy(piece.bytes.first<2>(), first[workload.tensors[piece.index].name].begin());
    return {};
  };
  const Stopwatch watch;
  const auto model = value_of(Model::open(workload.path));
  const auto loaded = value_of(
      ht::stream(model, take, {.strategy = io::Strategy::Kind::staged, .filter = workload.few_glob}));
  const auto answer =
      few_answer(workload, [&](const TensorRange& range) { return Bytes(first.at(range.name)); });
  return {watch.seconds(), answer, note_of(loaded)};
}

TurnResult first_by_open(const Workload& workload) {
  const Stopwatch watch;
  const auto model = value_of(Model::open(workload.path));
  const std::uint64_t answer = load_le<std::uint16_t>(bytes_of(model, workload.tensors[0]));
  return {watch.seconds(), answer};
}

}  // namespace ht::bench
