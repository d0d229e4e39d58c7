// The bytes of a tensor as they are stored, for those in the library who walk through them in parts.
#pragma once

#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/mapped.hpp>
#include <htensor/model/model.hpp>
#include <memory>

namespace ht::inline v1 {

/// Takes no memory of its own, however many of them there are. The model has to outlive it.
struct StoredTensor {
  Bytes bytes{};
  /// Where they lie; null where they were loaded into memory of the model's own, whatever becomes of the
  /// file.
  const io::Mapped* file = nullptr;
  std::uint64_t offset = 0;
  /// Keeps what was loaded from being let go.
  std::shared_ptr<const void> owner{};

  /// Brings the pages of a part in, all at once and not one by one as they are touched.
  [[nodiscard]] Result<void> fetch(std::uint64_t begin, std::uint64_t count) const;
};

/// The nth of the catalog. Errors are those of `Model::raw`.
[[nodiscard]] Result<StoredTensor> stored_tensor(const Model& model, std::size_t index);

}  // namespace ht::inline v1
