// Tensors from wherever they are into a file of any format.
//
// Memory, ranges of files and patterns are not copied to the heap first, except a packed tensor whose last
// byte is shared with other elements. Mapped bytes of a file that still has its name are copied from the file
// like `convert` copies them (reflink, direct I/O). The target appears whole and on the disk, or not at all.
// An existing target is `already_exists` unless IfExists::replace is set.
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

/// So many bytes of a pattern of 1, 2, 4, 8 or 16.
struct Splat {
  RepeatedBytes pattern;
  std::uint64_t bytes = 0;
};

struct TensorToSave {
  std::string name;
  DTypeTag dtype = DTypeTag::invalid;
  EncodingTag encoding = EncodingTag::dense;
  std::vector<std::int64_t> dims{};
  /// A Storage is row-major and little endian. `Storage::in_file` needs no mapping; one without bytes is not
  /// even opened.
  std::variant<Storage, Splat> data{};
  /// Tensors of one scope stand together, in the order in which scopes, and tensors of each, come first.
  std::string scope{};
};

/// A tensor of the host, whose bytes are kept as long as this is; `bad_state` for one that is strided, which
/// has to be copied first.
template <class D, class S>
[[nodiscard]] Result<TensorToSave> to_save(std::string_view name, const Tensor<D, S>& tensor) {
  return without_bad_alloc([&]() -> Result<TensorToSave> {
    using Plain = std::remove_const_t<D>;
    const auto kept = std::make_shared<const Tensor<const Plain, S>>(tensor);
    const auto bytes = HT_TRY(kept->bytes());
    const auto extents = tensor.shape().extents();
    TensorToSave saved{.name = std::string(name), .dtype = Plain::tag};
    saved.dims.assign(extents.begin(), extents.end());
    // The bits after the last element are zero in a file; in a view they are its neighbours'.
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
  /// Users' own dtypes among the tensors.
  std::vector<DTypeInfo> dtypes{};
  /// The system, unless a test puts another in its place.
  io::Port* port = nullptr;
};

/// The Errors of `apply`; `duplicate_tensor` where two have one name, `size_mismatch` where one has not the
/// bytes of its shape, `device_unavailable` for what is on a device, `truncated` where a file ends before a
/// range does. The caller must not modify the memory during the call: only changes of files are detected.
[[nodiscard]] Result<Converted> save(const std::filesystem::path& target,
                                     std::span<const TensorToSave> tensors, const SaveOptions& options = {});

}  // namespace ht::inline v1
