#include <htensor/model/model.hpp>

#include <algorithm>
#include <htensor/base/fault.hpp>
#include <htensor/base/nearest.hpp>
#include <htensor/base/utf8.hpp>
#include <htensor/io/mapped.hpp>

#include "base/format_text.hpp"
#include "model/model_access.hpp"
#include "model/model_files.hpp"
#include "model/model_state.hpp"
#include "model/plain_copy.hpp"
#include "model/ranges.hpp"
#include "model/shard_set.hpp"

namespace ht::inline v1 {

Model::Model(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

Result<Model> Model::open(const std::filesystem::path& path, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<Model> {
    return map_files(HT_TRY(open_model_files(path, options)), std::span(&path, 1), options);
  });
}

Result<Model> Model::open_merged(std::span<const std::filesystem::path> paths, const OpenOptions& options) {
  return without_bad_alloc([&]() -> Result<Model> {
    return map_files(HT_TRY(open_merged_files(paths, options)), paths, options);
  });
}

Result<Model> Model::map_files(ModelFiles files, std::span<const std::filesystem::path> opened,
                               const OpenOptions& options) {
  auto state = std::make_shared<State>(State{.catalog = std::make_shared<Catalog>(std::move(files.catalog)),
                                             .opened = opened.front(),
                                             .paths = {},
                                             .index = std::move(files.index),
                                             .is_merged = opened.size() > 1,
                                             .dtypes = options.dtypes,
                                             .port = &port_of(options),
                                             .residency = nullptr});
  state->residency = std::make_unique<ResidencyShell>(*state->catalog);
  for (auto& file : files.files) {
    state->paths.push_back(std::move(file.path));
    if (options.catalog_only) continue;
    auto name = [catalog = state->catalog, number = state->residency->file_count()](std::uint64_t offset) {
      return name_at(*catalog, number, offset);
    };
    std::optional<io::Mapped> mapped;
    if (file.opened) {
      mapped =
          HT_TRY(std::move(*file.opened).map({.guard = options.fault_guard, .tensor_at = std::move(name)}));
    }
    HT_TRY(state->residency->add_file(std::move(mapped)));
  }
  return Model(std::move(state));
}

const Catalog& Model::catalog() const& noexcept { return *state_->catalog; }

const std::vector<std::filesystem::path>& Model::files() const& noexcept { return state_->paths; }

Result<DTypeInfo> Model::dtype(DTypeTag tag) const {
  const auto found = find_dtype(tag, state_->dtypes);
  if (!found) return fail(unknown_dtype(tag));
  return *found;
}

Error Model::located(Error error, std::string_view name) const {
  const auto& catalog = *state_->catalog;
  const auto index = catalog.find(name);
  const auto& path = index ? state_->paths[catalog[*index].file] : state_->opened;
  auto placed = std::move(error).at_path(path.native()).at_tensor(name);
  if (placed.code() != ErrorCode::misaligned) return placed;
  return std::move(placed).with_hint("use Model::copy for an aligned copy");
}

Result<std::size_t> Model::index_of(std::string_view name) const {
  const auto& catalog = *state_->catalog;
  if (const auto index = catalog.find(name)) return *index;
  Error error(ErrorCode::not_found, "tensor_is_there", format_text("tensor '{}' does not exist", name));
  NearestName nearest(name);
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    if (!nearest.consider(catalog[i].name)) break;
  }
  const std::string hint = nearest.found() ? format_text("did you mean '{}'?", *nearest.found())
                           : catalog.size() == 1
                               ? format_text("the only tensor is '{}'", catalog[0].name)
                               : format_text("list the {} tensors with `htensor ls`", catalog.size());
  return fail(located(std::move(error).with_hint(hint), name));
}

Result<Bytes> Model::mapped_bytes(const Entry& entry) const {
  if (state_->residency->file_count() == 0) {
    return fail(located(
        Error(ErrorCode::bad_state, "model_is_mapped", "model was opened without its data (catalog_only)")
            .with_hint("open the model without catalog_only"),
        entry.name));
  }
  const auto& file = state_->residency->file(entry.file);
  if (!file) {
    return fail(located(Error(ErrorCode::missing_shard, "external_files_are_there",
                              format_text("file is missing but holds tensor '{}'", entry.name))
                            .because(std::make_error_code(std::errc::no_such_file_or_directory))
                            .with_hint("put the file next to the archive that names it"),
                        entry.name));
  }
  auto bytes = file->range(entry.offset, entry.bytes);
  if (!bytes) {
    return fail(located(Error(ErrorCode::truncated, "tensor_is_all_there",
                              format_text("tensor '{}' ends at byte {} but the file has {} bytes", entry.name,
                                          entry.offset + entry.bytes, file->stat().bytes))
                            .at_offset(entry.offset)
                            .with_hint("download the file again"),
                        entry.name));
  }
  return bytes;
}

