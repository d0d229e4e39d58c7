#include <algorithm>

#include "base/format_text.hpp"
#include "format/gguf/gguf.hpp"
#include "format/gguf/gguf_reader.hpp"
#include "format/gguf/gguf_tensors.hpp"
#include "format/gguf/gguf_values.hpp"
#include "format/sniff.hpp"

namespace ht::inline v1::format_gguf {
namespace {

struct Counts {
  std::uint64_t tensors = 0;
  std::uint64_t values = 0;
};

constexpr bool is_known_version(std::uint32_t version) { return version == 2 || version == 3; }

bool read_magic(Reader& reader) {
  const auto found = reader.take(magic.size(), "magic");
  if (!found) return false;
  if (std::ranges::equal(*found, bytes_of(magic))) return true;
  reader.stop(broken(ErrorCode::bad_magic, "magic_is_gguf", "file does not start with the magic 'GGUF'", 0));
  return false;
}

bool read_version(Reader& reader) {
  const std::uint64_t begin = reader.at();
  const auto bytes = reader.take(sizeof(std::uint32_t), "version");
  if (!bytes) return false;
  reader.set_order(order_of_version(*bytes));
  const auto version = load_in<std::uint32_t>(reader.order(), *bytes);
  if (is_known_version(version)) return true;
  reader.stop(broken(ErrorCode::bad_version, "gguf_version_is_2_or_3",
                     format_text("GGUF version {} is not supported; supported versions are 2 and 3", version),
                     begin)
                  .with_hint(version == 1 ? "convert the original model again with a current llama.cpp"
                                          : "update htensor, or write the file again as GGUF version 3"));
  return false;
}

std::optional<std::uint64_t> read_count(Reader& reader, std::string_view what) {
  const std::uint64_t begin = reader.at();
  const auto count = reader.number<std::int64_t>(what);
  if (!count) return std::nullopt;
  if (*count < 0) {
    reader.stop(broken(ErrorCode::bad_header, "gguf_counts_are_not_negative",
                       format_text("{} is negative: {}", what, *count), begin));
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(*count);
}

std::optional<Counts> read_counts(Reader& reader) {
  if (!read_magic(reader) || !read_version(reader)) return std::nullopt;
  const auto tensors = read_count(reader, "tensor count");
  if (!tensors) return std::nullopt;
  const auto values = read_count(reader, "metadata count");
  if (!values) return std::nullopt;
  if (!reader.has_room_for(*tensors, least_tensor_bytes, "tensors") ||
      !reader.has_room_for(*values, least_pair_bytes, "metadata values")) {
    return std::nullopt;
  }
  return Counts{*tensors, *values};
}

// Vocabularies stay where they were read; short values are copied, as the header's memory is large.
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
  std::vector<std::byte> reversed;
  for (const auto& [key, value] : pairs) {
    if (is_shared(value)) {
      HT_TRY(metadata.add(key, value, owner));
    } else if (order == ByteOrder::little) {
      HT_TRY(metadata.add(key, value));
    } else {
      reversed.assign(value.bytes().begin(), value.bytes().end());
      reverse_value(value.type(), reversed, order);
      HT_TRY(metadata.add(key, MetaValue(value.type(), reversed)));
    }
  }
  return {};
}

// `pairs` are those of the metadata as they lie in the file that begins at `file`.
Result<std::uint64_t> read_alignment(const std::vector<Pair>& pairs, const Metadata& metadata,
                                     const std::byte* file) {
  const auto found = std::ranges::find(pairs, alignment_key, &Pair::key);
  if (found == pairs.end()) return default_alignment;
  const MetaValue value = metadata[static_cast<std::size_t>(found - pairs.begin())].value;
  const auto offset = static_cast<std::uint64_t>(found->value.bytes().data() - file);
  if (value.type() != MetaType::u32) {
    return fail(broken(
        ErrorCode::bad_header, "gguf_alignment_is_a_u32",
        format_text("metadata key '{}' has type {} but must be u32", alignment_key, to_string(value.type())),
        offset));
  }
  const std::uint64_t alignment = *value.natural();
  if (!std::has_single_bit(alignment)) {
    return fail(
        broken(ErrorCode::bad_header, "gguf_alignment_is_a_power_of_two",
               format_text("metadata key '{}' is {}, which is not a power of two", alignment_key, alignment),
               offset));
  }
  return alignment;
}

/// The plan for data behind a header of that length. Without a tensor there is no data to begin.
Result<DataPlan> plan_data(std::uint64_t header_bytes, std::uint64_t alignment, std::uint64_t file_bytes,
                           bool any_tensor) {
  // A header is a part of a file and an alignment a u32.
  const std::uint64_t begin = *checked::align_up(header_bytes, alignment);
  if (any_tensor && begin > file_bytes) {
    return fail(broken(ErrorCode::truncated, "gguf_data_begins_in_the_file",
                       format_text("data starts at byte {} but the file has {} bytes", begin, file_bytes),
                       file_bytes));
  }
  return DataPlan(begin, alignment);
}

}  // namespace

bool looks_like(Bytes prefix, std::uint64_t /*file_bytes*/) { return begins_with(prefix, magic); }

Result<Parsed> parse(const Seen& seen, std::uint64_t file_bytes, const ParseOptions& options) {
  Reader reader(seen.prefix(), file_bytes,
                options.max_header_bytes != 0 ? options.max_header_bytes : default_max_header_bytes);
  // The whole header is checked before any of it is copied.
  const auto counts = read_counts(reader);
  if (!counts) return std::move(reader).stopped();
  const auto pairs = read_pairs(reader, counts->values);
  if (!pairs) return std::move(reader).stopped();
  const auto table = static_cast<std::size_t>(reader.at());
  if (!skip_tensors(reader, counts->tensors)) return std::move(reader).stopped();

  CatalogBuilder builder("gguf");
  HT_TRY(add_metadata(*pairs, reader.order(), seen.owner(), builder.metadata()));
  // A duplicate key is reported before its consequences, such as a wrong alignment.
  HT_TRY(builder.metadata().index());
  const auto alignment = HT_TRY(read_alignment(*pairs, builder.metadata(), seen.prefix().data()));
  const bool any_tensor = counts->tensors > 0;
  auto plan = HT_TRY(plan_data(reader.at(), alignment, file_bytes, any_tensor));
  reader.go_back(table);
  HT_TRY(read_tensors(reader, counts->tensors, plan, builder));
  if (any_tensor && !options.headers_only) HT_TRY(check_data_is_there(plan.next_in_file(), file_bytes));
  return std::move(builder).build();
}

}  // namespace ht::inline v1::format_gguf
