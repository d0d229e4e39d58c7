#include <array>
#include <htensor/dtype/packed.hpp>

#include "base/utf8.hpp"
#include "format/gguf/gguf_wire.hpp"

namespace ht::inline v1::format_gguf {
namespace {

struct Counts {
  std::uint64_t tensors = 0;
  std::uint64_t values = 0;
};

void read_magic(Reader& reader) {
  if (std::ranges::equal(reader.take(magic.size(), "magic"), bytes_of(magic))) return;
  reader.stop(
      broken(ErrorCode::bad_magic, "magic_is_gguf", {0}, "file does not start with the magic 'GGUF'"));
}

void read_version(Reader& reader) {
  const std::uint64_t begin = reader.at();
  const Bytes bytes = reader.take(sizeof(std::uint32_t), "version");
  if (bytes.empty()) return;
  reader.set_order(order_of_version(bytes));
  const auto version = load_in<std::uint32_t>(reader.order(), bytes);
  if (version == 2 || version == 3) return;
  reader.stop(broken(ErrorCode::bad_version, "gguf_version_is_2_or_3", {begin},
                     "GGUF version {} is not supported; supported versions are 2 and 3", version)
                  .with_hint(version == 1 ? "convert the original model again with a current llama.cpp"
                                          : "update htensor, or write the file again as GGUF version 3"));
}

std::uint64_t read_count(Reader& reader, std::string_view field) {
  const std::uint64_t begin = reader.at();
  const auto count = reader.number<std::int64_t>(field);
  if (count < 0) {
    reader.stop(broken(ErrorCode::bad_header, "gguf_counts_are_not_negative", {begin}, "{} is negative: {}",
                       field, count));
  }
  return static_cast<std::uint64_t>(count);
}

Counts read_counts(Reader& reader) {
  read_magic(reader);
  read_version(reader);
  Counts counts;
  counts.tensors = read_count(reader, "tensor count");
  counts.values = read_count(reader, "metadata count");
  reader.check_room_for(counts.tensors, min_tensor_bytes, "tensors");
  reader.check_room_for(counts.values, min_pair_bytes, "metadata values");
  return counts;
}

// Large values such as vocabularies are not copied but share ownership of the header's memory. Small values
// are copied, so that they do not keep the whole header alive.
constexpr std::size_t min_shared_bytes = 4096;

Result<void> add_metadata(const std::vector<Pair>& pairs, ByteOrder order,
                          const std::shared_ptr<const void>& owner, Metadata& metadata) {
  const auto is_shared = [&](const MetaValue& value) {
    return owner != nullptr && order == ByteOrder::little && value.bytes().size() >= min_shared_bytes;
  };
  std::size_t key_bytes = 0;
  std::size_t value_bytes = 0;
  for (const auto& [key, value] : pairs) {
    key_bytes += key.size();
    if (!is_shared(value)) value_bytes += value.bytes().size();
  }
  HT_TRY(metadata.reserve(pairs.size(), key_bytes, value_bytes));
  std::vector<std::byte> swapped;
  for (const auto& [key, value] : pairs) {
    if (is_shared(value)) {
      HT_TRY(metadata.add(key, value, owner));
    } else if (order == ByteOrder::little) {
      HT_TRY(metadata.add(key, value));
    } else {
      swapped.assign(value.bytes().begin(), value.bytes().end());
      byte_swap_value(value.type(), swapped, order);
      HT_TRY(metadata.add(key, MetaValue(value.type(), swapped)));
    }
  }
  return {};
}

// `pairs` are the metadata in the file's memory, which begins at `file`.
Result<std::uint64_t> read_alignment(const std::vector<Pair>& pairs, const Metadata& metadata,
                                     const std::byte* file) {
  const auto found = std::ranges::find(pairs, alignment_key, &Pair::key);
  if (found == pairs.end()) return default_alignment;
  const MetaValue value = metadata[static_cast<std::size_t>(found - pairs.begin())].value;
  const auto offset = static_cast<std::uint64_t>(found->value.bytes().data() - file);
  if (value.type() != MetaType::u32) {
    return fail(broken(ErrorCode::bad_header, "gguf_alignment_is_a_u32", {offset},
                       "metadata key '{}' has type {} but must be u32", alignment_key,
                       to_string(value.type())));
  }
  const std::uint64_t alignment = *value.unsigned_integer();
  if (!std::has_single_bit(alignment)) {
    return fail(broken(ErrorCode::bad_header, "gguf_alignment_is_a_power_of_two", {offset},
                       "metadata key '{}' is {}, which is not a power of two", alignment_key, alignment));
  }
  return alignment;
}

/// A tensor in the table, and the offsets of its fields in the file.
struct TableEntry {
  std::string_view name;
  std::uint32_t rank = 0;
  std::array<std::int64_t, max_rank> dims{};  // outermost first
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
  std::uint64_t at = 0;

