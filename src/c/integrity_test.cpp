#include <fstream>
#include <htensor/integrity/seal.hpp>

#include "c/c_test.hpp"
#include "testing/shared_folder.hpp"

namespace ht::c_integrity_test {
namespace {

using testing::Handle;
using testing::sized;
using testing::text;

class CIntegrity : public testing::CApi {
 protected:
  Handle<ht_seal> seal(const Handle<ht_model>& model, const ht_hash_options* options = nullptr) {
    ht_seal* created = nullptr;
    EXPECT_EQ(ht_model_seal(model.get(), options, &created, failed_.out()), HT_OK) << failed_;
    return Handle<ht_seal>(created);
  }
  Handle<const ht_verification> verify(const ht_verify_options* options = nullptr) {
    const ht_verification* found = nullptr;
    EXPECT_EQ(ht_verify(path("m.safetensors").c_str(), options, &found, failed_.out()), HT_OK) << failed_;
    return Handle<const ht_verification>(found);
  }
  void flip_last_byte() {
    auto bytes = testing::read_file(path("m.safetensors"));
    bytes.back() ^= std::byte{1};
    std::fstream file(path("m.safetensors"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(bytes.back()));
  }
  static std::string hex(const ht_digest& digest) {
    char out[65];
    ht_digest_hex(&digest, out);
    return out;
  }
};

TEST_F(CIntegrity, seal_lists_files_and_tensors) {
  const auto model = small_model();
  const auto created = seal(model);
  auto info = sized<ht_seal_info>();
  ASSERT_EQ(ht_seal_describe(created.get(), &info, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(info.path, path("m.safetensors.htseal"));
  EXPECT_EQ(info.bytes, std::filesystem::file_size(path("m.safetensors")));
  EXPECT_EQ(info.file_count, 1U);
  EXPECT_EQ(info.tensor_count, 2U);
  const auto library = read_seal(path("m.safetensors.htseal")).value();
  EXPECT_EQ(hex(info.digest), to_hex(digest_of(library).value()));
  auto entry = sized<ht_seal_entry>();
  ASSERT_EQ(ht_seal_file(created.get(), 0, &entry, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(text(entry.name), "m.safetensors");
  ASSERT_EQ(ht_seal_tensor(created.get(), 1, &entry, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(text(entry.name), library.tensors[1].name);
  EXPECT_EQ(hex(entry.digest), to_hex(library.tensors[1].digest));
  EXPECT_EQ(entry.file_index, 0U);
  EXPECT_EQ(ht_seal_tensor(created.get(), 2, &entry, failed_.out()), HT_OUT_OF_BOUNDS);
  ht_seal* reopened = nullptr;
  ASSERT_EQ(ht_seal_read(info.path, &reopened, failed_.out()), HT_OK) << failed_;
  ht_seal_free(reopened);
  EXPECT_EQ(ht_seal_read(path("other.safetensors").c_str(), &reopened, failed_.out()), HT_NOT_SEALED);
}

TEST_F(CIntegrity, damage_is_found) {
  const auto model = small_model();
  EXPECT_EQ(ht_model_verify(model.get(), nullptr, failed_.out()), HT_NOT_SEALED);
  seal(model);
  ASSERT_EQ(ht_model_verify(model.get(), nullptr, failed_.out()), HT_OK) << failed_;
  ASSERT_EQ(ht_tensor_verify(get(model, "n").get(), failed_.out()), HT_OK) << failed_;
  auto found = verify();
  EXPECT_EQ(found->ok, 1);
  EXPECT_EQ(found->verdict, HT_VERDICT_INTACT);
  EXPECT_EQ(found->seal, path("m.safetensors.htseal"));
  EXPECT_EQ(found->damage, nullptr);
  auto quick = sized<ht_verify_options>();
  quick.quick = 1;
  EXPECT_EQ(verify(&quick)->verdict, HT_VERDICT_HEADERS_MATCH);

  flip_last_byte();
  found = verify();
  EXPECT_EQ(found->ok, 0);
  EXPECT_EQ(found->verdict, HT_VERDICT_DAMAGED);
  EXPECT_EQ(found->algorithm, HT_HASH_CRC64NVME);
  ASSERT_EQ(found->bad_count, 1U);
  EXPECT_EQ(found->bad[0]->part, HT_PART_TENSOR);
  EXPECT_EQ(text(found->bad[0]->tensor), "n");
  EXPECT_EQ(found->bad[0]->file, path("m.safetensors"));
  EXPECT_EQ(found->bad[0]->bytes, 16U);
  const auto damaged = open("m.safetensors");
  EXPECT_EQ(ht_model_verify(damaged.get(), nullptr, failed_.out()), HT_CHECKSUM_MISMATCH);
  EXPECT_STREQ(ht_error_tensor(failed_.get()), "n");
  ASSERT_NE(found->damage, nullptr);
  EXPECT_EQ(ht_error_code(found->damage), HT_CHECKSUM_MISMATCH);
  EXPECT_STREQ(ht_error_message(found->damage), ht_error_message(failed_.get()));
  EXPECT_EQ(ht_tensor_verify(get(damaged, "n").get(), failed_.out()), HT_CHECKSUM_MISMATCH);
  EXPECT_EQ(ht_tensor_verify(get(damaged, "w").get(), failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(ht_model_seal(damaged.get(), nullptr, nullptr, failed_.out()), HT_CHECKSUM_MISMATCH);
  auto force = sized<ht_hash_options>();
  force.force = 1;
  seal(damaged, &force);
  EXPECT_EQ(verify()->ok, 1);
}

TEST_F(CIntegrity, missing_model_cannot_be_verified) {
  const ht_verification* found = nullptr;
  EXPECT_NE(ht_verify(path("missing.safetensors").c_str(), nullptr, &found, failed_.out()), HT_OK);
  EXPECT_EQ(found, nullptr);
}

TEST_F(CIntegrity, hashes_are_those_of_the_cpp_function) {
  const auto model = small_model();
  const auto opened = Model::open(path("m.safetensors")).value();
  for (const auto& [algorithm, named] : {std::pair(HT_HASH_DEFAULT, HashAlgorithm::crc64nvme),
                                         std::pair(HT_HASH_XXH3_128, HashAlgorithm::xxh3_128)}) {
    const auto expected = hash(opened, {.algorithm = named, .per_tensor = true}).value();
    auto options = sized<ht_hash_options>();
    options.algorithm = algorithm;
    options.per_tensor = 1;
    const ht_hashes* hashes = nullptr;
    ASSERT_EQ(ht_model_hash(model.get(), &options, &hashes, failed_.out()), HT_OK) << failed_;
    const Handle<const ht_hashes> owner(hashes);
    ASSERT_EQ(hashes->file_count, 1U);
    EXPECT_EQ(hashes->files[0], path("m.safetensors"));
    ASSERT_EQ(hashes->tensor_count, 2U);
    EXPECT_EQ(hex(hashes->digest), to_hex(expected.digest));
    EXPECT_EQ(hex(hashes->tensors[1]), to_hex(expected.tensors[1]));
  }
  const ht_hashes* hashes = nullptr;
  ASSERT_EQ(ht_model_hash(model.get(), nullptr, &hashes, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(hashes->tensors, nullptr);
  ht_result_free(hashes);
}

TEST_F(CIntegrity, validate_lists_problems) {
  const auto validate = [&](const std::string& file) {
    const ht_diagnosis* found = nullptr;
    EXPECT_EQ(ht_validate(file.c_str(), nullptr, &found, failed_.out()), HT_OK) << failed_;
    return Handle<const ht_diagnosis>(found);
  };
  small_model();
  const auto good = validate(path("m.safetensors"));
  EXPECT_STREQ(good->format, "safetensors");
  EXPECT_EQ(good->readable, 1);
  EXPECT_EQ(good->problem_count, 0U);
  std::filesystem::resize_file(path("m.safetensors"), std::filesystem::file_size(path("m.safetensors")) - 1);
  const auto cut = validate(path("m.safetensors"));
  EXPECT_EQ(cut->readable, 0);
  ASSERT_EQ(cut->problem_count, 1U);
  EXPECT_EQ(ht_error_code(cut->problems[0]), HT_TRUNCATED);
  EXPECT_STRNE(ht_error_hint(cut->problems[0]), "");
  const ht_diagnosis* none = nullptr;
  EXPECT_EQ(ht_validate(path("missing.gguf").c_str(), nullptr, &none, failed_.out()), HT_OPEN_FAILED);
}

TEST_F(CIntegrity, validate_agrees_with_the_cpp_function_over_the_corpus) {
  HT_SHARED_OR_SKIP(folder, "corpus");
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (!file.is_regular_file()) continue;
    const auto expected = diagnose(file.path());
    const ht_diagnosis* found = nullptr;
    const auto status = ht_validate(file.path().c_str(), nullptr, &found, failed_.out());
    const Handle<const ht_diagnosis> owner(found);
    ASSERT_EQ(status, expected ? 0 : static_cast<int>(expected.error().code())) << file.path();
    if (!expected) continue;
    EXPECT_EQ(found->format, expected->format);
    EXPECT_EQ(found->readable != 0, expected->is_readable);
    ASSERT_EQ(found->problem_count, expected->problems.size());
    for (std::size_t i = 0; i < found->problem_count; ++i) {
      EXPECT_EQ(ht_error_text(found->problems[i]), to_string(expected->problems[i]));
    }
    EXPECT_EQ(found->warning_count, expected->warnings.size());
    EXPECT_EQ(found->missing_file_count, expected->missing_files.size());
  }
}

TEST_F(CIntegrity, hex_of_null_digest_is_empty) {
  char out[65] = "x";
  ht_digest_hex(nullptr, out);
  EXPECT_STREQ(out, "");
}

}  // namespace
}  // namespace ht::c_integrity_test
