#include <htensor/convert/save.hpp>

#include <htensor/dtype/packed.hpp>
#include <htensor/tensor/shape.hpp>
#include <string>
#include <utility>

#include "c/boundary/boundary.hpp"
#include "c/boundary/handles.hpp"
#include "c/convert.hpp"
#include "c/metadata.hpp"

namespace ht::c {
namespace {

// Copies strided elements to new memory in row-major order. The element width must be a whole number of
// bytes.
Result<Storage> gather(const ht_tensor_to_save& tensor, const ElementType& type) {
  const layout::Extents dims(tensor.dims, tensor.rank);
  if (!type.is_dense() || type.bits % 8 != 0) {
    return fail(Error(ErrorCode::unsupported_encoding, "strided_elements_are_whole_bytes",
                      "elements of " + std::string(type.name) + " cannot have strides")
                    .with_hint("pass row-major elements, and NULL for the strides"));
  }
  const auto width = static_cast<std::size_t>(type.bits / 8);
  const auto count = static_cast<std::size_t>(HT_TRY(layout::count_elements(dims)));
  if (dense_bytes(dims, type.bits) != tensor.bytes) {
    return fail(Error(ErrorCode::size_mismatch, "strided_size_matches_the_shape",
                      "strided tensor of shape " + layout::to_text(dims) + " has " + std::to_string(count) +
                          " elements of " + std::to_string(width) + " bytes but states " +
                          std::to_string(tensor.bytes) + " bytes")
                    .with_hint("pass the size of all elements"));
  }
  auto storage = HT_TRY(Storage::owned(std::uint64_t{count} * width));
  std::byte* to = HT_TRY(storage.writable_bytes()).data();
  const auto* const from = static_cast<const std::byte*>(tensor.data);
  std::vector<std::int64_t> index(dims.size());
  for (std::size_t i = 0; i < count; ++i, to += width) {
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * tensor.strides[axis];
    std::memcpy(to, from + offset * static_cast<std::int64_t>(width), width);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < dims[axis]) break;
      index[axis] = 0;
    }
  }
  return storage;
}

Result<Storage> storage_of(const ht_tensor_to_save& tensor, const ElementType& type) {
  const layout::Extents dims(tensor.dims, tensor.rank);
  if (tensor.strides != nullptr && !layout::is_row_major(dims, {tensor.strides, tensor.rank}))
    return gather(tensor, type);
  return Storage::borrowed_read_only(Bytes(static_cast<const std::byte*>(tensor.data), tensor.bytes));
}

Result<TensorToSave> to_save(const ht_tensor_to_save& tensor) {
  HT_TRY(require(tensor.name.data != nullptr, "name"));
  if (tensor.tensor != nullptr) {
    auto saved = HT_TRY(ht::to_save(text_of(tensor.name), tensor.tensor->tensor));
    saved.scope = text_or_empty(tensor.scope);
    return saved;
  }
  TensorToSave saved{.name = std::string(text_of(tensor.name)),
                     .scope = std::string(text_or_empty(tensor.scope))};
  HT_TRY(require(tensor.dims != nullptr || tensor.rank == 0, "dims"));
  HT_TRY(require(tensor.data != nullptr || tensor.bytes == 0, "data"));
  const auto type = HT_TRY(known_type(tensor.type, "type"));
  saved.dtype = type.dtype;
  saved.encoding = type.encoding;
  saved.dims.assign(tensor.dims, tensor.dims + tensor.rank);
  saved.data = HT_TRY(storage_of(tensor, type));
  return saved;
}

Result<std::vector<TensorToSave>> to_save(const ht_tensor_to_save* tensors, std::size_t count) {
  HT_TRY(require(tensors != nullptr || count == 0, "tensors"));
  std::vector<TensorToSave> all;
  all.reserve(count);
  const auto* at = reinterpret_cast<const std::byte*>(tensors);
  for (std::size_t i = 0; i < count; ++i, at += tensors->size) {
    const auto read = HT_TRY(read_struct(reinterpret_cast<const ht_tensor_to_save*>(at), "tensors"));
    all.push_back(HT_TRY(to_save(read)));
  }
  return all;
}

Result<Metadata> metadata_to_save(const ht_metadata_item* items, std::size_t count) {
  HT_TRY(require(items != nullptr || count == 0, "metadata"));
  Metadata metadata;
  for (std::size_t i = 0; i < count; ++i) {
    HT_TRY(require(items[i].key.data != nullptr, "key"));
    const auto bytes = HT_TRY(stored_form(items[i].value));
    HT_TRY(metadata.add(text_of(items[i].key), MetaValue(static_cast<MetaType>(items[i].value.type), bytes)));
  }
  return metadata;
}

// The arguments of a save, converted to types of the C++ library.
struct SaveInput {
  Work work;
  std::vector<TensorToSave> tensors;
  SaveOptions options;
  bool dry_run = false;
};

Result<void> read_arguments(const ht_tensor_to_save* tensors, std::size_t count,
                            const ht_save_options* options, SaveInput& into) {
  const auto read = HT_TRY(read_struct(options, "options"));
  auto parsed = HT_TRY(conversion(read.convert, into.work));
  if (!parsed.module.empty()) {
    return fail(
        Error(ErrorCode::bad_state, "mlir_module_needs_a_model", "tensors in memory have no MLIR module")
            .with_hint("save the tensors, then convert the file with emit_mlir"));
  }
  into.dry_run = parsed.dry_run;
  into.tensors = HT_TRY(to_save(tensors, count));
  into.options = {.convert = std::move(parsed.convert), .apply = std::move(parsed.apply)};
  into.options.metadata = HT_TRY(metadata_to_save(read.metadata, read.metadata_count));
  return {};
}

}  // namespace
}  // namespace ht::c

using ht::Result;
using ht::c::call;
using ht::c::require;

ht_status ht_save(const char* target, const ht_tensor_to_save* tensors, size_t tensor_count,
                  const ht_save_options* options, const ht_conversion_report** converted, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(target != nullptr, "target"));
    ht::c::SaveInput saving;
    HT_TRY(ht::c::read_arguments(tensors, tensor_count, options, saving));
    ht::detail::Saved saved;
    if (saving.dry_run) {
      saved.plan = HT_TRY(ht::plan_save(target, saving.tensors, saving.options));
      // Losses that are not allowed are listed, and are not an error.
      auto checked = saving.options;
      checked.apply.lossy = true;
      saved.report.removed = HT_TRY(ht::check_save(saved.plan, checked));
    } else {
      saved = HT_TRY(ht::detail::save_with_plan(target, saving.tensors, saving.options));
    }
    ht::c::set_converted(saved.plan, saving.options.apply, saved.report, converted);
    return {};
  });
}

ht_status ht_save_to_memory(const ht_tensor_to_save* tensors, size_t tensor_count,
                            const ht_save_options* options, void* (*allocate)(void* context, size_t bytes),
                            void* context, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(allocate != nullptr, "allocate"));
    ht::c::SaveInput saving;
    HT_TRY(ht::c::read_arguments(tensors, tensor_count, options, saving));
    if (saving.dry_run) {
      return fail(ht::Error(ht::ErrorCode::bad_state, "dry_run_needs_a_target",
                            "a save to memory cannot be a dry run, because it has no target")
                      .with_hint("name a target, or set dry_run to 0"));
    }
    const auto allocate_file = [&](std::uint64_t bytes) {
      return static_cast<std::byte*>(allocate(context, static_cast<std::size_t>(bytes)));
    };
    return ht::save_to_memory(saving.tensors, allocate_file, saving.options);
  });
}