Result<Storage> Model::storage_of(std::size_t index) const {
  const Entry entry = (*state_->catalog)[index];
  const Bytes bytes = HT_TRY(mapped_bytes(entry));
  if (auto block = state_->residency->resident(index)) {
    const Bytes own = block->bytes();
    return Storage::kept_read_only(std::move(block), own);
  }
  return Storage::file_backed(
      state_->residency->file(entry.file)->owner(), bytes,
      {.locator = state_->paths[entry.file], .offset = entry.offset, .bytes = entry.bytes});
}

Result<void> Model::check_has_bytes(const Entry& entry) const {
  if (!entry.is_splat()) return {};
  return fail(located(Error(ErrorCode::unsupported_encoding, "splat_has_no_bytes_of_its_own",
                            format_text("tensor '{}' is a splat and has no bytes in the file", entry.name))
                          .with_hint("use Model::copy to materialize it, or Catalog for its pattern"),
                      entry.name));
}

Result<Storage> Model::raw(std::string_view name) const {
  return without_bad_alloc([&]() -> Result<Storage> {
    const std::size_t index = HT_TRY(index_of(name));
    HT_TRY(check_has_bytes((*state_->catalog)[index]));
    return storage_of(index);
  });
}

Result<Model::Found> Model::find(std::string_view name, const DTypeInfo& wanted, Use use) const {
  return without_bad_alloc([&]() -> Result<Found> {
    const std::size_t index = HT_TRY(index_of(name));
    const Entry entry = (*state_->catalog)[index];
    if (entry.dtype != wanted.tag) return fail(located(wrong_dtype(entry, wanted, state_->dtypes), name));
    Found found{.dims = entry.dims,
                .storage = {},
                .order = entry.order,
                .byte_order = entry.byte_order,
                .splat = entry.is_splat(),
                .bits = wanted.bits,
                .number_bytes = static_cast<std::size_t>(wanted.bits) / (wanted.tag == C64::tag ? 16 : 8),
                .bytes = entry.bytes,
                .file = entry.file};
    if (use == Use::in_place && !is_in_machine_order(entry, wanted.bits)) {
      return fail(located(Error(ErrorCode::unsupported_encoding, "bytes_are_in_this_machines_order",
                                format_text("tensor '{}' is big-endian and cannot be used in place", name))
                              .with_hint("use Model::copy, which byte-swaps it"),
                          name));
    }
    if (!found.splat) {
      found.storage = HT_TRY(storage_of(index));
      found.resident = found.storage.bytes().data() != HT_TRY(mapped_bytes(entry)).data();
      return found;
    }
    auto pattern = use == Use::in_place ? splat_element(entry.splat, wanted.bits)
                                        : std::vector<std::byte>(entry.splat.begin(), entry.splat.end());
    if (pattern.empty()) {
      return fail(located(Error(ErrorCode::unsupported_encoding, "splat_repeats_one_element",
                                format_text("tensor '{}': splat pattern of {} bytes is not one {} repeated",
                                            name, entry.splat.size(), wanted.name))
                              .with_hint("use Model::copy to materialize it"),
                          name));
    }
    found.storage = HT_TRY(Storage::owned(pattern.size()));
    std::ranges::copy(pattern, HT_TRY(found.storage.writable_bytes()).begin());
    return found;
  });
}

Result<Storage> Model::copied(const Found& found, std::string_view name) const {
  const auto copy = [&]() -> Result<Storage> {
    auto storage = HT_TRY(Storage::owned(found.bytes));
    const MutableBytes to = HT_TRY(storage.writable_bytes());
    const Bytes from = found.storage.bytes();
    if (found.splat) {
      fill_with(to, from);
    } else if (found.order == ElementOrder::column_major) {
      copy_to_row_major(to, from, found.dims, static_cast<std::size_t>(found.bits) / 8);
    } else {
      std::ranges::copy(from, to.begin());
    }
    if (found.byte_order == ByteOrder::big && !found.splat) reverse_bytes(to, found.number_bytes);
    return storage;
  };
  return named(name, without_bad_alloc([&]() -> Result<Storage> {
                 if (found.splat || found.resident) return copy();
                 const auto& file = state_->residency->file(found.file);
                 HT_TRY(file->check_unchanged());
                 auto storage = HT_TRY(guarded(found.storage.bytes(), copy));
                 HT_TRY(file->check_unchanged());
                 return storage;
               }));
}

void Model::fill_strides(const Found& found, std::span<std::int64_t> strides) noexcept {
  if (found.splat) {
    std::ranges::fill(strides, 0);
  } else if (found.order == ElementOrder::column_major) {
    std::int64_t step = 1;
    for (std::size_t i = 0; i < strides.size(); ++i) {
      strides[i] = step;
      step *= std::max<std::int64_t>(found.dims[i], 1);
    }
  } else {
    layout::fill_row_major_strides(found.dims, strides);
  }
}

bool Model::is_plain(const Found& found, std::uint64_t alignment) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(found.storage.bytes().data());
  return !found.splat && (found.order == ElementOrder::row_major || found.dims.size() < 2) &&
         (found.byte_order == ByteOrder::little || found.bits <= 8) && address % alignment == 0;
}

OpenOptions ModelAccess::open_options(const Model& model) {
  return {.dtypes = model.state_->dtypes, .port = model.state_->port};
}

}  // namespace ht::inline v1
