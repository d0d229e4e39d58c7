#include <algorithm>
#include <htensor/base/fault.hpp>
#include <htensor/base/utf8.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/integrity/verify.hpp>

#include "base/format_text.hpp"
#include "integrity/own_checksum.hpp"
#include "integrity/seal_place.hpp"
#include "integrity/validate.hpp"

namespace ht::inline v1 {
namespace {

Error unsealed(std::string message) {
  return Error(ErrorCode::not_sealed, "tensor_is_sealed", std::move(message))
      .with_hint("if the file is known to be good, seal it with `htensor seal`");
}

// The digest that a file's bytes were sealed with, if they are those of a tensor.
struct Wanted {
  std::string tensor;
  Digest digest;
};

std::optional<Wanted> find(const Seal& seal, std::uint32_t file, const Storage::FileBacked& range) {
  const auto found = std::ranges::find_if(seal.tensors, [&](const SealedTensor& tensor) {
    return tensor.file == file && tensor.offset == range.offset && tensor.bytes == range.bytes;
  });
  if (found == seal.tensors.end()) return std::nullopt;
  return Wanted{found->name, found->digest};
}

// Beside the file, or in its folder where that is a model of several.
Result<Wanted> wanted_for(const Storage::FileBacked& range, std::span<const Format> formats, io::Port& port) {
  const auto& path = range.locator;
  const auto beside = place_of_seal(path, formats, port);
  const SealPlace in_folder{.seal = path.parent_path() / "model.htseal", .file = std::nullopt};
  for (const auto& place : {beside, in_folder}) {
    const auto seal = read_seal(place.seal, port);
    if (!seal) {
      if (seal.error().code() == ErrorCode::not_sealed) continue;
      return fail(seal.error());
    }
    const auto paths = sealed_paths(*seal, place);
    for (std::uint32_t i = 0; i < paths.size(); ++i) {
      if (paths[i].lexically_normal() != path.lexically_normal()) continue;
      if (auto found = find(*seal, i, range)) return *std::move(found);
    }
  }
  const auto file = HT_TRY(io::FileSource::open(path, port));
  if (const auto own = HT_TRY(own_checksum(*file, formats))) {
    if (own->offset == range.offset && own->bytes == range.bytes) {
      return Wanted{path.stem().string(), Digest(own->crc)};
    }
  }
  return fail(unsealed("no seal covers this tensor").at_path(path.native()));
}

}  // namespace

DigestOf digest_of_memory(Bytes bytes) {
  return
      [bytes](HashAlgorithm algorithm) { return guarded(bytes, [&] { return digest(algorithm, bytes); }); };
}

Result<void> validate_bytes(const DigestOf& digest_of, const Storage::FileBacked& range,
                            std::span<const Format> formats, io::Port& port) {
  const auto wanted = HT_TRY(wanted_for(range, formats, port));
  const auto found = HT_TRY(digest_of(wanted.digest.algorithm()));
  if (found == wanted.digest) return {};
  return fail(Error(ErrorCode::checksum_mismatch, "tensor_is_as_sealed",
                    format_text("checksum mismatch in tensor '{}', bytes {}–{}", to_utf8(wanted.tensor),
                                range.offset, range.offset + std::max<std::uint64_t>(range.bytes, 1) - 1))
                  .at_path(range.locator.native())
                  .at_tensor(wanted.tensor)
                  .at_offset(range.offset)
                  .with_hint("download the file again"));
}

Result<void> validate(const Storage& storage) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto* const range = std::get_if<Storage::FileBacked>(&storage.origin());
    if (range == nullptr)
      return fail(unsealed("the tensor's memory does not come from a file, so no seal covers it"));
    return validate_bytes(digest_of_memory(storage.bytes()), *range, {}, io::system_port());
  });
}

}  // namespace ht::inline v1
