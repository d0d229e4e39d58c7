#include "bench/harness/workload.hpp"

#include <algorithm>
#include <cstring>
#include <htensor/format/names.hpp>
#include <htensor/model/model.hpp>

#include "bench/harness/child.hpp"
#include "bench/harness/must.hpp"
#include "bench/harness/sum.hpp"

namespace ht::bench {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::size_t few_tensors = 16;

void read_fully(const OpenFile& file, std::uint64_t offset, MutableBytes into) {
  while (!into.empty()) {
    const auto count = ::pread(file.fd(), into.data(), into.size(), static_cast<off_t>(offset));
    system_must(count > 0, "pread");
    offset += static_cast<std::uint64_t>(count);
    into = into.subspan(static_cast<std::size_t>(count));
  }
}

void list_tensors(Workload& workload) {
  const auto model = value_of(Model::open(workload.path, {.catalog_only = true}));
  const Catalog& catalog = model.catalog();
  for (const Entry& entry : catalog) {
    workload.tensors.push_back({std::string(entry.name), entry.offset, entry.bytes});
  }
  must(!workload.tensors.empty(), "the file has no tensors");
  workload.data_begin = std::ranges::min(workload.tensors, {}, &TensorRange::offset).offset;
  workload.data_bytes = workload.file_bytes - workload.data_begin;
  std::uint64_t all = 0;
  for (const auto& range : workload.tensors) all += range.bytes;
  must(all == workload.data_bytes, "the file has a gap between tensors");
}

// One tensor per layer: a key projection is small relative to the model and large relative to a page.
void choose_few(Workload& workload) {
  workload.few_glob = "*.k_proj.weight";
  const NameFilter few(workload.few_glob);
  for (std::size_t i = 0; i < workload.tensors.size(); ++i) {
    if (few.matches(workload.tensors[i].name)) workload.few.push_back(i);
  }
  must(workload.few.size() == few_tensors,
       std::to_string(workload.few.size()) +
           " tensors are named *.k_proj.weight, but the preset llama-1b has " + std::to_string(few_tensors));
}

void choose_samples(Workload& workload) {
  for (std::size_t i = 0; i < workload.tensors.size(); ++i) {
    const auto all = workload.tensors[i].bytes;
    const auto some = std::min(page, all);
    for (const auto offset : {std::uint64_t{0}, (all - some) / 2, all - some}) {
      workload.samples.push_back({i, offset, some});
    }
  }
}

std::uint64_t sum_of_data(const Workload& workload, const OpenFile& file) {
  std::vector<std::byte> buffer(std::size_t{8} << 20);
  std::uint64_t total = 0;
  for (auto at = workload.data_begin; at < workload.file_bytes;) {
    const auto next = std::min<std::uint64_t>(buffer.size(), workload.file_bytes - at);
    const auto piece = std::span(buffer).first(static_cast<std::size_t>(next));
    read_fully(file, at, piece);
    total += sum_of(at, piece);
    at += next;
  }
  return total;
}

}  // namespace

void synthesize(const std::filesystem::path& path, const std::vector<std::string>& options) {
  std::vector<std::string> command{HT_PROGRAM, "synth", path.string()};
  command.insert(command.end(), options.begin(), options.end());
  run_or_fail(command);
  const OpenFile file(path);
  system_must(::fsync(file.fd()) == 0, "fsync");
}

Workload read_workload(const std::filesystem::path& path) {
  Workload workload{.path = path, .file_bytes = std::filesystem::file_size(path)};
  list_tensors(workload);
  choose_few(workload);
  choose_samples(workload);
  const OpenFile file(path);
  std::vector<std::byte> tensor;
  const auto read_tensor = [&](const TensorRange& range) -> Bytes {
    tensor.resize(static_cast<std::size_t>(range.bytes));
    read_fully(file, range.offset, tensor);
    return tensor;
  };
  workload.answers.sum = sum_of_data(workload, file);
  workload.answers.samples = sample_answer(workload, read_tensor);
  workload.answers.few = few_answer(workload, read_tensor);
  workload.answers.first = load_le<std::uint16_t>(read_tensor(workload.tensors[0]));
  return workload;
}

Workload make_workload(const std::filesystem::path& path, std::uint64_t bytes) {
  synthesize(path, {"--preset", "llama-1b", "--size", std::to_string(bytes)});
  return read_workload(path);
}

std::uint64_t few_answer(const Workload& workload,
                         const std::function<Bytes(const TensorRange&)>& first_bytes) {
  std::uint64_t answer = 0;
  for (const auto index : workload.few) {
    answer = answer * 31 + load_le<std::uint16_t>(first_bytes(workload.tensors[index]));
  }
  return answer;
}

std::uint64_t sample_answer(const Workload& workload,
                            const std::function<Bytes(const TensorRange&)>& bytes_of) {
  std::uint64_t answer = 0;
  std::size_t tensor = workload.tensors.size();
  Bytes bytes;
  for (const auto& sample : workload.samples) {
    const TensorRange& range = workload.tensors[sample.tensor];
    if (sample.tensor != tensor) bytes = bytes_of(range);
    tensor = sample.tensor;
    const auto found = part(bytes, sample.offset, sample.bytes);
    must(found.has_value(), range.name + " has too few bytes");
    // Not a plain sum, so that swapped samples are detected.
    answer = answer * 31 + sum_of(0, *found);
  }
  return answer;
}

std::uint64_t sample_answer(const Workload& workload, const std::byte* file) {
  return sample_answer(workload, [file](const TensorRange& range) {
    return Bytes(file + range.offset, static_cast<std::size_t>(range.bytes));
  });
}

Destination::Destination(const Workload& workload)
    // Rounded up, because a direct read at the end of the file reads a whole block.
    : memory_(Mapping::anonymous((workload.file_bytes + page - 1) / page * page)) {
  std::memset(memory_.data(), 0xFF, memory_.size());
}

void Destination::overwrite_samples(const Workload& workload) const {
  for (const auto& sample : workload.samples) {
    std::byte* const at = data() + workload.tensors[sample.tensor].offset + sample.offset;
    std::memset(at, 0xFF, static_cast<std::size_t>(sample.bytes));
  }
}

}  // namespace ht::bench
