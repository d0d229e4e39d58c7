#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/htensor.hpp>
#include <set>

#include "c/c_test.hpp"
#include "testing/library_types.hpp"

namespace ht::boundary_test {
namespace {

using testing::Handle;
using testing::sized;

class Boundary : public testing::CApi {};

TEST_F(Boundary, status_names_are_those_of_the_codes) {
  EXPECT_STREQ(ht_status_name(HT_OK), "ok");
  EXPECT_STREQ(ht_status_name(static_cast<ht_status>(error_code_count + 1)), "unknown");
  for (std::size_t i = 1; i <= error_code_count; ++i) {
    EXPECT_EQ(ht_status_name(static_cast<ht_status>(i)), to_string(static_cast<ErrorCode>(i)));
  }
}

TEST_F(Boundary, type_names_are_those_of_the_cpp_library) {
  std::set<std::string> names;
  for (const auto& dtype : library_dtypes()) names.insert(ht_type_name(static_cast<ht_type>(dtype.tag)));
  for (const auto& encoding : library_encodings())
    names.insert(ht_type_name(static_cast<ht_type>(256 + static_cast<int>(encoding.tag))));
  std::set<std::string> expected;
  for (const auto& dtype : library_dtypes()) expected.emplace(dtype.name);
  for (const auto& encoding : library_encodings()) expected.emplace(encoding.name);
  EXPECT_EQ(names, expected);
  for (const auto& name : names) EXPECT_EQ(ht_type_name(ht_type_from_name(name.c_str())), name);
  EXPECT_STREQ(ht_type_name(HT_TYPE_UNKNOWN), "");
  EXPECT_STREQ(ht_type_name(static_cast<ht_type>(200)), "");
  EXPECT_STREQ(ht_type_name(static_cast<ht_type>(511)), "");
  EXPECT_EQ(ht_type_from_name("F31"), HT_TYPE_UNKNOWN);
  EXPECT_EQ(ht_type_from_name(nullptr), HT_TYPE_UNKNOWN);
}

TEST_F(Boundary, version_is_that_of_the_cpp_library) { EXPECT_EQ(ht_version(), library_version); }

TEST_F(Boundary, error_equals_the_error_of_the_cpp_function) {
  ht_model* model = nullptr;
  ht_error* error = nullptr;
  ASSERT_EQ(ht_model_open(path("missing.ht").c_str(), nullptr, &model, &error), HT_OPEN_FAILED);
  const auto same = Model::open(path("missing.ht")).error();
  EXPECT_EQ(model, nullptr);
  EXPECT_EQ(ht_error_code(error), HT_OPEN_FAILED);
  EXPECT_EQ(ht_error_rule(error), same.rule());
  EXPECT_EQ(ht_error_message(error), same.message());
  EXPECT_EQ(ht_error_hint(error), same.hint());
  EXPECT_EQ(ht_error_path(error), path("missing.ht"));
  EXPECT_STREQ(ht_error_tensor(error), "");
  EXPECT_EQ(ht_error_offset(error), -1);
  EXPECT_EQ(ht_error_errno(error), ENOENT);
  EXPECT_EQ(ht_error_text(error), to_string(same));
  ht_error_free(error);
}

TEST_F(Boundary, error_names_the_tensor_and_the_offset) {
  small_model();
  std::filesystem::resize_file(path("m.safetensors"), std::filesystem::file_size(path("m.safetensors")) - 1);
  auto options = sized<ht_open_options>();
  options.allow_incomplete = 1;
  const auto model = open("m.safetensors", &options);
  const auto tensor = get(model, "n");
  const void* data = nullptr;
  ASSERT_EQ(ht_tensor_data(tensor.get(), &data, nullptr, failed_.out()), HT_TRUNCATED);
  EXPECT_STREQ(ht_error_tensor(failed_.get()), "n");
  EXPECT_GT(ht_error_offset(failed_.get()), 0);
}

TEST_F(Boundary, null_is_accepted_as_no_error_and_by_every_free) {
  EXPECT_EQ(ht_error_code(nullptr), HT_OK);
  for (const auto text : {ht_error_rule, ht_error_message, ht_error_hint, ht_error_path, ht_error_tensor})
    EXPECT_STREQ(text(nullptr), "");
  EXPECT_STREQ(ht_error_text(nullptr), "ok");
  EXPECT_EQ(ht_error_offset(nullptr), -1);
  EXPECT_EQ(ht_error_errno(nullptr), 0);
  ht_error_free(nullptr);
  ht_result_free(nullptr);
  ht_model_free(nullptr);
  ht_tensor_free(nullptr);
  ht_seal_free(nullptr);
  ht_cancel_free(nullptr);
  ht_cancel_request(nullptr);
  EXPECT_EQ(ht_model_count(nullptr), 0U);
  EXPECT_EQ(ht_model_file_count(nullptr), 0U);
  EXPECT_EQ(ht_model_file(nullptr, 0), nullptr);
  EXPECT_EQ(ht_model_metadata_count(nullptr), 0U);
  EXPECT_STREQ(ht_model_format(nullptr), "");
}

TEST_F(Boundary, error_is_not_written_on_success) {
  small_model();
  auto* const untouched = reinterpret_cast<ht_error*>(1);
  ht_error* error = untouched;
  ht_model* model = nullptr;
  ASSERT_EQ(ht_model_open(path("m.safetensors").c_str(), nullptr, &model, &error), HT_OK);
  EXPECT_EQ(error, untouched);
  ht_model_free(model);
}

TEST_F(Boundary, required_pointer_is_not_null) {
  const auto model = small_model();
  const auto tensor = get(model, "w");
  ASSERT_EQ(ht_model_seal(model.get(), nullptr, nullptr, failed_.out()), HT_OK) << failed_;
  ht_seal* read = nullptr;
  ASSERT_EQ(ht_seal_read(path("m.safetensors").c_str(), &read, failed_.out()), HT_OK) << failed_;
  const Handle<ht_seal> seal(read);

  const auto* const m = model.get();
  const auto* const t = tensor.get();
  const std::string file = path("m.safetensors");
  const char* const p = file.c_str();
  ht_model* model_out = nullptr;
  ht_tensor* tensor_out = nullptr;
  ht_seal* seal_out = nullptr;
  auto info = sized<ht_tensor_info>();
  auto seal_info = sized<ht_seal_info>();
  auto entry = sized<ht_seal_entry>();
  auto statistics = sized<ht_statistics>();
  auto to_save = sized<ht_tensor_to_save>();
  const ht_metadata_item* item = nullptr;
  const ht_hashes* hashes = nullptr;
  const ht_differences* differences = nullptr;
  const ht_diagnosis* diagnosis = nullptr;
  DLManagedTensor* managed = nullptr;
  DLManagedTensorVersioned* versioned = nullptr;
  const void* data = nullptr;
  void* private_data = nullptr;
  double value = 0;
  std::int64_t two[2] = {0, 0};
  const auto body = [](void*) {};
  const auto consume = [](void*, std::size_t, std::uint64_t, const void*, std::size_t) { return 0; };
  const auto place = [](void*, const ht_tensor_info*) -> void* { return nullptr; };
  const auto allocate = [](void*, std::size_t) -> void* { return nullptr; };

  const std::vector<std::function<ht_status(ht_error**)>> calls{
      [&](ht_error** e) { return ht_model_open(nullptr, nullptr, &model_out, e); },
      [&](ht_error** e) { return ht_model_open(p, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_open_merged(nullptr, 1, nullptr, &model_out, e); },
      [&](ht_error** e) { return ht_model_open_merged(&p, 1, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_open_bytes(nullptr, 1, nullptr, nullptr, nullptr, &model_out, e); },
      [&](ht_error** e) { return ht_model_open_bytes(p, 1, nullptr, nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_open_fd(0, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_fault(nullptr, e); },
      [&](ht_error** e) { return ht_guard(nullptr, 1, body, nullptr, e); },
      [&](ht_error** e) { return ht_guard(p, 1, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_describe(nullptr, 0, &info, e); },
      [&](ht_error** e) { return ht_model_describe(m, 0, nullptr, e); },
      [&](ht_error** e) { return ht_model_get(nullptr, "w", 0, &tensor_out, e); },
      [&](ht_error** e) { return ht_model_get(m, nullptr, 0, &tensor_out, e); },
      [&](ht_error** e) { return ht_model_get(m, "w", 0, nullptr, e); },
      [&](ht_error** e) { return ht_model_at(nullptr, 0, &tensor_out, e); },
      [&](ht_error** e) { return ht_model_at(m, 0, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_rows(nullptr, 0, 1, &tensor_out, e); },
      [&](ht_error** e) { return ht_tensor_rows(t, 0, 1, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_describe(nullptr, &info, e); },
      [&](ht_error** e) { return ht_tensor_describe(t, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_strides(nullptr, two, 2, e); },
      [&](ht_error** e) { return ht_tensor_strides(t, nullptr, 2, e); },
      [&](ht_error** e) { return ht_model_metadata_at(nullptr, 0, &item, e); },
      [&](ht_error** e) { return ht_model_metadata_at(m, 0, nullptr, e); },
      [&](ht_error** e) { return ht_model_metadata_get(nullptr, "k", 0, &item, e); },
      [&](ht_error** e) { return ht_model_metadata_get(m, nullptr, 0, &item, e); },
      [&](ht_error** e) { return ht_model_metadata_get(m, "k", 0, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_data(nullptr, &data, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_data(t, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_private_data(nullptr, &private_data, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_private_data(t, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_copy_to(nullptr, 0, two, 8, e); },
      [&](ht_error** e) { return ht_tensor_copy_to(t, 0, nullptr, 8, e); },
      [&](ht_error** e) { return ht_tensor_read(nullptr, nullptr, 0, nullptr, two, 8, e); },
      [&](ht_error** e) { return ht_tensor_read(t, nullptr, 0, nullptr, nullptr, 24, e); },
      [&](ht_error** e) { return ht_tensor_read_f32(t, nullptr, 0, nullptr, 6, e); },
      [&](ht_error** e) { return ht_tensor_read_f64(nullptr, nullptr, 0, &value, 1, e); },
      [&](ht_error** e) { return ht_tensor_value(nullptr, two, 2, &value, e); },
      [&](ht_error** e) { return ht_tensor_value(t, nullptr, 2, &value, e); },
      [&](ht_error** e) { return ht_tensor_value(t, two, 2, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_statistics(nullptr, nullptr, &statistics, e); },
      [&](ht_error** e) { return ht_tensor_statistics(t, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_to_dlpack(nullptr, HT_ACCESS_COPY, &managed, e); },
      [&](ht_error** e) { return ht_tensor_to_dlpack(t, HT_ACCESS_COPY, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_to_dlpack_versioned(nullptr, HT_ACCESS_COPY, &versioned, e); },
      [&](ht_error** e) { return ht_tensor_to_dlpack_versioned(t, HT_ACCESS_COPY, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_copy_to_dlpack(nullptr, nullptr, &managed, e); },
      [&](ht_error** e) { return ht_tensor_copy_to_dlpack(t, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_copy_to_dlpack_versioned(nullptr, nullptr, &versioned, e); },
      [&](ht_error** e) { return ht_tensor_copy_to_dlpack_versioned(t, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_load(nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_stream(nullptr, consume, nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_stream(m, nullptr, nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_load_into(nullptr, place, nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_load_into(m, nullptr, nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_prefetch(nullptr, nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_evict(nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_residency(nullptr, 0, 0, nullptr, e); },
      [&](ht_error** e) { return ht_model_residency(m, 0, 1, nullptr, e); },
      [&](ht_error** e) { return ht_model_seal(nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_seal_read(nullptr, &seal_out, e); },
      [&](ht_error** e) { return ht_seal_read(p, nullptr, e); },
      [&](ht_error** e) { return ht_seal_describe(nullptr, &seal_info, e); },
      [&](ht_error** e) { return ht_seal_describe(seal.get(), nullptr, e); },
      [&](ht_error** e) { return ht_seal_file(nullptr, 0, &entry, e); },
      [&](ht_error** e) { return ht_seal_file(seal.get(), 0, nullptr, e); },
      [&](ht_error** e) { return ht_seal_tensor(nullptr, 0, &entry, e); },
      [&](ht_error** e) { return ht_seal_tensor(seal.get(), 0, nullptr, e); },
      [&](ht_error** e) { return ht_verify(nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_verify(nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_tensor_verify(nullptr, e); },
      [&](ht_error** e) { return ht_tensor_verify_with_work(nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_hash(nullptr, nullptr, &hashes, e); },
      [&](ht_error** e) { return ht_model_hash(m, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_validate(nullptr, nullptr, &diagnosis, e); },
      [&](ht_error** e) { return ht_validate(p, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_convert(nullptr, p, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_model_convert(m, nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_diff(nullptr, m, nullptr, &differences, e); },
      [&](ht_error** e) { return ht_diff(m, nullptr, nullptr, &differences, e); },
      [&](ht_error** e) { return ht_diff(m, m, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_edit_metadata(nullptr, nullptr, 0, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_edit_metadata(p, nullptr, 1, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_save(nullptr, nullptr, 0, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_save(p, nullptr, 1, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_save(p, &to_save, 1, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_save_to_memory(nullptr, 1, nullptr, allocate, nullptr, e); },
      [&](ht_error** e) { return ht_save_to_memory(nullptr, 0, nullptr, nullptr, nullptr, e); },
      [&](ht_error** e) { return ht_from_dlpack(nullptr, &to_save, e); },
      [&](ht_error** e) { return ht_from_dlpack_versioned(nullptr, &to_save, e); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i](failed_.out()), HT_BAD_STATE) << i << ": " << failed_;
    EXPECT_EQ(failed_.rule(), "required_pointer_is_not_null") << i;
    EXPECT_EQ(calls[i](nullptr), HT_BAD_STATE) << i;
  }
}

TEST_F(Boundary, struct_states_its_size) {
  const auto model = small_model();
  ht_model* out = nullptr;
  ht_open_options options{};
  EXPECT_EQ(ht_model_open(path("m.safetensors").c_str(), &options, &out, failed_.out()), HT_BAD_STATE);
  EXPECT_EQ(failed_.rule(), "struct_states_its_size");
  options.size = sizeof options - 1;
  EXPECT_EQ(ht_model_open(path("m.safetensors").c_str(), &options, &out, failed_.out()), HT_BAD_STATE);
  ht_tensor_info info{};
  EXPECT_EQ(ht_model_describe(model.get(), 0, &info, failed_.out()), HT_BAD_STATE);
  EXPECT_EQ(failed_.rule(), "struct_states_its_size");
}

// A struct of a later version.
template <class T>
struct Later {
  T known = sized<T>();
  std::uint64_t field = 0;

  Later() { known.size = sizeof(Later); }
};

TEST_F(Boundary, fields_of_later_versions_are_zero) {
  small_model();
  Later<ht_open_options> options;
  ht_model* out = nullptr;
  ASSERT_EQ(ht_model_open(path("m.safetensors").c_str(), &options.known, &out, failed_.out()), HT_OK)
      << failed_;
  ht_model_free(out);
  options.field = std::uint64_t{1} << 63;
  ASSERT_EQ(ht_model_open(path("m.safetensors").c_str(), &options.known, &out, failed_.out()), HT_BAD_STATE);
  EXPECT_EQ(failed_.rule(), "fields_of_later_versions_are_zero");
}

TEST_F(Boundary, output_fields_of_later_versions_are_set_to_zero) {
  const auto model = small_model();
  Later<ht_tensor_info> info;
  info.field = 7;
  ASSERT_EQ(ht_model_describe(model.get(), 0, &info.known, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(info.field, 0U);
  EXPECT_EQ(info.known.size, sizeof info);
  EXPECT_EQ(info.known.rank, 2U);
}

TEST_F(Boundary, enumeration_value_is_known) {
  const auto model = small_model();
  ht_model* out = nullptr;
  auto options = sized<ht_open_options>();
  options.faults = static_cast<ht_faults>(3);
  EXPECT_EQ(ht_model_open(path("m.safetensors").c_str(), &options, &out, failed_.out()), HT_BAD_STATE);
  EXPECT_EQ(failed_.rule(), "enumeration_value_is_known");
  auto load = sized<ht_load_options>();
  load.strategy = static_cast<ht_strategy>(7);
  EXPECT_EQ(ht_model_load(model.get(), &load, nullptr, failed_.out()), HT_BAD_STATE);
  EXPECT_EQ(failed_.rule(), "enumeration_value_is_known");
}

TEST_F(Boundary, index_is_within_the_list) {
  const auto model = small_model();
  auto info = sized<ht_tensor_info>();
  EXPECT_EQ(ht_model_describe(model.get(), 2, &info, failed_.out()), HT_OUT_OF_BOUNDS);
  EXPECT_EQ(failed_.rule(), "index_is_within_the_list");
  const ht_metadata_item* item = nullptr;
  EXPECT_EQ(ht_model_metadata_at(model.get(), 0, &item, failed_.out()), HT_OUT_OF_BOUNDS);
  ht_tensor* tensor = nullptr;
  EXPECT_EQ(ht_model_at(model.get(), SIZE_MAX, &tensor, failed_.out()), HT_OUT_OF_BOUNDS);
}

TEST_F(Boundary, crc64_of_consecutive_pieces_is_that_of_the_whole) {
  EXPECT_EQ(ht_crc64nvme("123456789", 9, 0), 0xae8b14860a799888U);
  EXPECT_EQ(ht_crc64nvme("6789", 4, ht_crc64nvme("12345", 5, 0)), 0xae8b14860a799888U);
  EXPECT_EQ(ht_crc64nvme_combine(ht_crc64nvme("12345", 5, 0), ht_crc64nvme("6789", 4, 0), 4),
            0xae8b14860a799888U);
  EXPECT_EQ(ht_crc64nvme(nullptr, 0, 5), 5U);
}

}  // namespace
}  // namespace ht::boundary_test
