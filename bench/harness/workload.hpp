// The file that is loaded, and the expected results.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <string>
#include <vector>

#include "bench/harness/open_file.hpp"

namespace ht::bench {

/// The name of a tensor and its bytes in the file.
struct TensorRange {
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A part of a tensor that is compared after a load.
struct Sample {
  std::size_t tensor = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// The expected answers.
struct Answers {
  /// `sum_of` the data of all tensors: for passes that read every byte once.
  std::uint64_t sum = 0;
  /// `sample_answer` of the file: for tasks that load or write all tensors.
  std::uint64_t samples = 0;
  /// `few_answer` of the file: for the cells "cold, few" and "warm, few".
  std::uint64_t few = 0;
  /// The first element of the first tensor: for the cell "cold, first".
  std::uint64_t first = 0;
};

struct Workload {
  std::filesystem::path path;
  std::uint64_t file_bytes = 0;
  /// The tensors are contiguous from here to the end of the file.
  std::uint64_t data_begin = 0;
  std::uint64_t data_bytes = 0;
  std::vector<TensorRange> tensors{};
  /// In the cells "cold, few" and "warm, few", contenders read the first element of each of these tensors.
  /// `few_glob` matches exactly these tensors.
  std::vector<std::size_t> few{};
  std::string few_glob{};
  std::vector<Sample> samples{};
  Answers answers{};
};

/// Runs `htensor synth PATH OPTIONS…` and fsyncs the file.
void synthesize(const std::filesystem::path& path, const std::vector<std::string>& options);

/// Reads the file with plain reads and computes the expected answers.
[[nodiscard]] Workload read_workload(const std::filesystem::path& path);
/// Calls `synthesize`, then `read_workload`.
[[nodiscard]] Workload make_workload(const std::filesystem::path& path, std::uint64_t bytes);

/// A hash of the first elements of the tensors in `Workload::few`, in order. `first_bytes` returns at least
/// two bytes.
[[nodiscard]] std::uint64_t few_answer(const Workload& workload,
                                       const std::function<Bytes(const TensorRange&)>& first_bytes);
/// A hash of all samples. `bytes_of` returns the bytes of a tensor.
[[nodiscard]] std::uint64_t sample_answer(const Workload& workload,
                                          const std::function<Bytes(const TensorRange&)>& bytes_of);
/// Calls the other overload for a file that is contiguous in memory.
[[nodiscard]] std::uint64_t sample_answer(const Workload& workload, const std::byte* file);

/// Memory that contenders copy to. Byte n of the file goes to `data() + n`, so addresses have the alignment
/// that direct reads need. All pages are resident before timing starts.
class Destination {
 public:
  explicit Destination(const Workload& workload);

  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  /// Overwrites all samples, so that data of the previous contender is not accepted as an answer.
  void overwrite_samples(const Workload& workload) const;

 private:
  Mapping memory_;
};

}  // namespace ht::bench
