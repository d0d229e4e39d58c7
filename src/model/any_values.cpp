#include <algorithm>
#include <htensor/base/fault.hpp>
#include <htensor/base/work.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/model/any_tensor.hpp>

#include "base/format_text.hpp"
#include "model/model_access.hpp"
#include "model/read_selection.hpp"
#include "model/relayout.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1 {
namespace {

// Maximum number of elements that `read_values` converts at once.
constexpr std::int64_t piece_elements = std::int64_t{1} << 18;

// Reads values of a tensor from several threads.
class ValueReader {
 public:
  explicit ValueReader(const AnyTensor& tensor)
      : tensor_(tensor), type_(tensor.type()), buffers_(Workers::shared().threads()) {}

  Result<void> operator()(std::int64_t first, std::int64_t count, std::size_t worker,
                          const std::function<void(const std::byte*)>& use) {
    const std::uint64_t begin = values::stored_bytes(type_, first);
    const std::uint64_t bytes = values::stored_bytes(type_, count);
    auto& buffer = buffers_[worker];
    if (tensor_.is_plain()) {
      HT_TRY(ModelAccess::fetch(tensor_, begin, bytes));
      const Bytes stored = HT_TRY(tensor_.view(begin, bytes, buffer));
      return guarded(stored, [&] { use(stored.data()); });
    }
    buffer.resize(static_cast<std::size_t>(bytes));
    HT_TRY(tensor_.copy_to(buffer, begin));
    use(buffer.data());
    return {};
  }

 private:
  const AnyTensor& tensor_;
  ElementType type_;
  std::vector<std::vector<std::byte>> buffers_;
};

Error non_real_values(const AnyTensor& tensor) {
  const ElementType type = tensor.type();
  return Error(ErrorCode::unsupported_encoding, "values_are_real_numbers",
               type.is_known()
                   ? format_text("tensor '{}': {} values are not real numbers", tensor.name(), type.name)
                   : format_text("tensor '{}' has an unknown dtype", tensor.name()))
      .at_tensor(tensor.name())
      .with_hint("read the stored bytes with bytes()");
}

Result<std::int64_t> count_values_of(const AnyTensor& tensor) {
  if (!values::can_convert(tensor.type(), detail::element_type_of<F64>()))
    return fail(non_real_values(tensor));
  return layout::count_elements(tensor.dims());
}

}  // namespace

Result<void> AnyTensor::check_conversion(const DTypeInfo& requested, bool may_round) const {
  const ElementType stored = type();
  const ElementType target{.dtype = requested.tag, .name = requested.name, .bits = requested.bits};
  if (stored.dtype == requested.tag) return {};
  if (!stored.is_known()) {
    return fail(located(Error(ErrorCode::unsupported_encoding, "cast_type_is_known",
                              format_text("tensor '{}' has an unknown dtype", name()))
                            .with_hint("read the stored bytes with bytes()")));
  }
  if (static_cast<std::uint8_t>(std::max(stored.dtype, requested.tag)) >= first_user_tag) {
    return fail(located(Error(ErrorCode::unsupported_encoding, "cast_dtypes_are_built_in",
                              format_text("tensor '{}' is {}, and {} was requested: values of user-defined "
                                          "dtypes are converted at compile time only",
                                          name(), stored.name, requested.name))
                            .with_hint("use tensor<D, S> and ht::cast")));
  }
  if (values::is_lossless(stored, target)) return {};
  if (!may_round) {
    return fail(located(Error(ErrorCode::would_lose, "cast_keeps_every_value",
                              format_text("tensor '{}' is {}, and {} does not hold every {} value", name(),
                                          stored.name, requested.name, stored.name))
                            .with_hint(format_text("request {}, or read the tensor with a rounding",
                                                   stored.is_block_encoded() ? F32::name : stored.name))));
  }
  if (!values::can_convert(stored, target)) return fail(located(non_real_values(*this)));
  return {};
}

Result<Storage> AnyTensor::cast_to(const DTypeInfo& requested) const {
  HT_TRY(check_conversion(requested, false));
  const auto count = HT_TRY(located(layout::count_elements(dims())));
  auto storage = HT_TRY(located(
      Storage::owned(bytes_for(static_cast<std::uint64_t>(count), requested.bits).value_or(UINT64_MAX))));
  HT_TRY(read(HT_TRY(storage.writable_bytes()), {}, {.dtype = requested.tag}));
  return storage;
}