  [[nodiscard]] std::span<const std::int64_t> extents() const noexcept { return std::span(dims).first(rank); }
  [[nodiscard]] std::uint64_t at_rank() const noexcept { return at + min_text_bytes + name.size(); }
  [[nodiscard]] std::uint64_t at_dims() const noexcept { return at_rank() + sizeof(rank); }
  [[nodiscard]] std::uint64_t at_type() const noexcept { return at_dims() + rank * sizeof(dims[0]); }
  [[nodiscard]] std::uint64_t at_offset() const noexcept { return at_type() + sizeof(type); }
};

// `check_and_skip_table` must have accepted the entry: its rank is at most 4, and all its bytes are
// available.
TableEntry read_table_entry(Reader& reader) {
  TableEntry tensor;
  tensor.at = reader.at();
  tensor.name = reader.text("");
  tensor.rank = reader.number<std::uint32_t>("");
  for (std::size_t i = tensor.rank; i > 0; --i) tensor.dims[i - 1] = reader.number<std::int64_t>("");
  tensor.type = reader.number<std::uint32_t>("");
  tensor.offset = reader.number<std::uint64_t>("");
  return tensor;
}

Result<TensorType> check_type(const TableEntry& tensor) {
  if (const auto type = find_type(tensor.type)) return *type;
  return fail(broken(ErrorCode::unsupported_encoding, "gguf_tensor_types_are_known",
                     {tensor.at_type(), tensor.name}, "tensor '{}': ggml type {} is retired or unknown",
                     tensor.name, tensor.type)
                  .with_hint("quantize the model again with a current llama.cpp, or update htensor"));
}

Result<std::uint64_t> check_shape(const TableEntry& tensor, const Encoding& encoding) {
  const auto refuse = [&](ErrorCode code, std::string_view rule, std::string_view why) {
    return fail(broken(code, rule, {tensor.at_dims(), tensor.name}, "tensor '{}', {} [{}]: {}", tensor.name,
                       encoding.name, fmt::join(tensor.extents(), ", "), why));
  };
  if (std::ranges::any_of(tensor.extents(), [](std::int64_t dim) { return dim < 0; })) {
    return refuse(ErrorCode::bad_shape, "dims_are_not_negative", "a dimension is negative");
  }
  if (!element_count(tensor.extents())) {
    return refuse(ErrorCode::size_overflow, "elements_fit_63_bits", "element count exceeds 2^63-1");
  }
  const std::int64_t innermost_elements = tensor.rank == 0 ? 1 : tensor.extents().back();
  if (innermost_elements % encoding.block_elements != 0) {
    return refuse(
        ErrorCode::bad_shape, "gguf_rows_are_whole_blocks",
        format_text("rows are not multiples of the block size, {} elements", encoding.block_elements));
  }
  const auto bytes = block_bytes(tensor.extents(), encoding);
  if (!bytes) {
    return refuse(ErrorCode::size_overflow, "data_size_fits_63_bits", "size exceeds 2^63-1 bytes");
  }
  return *bytes;
}

Result<void> check_offset(const TableEntry& tensor, const DataPlan& plan) {
  const auto refuse = [&](ErrorCode code, std::string_view rule, std::string_view why) {
    return fail(broken(code, rule, {tensor.at_offset(), tensor.name}, "tensor '{}': offset {} {}",
                       tensor.name, tensor.offset, why));
  };
  if (tensor.offset == plan.next) return {};
  if (!checked::narrow<std::int64_t>(tensor.offset)) {
    return refuse(ErrorCode::bad_offset, "gguf_offsets_fit_63_bits", "exceeds 2^63-1");
  }
  if (tensor.offset % plan.alignment != 0) {
    return refuse(ErrorCode::misaligned, "gguf_offsets_are_multiples_of_the_alignment",
                  format_text("is not a multiple of the alignment, {}", plan.alignment));
  }
  if (tensor.offset < plan.next) {
    return refuse(
        ErrorCode::overlap, "gguf_tensors_do_not_overlap",
        format_text("overlaps the previous tensors, which end at offset {} with padding", plan.next));
  }
  return refuse(
      ErrorCode::gap, "gguf_tensors_leave_no_gap",
      format_text("leaves a gap after the previous tensors, which end at offset {} with padding", plan.next));
}

Result<void> add_tensor(const TableEntry& tensor, ByteOrder order, DataPlan& plan, CatalogBuilder& builder) {
  const auto type = HT_TRY(check_type(tensor));
  const auto bytes = HT_TRY(check_shape(tensor, type.encoding));
  HT_TRY(check_offset(tensor, plan));
  const std::uint64_t offset = plan.next_in_file();
  if (!plan.place(bytes)) {
    return fail(
        broken(ErrorCode::size_overflow, "gguf_data_end_fits_63_bits", {tensor.at_offset(), tensor.name},
               "tensor '{}': {} bytes at offset {} end beyond 2^63-1", tensor.name, bytes, tensor.offset));
  }
  return builder.add({.name = tensor.name,
                      .dtype = type.dtype,
                      .encoding = type.encoding.tag,
                      .dims = tensor.extents(),
                      .byte_order = order,
                      .offset = offset,
                      .bytes = bytes});
}

// Reads a table that `check_and_skip_table` has accepted. Afterwards `plan` has the end of the data.
Result<void> read_tensors(Reader& reader, std::uint64_t count, DataPlan& plan, CatalogBuilder& builder) {
  // The whole table was read, so `count` is plausible.
  HT_TRY(builder.reserve(static_cast<std::size_t>(count)));
  for (std::uint64_t i = 0; i < count; ++i) {
    const TableEntry tensor = read_table_entry(reader);
    if (!is_utf8(tensor.name)) {
      return fail(broken(ErrorCode::bad_utf8, "gguf_names_are_utf8", {tensor.at},
                         "name of tensor {} is not valid UTF-8", i));
    }
    HT_TRY(add_tensor(tensor, reader.order(), plan, builder));
  }
  return {};
}

}  // namespace

Result<ParseResult> parse(const FileParts& parts, std::uint64_t file_bytes, const ParseOptions& options) {
  Reader reader(parts.prefix(), file_bytes,
                options.max_header_bytes != 0 ? options.max_header_bytes : default_max_header_bytes);
  // The header is read to its end before any of it is copied.
  const Counts counts = read_counts(reader);
  const auto pairs = read_pairs(reader, counts.values);
  const std::size_t table = reader.at();
  check_and_skip_table(reader, counts.tensors);
  if (!reader.ok()) return std::move(reader).stop_reason();

  CatalogBuilder builder("gguf");
  HT_TRY(add_metadata(pairs, reader.order(), parts.owner(), builder.metadata()));
  // A duplicate key is reported before its consequences, such as a wrong alignment.
  HT_TRY(builder.metadata().index());
  const auto alignment = HT_TRY(read_alignment(pairs, builder.metadata(), parts.prefix().data()));
  // Cannot overflow: the header is within the file and the alignment is a u32.
  DataPlan plan{.begin = *checked::align_up(reader.at(), alignment), .alignment = alignment};
  // A file without tensors has no data.
  const bool any_tensor = counts.tensors > 0;
  if (any_tensor && plan.begin > file_bytes) {
    return fail(broken(ErrorCode::truncated, "gguf_data_begins_in_the_file", {file_bytes},
                       "data starts at byte {} but the file has {} bytes", plan.begin, file_bytes));
  }
  reader.go_back(table);
  HT_TRY(read_tensors(reader, counts.tensors, plan, builder));
  if (any_tensor && !options.allow_incomplete)
    HT_TRY(check_data_is_complete(plan.next_in_file(), file_bytes));
  return std::move(builder).build();
}

}  // namespace ht::inline v1::format_gguf
