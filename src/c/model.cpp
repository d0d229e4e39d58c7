#include <htensor/base/fault.hpp>
#include <utility>

#include "c/boundary/boundary.hpp"
#include "c/boundary/handles.hpp"
#include "c/boundary/options.hpp"

using ht::fail;
using ht::Model;
using ht::Result;
using ht::c::call;
using ht::c::require;

namespace ht::c {
namespace {

Result<void> set_model(const Result<Model>& opened, ht_model** model) {
  if (!opened) return fail(opened.error());
  *model = new ht_model(*opened);
  return {};
}

ht_string view(std::string_view text) noexcept { return {text.empty() ? "" : text.data(), text.size()}; }

}  // namespace

ht_tensor_info describe_entry(const Model& model, std::size_t index) noexcept {
  const Entry entry = model.catalog()[index];
  const ElementType type = element_type(entry.dtype, entry.encoding);
  ht_tensor_info info{};
  info.size = sizeof info;
  info.name = view(entry.name);
  info.index = index;
  info.type = c_type(entry.dtype, entry.encoding);
  info.type_name = type.is_known() ? type.name.data() : "";
  info.bits = static_cast<std::uint32_t>(type.bits);
  info.block_elements = type.block_elements;
  info.block_bytes = type.block_bytes;
  info.rank = static_cast<std::uint32_t>(entry.dims.size());
  info.dims = entry.dims.data();
  info.is_column_major = entry.order == ElementOrder::column_major ? 1 : 0;
  info.is_big_endian = entry.byte_order == ByteOrder::big ? 1 : 0;
  info.is_plain = entry.is_plain(type.bits) ? 1 : 0;
  info.byte_size = entry.bytes;
  if (entry.is_splat()) {
    info.is_splat = 1;
    info.splat = entry.splat.data();
    info.splat_bytes = entry.splat.size();
  } else {
    info.file_index = entry.file;
    info.file = model.files()[entry.file].c_str();
    info.offset = entry.offset;
  }
  info.note = view(entry.note);
  return info;
}

}  // namespace ht::c

ht_status ht_model_open(const char* path, const ht_open_options* options, ht_model** model,
                        ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(path != nullptr, "path"));
    HT_TRY(require(model != nullptr, "model"));
    const auto open_options = HT_TRY(ht::c::open_options(options));
    return ht::c::set_model(Model::open(path, open_options), model);
  });
}

ht_status ht_model_open_merged(const char* const* paths, size_t path_count, const ht_open_options* options,
                               ht_model** model, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(paths != nullptr || path_count == 0, "paths"));
    HT_TRY(require(model != nullptr, "model"));
    const auto open_options = HT_TRY(ht::c::open_options(options));
    std::vector<std::filesystem::path> all;
    all.reserve(path_count);
    for (std::size_t i = 0; i < path_count; ++i) {
      HT_TRY(require(paths[i] != nullptr, "paths"));
      all.emplace_back(paths[i]);
    }
    return ht::c::set_model(Model::open_merged(all, open_options), model);
  });
}

ht_status ht_model_open_bytes(const void* data, size_t bytes, void (*release)(void* context), void* context,
                              const ht_open_options* options, ht_model** model, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    // Created first, so that every failure below releases the bytes. If the shared_ptr cannot allocate, its
    // constructor calls the deleter.
    std::shared_ptr<const void> owner;
    if (release != nullptr)
      owner = std::shared_ptr<const void>(data, [release, context](const void*) { release(context); });
    HT_TRY(require(data != nullptr || bytes == 0, "data"));
    HT_TRY(require(model != nullptr, "model"));
    const auto open_options = HT_TRY(ht::c::open_options(options));
    const ht::Bytes file(static_cast<const std::byte*>(data), bytes);
    return ht::c::set_model(Model::from_bytes(file, std::move(owner), open_options), model);
  });
}

ht_status ht_model_open_fd(int fd, const ht_open_options* options, ht_model** model, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    const auto open_options = HT_TRY(ht::c::open_options(options));
    return ht::c::set_model(Model::from_fd(fd, open_options), model);
  });
}

void ht_model_free(ht_model* model) { delete model; }

// The format's name and the paths are std::string, so they end with NUL.

const char* ht_model_format(const ht_model* model) {
  return model == nullptr ? "" : model->model.catalog().format().data();
}

size_t ht_model_file_count(const ht_model* model) {
  return model == nullptr ? 0 : model->model.files().size();
}

const char* ht_model_file(const ht_model* model, size_t index) {
  if (index >= ht_model_file_count(model)) return nullptr;
  return model->model.files()[index].c_str();
}

ht_status ht_model_fault(const ht_model* model, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    auto fault = model->model.fault();
    if (fault) return fail(*std::move(fault));
    return {};
  });
}

ht_status ht_guard(const void* data, size_t bytes, void (*body)(void* context), void* context,
                   ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(data != nullptr || bytes == 0, "data"));
    HT_TRY(require(body != nullptr, "body"));
    return ht::guarded(ht::Bytes(static_cast<const std::byte*>(data), bytes), [&] { body(context); });
  });
}

size_t ht_model_count(const ht_model* model) { return model == nullptr ? 0 : model->model.size(); }

ht_status ht_model_describe(const ht_model* model, size_t index, ht_tensor_info* info, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    HT_TRY(ht::c::check_output(info, "info"));
    HT_TRY(ht::c::check_position(index, model->model.size(), "tensors"));
    ht::c::write_struct(info, ht::c::describe_entry(model->model, index));
    return {};
  });
}

int ht_model_find(const ht_model* model, const char* name, size_t name_size, size_t* index) {
  if (model == nullptr || name == nullptr) return 0;
  const auto found = model->model.find(ht::c::text_of({name, name_size}));
  if (!found) return 0;
  if (index != nullptr) *index = *found;
  return 1;
}

ht_status ht_model_get(const ht_model* model, const char* name, size_t name_size, ht_tensor** tensor,
                       ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    HT_TRY(require(tensor != nullptr, "tensor"));
    const auto text = HT_TRY(ht::c::text_of(name, name_size, "name"));
    auto found = HT_TRY(model->model[text]);
    const std::size_t index = model->model.find(text).value_or(0);
    *tensor = new ht_tensor{model->model, std::move(found), index};
    return {};
  });
}

ht_status ht_model_at(const ht_model* model, size_t index, ht_tensor** tensor, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    HT_TRY(require(tensor != nullptr, "tensor"));
    auto found = HT_TRY(model->model.at(index));
    *tensor = new ht_tensor{model->model, std::move(found), index};
    return {};
  });
}
