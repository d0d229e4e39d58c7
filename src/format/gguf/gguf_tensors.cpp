#include "format/gguf/gguf_tensors.hpp"

#include <algorithm>
#include <array>
#include <htensor/base/utf8.hpp>
#include <htensor/dtype/sizes.hpp>

#include "base/format_text.hpp"

namespace ht::inline v1::format_gguf {
namespace {

template <IsDType D>
constexpr TensorType dense(std::uint32_t id) {
  return {id, D::tag, {.name = D::name, .block_elements = 1, .block_bytes = D::bits / 8}};
}

constexpr std::array dense_types{dense<F32>(0),  dense<F16>(1),  dense<I8>(24),  dense<I16>(25),
                                 dense<I32>(26), dense<I64>(27), dense<F64>(28), dense<BF16>(30)};

std::optional<TensorType> block_type(EncodingTag tag) noexcept {
  const auto encoding = find_encoding(tag);
  if (!encoding) return std::nullopt;
  return TensorType{.id = static_cast<std::uint32_t>(tag), .encoding = *encoding};
}

/// A row of the table, and where its parts are in the file.
struct Row {
  std::string_view name;
  std::uint32_t rank = 0;
  std::array<std::int64_t, max_rank> extents{};  // outermost first
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  std::uint64_t at = 0;

