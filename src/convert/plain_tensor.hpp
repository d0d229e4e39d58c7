// A tensor as if it lay in its file dense, row-major and in this machine's byte order.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/model/model.hpp>
#include <stop_token>
#include <vector>

#include "convert/turning.hpp"
#include "model/stored_tensor.hpp"

namespace ht::inline v1 {

/// Nothing of it is in memory but the run of elements that was read last, and that only where it has to be
/// rearranged. Blocks, and bytes of which no dtype is known, count as elements of 8 bits. The model has to
/// outlive it.
class PlainTensor {
 public:
  /// Runs begin at a multiple of this: at a whole byte, whatever the dtype, where the pattern of a splat
  /// begins anew.
  static constexpr std::uint64_t run_step = 128;

  enum class Order : std::uint8_t {
    usual,   ///< row-major and little-endian
    stored,  ///< whatever the file has
  };

  /// The nth of the catalog. Errors are those of `Model::raw`, but for splats, and of `turning_of`.
  [[nodiscard]] static Result<PlainTensor> of(const Model& model, std::size_t index,
                                              Order order = Order::usual);

  [[nodiscard]] const Entry& entry() const noexcept { return entry_; }
  [[nodiscard]] int bits() const noexcept { return bits_; }
  [[nodiscard]] std::uint64_t elements() const noexcept { return elements_; }
  /// What `read` touches, for who guards it; none of a splat.
  [[nodiscard]] const StoredTensor& stored() const noexcept { return stored_; }

  /// Brings the pages of a run in.
  [[nodiscard]] Result<void> fetch(std::uint64_t first, std::uint64_t count) const;
  /// The elements of a run, in place or in the buffer. May touch mapped bytes. `cancelled` soon after a stop
  /// is requested.
  [[nodiscard]] Result<Bytes> read(std::uint64_t first, std::uint64_t count, std::vector<std::byte>& buffer,
                                   const std::stop_token& stop = {}) const;

 private:
  PlainTensor(const Entry& entry, int bits, std::uint64_t elements) noexcept
      : entry_(entry), bits_(bits), elements_(elements) {}

  Entry entry_;
  StoredTensor stored_{};
  /// Null where it lies as it is wanted.
  std::shared_ptr<const Turning> turning_{};
  int bits_;
  std::uint64_t elements_;
};

}  // namespace ht::inline v1