Result<ElementType> AnyTensor::result_type(const ReadOptions& options) const {
  const ElementType stored = type();
  if (options.dtype == DTypeTag::invalid || options.dtype == stored.dtype) return stored;
  const auto requested = find_dtype(options.dtype, state_->dtypes);
  if (!requested) return fail(located(unknown_dtype(options.dtype)));
  HT_TRY(check_conversion(*requested, options.rounding.has_value()));
  if (options.unpack) {
    return fail(located(Error(ErrorCode::dtype_mismatch, "unpacked_elements_keep_their_dtype",
                              format_text("tensor '{}' is {}, and unpacked {} elements were requested",
                                          name(), stored.name, requested->name))
                            .with_hint("either convert the elements or unpack them")));
  }
  return ElementType{.dtype = requested->tag, .name = requested->name, .bits = requested->bits};
}

Result<Selection> AnyTensor::select(std::span<const Slice> slices) const {
  const Entry entry = this->entry();
  const auto selected = dims();
  std::vector<Slice> all;
  if (slices.empty()) {
    for (const auto dim : selected) all.push_back({.stop = dim});
    slices = all;
  }
  if (slices.size() != selected.size()) {
    return fail(located(Error(ErrorCode::shape_mismatch, "one_slice_per_dimension",
                              format_text("tensor '{}' [{}]: has {} dimensions but {} slices were passed",
                                          name(), fmt::join(selected, ", "), selected.size(), slices.size()))
                            .with_hint("pass one slice per dimension, or none")));
  }
  const ElementType stored = type();
  if (!stored.is_known()) {
    return fail(located(
        Error(ErrorCode::unsupported_encoding, "selected_elements_have_a_known_dtype",
              format_text("tensor '{}' has an unknown dtype, so its elements cannot be selected", name()))
            .with_hint("read the stored bytes with bytes()")));
  }
  const auto elements = static_cast<std::uint64_t>(HT_TRY(located(layout::count_elements(entry.dims))));
  const std::uint64_t unit = stored.is_block_encoded() ? stored.block_elements : 1;
  const auto bytes = values::stored_bytes(stored, static_cast<std::int64_t>(elements));
  // The library's parsers check the size; the parser of a user-defined format may not.
  if (elements % unit != 0 || bytes > entry.bytes) {
    return fail(located(Error(ErrorCode::size_mismatch, "elements_are_within_the_stored_bytes",
                              format_text("tensor '{}', {} [{}]: needs {} bytes but has {}", name(),
                                          stored.name, fmt::join(entry.dims, ", "), bytes, entry.bytes))
                            .with_hint("correct the parser of the format")));
  }
  std::vector<std::int64_t> strides(selected.size());
  if (entry.is_splat()) {
    layout::fill_row_major_strides(entry.dims, strides);
  } else {
    fill_strides(strides);
  }
  // The strides of an empty tensor may be of any size.
  const std::int64_t first = rows_ && elements != 0 ? first_row() * strides[0] : 0;
  return located(select_elements(selected, strides, first, slices));
}

Result<void> AnyTensor::read(MutableBytes into, std::span<const Slice> slices,
                             const ReadOptions& options) const {
  return without_bad_alloc([&]() -> Result<void> {
    const ElementType stored = type();
    const ResultForm result{.type = HT_TRY(result_type(options)),
                            .rounding = options.rounding.value_or(Rounding{}),
                            .unpack = options.unpack};
    // Without slices, a tensor of an unknown type is read as bytes.
    const bool has_elements = stored.is_known() || !slices.empty();
    const Selection selection = has_elements ? HT_TRY(select(slices)) : Selection{};
    if (result.type.is_block_encoded() && !selection.has_whole_units(stored.block_elements)) {
      return fail(
          located(Error(ErrorCode::unsupported_encoding, "stored_blocks_are_read_whole",
                        format_text("tensor '{}' is {}: the slices select parts of blocks of {} elements",
                                    name(), stored.name, stored.block_elements))
                      .with_hint("read it as F32, or select whole rows")));
    }
    const std::uint64_t bytes = has_elements ? result.bytes_for(selection.count) : byte_size();
    if (into.size() != bytes) {
      return fail(located(Error(ErrorCode::size_mismatch, "memory_has_the_size_of_the_result",
                                format_text("tensor '{}': the result has {} bytes but the memory has {}",
                                            name(), bytes, into.size()))
                              .with_hint("pass memory of the size of the result")));
    }
    if (!has_elements) return copy_to(into);
    if (bytes == 0) return {};
    return located(read_stored(into, selection, result, options.work));
  });
}

