// What other parts of the library need of a model beyond its public face.
#pragma once

#include <functional>
#include <htensor/model/model.hpp>
#include <vector>

namespace ht::inline v1 {

struct ModelAccess {
  /// All files, mapped. `bad_state` where it was opened for its catalog alone, `missing_shard`.
  [[nodiscard]] static Result<std::vector<const io::Mapped*>> files(const Model& model) {
    return model.all_files();
  }
  [[nodiscard]] static io::Port& port(const Model& model) noexcept;

  /// The digest of a part of one of the model's files, from who has seen its bytes.
  using Seen = std::function<Result<Digest>(const std::filesystem::path& file, std::uint64_t offset,
                                            std::uint64_t bytes)>;
  /// `Model::seal` without reading anything.
  [[nodiscard]] static Result<SealedModel> seal(const Model& model, const SealOptions& options,
                                                const Seen& seen);
};

}  // namespace ht::inline v1
