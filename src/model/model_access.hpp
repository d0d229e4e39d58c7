// Access to a model's state for other folders of the library.
#pragma once

#include <htensor/base/glob.hpp>
#include <htensor/model/model.hpp>
#include <vector>

#include "model/model_state.hpp"

namespace ht::inline v1 {

struct ModelAccess {
  [[nodiscard]] static const ModelState& state(const Model& model) noexcept { return *model.state_; }
  [[nodiscard]] static const ModelState& state(const AnyTensor& tensor) noexcept { return *tensor.state_; }
  /// Stored bytes of a tensor that is not a splat, for reading under `guarded`: in place, or read into
  /// `buffer` where pages must not be touched.
  [[nodiscard]] static Result<Bytes> stored(const AnyTensor& tensor, std::uint64_t begin, std::uint64_t count,
                                            std::vector<std::byte>& buffer);
  /// With which another file of the same kind can be opened.
  [[nodiscard]] static OpenOptions open_options(const Model& model);

  /// Whether the tensor's bytes are in memory of the model's own.
  [[nodiscard]] static bool is_resident(const AnyTensor& tensor) noexcept { return tensor.is_resident(); }
  /// The source of a tensor that is there.
  [[nodiscard]] static const io::Source& source_of(const AnyTensor& tensor) {
    return state(tensor).mapped->file(tensor.entry().file).source();
  }
  /// Whether the bytes of an entry that is not a splat can be used; maps nothing.
  [[nodiscard]] static Result<void> check_is_there(const ModelState& state, const Entry& entry);
  /// `bad_state` where the model was opened for its catalog alone, `missing_shard` where a file is missing.
  [[nodiscard]] static Result<void> check_all_there(const Model& model);
  /// The tensors whose names match and that have bytes in files; fails where one of their files is missing.
  /// `not_found` where no name matches, unless the filter takes every name.
  [[nodiscard]] static Result<std::vector<std::size_t>> tensors_matching(const Model& model,
                                                                         const NameFilter& glob);
  /// Adds the file and the tensor to an error.
  [[nodiscard]] static Error located(const Model& model, Error error);
  /// Brings pages of a part of the stored bytes into memory, all at once and not one by one as they are
  /// touched.
  [[nodiscard]] static Result<void> fetch(const AnyTensor& tensor, std::uint64_t begin, std::uint64_t count);
};

}  // namespace ht::inline v1
