#include "format/fuzz_format.hpp"

#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstdlib>
#include <htensor/format/format.hpp>
#include <optional>
#include <string>
#include <vector>

#include "format/test_same_tensors.hpp"

namespace ht::testing {
namespace {

void require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "violated property: %s\n", property);
  std::abort();
}

// Bytes allocated now, and their peak since parsing began. The fuzzer is single-threaded.
std::int64_t live = 0;
std::int64_t peak = 0;

void count_malloc(const volatile void* /*pointer*/, std::size_t size) {
  live += static_cast<std::int64_t>(size);
  peak = std::max(peak, live);
}

void count_free(const volatile void* pointer) {
  if (pointer == nullptr) return;
  live -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(pointer)));
}

// An exact-size heap copy, so that the sanitizer detects a read past its end.
std::vector<std::byte> exact_copy(Bytes bytes) { return {bytes.begin(), bytes.end()}; }

/// Parses with all bytes of `file` available. Returns nullopt if the parser needs bytes beyond `file`.
std::optional<Result<Catalog>> parse_whole(const Format& format, Bytes file, std::uint64_t file_bytes,
                                           const ParseOptions& options) {
  Result<ParseResult> parsed = Need{};
  check_memory(file.size(), [&] { parsed = format.parse(file, file_bytes, options); });
  if (!parsed) return fail(parsed.error());
  if (auto* catalog = std::get_if<Catalog>(&*parsed)) return std::move(*catalog);
  const Need need = std::get<Need>(*parsed);
  require(checked::range_fits(need.offset, need.bytes, file_bytes),
          "a parser requests bytes within the file");
  require(!part(file, need.offset, need.bytes), "a parser requests only unread bytes");
  return std::nullopt;
}

/// The same, with only the bytes that the parser requested.
std::optional<Result<Catalog>> parse_in_parts(const Format& format, Bytes file, std::uint64_t file_bytes,
                                              const ParseOptions& options) {
  std::vector<std::byte> prefix;
  std::vector<std::vector<std::byte>> buffers;
  std::vector<FileParts::Part> parts;
  while (true) {
    auto parsed = format.parse(FileParts(prefix, parts), file_bytes, options);
    if (!parsed) return fail(parsed.error());
    if (auto* catalog = std::get_if<Catalog>(&*parsed)) return std::move(*catalog);
    const Need need = std::get<Need>(*parsed);
    require(checked::range_fits(need.offset, need.bytes, file_bytes),
            "a parser requests bytes within the file");
    require(!FileParts(prefix, parts).range(need.offset, need.bytes), "a parser requests only unread bytes");
    if (need.offset <= prefix.size()) {
      // A parser may request slightly more than it needs, so a request past the end returns the available
      // bytes.
      const auto end =
          static_cast<std::size_t>(std::min<std::uint64_t>(file.size(), need.offset + need.bytes));
      if (end <= prefix.size()) return std::nullopt;
      prefix = exact_copy(file.first(end));
      continue;
    }
    const auto requested = part(file, need.offset, need.bytes);
    if (!requested) return std::nullopt;
    buffers.push_back(exact_copy(*requested));
    parts.push_back({need.offset, buffers.back()});
  }
}

void check_round_trip(const Format& format, const Catalog& catalog, const ParseOptions& options) {
  const auto encoded = format.encode(catalog, {});
  if (!encoded) {
    require(encoded.error().code() == ErrorCode::size_overflow, "accepted catalogs can be encoded");
    return;
  }
  const auto reparsed = parse_whole(format, encoded->header, encoded->file_bytes, options);
  require(reparsed.has_value() && reparsed->has_value(), "encoded files can be parsed");
  require(same_tensors(catalog, **reparsed), "encoded files have the same tensors");
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    const Entry entry = (**reparsed)[i];
    require(entry.is_splat() || entry.file != 0 || entry.bytes == 0 || entry.offset == encoded->offsets[i],
            "data is at the offsets of the encoder");
  }
  const auto twice = format.encode(**reparsed, {});
  require(twice && twice->header == encoded->header && twice->file_bytes == encoded->file_bytes,
          "the same tensors encode to the same bytes");
}

void check_file(const Format& format, Bytes file, std::uint64_t file_bytes, bool allow_incomplete) {
  const ParseOptions options{.stem = "fuzz", .allow_incomplete = allow_incomplete};
  const auto whole = parse_whole(format, file, file_bytes, options);
  const auto in_parts = parse_in_parts(format, file, file_bytes, options);
  require(whole.has_value() == in_parts.has_value(),
          "parts and the whole both have a complete header or both lack one");
  if (!whole) return;
  require(whole->has_value() == in_parts->has_value(),
          "parts and the whole are both accepted or both refused");
  if (!*whole) {
    const Error& error = whole->error();
    require(!error.message().empty() && !error.rule().empty(), "an error has a message and a rule");
    require(to_string(error) == to_string(in_parts->error()) && error.hint() == in_parts->error().hint(),
            "parts and the whole have the same error");
    return;
  }
  require(same_tensors(**whole, **in_parts), "parts and the whole have the same tensors");
  check_round_trip(format, **whole, options);
}

}  // namespace

void check_memory(std::size_t input_bytes, const std::function<void()>& parse) {
  static const bool counting = [] {
    return __sanitizer_install_malloc_and_free_hooks(count_malloc, count_free) != 0;
  }();
  require(counting, "the sanitizer reports allocations");
  const std::int64_t limit = live + 8 * static_cast<std::int64_t>(input_bytes) + (1 << 20);
  peak = live;
  parse();
  require(peak <= limit, "memory is at most 8 times the input plus 1 MiB");
}

void check_format(std::string_view name, const std::uint8_t* data, std::size_t size) {
  const auto* const format = find_format(name);
  require(format != nullptr, "the format is registered");
  if (size < 8) return;
  const Bytes all = std::as_bytes(std::span(data, size));
  const auto claimed = load_le<std::uint64_t>(all);
  const auto file = exact_copy(all.subspan(8));
  for (const bool allow_incomplete : {false, true}) {
    check_file(*format, file, file.size(), allow_incomplete);
    check_file(*format, file, std::max<std::uint64_t>(claimed, file.size()), allow_incomplete);
  }
}

}  // namespace ht::testing
