#include <htensor/hash/digest.hpp>
#include <htensor/integrity/seal.hpp>
#include <string>
#include <utility>

#include "c/boundary/boundary.hpp"
#include "c/boundary/handles.hpp"
#include "c/boundary/options.hpp"

struct ht_seal {  // NOLINT(readability-identifier-naming)
  std::string path;
  ht::Seal seal;
  ht::Digest digest;
};

namespace ht::c {
namespace {

ht_digest c_digest(const Digest& digest) noexcept {
  ht_digest c{.algorithm = static_cast<ht_hash>(digest.algorithm()), .bytes = 0, .data = {}};
  const auto bytes = digest.bytes();
  c.bytes = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(c.data, bytes.data(), bytes.size());
  return c;
}

Result<HashAlgorithm> algorithm_of(ht_hash algorithm) {
  HT_TRY(check_choice(algorithm, HT_HASH_SHA256, "algorithm"));
  return algorithm == HT_HASH_DEFAULT ? HashAlgorithm::crc64nvme : static_cast<HashAlgorithm>(algorithm);
}

Result<std::unique_ptr<ht_seal>> seal_at(const std::filesystem::path& path) {
  auto seal = HT_TRY(read_seal(path));
  const auto digest = HT_TRY(digest_of(seal));
  return std::make_unique<ht_seal>(ht_seal{path.string(), std::move(seal), digest});
}

Result<VerifyOptions> verify_options(const ht_verify_options* given, Work& work) {
  const auto read = HT_TRY(read_struct(given, "options"));
  VerifyOptions options;
  options.quick = read.quick != 0;
  options.max_header_bytes = read.max_header_bytes;
  options.work = HT_TRY(work.start(read.work));
  return options;
}

void set_verification(const Verification& found, const ht_verification** out) {
  if (out == nullptr) return;
  ResultOf<ht_verification> result;
  Memory& memory = result.memory();
  result->ok = found.is_intact() ? 1 : 0;
  result->verdict = static_cast<ht_verdict>(found.verdict);
  result->checked_bytes = found.checked_bytes;
  result->algorithm = static_cast<ht_hash>(found.algorithm);
  result->seal = found.seal.empty() ? nullptr : memory.c_text(found.seal.native());
  result->bad = memory.array_of(found.bad, [&](const Verification::BadRange& range) -> const ht_bad_range* {
    auto* const bad = memory.array<ht_bad_range>(1);
    *bad = {.file = memory.c_text(range.file.native()),
            .part = static_cast<ht_file_part>(range.part),
            .tensor = memory.text(range.tensor),
            .offset = range.offset,
            .bytes = range.bytes};
    return bad;
  });
  result->bad_count = found.bad.size();
  if (const auto intact = found.result(); !intact) result->damage = memory.error(intact.error());
  *out = std::move(result).release();
}

void set_diagnosis(const Model::Diagnosis& found, const ht_diagnosis** out) {
  ResultOf<ht_diagnosis> result;
  Memory& memory = result.memory();
  const auto error = [&](const Error& each) { return memory.error(each); };
  result->format = memory.c_text(found.format);
  result->readable = found.is_readable ? 1 : 0;
  result->problems = memory.array_of(found.problems, error);
  result->problem_count = found.problems.size();
  result->warnings = memory.array_of(found.warnings, error);
  result->warning_count = found.warnings.size();
  result->missing_files = memory.array_of(
      found.missing_files, [&](const std::filesystem::path& path) { return memory.c_text(path.native()); });
  result->missing_file_count = found.missing_files.size();
  *out = std::move(result).release();
}

}  // namespace
}  // namespace ht::c

using ht::Result;
using ht::c::call;
using ht::c::require;

void ht_digest_hex(const ht_digest* digest, char out[65]) {
  if (out == nullptr) return;
  char* at = out;
  for (std::uint32_t i = 0; digest != nullptr && i < digest->bytes && i < sizeof digest->data; ++i) {
    *at++ = "0123456789abcdef"[digest->data[i] >> 4U];
    *at++ = "0123456789abcdef"[digest->data[i] & 15U];
  }
  *at = '\0';
}

uint64_t ht_crc64nvme(const void* data, size_t bytes, uint64_t before) {
  return ht::crc64nvme(ht::Bytes(static_cast<const std::byte*>(data), data == nullptr ? 0 : bytes), before);
}

uint64_t ht_crc64nvme_combine(uint64_t first, uint64_t second, uint64_t second_bytes) {
  return ht::crc64nvme_combine(first, second, second_bytes);
}

ht_status ht_model_seal(const ht_model* model, const ht_hash_options* options, ht_seal** seal,
                        ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    const auto read = HT_TRY(ht::c::read_struct(options, "options"));
    ht::c::Work work;
    ht::SealOptions seal_options;
    seal_options.algorithm = HT_TRY(ht::c::algorithm_of(read.algorithm));
    seal_options.work = HT_TRY(work.start(read.work));
    if (read.max_splat_bytes != 0) seal_options.max_splat_bytes = read.max_splat_bytes;
    seal_options.force = read.force != 0;
    const auto sealed = HT_TRY(ht::seal(model->model, seal_options));
    if (seal != nullptr) *seal = HT_TRY(ht::c::seal_at(sealed.seal)).release();
    return {};
  });
}

