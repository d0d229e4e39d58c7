// Synthetic models: tensors with the names, shapes and types of real models, their metadata, and
// approximately normal data that is the same on every machine.
#pragma once

#include <cstdint>
#include <htensor/htensor.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/print/progress.hpp"

namespace ht::cli {

/// The storage type of elements. Groups are whole bytes: one block, or eight elements of a dtype.
struct StorageType {
  std::string_view name;
  DTypeTag dtype = DTypeTag::invalid;
  EncodingTag encoding = EncodingTag::dense;
  std::uint64_t group_elements = 1;
  std::uint64_t group_bytes = 0;

  /// Bytes of that many elements, rounded up. Elements of a block encoding must be whole blocks. The result
  /// fits in 63 bits.
  [[nodiscard]] std::uint64_t bytes_for(std::uint64_t elements) const noexcept {
    const std::uint64_t rest = elements % group_elements * group_bytes;
    return elements / group_elements * group_bytes + (rest + group_elements - 1) / group_elements;
  }
};

/// The values of a tensor's elements. Complex dtypes, integers, booleans and F8_E8M0 ignore `scale` and
/// `has_mean_one`.
struct Values {
  /// The standard deviation of weights is 0.02 * scale, but 1 in floats of at most 8 bits, which ignore the
  /// scale. A scale is a power of two, so that products are exact.
  float scale = 1;
  /// Values are around 1, as in norms.
  bool has_mean_one = false;
  /// All values, in F32, instead of random ones.
  std::vector<float> exact = {};
};

struct PlannedTensor {
  std::string name;
  std::vector<std::int64_t> dims;
  StorageType type;
  Values values = {};

  [[nodiscard]] std::uint64_t elements() const noexcept {
    // Cannot overflow: the plan was checked.
    return static_cast<std::uint64_t>(element_count(dims).value_or(0));
  }
};

struct Plan {
  std::vector<PlannedTensor> tensors;
  Metadata metadata = {};
  /// The text of Transformers' config.json; empty if the model has none.
  std::string config = {};
};

/// The names that `plan_of` accepts.
[[nodiscard]] std::vector<std::string> preset_names();

/// Whether the preset fixes the type of each tensor, so that no dtype can be chosen.
[[nodiscard]] bool has_fixed_types(std::string_view preset);

/// Whether the preset cannot be scaled.
[[nodiscard]] bool has_fixed_size(std::string_view preset);

/// Whether the preset has a config.json in its real size.
[[nodiscard]] bool has_config(std::string_view preset);

/// The tensors of a preset. `dtype` is spelled as in safetensors; empty for the preset's default or fixed
/// types. `has_metadata` is whether the target format stores typed metadata: llama-tiny then has llama.cpp's
/// names and metadata, and also takes Q8_0 and Q4_K_M. `bytes` is the approximate size; nullopt for the size
/// of the real model. `stem` is the name of the only tensor of the preset "matrix". `bad_dtype` for an
/// unknown dtype, `size_overflow` for a size near or above 2^63 bytes or elements.
[[nodiscard]] Result<Plan> plan_of(std::string_view preset, std::string_view dtype,
                                   std::optional<std::uint64_t> bytes, const std::string& stem,
                                   bool has_metadata);

/// The elements of one tensor and their position in the file.
struct TensorPlace {
  std::uint64_t offset = 0;
  std::uint64_t elements = 0;
  StorageType type;
  Values values = {};
};

/// Generates the data of tensors piece by piece. `places` must be sorted by offset. Sparse data has values in
/// the first 1024 and the last 1024 elements of all tensors together, rounded to whole blocks and bytes, and
/// a hole between them.
[[nodiscard]] DataSource synth_data(const std::vector<TensorPlace>& places, std::uint64_t seed, bool sparse,
                                    WorkWithBar& work);

/// Fills whole blocks of a ggml encoding with pseudorandom values. `seed` determines a sequence of values,
/// and the first element gets the value at `position`. Blocks decode to weights of a realistic distribution,
/// times `scale`. `unsupported_encoding` for all but Q8_0, Q4_K and Q6_K.
[[nodiscard]] Result<void> fill_blocks(EncodingTag encoding, std::uint64_t seed, std::uint64_t position,
                                       MutableBytes blocks, float scale = 1);

}  // namespace ht::cli
