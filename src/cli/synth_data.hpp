// The data that `synth` makes up: about normal, as weights are, and the same on every machine.
#pragma once

#include <cstdint>
#include <htensor/htensor.hpp>
#include <optional>
#include <vector>

#include "cli/progress.hpp"
#include "cli/synth_presets.hpp"

namespace ht::cli {

/// Where the elements of one tensor go, in the file or in its data.
struct TensorPlace {
  std::uint64_t offset = 0;
  std::uint64_t elements = 0;
  StoredAs type;
};

/// Makes the data piece by piece. A sparse one has values in its first and last 1024 elements, and a hole
/// between them.
class SynthData {
 public:
  struct Options {
    std::uint64_t seed = 0;
    bool sparse = false;
  };
  /// The places are in the order of their offsets.
  SynthData(std::vector<TensorPlace> places, const Options& options, const Common& common);

  /// The next piece, as a DataSource returns it.
  Result<std::optional<DataPiece>> next();

 private:
  /// Moves to the next elements to generate, past the ends of tensors and the hole.
  void advance();

  std::vector<TensorPlace> places_;
  Options options_;
  std::uint64_t elements_ = 0;  // of all tensors
  std::size_t tensor_ = 0;
  std::uint64_t before_ = 0;        // elements of the tensors before this one
  std::uint64_t bytes_before_ = 0;  // and their bytes
  std::uint64_t at_ = 0;            // in this one; where a group begins, and so a byte
  std::vector<std::byte> buffer_;
  Progress progress_;
};

/// Fills whole blocks of a ggml encoding, the first of which begins with the nth element of a seed's. They
/// decode to weights of a realistic distribution. `unsupported_encoding` for all but Q4_K and Q6_K.
[[nodiscard]] Result<void> fill_blocks(EncodingTag encoding, std::uint64_t seed, std::uint64_t first,
                                       MutableBytes blocks);

}  // namespace ht::cli
