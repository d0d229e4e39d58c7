#include <htensor/model/any_tensor.hpp>

#include <algorithm>
#include <htensor/base/fault.hpp>
#include <htensor/dtype/packed.hpp>

#include "base/format_text.hpp"
#include "model/model_access.hpp"
#include "model/relayout.hpp"

namespace ht::inline v1 {

// The rows of a slice, and their position in the dense form of the whole tensor.
struct AnyTensor::Rows {
  std::vector<std::int64_t> dims;
  std::int64_t first = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

AnyTensor::AnyTensor(std::shared_ptr<const ModelState> state, std::size_t index) noexcept
    : state_(std::move(state)), index_(index), resident_(state_->residency->resident_memory(index)) {}

Entry AnyTensor::entry() const noexcept { return (*state_->catalog)[index_]; }

ElementType AnyTensor::type() const noexcept {
  const Entry entry = this->entry();
  if (const auto encoding = find_encoding(entry.encoding)) return detail::element_type_of(*encoding);
  if (const auto dtype = find_dtype(entry.dtype, state_->dtypes))
    return {.dtype = dtype->tag, .name = dtype->name, .bits = dtype->bits};
  return {};
}

std::span<const std::int64_t> AnyTensor::dims() const noexcept {
  return rows_ ? std::span<const std::int64_t>(rows_->dims) : entry().dims;
}

Result<std::vector<std::int64_t>> AnyTensor::strides() const {
  return without_bad_alloc([&]() -> Result<std::vector<std::int64_t>> {
    std::vector<std::int64_t> strides;
    if (!type().is_dense()) return strides;
    strides.resize(entry().dims.size());
    fill_strides(strides);
    return strides;
  });
}

void AnyTensor::fill_strides(std::span<std::int64_t> strides) const noexcept {
  const Entry entry = this->entry();
  if (entry.is_splat()) {
    std::ranges::fill(strides, 0);
  } else if (entry.order == ElementOrder::column_major) {
    layout::fill_column_major_strides(entry.dims, strides);
  } else {
    layout::fill_row_major_strides(entry.dims, strides);
  }
}

std::int64_t AnyTensor::first_row() const noexcept { return rows_->first; }

std::uint64_t AnyTensor::byte_size() const noexcept { return rows_ ? rows_->bytes : entry().bytes; }

std::uint64_t AnyTensor::offset() const noexcept {
  const Entry entry = this->entry();
  if (entry.is_splat()) return 0;
  if (!rows_) return entry.offset;
  if (entry.is_row_major()) return entry.offset + rows_->offset;
  // Each row of a column-major tensor begins one element after the row before.
  return entry.offset + bytes_for(static_cast<std::uint64_t>(rows_->first), type().bits).value_or(0);
}

bool AnyTensor::is_plain() const noexcept { return entry().is_plain(type().bits); }

Error AnyTensor::located(Error error) const {
  const Entry entry = this->entry();
  return std::move(error).at_path(state_->paths[entry.file].native()).at_tensor(entry.name);
}

Error AnyTensor::not_in_place(Error error) const {
  if (error.code() != ErrorCode::misaligned) return located(std::move(error));
  return located(std::move(error).with_hint("use copy for an aligned copy"));
}

Result<void> ModelAccess::check_available(const ModelState& state, const Entry& entry) {
  const auto at = [&](Error error) {
    return fail(std::move(error).at_path(state.paths[entry.file].native()).at_tensor(entry.name));
  };
  if (!state.has_data) return at(check_has_data(state).error());
  if (entry.is_splat()) {
    return at(Error(ErrorCode::unsupported_encoding, "splat_has_no_stored_bytes",
                    format_text("tensor '{}' is a splat and has no bytes in the file", entry.name))
                  .with_hint("use copy_to to materialize it, or its Entry for the pattern"));
  }
  const auto& source = state.mapped->sources()[entry.file];
  if (!source) {
    return at(Error(ErrorCode::missing_shard, "external_files_exist",
                    format_text("file with tensor '{}' is missing", entry.name))
                  .with_cause(std::make_error_code(std::errc::no_such_file_or_directory))
                  .with_hint("download the file to this path"));
  }
  if (!checked::range_fits(entry.offset, entry.bytes, source->size())) {
    return at(Error(ErrorCode::truncated, "tensor_is_within_the_file",
                    format_text("tensor '{}' ends at byte {} but the file has {} bytes", entry.name,
                                entry.offset + entry.bytes, source->size()))
                  .at_offset(entry.offset)
                  .with_hint("download the file again"));
  }
  return {};
}

Result<io::Strategy::MapDone> AnyTensor::whole_in_place() const {
  const Entry entry = this->entry();
  HT_TRY(ModelAccess::check_available(*state_, entry));
  if (is_resident()) return io::Strategy::MapDone{.memory = resident_, .has_other_owner = true};
  if (state_->mapped->file(entry.file).is_windowed()) {
    if (auto window = state_->residency->kept_window(index_); window.owner)
      return io::Strategy::MapDone{.memory = std::move(window), .has_other_owner = true};
  }
  return located(state_->residency->map(index_, entry.bytes));
}

Result<void> AnyTensor::check_contiguous() const {
  if (!rows_ || entry().is_row_major()) return {};
  return fail(located(Error(ErrorCode::unsupported_encoding, "rows_are_contiguous",
                            format_text("rows of the column-major tensor '{}' are not contiguous", name()))
                          .with_hint("use copy_to, which transposes them")));
}

Result<Bytes> AnyTensor::slice_bytes(Bytes whole) const {
  HT_TRY(check_contiguous());
  if (!rows_) return whole;
  return whole.subspan(static_cast<std::size_t>(rows_->offset), static_cast<std::size_t>(rows_->bytes));
}

Result<Bytes> AnyTensor::bytes() const& {
  return without_bad_alloc([&]() -> Result<Bytes> {
    auto placed = HT_TRY(whole_in_place());
    // The caller gets no Storage that owns the window, so the model keeps it.
    if (!placed.has_other_owner) placed.memory = state_->residency->keep_window(index_, placed.memory);
    return slice_bytes(placed.memory.bytes);
  });
}

Result<Storage> AnyTensor::storage() const {
  return without_bad_alloc([&]() -> Result<Storage> {
    auto placed = HT_TRY(whole_in_place());
    const Bytes part = HT_TRY(slice_bytes(placed.memory.bytes));
    const Entry entry = this->entry();
    const auto& path = state_->paths[entry.file];
    const auto* const file = is_resident() ? nullptr : state_->mapped->file(entry.file).file_source();
    // A source that is not a file may differ from the file at the source's path.
    if (file == nullptr) return Storage::owned_read_only(std::move(placed.memory.owner), part);
    const auto identity = file->identity();
    return Storage::file_backed(std::move(placed.memory.owner), part,
                                {.path = path,
                                 .offset = offset(),
                                 .bytes = part.size(),
                                 .device = identity.device,
                                 .inode = identity.object});
  });
}

namespace {

// Fails if the file was truncated and no longer contains the whole tensor: access to a page beyond the end
// would cause SIGBUS. Other changes of the file are allowed.
Result<void> check_not_truncated(const io::Source& source, const Entry& entry) {
  auto unchanged = source.check_unchanged();
  std::byte last{};
  if (unchanged || entry.bytes == 0 || source.read(entry.offset + entry.bytes - 1, {&last, 1})) return {};
  return unchanged;
}

}  // namespace

Result<Storage> AnyTensor::private_storage() const {
  return without_bad_alloc([&]() -> Result<Storage> {
    const Entry entry = this->entry();
    HT_TRY(ModelAccess::check_available(*state_, entry));
    const bool is_writable = is_resident() && state_->residency->is_loaded_by_read(index_);
    if (!is_writable) HT_TRY(located(check_not_truncated(state_->mapped->file(entry.file).source(), entry)));
    auto memory = is_writable ? resident_ : HT_TRY(located(state_->residency->map_private(index_)));
    const Bytes part = HT_TRY(slice_bytes(memory.bytes));
    // The memory is writable; io::Memory has no mutable form.
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
    const MutableBytes writable(const_cast<std::byte*>(part.data()), part.size());
    return Storage::owned_by(std::move(memory.owner), writable, !is_writable);
  });
}

Result<void> AnyTensor::check_range(std::uint64_t begin, std::uint64_t count) const {
  if (checked::range_fits(begin, count, byte_size())) return {};
  return fail(located(Error(ErrorCode::out_of_bounds, "copied_bytes_are_within_the_tensor",
                            format_text("tensor '{}' has {} bytes, and {} bytes at byte {} were requested",
                                        name(), byte_size(), count, begin))
                          .with_hint("request bytes below byte_size")));
}

Result<Bytes> AnyTensor::view(std::uint64_t begin, std::uint64_t count,
                              std::vector<std::byte>& buffer) const& {
  HT_TRY(check_range(begin, count));
  const Entry entry = this->entry();
  HT_TRY(ModelAccess::check_available(*state_, entry));
  auto& file = state_->mapped->file(entry.file);
  if (is_resident() || file.map_for_use_in_place()) {
    const auto placed = HT_TRY(whole_in_place());
    const Bytes part = HT_TRY(slice_bytes(placed.memory.bytes));
    return part.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }
  HT_TRY(check_contiguous());
  return without_bad_alloc([&]() -> Result<Bytes> {
    buffer.resize(static_cast<std::size_t>(count));
    HT_TRY(located(file.read(offset() + begin, buffer)));
    return Bytes(buffer);
  });
}

Result<void> AnyTensor::copy_stored(MutableBytes into, const Relayout* relayout, std::uint64_t first) const {
  const Entry entry = this->entry();
  HT_TRY(ModelAccess::check_available(*state_, entry));
  const auto copy_from = [&](Bytes stored, std::uint64_t begin) -> Result<void> {
    if (relayout == nullptr) {
      std::ranges::copy(stored.subspan(static_cast<std::size_t>(begin), into.size()), into.begin());
      return {};
    }
    return relayout_into(into, *relayout, first, [&](std::uint64_t nth, MutableBytes units) -> Result<void> {
      copy_units(units, stored, *relayout, nth);
      return {};
    });
  };
  if (is_resident()) return copy_from(resident_.bytes, first);
  auto& file = state_->mapped->file(entry.file);
  HT_TRY(file.source().check_unchanged());
  const auto read_at = [&](std::uint64_t offset, MutableBytes part) {
    return file.read(entry.offset + offset, part);
  };
  const bool in_place = file.map_for_use_in_place();
  if (relayout == nullptr) {
    HT_TRY(in_place
               ? file.visit(entry.offset + first, into.size(), [&](Bytes part) { return copy_from(part, 0); })
               : read_at(first, into));
  } else if (in_place) {
    HT_TRY(file.visit(entry.offset, entry.bytes, [&](Bytes whole) { return copy_from(whole, 0); }));
  } else {
    HT_TRY(relayout_into(into, *relayout, first, [&](std::uint64_t nth, MutableBytes units) {
      return read_units(units, *relayout, nth, read_at);
    }));
  }
  return file.source().check_unchanged();
}

Result<void> AnyTensor::copy_to(MutableBytes into, std::uint64_t begin) const {
  HT_TRY(check_range(begin, into.size()));
  if (into.empty()) return {};
  return without_bad_alloc([&]() -> Result<void> {
    const Entry entry = this->entry();
    const std::uint64_t first = begin + (rows_ ? rows_->offset : 0);
    if (entry.is_splat()) {
      fill_with(into, entry.splat, first);
    } else {
      const auto relayout = HT_TRY(located(relayout_of(entry)));
      HT_TRY(located(copy_stored(into, relayout.get(), first)));
    }
    clear_bits_of_next_row(into, begin);
    return {};
  });
}

void AnyTensor::clear_bits_of_next_row(MutableBytes into, std::uint64_t begin) const noexcept {
  const int bits = type().bits;
  if (!rows_ || bits % 8 == 0 || begin + into.size() != byte_size()) return;
  const auto elements = static_cast<std::uint64_t>(element_count(dims()).value_or(0));
  const auto used = static_cast<unsigned>(elements % 8 * static_cast<std::uint64_t>(bits) % 8);
  if (used != 0) into.back() &= static_cast<std::byte>((1U << used) - 1U);
}

Result<AnyTensor> AnyTensor::slice(std::int64_t begin, std::int64_t end) const {
  return without_bad_alloc([&]() -> Result<AnyTensor> {
    const ElementType element = type();
    const auto whole = dims();
    // The position of a row is unknown without the width of an element.
    if (whole.empty() || !element.is_known()) {
      const auto* const reason = element.is_known() ? "is a scalar and cannot be sliced"
                                 : whole.empty()    ? "has an unknown shape"
                                                    : "has an unknown dtype and cannot be sliced";
      return fail(located(Error(ErrorCode::bad_shape, "sliced_tensors_have_rows",
                                format_text("tensor '{}' {}", name(), reason))
                              .with_hint("use the whole tensor")));
    }
    const auto count = HT_TRY(located(layout::count_slice(whole[0], begin, end, 1)));
    const auto row_elements =
        static_cast<std::uint64_t>(HT_TRY(located(layout::count_elements(whole.subspan(1)))));
    // Cannot overflow: the elements of the whole tensor fit 63 bits.
    const auto elements_of = [&](std::int64_t rows) {
      return static_cast<std::uint64_t>(rows) * row_elements;
    };
    const auto bytes_of_rows = [&](std::int64_t rows) {
      return element.is_block_encoded() ? elements_of(rows) / element.block_elements * element.block_bytes
                                        : bytes_for(elements_of(rows), element.bits).value_or(0);
    };
    const bool is_whole = element.is_block_encoded()
                              ? elements_of(begin) % element.block_elements == 0 &&
                                    elements_of(count) % element.block_elements == 0
                              : elements_of(begin) % 8 * static_cast<std::uint64_t>(element.bits) % 8 == 0;
    if (count != 0 && !is_whole) {
      return fail(located(Error(ErrorCode::misaligned, "rows_are_whole_bytes_and_blocks",
                                format_text("rows {} to {} of tensor '{}' {}", begin, end, name(),
                                            element.is_block_encoded() ? "are not whole blocks"
                                                                       : "do not begin at a byte boundary"))
                              .with_hint("slice at rows that begin at a byte or block boundary")));
    }
    auto rows = std::make_shared<Rows>();
    rows->dims.assign(whole.begin(), whole.end());
    rows->dims[0] = count;
    rows->first = begin + (rows_ ? rows_->first : 0);
    rows->offset = bytes_of_rows(begin) + (rows_ ? rows_->offset : 0);
    rows->bytes = bytes_of_rows(count);
    AnyTensor sliced = *this;
    sliced.rows_ = std::move(rows);
    return sliced;
  });
}

Result<void> AnyTensor::check_dtype(const DTypeInfo& requested) const {
  const ElementType stored = type();
  if (stored.dtype == requested.tag) return {};
  if (!stored.is_known()) {
    return fail(located(
        Error(ErrorCode::dtype_mismatch, "dtype_is_known",
              format_text("tensor '{}' has an unknown dtype but {} was requested", name(), requested.name))
            .with_hint("read the stored bytes with bytes()")));
  }
  const auto message = format_text("tensor '{}' is {} [{}] but {} was requested", name(), stored.name,
                                   fmt::join(dims(), ", "), requested.name);
  if (stored.is_block_encoded()) {
    return fail(
        located(Error(ErrorCode::dtype_mismatch, "dtype_is_dense", message)
                    .with_hint(format_text("use cast<F32> for its values, or tensor<{}, S> for its blocks",
                                           stored.name))));
  }
  return fail(located(Error(ErrorCode::dtype_mismatch, "dtype_matches_the_request", message)
                          .with_hint(format_text("request {} and widen it with cast or as", stored.name))));
}

Result<void> AnyTensor::check_encoding(EncodingTag requested, std::string_view name) const {
  const ElementType stored = type();
  if (stored.encoding != requested) {
    return fail(located(Error(ErrorCode::dtype_mismatch, "encoding_matches_the_request",
                              format_text("tensor '{}' is {} [{}] but {} was requested", this->name(),
                                          stored.is_known() ? stored.name : "of an unknown dtype",
                                          fmt::join(dims(), ", "), name))
                            .with_hint("use cast<F32> for its values")));
  }
  if (byte_order() == ByteOrder::big && !entry().is_splat()) {
    return fail(
        located(Error(ErrorCode::unsupported_encoding, "blocks_are_in_native_order",
                      format_text("tensor '{}' is big-endian and cannot be used in place", this->name()))
                    .with_hint("use cast<F32>, which byte-swaps it")));
  }
  return {};
}

Result<AnyTensor::InPlace> AnyTensor::in_place(const DTypeInfo& requested) const {
  return without_bad_alloc([&]() -> Result<InPlace> {
    HT_TRY(check_dtype(requested));
    const Entry entry = this->entry();
    if (entry.is_splat()) {
      if (requested.bits % 8 != 0) {
        return fail(
            located(Error(ErrorCode::unsupported_encoding, "splat_elements_are_whole_bytes",
                          format_text("tensor '{}': a splat of {}, {} bits per element, cannot be used "
                                      "in place",
                                      entry.name, requested.name, requested.bits))
                        .with_hint("use copy to materialize it")));
      }
      const auto element = splat_element(entry.splat, requested.bits);
      if (element.empty()) {
        return fail(located(Error(ErrorCode::unsupported_encoding, "splat_repeats_one_element",
                                  format_text("tensor '{}': splat pattern of {} bytes is not one {} repeated",
                                              entry.name, entry.splat.size(), requested.name))
                                .with_hint("use copy to materialize it")));
      }
      auto storage = HT_TRY(Storage::owned(element.size()));
      std::ranges::copy(element, HT_TRY(storage.writable_bytes()).begin());
      return InPlace{.storage = std::move(storage)};
    }
    if (entry.byte_order == ByteOrder::big && requested.bits > 8) {
      return fail(
          located(Error(ErrorCode::unsupported_encoding, "bytes_are_in_native_order",
                        format_text("tensor '{}' is big-endian and cannot be used in place", entry.name))
                      .with_hint("use copy, which byte-swaps it")));
    }
    if (!rows_ || entry.order == ElementOrder::row_major) return InPlace{.storage = HT_TRY(storage())};
    // Rows of a column-major tensor are strided: each row begins one element after the row before.
    const auto offset =
        static_cast<std::uint64_t>(rows_->first) * static_cast<std::uint64_t>(requested.bits) / 8;
    return InPlace{.storage = HT_TRY(ModelAccess::whole(*this).storage()),
                   .offset = rows_->bytes == 0 ? 0 : offset};
  });
}

Result<Storage> AnyTensor::copied() const {
  auto storage = HT_TRY(located(Storage::owned(byte_size())));
  HT_TRY(copy_to(HT_TRY(storage.writable_bytes())));
  return storage;
}

Result<Storage> AnyTensor::plain_storage(std::uint64_t alignment) const {
  if (is_plain()) {
    auto storage = HT_TRY(this->storage());
    if (reinterpret_cast<std::uintptr_t>(storage.bytes().data()) % alignment == 0) return storage;
  }
  return copied();
}

Result<void> ModelAccess::fetch(const AnyTensor& tensor, std::uint64_t begin, std::uint64_t count) {
  // The call costs more than the page faults of a few pages.
  constexpr std::uint64_t min_bytes = std::uint64_t{1} << 16;
  if (count < min_bytes || tensor.is_splat()) return {};
  const Entry entry = tensor.entry();
  HT_TRY(check_available(*tensor.state_, entry));
  if (tensor.is_resident()) return {};
  const std::uint64_t first = begin + (tensor.rows_ ? tensor.rows_->offset : 0);
  return io::advise(*tensor.state_->mapped, {entry.file, entry.offset + first, count},
                    io::Strategy::Advice::populate);
}

}  // namespace ht::inline v1
