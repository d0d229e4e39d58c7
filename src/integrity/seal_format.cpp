// The bytes of a seal (spec/seal-format.md):
//
// clang-format off
//    0 magic "HTSEAL\0\0"   8 u16 version   10 u8 algorithm   11 u8 zero   12 u32 files
//   16 u64 tensors   24 u64 chunks   32 u64 bytes of a chunk   40 u64 bytes of names
//   48 u64 bytes of the seal   56 u64 zero
//   each file:   u64 bytes, u32 bytes of the name, u32 zero, digest
//   each tensor: u64 offset, u64 bytes, u32 file or all ones, u32 bytes of the name, digest
//   digests of the chunks, names of the files, names of the tensors, digest of all bytes before it
// clang-format on
#include "integrity/seal_format.hpp"
#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "integrity/regions.hpp"

#include <algorithm>
#include <array>
#include <htensor/base/bytes.hpp>
#include <set>

namespace ht::inline v1 {
namespace {

constexpr std::string_view magic{"HTSEAL\0\0", 8};
constexpr std::uint16_t version = 1;
constexpr std::uint64_t header_bytes = 64;
constexpr std::uint64_t file_record_bytes = 16;    // without its digest
constexpr std::uint64_t tensor_record_bytes = 24;  // without its digest
constexpr std::uint32_t no_file = UINT32_MAX;

tl::unexpected<Error> bad(std::string_view rule, std::string message, SourceLine where = SourceLine::here()) {
  return fail(
      Error(ErrorCode::bad_seal, rule, std::move(message), where)
          .with_hint("download the seal again, or replace it with `htensor seal --force` if the model is "
                     "known to be good"));
}

// Reads fields in order, without bounds checks: the total size was checked before.
class Reader {
 public:
  Reader(Bytes bytes, HashAlgorithm algorithm) : bytes_(bytes), algorithm_(algorithm) {}

