// Saves tensors from memory, file ranges and patterns to a file of any format.
//
// Memory, ranges of files and patterns are not copied to the heap first, except a packed tensor whose last
// byte is shared with other elements. Mapped bytes of a file that is still at its path are copied from the
// file as `convert` copies them (reflink, direct I/O). The write is atomic and durable. An existing target is
// `already_exists` unless IfExists::replace is set.
#pragma once

#include <filesystem>
#include <htensor/convert/convert.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/format/metadata.hpp>
#include <htensor/tensor/storage.hpp>
#include <htensor/tensor/tensor.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ht::inline v1 {

/// A pattern of 1, 2, 4, 8 or 16 bytes, repeated to fill `bytes`.
struct Splat {
  RepeatedBytes pattern;
  std::uint64_t bytes = 0;
};

struct TensorToSave {
  std::string name;
  DTypeTag dtype = DTypeTag::invalid;
  EncodingTag encoding = EncodingTag::dense;
  std::vector<std::int64_t> dims{};
  /// A Storage is row-major and little-endian. `Storage::in_file` needs no mapping; a range of 0 bytes is not
  /// opened.
  std::variant<Storage, Splat> data{};
  /// Tensors of one scope are stored together. Scopes are in order of first appearance, and tensors keep
  /// their order within a scope.
  std::string scope{};
};

/// A tensor on the host to save. The result keeps its bytes alive. `bad_state` for a strided tensor: copy it
/// first.
template <class D, class S>
[[nodiscard]] Result<TensorToSave> to_save(std::string_view name, const Tensor<D, S>& tensor) {
  return without_bad_alloc([&]() -> Result<TensorToSave> {
    using Plain = std::remove_const_t<D>;
    const auto kept = std::make_shared<const Tensor<const Plain, S>>(tensor);
    const auto bytes = HT_TRY(kept->bytes());
    const auto extents = tensor.shape().extents();
    TensorToSave saved{.name = std::string(name), .dtype = Plain::tag};
    saved.dims.assign(extents.begin(), extents.end());
    // The bits after the last element are zero in a file; in a view they belong to other elements.
    if (tensor.elements() % 8 * dtype_info<Plain>().bits % 8 != 0) {
      const auto copy = std::make_shared<const Tensor<Plain, S>>(HT_TRY(tensor.copy()));
      saved.data = HT_TRY(Storage::kept_read_only(copy, HT_TRY(copy->bytes())));
    } else if (const auto* const file = std::get_if<Storage::FileBacked>(&tensor.storage().origin());
               file != nullptr && !bytes.empty()) {
      auto range = *file;
      range.offset += static_cast<std::uint64_t>(bytes.data() - tensor.storage().bytes().data());
      range.bytes = bytes.size();
      saved.data = HT_TRY(Storage::file_backed(kept, bytes, std::move(range)));
    } else {
      saved.data = HT_TRY(Storage::kept_read_only(kept, bytes));
    }
    return saved;
  });
}

struct SaveOptions {
  ConvertOptions what{};
  ApplyOptions how{};
  Metadata metadata{};
  /// User-defined dtypes among the tensors.
  std::vector<DTypeInfo> dtypes{};
  /// The operating system if null; tests substitute their own Port.
  io::Port* port = nullptr;
};

/// Writes the tensors to `target`. The caller must not modify the memory during the call: only changes of
/// files are detected. Errors of `apply`; `duplicate_tensor` if two tensors have the same name,
/// `size_mismatch` if the size of the data does not match dtype and shape, `device_unavailable` for data on a
/// device, `truncated` if a file ends within a range.
[[nodiscard]] Result<Converted> save(const std::filesystem::path& target,
                                     std::span<const TensorToSave> tensors, const SaveOptions& options = {});

}  // namespace ht::inline v1