Result<void> AnyTensor::read_stored(MutableBytes into, const Selection& selection, const ResultForm& result,
                                    const WorkOptions& work) const {
  const Entry entry = this->entry();
  StoredElements stored{.type = type(), .bytes = entry.bytes};
  if (entry.is_splat()) {
    stored.read = [&](std::uint64_t offset, MutableBytes part) -> Result<void> {
      fill_with(part, entry.splat, offset);
      return {};
    };
    return read_selection(stored, selection, result, into, work);
  }
  HT_TRY(ModelAccess::check_available(*state_, entry));
  // The selection has the strides of the stored order, so only the byte order matters here.
  std::shared_ptr<const Relayout> relayout;
  if (entry.byte_order == ByteOrder::big) relayout = HT_TRY(relayout_of(entry));
  if (relayout && !relayout->numbers.empty()) stored.relayout = relayout.get();
  if (is_resident()) {
    stored.in_place = resident_.bytes.data();
    return read_selection(stored, selection, result, into, work);
  }
  auto& file = state_->mapped->file(entry.file);
  HT_TRY(file.source().check_unchanged());
  io::Strategy::MapDone placed;
  if (file.map_for_use_in_place()) {
    placed = HT_TRY(whole_in_place());
    stored.in_place = placed.memory.bytes.data();
    stored.fetch = [&, whole = ModelAccess::whole(*this)](std::uint64_t offset, std::uint64_t bytes) {
      return ModelAccess::fetch(whole, offset, bytes);
    };
  } else {
    stored.read = [&](std::uint64_t offset, MutableBytes part) {
      return file.read(entry.offset + offset, part);
    };
  }
  HT_TRY(read_selection(stored, selection, result, into, work));
  return file.source().check_unchanged();
}

Result<void> AnyTensor::read_values(std::span<double> into, std::int64_t first) const {
  return without_bad_alloc([&]() -> Result<void> {
    const auto elements = HT_TRY(located(count_values_of(*this)));
    const auto requested = static_cast<std::int64_t>(into.size());
    if (first < 0 || first > elements || requested > elements - first) {
      return fail(
          located(Error(ErrorCode::out_of_bounds, "values_are_within_the_tensor",
                        format_text("tensor '{}' has {} elements, and {} elements from {} on were requested",
                                    name(), elements, requested, first))
                      .with_hint("request elements below the element count")));
    }
    // Pieces have whole blocks, and whole bytes of packed elements.
    const ElementType stored = type();
    const std::int64_t unit = std::max<std::int64_t>(stored.block_elements, 8);
    std::vector<std::byte> bytes;
    std::vector<double> values;
    for (std::int64_t done = 0; done < requested;) {
      const std::int64_t begin = (first + done) / unit * unit;
      const std::int64_t end =
          std::min({(first + requested + unit - 1) / unit * unit, begin + piece_elements, elements});
      bytes.resize(static_cast<std::size_t>(values::stored_bytes(stored, end - begin)));
      HT_TRY(copy_to(bytes, values::stored_bytes(stored, begin)));
      values.resize(static_cast<std::size_t>(end - begin));
      values::convert_values({.from = stored, .to = detail::element_type_of<F64>()}, bytes.data(),
                             reinterpret_cast<std::byte*>(values.data()), end - begin);
      const std::int64_t skipped = first + done - begin;
      const std::int64_t count = std::min(end - begin - skipped, requested - done);
      std::copy_n(values.data() + skipped, count, into.data() + done);
      done += count;
    }
    return {};
  });
}

Result<Statistics> statistics(const AnyTensor& tensor, const WorkOptions& work) {
  return without_bad_alloc([&]() -> Result<Statistics> {
    const auto count = HT_TRY(count_values_of(tensor));
    ValueReader reader(tensor);
    return detail::compute_statistics(tensor.type(), count, std::ref(reader), work);
  });
}

Result<Histogram> histogram(const AnyTensor& tensor, const Histogram::Range& range, const WorkOptions& work) {
  return without_bad_alloc([&]() -> Result<Histogram> {
    const auto count = HT_TRY(count_values_of(tensor));
    ValueReader reader(tensor);
    return detail::count_values(tensor.type(), count, std::ref(reader), range, work);
  });
}

}  // namespace ht::inline v1