  template <class T>
  T number() {
    return load_le<T>(take(sizeof(T)));
  }
  Digest digest() { return {algorithm_, take(digest_bytes(algorithm_))}; }
  Bytes take(std::uint64_t count) {
    const Bytes taken = bytes_.first(static_cast<std::size_t>(count));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  [[nodiscard]] std::uint64_t left() const { return bytes_.size(); }

 private:
  Bytes bytes_;
  HashAlgorithm algorithm_;
};

Result<void> check_name(std::string_view name) {
  if (is_utf8(name)) return {};
  return bad("seal_names_are_utf8", "contains a name that is not UTF-8");
}

Result<std::string> take_name(Reader& names, std::uint32_t bytes) {
  if (bytes > names.left()) {
    return bad("seal_names_are_complete",
               format_text("has a record with a name of {} bytes, but {} bytes of names are left", bytes,
                           names.left()));
  }
  const Bytes name = names.take(bytes);
  std::string text(reinterpret_cast<const char*>(name.data()), name.size());
  HT_TRY(check_name(text));
  return text;
}

Result<void> check_files(const Seal& seal) {
  if (seal.files.empty()) return bad("seal_has_a_file", "lists 0 files");
  std::uint64_t all = 0;
  std::set<std::string_view> names;
  for (const auto& file : seal.files) {
    if (const auto problem = sealed_name_problem(file.name); !problem.empty()) {
      return bad("seal_file_names_are_plain",
                 format_text("lists the file '{}', whose name {}", to_utf8(file.name), problem));
    }
    if (!names.insert(file.name).second) {
      return bad("seal_file_names_are_unique", format_text("lists the file '{}' twice", to_utf8(file.name)));
    }
    const auto sum = checked::add(all, file.bytes);
    if (!sum || !checked::narrow<std::int64_t>(*sum)) {
      return bad("seal_sizes_fit_63_bits", "lists files of 2^63 bytes or more in total");
    }
    all = *sum;
  }
  return {};
}

Result<void> check_tensors(const Seal& seal) {
  for (const auto& tensor : seal.tensors) {
    HT_TRY(check_name(tensor.name));
    if (!tensor.file) {
      if (tensor.offset == 0) continue;
      return bad("seal_splats_have_offset_0",
                 format_text("places splat '{}' at byte {}, but a splat has no bytes in a file",
                             to_utf8(tensor.name), tensor.offset));
    }
    if (*tensor.file < seal.files.size() &&
        checked::range_fits(tensor.offset, tensor.bytes, seal.files[*tensor.file].bytes)) {
      continue;
    }
    return bad("seal_tensors_are_within_the_seal_files",
               format_text("places tensor '{}' outside the files of the seal: {} bytes at byte {}",
                           to_utf8(tensor.name), tensor.bytes, tensor.offset));
  }
  return {};
}

Result<void> check_algorithm(HashAlgorithm algorithm) {
  if (std::ranges::find(all_hash_algorithms, algorithm) != all_hash_algorithms.end()) return {};
  return bad("seal_algorithm_is_known",
             format_text("uses unknown hash algorithm {}", static_cast<int>(algorithm)));
}

Result<void> check_digest(const Seal& seal, std::string_view name, const Digest& digest) {
  if (digest.algorithm() == seal.algorithm) return {};
  return bad("seal_digests_use_the_seal_algorithm",
             format_text("has a digest of '{}' by {}, but its algorithm is {}", to_utf8(name),
                         to_string(digest.algorithm()), to_string(seal.algorithm)));
}

Result<void> check(const Seal& seal) {
  HT_TRY(check_algorithm(seal.algorithm));
  HT_TRY(check_files(seal));
  HT_TRY(check_tensors(seal));
  for (const auto& file : seal.files) HT_TRY(check_digest(seal, file.name, file.digest));
  for (const auto& tensor : seal.tensors) HT_TRY(check_digest(seal, tensor.name, tensor.digest));
  const std::uint64_t chunks = SealRegions(seal).chunks();
  const std::size_t size = digest_bytes(seal.algorithm);
  if (seal.chunks.size() == chunks * size) return {};
  return bad("seal_covers_every_byte", format_text("has {} bytes of digests of chunks, but its files have {} "
                                                   "chunks with digests of {} bytes",
                                                   seal.chunks.size(), chunks, size));
}

// Checks the magic, version, algorithm and size, before any other field is read.
Result<HashAlgorithm> check_beginning(Bytes bytes) {
  if (bytes.size() < header_bytes) {
    return bad("seal_has_a_header",
               format_text("has {} bytes, fewer than the 64 of a seal's header", bytes.size()));
  }
  if (!std::ranges::equal(bytes.first(magic.size()), bytes_of(magic))) {
    return bad("seal_has_its_magic", "does not begin with HTSEAL");
  }
  if (const auto found = load_le<std::uint16_t>(bytes.subspan(8)); found != version) {
    return bad("seal_version_is_known",
               format_text("has version {}, but this program reads version {}", found, version));
  }
  const auto algorithm = static_cast<HashAlgorithm>(bytes[10]);
  HT_TRY(check_algorithm(algorithm));
  if (const auto stated = load_le<std::uint64_t>(bytes.subspan(48)); stated != bytes.size()) {
    return bad("seal_size_matches_its_header",
               format_text("has {} bytes, but its header says {}", bytes.size(), stated));
  }
  return algorithm;
}

Result<void> check_own_digest(Bytes bytes, HashAlgorithm algorithm) {
  const std::size_t size = digest_bytes(algorithm);
  const auto found = HT_TRY(digest(algorithm, bytes.first(bytes.size() - size)));
  if (found == Digest(algorithm, bytes.last(size))) return {};
  return bad("seal_digest_matches", "checksum mismatch in the seal itself");
}

bool is_within_limit(HashAlgorithm algorithm, const SealCounts& counts) {
  return counts.seal_bytes(algorithm).value_or(UINT64_MAX) <= Seal::max_bytes;
}

}  // namespace

std::string_view sealed_name_problem(std::string_view name) {
  if (const auto problem = path_problem(name); !problem.empty()) return problem;
  // Each file has only one valid name, so that no file can appear twice.
  const bool is_plain = std::filesystem::path(name).lexically_normal().generic_string() == name;
  return is_plain ? "" : "is not in its shortest form";
}

SealCounts SealCounts::of(const Seal& seal) noexcept {
  SealCounts counts{.files = seal.files.size(),
                    .tensors = seal.tensors.size(),
                    .chunks = seal.chunks.size() / digest_bytes(seal.algorithm)};
  for (const auto& file : seal.files) counts.name_bytes += file.name.size();
  for (const auto& tensor : seal.tensors) counts.name_bytes += tensor.name.size();
  return counts;
}

std::optional<std::uint64_t> SealCounts::seal_bytes(HashAlgorithm algorithm) const noexcept {
  const std::uint64_t digest = digest_bytes(algorithm);
  std::optional<std::uint64_t> sum = header_bytes + digest;
  const auto add = [&](std::uint64_t count, std::uint64_t bytes) {
    const auto product = checked::multiply(count, bytes);
    sum = sum && product ? checked::add(*sum, *product) : std::nullopt;
  };
  add(files, file_record_bytes + digest);
  add(tensors, tensor_record_bytes + digest);
  add(chunks, digest);
  add(name_bytes, 1);
  return sum;
}

Result<void> check_seal_size(HashAlgorithm algorithm, const SealCounts& counts) {
  if (is_within_limit(algorithm, counts)) return {};
  const bool fits_with_crc = is_within_limit(HashAlgorithm::crc64nvme, counts);
  return fail(Error(ErrorCode::header_too_large, "seal_size_within_limit",
                    format_text("the seal would have {} bytes, with digests of {} chunks and {} tensors, but "
                                "the limit is {} bytes",
                                counts.seal_bytes(algorithm).value_or(UINT64_MAX), counts.chunks,
                                counts.tensors, Seal::max_bytes))
                  .with_hint(fits_with_crc ? "use --algorithm crc64nvme, whose digests have 8 bytes"
                                           : "divide the model into several folders and seal each of them"));
}

Result<void> check_seal_size(HashAlgorithm algorithm, const Catalog& catalog,
                             std::span<const std::uint64_t> file_bytes, std::span<const std::string> names) {
  SealCounts counts{.files = file_bytes.size(), .tensors = catalog.size()};
  std::vector<Seal::Tensor> tensors;
  tensors.reserve(catalog.size());
  for (const Entry& entry : catalog) {
    counts.name_bytes += entry.name.size();
    if (entry.is_splat()) continue;
    tensors.push_back(
        {.name = {}, .file = entry.file, .offset = entry.offset, .bytes = entry.bytes, .digest = Digest(0)});
  }
  for (const auto& name : names) counts.name_bytes += name.size();
  counts.chunks = SealRegions(file_bytes, tensors).chunks();
  return check_seal_size(algorithm, counts);
}

bool operator==(const Seal& a, const Seal& b) {
  return a.algorithm == b.algorithm && a.files == b.files && a.tensors == b.tensors && a.chunks == b.chunks;
}

Result<Seal> parse_seal(Bytes bytes) {
  return without_bad_alloc([&]() -> Result<Seal> {
    Seal seal{.algorithm = HT_TRY(check_beginning(bytes)), .files = {}, .tensors = {}, .chunks = {}};
    const std::size_t digest_size = digest_bytes(seal.algorithm);
    Reader in(bytes, seal.algorithm);
    in.take(12);
    const SealCounts counts{in.number<std::uint32_t>(), in.number<std::uint64_t>(),
                            in.number<std::uint64_t>(), load_le<std::uint64_t>(bytes.subspan(40))};
    // After this check all counted records are within `bytes`.
    if (counts.seal_bytes(seal.algorithm) != bytes.size()) {
      return bad("seal_size_matches_its_counts",
                 format_text("has {} bytes, which contradicts its counts: {} files, {} tensors, {} chunks, "
                             "{} bytes of names",
                             bytes.size(), counts.files, counts.tensors, counts.chunks, counts.name_bytes));
    }
    HT_TRY(check_own_digest(bytes, seal.algorithm));
    const auto chunk_bytes = in.number<std::uint64_t>();
    in.take(16);
    if (chunk_bytes != Seal::chunk_bytes || in.number<std::uint64_t>() != 0 || bytes[11] != std::byte{0}) {
      return bad("seal_header_matches_its_version",
                 "has a reserved field that is not 0, or chunks of another size");
    }
    const std::uint64_t at_names = bytes.size() - digest_size - counts.name_bytes;
    Reader names(*part(bytes, at_names, counts.name_bytes), seal.algorithm);
    seal.files.reserve(counts.files);
    for (std::uint64_t i = 0; i < counts.files; ++i) {
      const auto file_bytes = in.number<std::uint64_t>();
      auto name = HT_TRY(take_name(names, in.number<std::uint32_t>()));
      if (in.number<std::uint32_t>() != 0) {
        return bad("seal_header_matches_its_version", format_text("reserved field of file {} is not 0", i));
      }
      seal.files.push_back({std::move(name), file_bytes, in.digest()});
    }
    seal.tensors.reserve(counts.tensors);
    for (std::uint64_t i = 0; i < counts.tensors; ++i) {
      const auto offset = in.number<std::uint64_t>();
      const auto tensor_bytes = in.number<std::uint64_t>();
      const auto file = in.number<std::uint32_t>();
      auto name = HT_TRY(take_name(names, in.number<std::uint32_t>()));
      seal.tensors.push_back({.name = std::move(name),
                              .file = file == no_file ? std::nullopt : std::optional(file),
                              .offset = offset,
                              .bytes = tensor_bytes,
                              .digest = in.digest()});
    }
    const Bytes chunks = in.take(counts.chunks * digest_size);
    seal.chunks.assign(chunks.begin(), chunks.end());
    if (names.left() != 0)
      return bad("seal_name_bytes_are_used",
                 format_text("has {} bytes after the names of its records", names.left()));
    HT_TRY(check(seal));
    return seal;
  });
}

Result<std::vector<std::byte>> encode_seal(const Seal& seal) {
  return without_bad_alloc([&]() -> Result<std::vector<std::byte>> {
    HT_TRY(check(seal));
    const auto counts = SealCounts::of(seal);
    HT_TRY(check_seal_size(seal.algorithm, counts));
    const std::uint64_t all = counts.seal_bytes(seal.algorithm).value_or(UINT64_MAX);
    std::vector<std::byte> out;
    out.reserve(static_cast<std::size_t>(all));
    const auto add = [&](Bytes bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); };
    const auto add_number = [&](auto value) {
      std::array<std::byte, sizeof(value)> bytes{};
      store_le(bytes, value);
      add(bytes);
    };
    add(bytes_of(magic));
    add_number(version);
    add_number(static_cast<std::uint8_t>(seal.algorithm));
    add_number(std::uint8_t{0});
    add_number(static_cast<std::uint32_t>(counts.files));
    for (const std::uint64_t number :
         {counts.tensors, counts.chunks, Seal::chunk_bytes, counts.name_bytes, all, std::uint64_t{0}}) {
      add_number(number);
    }
    for (const auto& file : seal.files) {
      add_number(file.bytes);
      add_number(static_cast<std::uint32_t>(file.name.size()));
      add_number(std::uint32_t{0});
      add(file.digest.bytes());
    }
    for (const auto& tensor : seal.tensors) {
      add_number(tensor.offset);
      add_number(tensor.bytes);
      add_number(tensor.file.value_or(no_file));
      add_number(static_cast<std::uint32_t>(tensor.name.size()));
      add(tensor.digest.bytes());
    }
    add(seal.chunks);
    for (const auto& file : seal.files) add(bytes_of(file.name));
    for (const auto& tensor : seal.tensors) add(bytes_of(tensor.name));
    const auto own = HT_TRY(digest(seal.algorithm, out));
    add(own.bytes());
    return out;
  });
}

Result<Digest> digest_of(const Seal& seal) {
  if (seal.files.size() == 1) return seal.files[0].digest;
  auto hasher = HT_TRY(Hasher::make(seal.algorithm));
  for (const auto& file : seal.files) hasher.update(file.digest.bytes());
  return hasher.finish();
}

}  // namespace ht::inline v1
