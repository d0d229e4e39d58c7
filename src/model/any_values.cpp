#include <algorithm>
#include <htensor/base/fault.hpp>
#include <htensor/base/work.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/model/any_tensor.hpp>

#include "base/format_text.hpp"
#include "model/model_access.hpp"
#include "values/convert_values.hpp"

namespace ht::inline v1 {
namespace {

// Elements converted at once if a tensor cannot be read in place.
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

Error without_values(const AnyTensor& tensor) {
  const ElementType type = tensor.type();
  return Error(ErrorCode::unsupported_encoding, "values_are_real_numbers",
               type.is_known()
                   ? format_text("tensor '{}': {} values are not real numbers", tensor.name(), type.name)
                   : format_text("tensor '{}' has an unknown dtype", tensor.name()))
      .at_tensor(tensor.name())
      .with_hint("use bytes to read the stored bytes");
}

Result<std::int64_t> count_values_of(const AnyTensor& tensor) {
  const ElementType f64{.dtype = F64::tag, .name = F64::name, .bits = F64::bits};
  if (!values::can_convert(tensor.type(), f64)) return fail(without_values(tensor));
  return layout::count_elements(tensor.dims());
}

}  // namespace

Result<Storage> AnyTensor::cast_to(const DTypeInfo& requested) const {
  const ElementType stored = type();
  const ElementType target{.dtype = requested.tag, .name = requested.name, .bits = requested.bits};
  if (stored.dtype == requested.tag) return copied();
  if (!stored.is_known()) {
    return fail(located(Error(ErrorCode::unsupported_encoding, "cast_type_is_known",
                              format_text("tensor '{}' has an unknown dtype", name()))
                            .with_hint("use bytes to read the stored bytes")));
  }
  if (static_cast<std::uint8_t>(std::max(stored.dtype, requested.tag)) >= first_user_tag) {
    return fail(located(Error(ErrorCode::unsupported_encoding, "cast_dtypes_are_built_in",
                              format_text("tensor '{}' is {}, and {} was requested: values of user-defined "
                                          "dtypes are converted at compile time only",
                                          name(), stored.name, requested.name))
                            .with_hint("use tensor<D, S> and ht::cast")));
  }
  if (!values::is_lossless(stored, target)) {
    return fail(located(Error(ErrorCode::would_lose, "cast_keeps_every_value",
                              format_text("tensor '{}' is {}, and {} does not hold every {} value", name(),
                                          stored.name, requested.name, stored.name))
                            .with_hint(format_text("request {}, or use tensor and ht::cast_lossy",
                                                   stored.is_blocks() ? F32::name : stored.name))));
  }
  return without_bad_alloc([&]() -> Result<Storage> {
    const auto count = HT_TRY(located(layout::count_elements(dims())));
    auto storage = HT_TRY(located(
        Storage::owned(bytes_for(static_cast<std::uint64_t>(count), requested.bits).value_or(UINT64_MAX))));
    const MutableBytes into = HT_TRY(storage.writable_bytes());
    const values::Conversion conversion{.from = stored, .to = target};
    if (count == 0) return storage;
    std::vector<std::byte> buffer;
    // In one step if the tensor can be read in place, else in pieces.
    const bool in_place =
        is_plain() && (is_resident() || state_->mapped->file(entry().file).can_use_in_place());
    const std::int64_t step = in_place ? count : piece_elements;
    for (std::int64_t first = 0; first < count; first += step) {
      const std::int64_t elements = std::min(step, count - first);
      const std::uint64_t begin = values::stored_bytes(stored, first);
      const std::uint64_t bytes = values::stored_bytes(stored, elements);
      Bytes piece;
      if (in_place) {
        piece = HT_TRY(view(begin, bytes, buffer));
      } else {
        buffer.resize(static_cast<std::size_t>(bytes));
        HT_TRY(copy_to(buffer, begin));
        piece = buffer;
      }
      std::byte* const target_bytes = into.data() + values::stored_bytes(target, first);
      HT_TRY(located(guarded(piece, [&] {
        return values::convert_in_parallel(conversion, piece.data(), target_bytes, elements);
      })));
    }
    return storage;
  });
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
      const ElementType f64{.dtype = F64::tag, .name = F64::name, .bits = F64::bits};
      values::convert_values({.from = stored, .to = f64}, bytes.data(),
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