ht_status ht_seal_read(const char* path, ht_seal** seal, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(path != nullptr, "path"));
    HT_TRY(require(seal != nullptr, "seal"));
    const std::filesystem::path given(path);
    *seal = HT_TRY(ht::c::seal_at(given.extension() == ".htseal" ? given : ht::seal_path(given))).release();
    return {};
  });
}

void ht_seal_free(ht_seal* seal) { delete seal; }

ht_status ht_seal_describe(const ht_seal* seal, ht_seal_info* info, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(seal != nullptr, "seal"));
    HT_TRY(ht::c::check_output(info, "info"));
    std::uint64_t bytes = 0;
    for (const auto& file : seal->seal.files) bytes += file.bytes;
    ht::c::write_struct(info, {.size = sizeof(ht_seal_info),
                               .path = seal->path.c_str(),
                               .digest = ht::c::c_digest(seal->digest),
                               .bytes = bytes,
                               .file_count = seal->seal.files.size(),
                               .tensor_count = seal->seal.tensors.size()});
    return {};
  });
}

ht_status ht_seal_file(const ht_seal* seal, size_t index, ht_seal_entry* entry, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(seal != nullptr, "seal"));
    HT_TRY(ht::c::check_output(entry, "entry"));
    HT_TRY(ht::c::check_position(index, seal->seal.files.size(), "files"));
    const auto& file = seal->seal.files[index];
    ht::c::write_struct(entry, {.size = sizeof(ht_seal_entry),
                                .name = {file.name.c_str(), file.name.size()},
                                .digest = ht::c::c_digest(file.digest),
                                .bytes = file.bytes,
                                .offset = 0,
                                .file_index = index});
    return {};
  });
}

ht_status ht_seal_tensor(const ht_seal* seal, size_t index, ht_seal_entry* entry, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(seal != nullptr, "seal"));
    HT_TRY(ht::c::check_output(entry, "entry"));
    HT_TRY(ht::c::check_position(index, seal->seal.tensors.size(), "tensors"));
    const auto& tensor = seal->seal.tensors[index];
    ht::c::write_struct(entry, {.size = sizeof(ht_seal_entry),
                                .name = {tensor.name.c_str(), tensor.name.size()},
                                .digest = ht::c::c_digest(tensor.digest),
                                .bytes = tensor.bytes,
                                .offset = tensor.offset,
                                .file_index = tensor.file ? *tensor.file : SIZE_MAX});
    return {};
  });
}

ht_status ht_verify(const char* path, const ht_verify_options* options, const ht_verification** verification,
                    ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(path != nullptr, "path"));
    ht::c::Work work;
    const auto verify_options = HT_TRY(ht::c::verify_options(options, work));
    ht::c::set_verification(HT_TRY(ht::compare_with_seal(path, verify_options)), verification);
    return {};
  });
}

ht_status ht_model_verify(const ht_model* model, const ht_verify_options* options, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    ht::c::Work work;
    const auto verify_options = HT_TRY(ht::c::verify_options(options, work));
    return ht::verify(model->model, verify_options);
  });
}

ht_status ht_tensor_verify(const ht_tensor* tensor, ht_error** error) {
  return ht_tensor_verify_with_work(tensor, nullptr, error);
}

ht_status ht_tensor_verify_with_work(const ht_tensor* tensor, const ht_work* work, ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(tensor != nullptr, "tensor"));
    ht::c::Work running;
    return ht::verify(tensor->tensor, HT_TRY(running.start(work)));
  });
}

ht_status ht_model_hash(const ht_model* model, const ht_hash_options* options, const ht_hashes** hashes,
                        ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(model != nullptr, "model"));
    HT_TRY(require(hashes != nullptr, "hashes"));
    const auto read = HT_TRY(ht::c::read_struct(options, "options"));
    ht::c::Work work;
    ht::HashOptions hash_options;
    hash_options.algorithm = HT_TRY(ht::c::algorithm_of(read.algorithm));
    hash_options.per_tensor = read.per_tensor != 0;
    hash_options.work = HT_TRY(work.start(read.work));
    if (read.max_splat_bytes != 0) hash_options.max_splat_bytes = read.max_splat_bytes;
    const auto found = HT_TRY(ht::hash(model->model, hash_options));
    ht::c::ResultOf<ht_hashes> result;
    auto& memory = result.memory();
    using File = ht::ModelDigests::File;
    result->digest = ht::c::c_digest(found.digest);
    result->files =
        memory.array_of(found.files, [&](const File& file) { return memory.c_text(file.path.native()); });
    result->file_digests =
        memory.array_of(found.files, [](const File& file) { return ht::c::c_digest(file.digest); });
    result->file_count = found.files.size();
    result->tensors = memory.array_of(found.tensors, ht::c::c_digest);
    result->tensor_count = found.tensors.size();
    *hashes = std::move(result).release();
    return {};
  });
}

ht_status ht_validate(const char* path, const ht_open_options* options, const ht_diagnosis** diagnosis,
                      ht_error** error) {
  return call(error, [&]() -> Result<void> {
    HT_TRY(require(path != nullptr, "path"));
    HT_TRY(require(diagnosis != nullptr, "diagnosis"));
    const auto open_options = HT_TRY(ht::c::open_options(options));
    ht::c::set_diagnosis(HT_TRY(ht::diagnose(path, open_options)), diagnosis);
    return {};
  });
}
