// What `synth` can make: tensors with the names, shapes and types of real models, and their metadata.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/metadata.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ht::cli {

/// How elements are stored. Both kinds come in groups of whole bytes: blocks, and eight elements of a dtype.
struct StoredAs {
  std::string_view name;
  DTypeTag dtype = DTypeTag::invalid;
  EncodingTag encoding = EncodingTag::dense;
  std::uint64_t group_elements = 1;
  std::uint64_t group_bytes = 0;

  /// Bytes of that many elements, which have to be whole blocks. 63 bits can count them.
  [[nodiscard]] std::uint64_t bytes_for(std::uint64_t elements) const noexcept;
  /// The number itself where a group begins with it, else that of the next that one begins with.
  [[nodiscard]] std::uint64_t next_group(std::uint64_t element) const noexcept;
};
[[nodiscard]] StoredAs stored_as(const DTypeInfo& dtype);
[[nodiscard]] StoredAs stored_as(const Encoding& encoding);

struct PlannedTensor {
  std::string name;
  std::vector<std::int64_t> dims;
  StoredAs type;
};

struct Plan {
  std::vector<PlannedTensor> tensors;
  Metadata metadata = {};
};

/// The names that plan_of knows.
[[nodiscard]] std::vector<std::string> preset_names();

/// Whether the preset fixes the type of each tensor, so that no dtype can be chosen.
[[nodiscard]] bool has_own_types(std::string_view preset);

struct Wanted {
  std::string_view preset;
  /// Spelled as in safetensors; empty for the preset's default or fixed types.
  std::string_view dtype = {};
  /// Approximate size; nullopt for the size of the real model.
  std::optional<std::uint64_t> bytes = {};
  /// Names the only tensor of a matrix.
  std::string stem = {};
};

/// The tensors of a preset. `bad_dtype` for an unknown dtype, `size_overflow` if their bytes exceed 63 bits.
[[nodiscard]] Result<Plan> plan_of(const Wanted& wanted);

/// The size times the scale, rounded to a multiple of the granule, and at least one granule.
[[nodiscard]] std::int64_t scaled_size(std::int64_t size, double scale, std::int64_t granule);

/// The largest scale that fits, or a tiny one if no scale fits. Found by search, as sizes are rounded.
[[nodiscard]] double largest_scale(const std::function<bool(double)>& fits);

/// `size_overflow` for a model of so many bytes.
[[nodiscard]] tl::unexpected<Error> too_large(std::uint64_t bytes);

/// Llama-3.2-1B as llama.cpp quantizes it to Q4_K_M, with its tensors under GGUF's names, scaled to about
/// this many bytes if given. `size_overflow` if they exceed 63 bits.
[[nodiscard]] Result<Plan> quantized_llama(std::optional<std::uint64_t> bytes);

}  // namespace ht::cli
