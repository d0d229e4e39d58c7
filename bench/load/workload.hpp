// The file that is loaded, and what is right to find in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <string>
#include <vector>

#include "bench/load/open_file.hpp"

namespace ht::bench {

/// A tensor of the file.
struct Place {
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// A part of a tensor that is looked at after a load, to see that it is there.
struct Sample {
  std::size_t tensor = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// What each kind of cell has to come to.
struct Answers {
  std::uint64_t sum = 0;
  std::uint64_t samples = 0;
  std::uint64_t few = 0;
  std::uint64_t first = 0;
};

struct Workload {
  std::filesystem::path path;
  std::uint64_t file_bytes = 0;
  /// The tensors lie end to end from here to the end of the file.
  std::uint64_t data_begin = 0;
  std::uint64_t data_bytes = 0;
  std::vector<Place> places{};
  /// Those of which the first element is looked at where few are wanted, and the pattern that matches them.
  std::vector<std::size_t> few{};
  std::string few_glob{};
  std::vector<Sample> samples{};
  Answers answers{};
};

/// Runs `htensor synth PATH OPTIONS…`; the file is on the disk afterwards.
void synthesize(const std::filesystem::path& path, const std::vector<std::string>& options);

/// Looks at the file with nothing but plain reads.
[[nodiscard]] Workload look_at(const std::filesystem::path& path);
/// Both.
[[nodiscard]] Workload make_workload(const std::filesystem::path& path, std::uint64_t bytes);

/// The first element of each of these tensors, in order, in one number. `first_bytes` gives at least two
/// bytes.
[[nodiscard]] std::uint64_t few_answer(const Workload& workload,
                                       const std::function<Bytes(const Place&)>& first_bytes);
/// All samples, from where the bytes of a tensor are.
[[nodiscard]] std::uint64_t sample_answer(const Workload& workload,
                                          const std::function<Bytes(const Place&)>& bytes_of);
/// The same where all of the file is in one piece.
[[nodiscard]] std::uint64_t sample_answer(const Workload& workload, const std::byte* file);

/// Where contenders copy to: the file's byte n goes to `data() + n`, so addresses are as direct reads need
/// them. Every page was written to before anybody's time counts.
class Destination {
 public:
  explicit Destination(const Workload& workload);

  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  /// Makes all samples wrong, so that what the one before has left does not pass for an answer.
  void spoil(const Workload& workload) const;

 private:
  Mapping memory_;
};

}  // namespace ht::bench