  [[nodiscard]] std::span<const std::int64_t> dims() const noexcept { return std::span(extents).first(rank); }
  [[nodiscard]] std::uint64_t at_rank() const noexcept { return at + least_text_bytes + name.size(); }
  [[nodiscard]] std::uint64_t at_dims() const noexcept { return at_rank() + sizeof(rank); }
  [[nodiscard]] std::uint64_t at_type() const noexcept { return at_dims() + rank * sizeof(extents[0]); }
  [[nodiscard]] std::uint64_t at_offset() const noexcept { return at_type() + sizeof(type); }
};

bool skip_row(Reader& reader) {
  const auto name = reader.text("tensor name");
  if (!name) return false;
  const std::uint64_t begin = reader.at();
  const auto rank = reader.number<std::uint32_t>("tensor rank");
  if (!rank) return false;
  if (*rank > max_rank) {
    reader.stop(
        broken(ErrorCode::bad_shape, "gguf_rank_is_at_most_4",
               format_text("tensor '{}': rank {} exceeds the limit of {}", to_utf8(*name), *rank, max_rank),
               begin)
            .at_tensor(*name));
    return false;
  }
  const std::uint64_t rest = *rank * sizeof(std::int64_t) + sizeof(std::uint32_t) + sizeof(std::uint64_t);
  return reader.take(rest, "tensor shape, type and offset").has_value();
}

// Its bytes are known to be there.
Row read_row(Reader& reader) {
  Row row;
  row.at = reader.at();
  row.name = *reader.text("");
  row.rank = *reader.number<std::uint32_t>("");
  for (std::size_t i = row.rank; i > 0; --i) row.extents[i - 1] = *reader.number<std::int64_t>("");
  row.type = *reader.number<std::uint32_t>("");
  row.offset = *reader.number<std::uint64_t>("");
  return row;
}

Result<TensorType> check_type(const Row& row) {
  const auto type = find_type(row.type);
  if (type) return *type;
  return fail(Error(ErrorCode::unsupported_encoding, "gguf_tensor_types_are_known",
                    format_text("tensor '{}': ggml type {} is retired or unknown", row.name, row.type))
                  .at_offset(row.at_type())
                  .at_tensor(row.name)
                  .with_hint("quantize the model again with a current llama.cpp, or update htensor"));
}

Result<std::uint64_t> check_shape(const Row& row, const Encoding& encoding) {
  const auto refuse = [&](ErrorCode code, std::string_view rule, std::string_view why,
                          SourceLine where = SourceLine::here()) {
    return fail(broken(code, rule,
                       format_text("tensor '{}', {} [{}]: {}", row.name, encoding.name,
                                   fmt::join(row.dims(), ", "), why),
                       row.at_dims(), where)
                    .at_tensor(row.name));
  };
  if (std::ranges::any_of(row.dims(), [](std::int64_t dim) { return dim < 0; })) {
    return refuse(ErrorCode::bad_shape, "dims_are_not_negative", "a dimension is negative");
  }
  if (!element_count(row.dims())) {
    return refuse(ErrorCode::size_overflow, "elements_fit_63_bits", "element count exceeds 2^63-1");
  }
  const std::int64_t elements_in_a_row = row.rank == 0 ? 1 : row.dims().back();
  if (elements_in_a_row % encoding.block_elements != 0) {
    return refuse(
        ErrorCode::bad_shape, "gguf_rows_are_whole_blocks",
        format_text("rows are not multiples of the block size, {} elements", encoding.block_elements));
  }
  const auto bytes = block_bytes(row.dims(), encoding);
  if (!bytes) {
    return refuse(ErrorCode::size_overflow, "data_size_fits_63_bits", "size exceeds 2^63-1 bytes");
  }
  return *bytes;
}

Result<void> check_offset(const Row& row, const DataPlan& plan) {
  const auto refuse = [&](ErrorCode code, std::string_view rule, std::string_view why,
                          SourceLine where = SourceLine::here()) {
    return fail(broken(code, rule, format_text("tensor '{}': offset {} {}", row.name, row.offset, why),
                       row.at_offset(), where)
                    .at_tensor(row.name));
  };
  if (row.offset == plan.next()) return {};
  if (!checked::narrow<std::int64_t>(row.offset)) {
    return refuse(ErrorCode::bad_offset, "gguf_offsets_fit_63_bits", "exceeds 2^63-1");
  }
  if (row.offset % plan.alignment() != 0) {
    return refuse(ErrorCode::misaligned, "gguf_offsets_are_multiples_of_the_alignment",
                  format_text("is not a multiple of the alignment, {}", plan.alignment()));
  }
  if (row.offset < plan.next()) {
    return refuse(ErrorCode::overlap, "gguf_tensors_do_not_overlap",
                  format_text("overlaps the previous tensors, which end at offset {}", plan.next()));
  }
  return refuse(ErrorCode::gap, "gguf_tensors_leave_no_gap",
                format_text("leaves a gap after the previous tensors, which end at offset {}", plan.next()));
}

Result<void> check_name(const Row& row, std::uint64_t number) {
  if (is_utf8(row.name)) return {};
  return fail(broken(ErrorCode::bad_utf8, "gguf_names_are_utf8",
                     format_text("name of tensor {} is not valid UTF-8", number), row.at));
}

Result<void> add_tensor(const Row& row, ByteOrder order, DataPlan& plan, CatalogBuilder& builder) {
  const auto type = HT_TRY(check_type(row));
  const auto bytes = HT_TRY(check_shape(row, type.encoding));
  HT_TRY(check_offset(row, plan));
  const std::uint64_t offset = plan.next_in_file();
  if (!plan.place(bytes)) {
    return fail(broken(ErrorCode::size_overflow, "gguf_data_end_fits_63_bits",
                       format_text("tensor '{}': {} bytes at offset {} end beyond 2^63-1", row.name, bytes,
                                   row.offset),
                       row.at_offset())
                    .at_tensor(row.name));
  }
  return builder.add({.name = row.name,
                      .dtype = type.dtype,
                      .encoding = type.encoding.tag,
                      .dims = row.dims(),
                      .byte_order = order,
                      .offset = offset,
                      .bytes = bytes});
}

}  // namespace

std::optional<TensorType> find_type(std::uint32_t id) noexcept {
  const auto found = std::ranges::find(dense_types, id, &TensorType::id);
  if (found != dense_types.end()) return *found;
  const auto number = checked::narrow<std::uint8_t>(id);
  return number ? block_type(static_cast<EncodingTag>(*number)) : std::nullopt;
}

std::optional<TensorType> type_of(const Entry& entry) noexcept {
  if (entry.encoding != EncodingTag::dense) return block_type(entry.encoding);
  const auto found = std::ranges::find(dense_types, entry.dtype, &TensorType::dtype);
  if (found == dense_types.end()) return std::nullopt;
  return *found;
}

bool DataPlan::place(std::uint64_t bytes) noexcept {
  const auto end = checked::add(next_, bytes);
  const auto filled = end ? checked::align_up(*end, alignment_) : std::nullopt;
  const auto in_file = filled ? checked::add(begin_, *filled) : std::nullopt;
  if (!in_file || !checked::narrow<std::int64_t>(*in_file)) return false;
  next_ = *filled;
  return true;
}

bool skip_tensors(Reader& reader, std::uint64_t count) {
  const std::uint64_t begin = reader.at();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t passed = reader.at() - begin;
    if (!skip_row(reader)) {
      // Rows are much alike. They fit in the file, so this does not overflow.
      reader.guess((count - i) * least_tensor_bytes);
      if (i > 0) reader.guess(passed / i * (count - i));
      return false;
    }
  }
  return true;
}

Result<void> read_tensors(Reader& reader, std::uint64_t count, DataPlan& plan, CatalogBuilder& builder) {
  // All of them were seen.
  HT_TRY(builder.reserve(static_cast<std::size_t>(count)));
  for (std::uint64_t i = 0; i < count; ++i) {
    const Row row = read_row(reader);
    HT_TRY(check_name(row, i));
    HT_TRY(add_tensor(row, reader.order(), plan, builder));
  }
  return {};
}

}  // namespace ht::inline v1::format_gguf
