// What `synth` is going to make: tensors, each with a type of its own, and what a file says besides them.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/visit.hpp>
#include <htensor/format/metadata.hpp>
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

/// The bytes of all tensors, which may be more than can be counted.
[[nodiscard]] double about_bytes(const std::vector<PlannedTensor>& tensors);

/// The size times the scale, rounded to a multiple of the granule, and at least one granule.
[[nodiscard]] std::int64_t scaled_size(std::int64_t size, double scale, std::int64_t granule);

/// The largest scale that fits, or a tiny one if no scale fits. Found by search, as sizes are rounded.
[[nodiscard]] double largest_scale(const std::function<bool(double)>& fits);

/// `size_overflow` for a model of so many bytes.
[[nodiscard]] tl::unexpected<Error> too_large(std::uint64_t bytes);

}  // namespace ht::cli
