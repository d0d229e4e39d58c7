#include "c/dlpack.hpp"

#include <htensor/model/model.hpp>

#include "c/c_test.hpp"
#include "format/gguf/gguf_test_file.hpp"
#include "format/safetensors/test_file.hpp"
#include "model/test_formats.hpp"
#include "testing/library_types.hpp"

namespace ht::c_dlpack_test {
namespace {

using testing::Handle;
using testing::sized;

template <class Managed>
struct ManagedDeleter {
  void operator()(Managed* managed) const { managed->deleter(managed); }
};
using Versioned = std::unique_ptr<DLManagedTensorVersioned, ManagedDeleter<DLManagedTensorVersioned>>;
using Unversioned = std::unique_ptr<DLManagedTensor, ManagedDeleter<DLManagedTensor>>;

class DlPack : public testing::CApi {
 protected:
  Versioned versioned(const Handle<ht_tensor>& tensor, ht_access access) {
    DLManagedTensorVersioned* managed = nullptr;
    EXPECT_EQ(ht_tensor_to_dlpack_versioned(tensor.get(), access, &managed, failed_.out()), HT_OK) << failed_;
    return Versioned(managed);
  }
  ht_status try_unversioned(const Handle<ht_tensor>& tensor, ht_access access) {
    DLManagedTensor* managed = nullptr;
    const auto status = ht_tensor_to_dlpack(tensor.get(), access, &managed, failed_.out());
    const Unversioned owner(managed);
    return status;
  }
  Handle<ht_tensor> only_tensor_of(std::string_view name, const std::vector<std::byte>& file) {
    testing::write_file(folder_ / name, file);
    const auto model = open(name);
    ht_tensor* tensor = nullptr;
    EXPECT_EQ(ht_model_at(model.get(), 0, &tensor, failed_.out()), HT_OK) << failed_;
    return Handle<ht_tensor>(tensor);
  }
};

TEST_F(DlPack, export_is_in_place_and_outlives_its_handles) {
  auto model = small_model();
  auto tensor = get(model, "w");
  const auto managed = versioned(tensor, HT_ACCESS_READ_ONLY);
  const void* data = nullptr;
  ASSERT_EQ(ht_tensor_data(tensor.get(), &data, nullptr, failed_.out()), HT_OK);
  tensor.reset();
  model.reset();
  const auto& dl = managed->dl_tensor;
  EXPECT_EQ(managed->major, 1U);
  EXPECT_EQ(managed->flags, 1U);
  EXPECT_EQ(dl.data, data);
  EXPECT_EQ(dl.device_type, 1);
  ASSERT_EQ(dl.ndim, 2);
  EXPECT_EQ(dl.shape[1], 3);
  EXPECT_EQ(dl.strides[0], 3);
  EXPECT_EQ(dl.dtype.code, 2);
  EXPECT_EQ(dl.dtype.bits, 32);
  EXPECT_EQ(dl.dtype.lanes, 1);
  EXPECT_EQ(static_cast<const float*>(dl.data)[5], 6);
}

TEST_F(DlPack, column_major_tensor_is_exported_in_place_or_copied_row_major) {
  const auto tensor = only_tensor_of(
      "f.npy", testing::npy_file("<i4", true, "(2, 3)", testing::stored<std::int32_t>({1, 4, 2, 5, 3, 6})));
  EXPECT_EQ(versioned(tensor, HT_ACCESS_READ_ONLY)->dl_tensor.strides[1], 2);
  const auto copy = versioned(tensor, HT_ACCESS_COPY);
  EXPECT_EQ(copy->flags, 2U);
  EXPECT_EQ(copy->dl_tensor.strides[0], 3);
  EXPECT_EQ(static_cast<const std::int32_t*>(copy->dl_tensor.data)[1], 2);
}

TEST_F(DlPack, private_export_is_writable) {
  const auto model = small_model();
  const auto managed = versioned(get(model, "w"), HT_ACCESS_PRIVATE);
  EXPECT_EQ(managed->flags, 0U);
  static_cast<float*>(managed->dl_tensor.data)[0] = 5;
  float values[6] = {};
  ASSERT_EQ(ht_tensor_read_f32(get(model, "w").get(), nullptr, 0, values, 6, failed_.out()), HT_OK)
      << failed_;
  EXPECT_EQ(values[0], 1);
}

TEST_F(DlPack, dlpack_has_the_type) {
  const std::vector<std::uint8_t> bytes{1, 2};
  save("e.ht", {testing::dense("e", HT_F8_E4M3, two_, bytes)});
  const auto tensor = get(open("e.ht"), "e");
  EXPECT_EQ(try_unversioned(tensor, HT_ACCESS_READ_ONLY), HT_UNSUPPORTED_ENCODING);
  EXPECT_EQ(failed_.rule(), "dlpack_has_the_type");
  EXPECT_STREQ(ht_error_message(failed_.get()), "tensor 'e': unversioned DLPack has no type for F8_E4M3");
  EXPECT_EQ(versioned(tensor, HT_ACCESS_READ_ONLY)->dl_tensor.dtype.code, 10);
  testing::GgufFile file;
  file.header(1, 0).tensor("q", {32}, 8, 0).pad().zeros(64);
  EXPECT_EQ(try_unversioned(only_tensor_of("q.gguf", file.bytes()), HT_ACCESS_COPY), HT_UNSUPPORTED_ENCODING);
  EXPECT_STREQ(ht_error_message(failed_.get()), "tensor 'q': DLPack has no type for Q8_0");
}

TEST_F(DlPack, hint_of_a_type_that_dlpack_lacks_names_a_function_that_succeeds) {
  const auto hint = [&] { return std::string(ht_error_hint(failed_.get())); };
  const std::vector<std::uint8_t> bytes{1, 2};
  save("e.ht", {testing::dense("e", HT_F8_E4M3, two_, bytes)});
  EXPECT_EQ(try_unversioned(get(open("e.ht"), "e"), HT_ACCESS_READ_ONLY), HT_UNSUPPORTED_ENCODING);
  EXPECT_EQ(hint(), "use ht_tensor_to_dlpack_versioned or ht_tensor_read");
  testing::GgufFile file;
  file.header(1, 0).tensor("q", {32}, 8, 0).pad().zeros(64);
  EXPECT_EQ(try_unversioned(only_tensor_of("q.gguf", file.bytes()), HT_ACCESS_READ_ONLY),
            HT_UNSUPPORTED_ENCODING);
  EXPECT_EQ(hint(), "decode the blocks with ht_tensor_read");
  const auto untyped = only_tensor_of("u.irpa", testing::irpa_file({{.name = "u", .length = 2}}, "ab"));
  EXPECT_EQ(try_unversioned(untyped, HT_ACCESS_READ_ONLY), HT_UNSUPPORTED_ENCODING);
  EXPECT_EQ(hint(), "copy the stored bytes with ht_tensor_copy_to");
  DLManagedTensorVersioned* managed = nullptr;
  EXPECT_EQ(ht_tensor_to_dlpack_versioned(untyped.get(), HT_ACCESS_READ_ONLY, &managed, failed_.out()),
            HT_UNSUPPORTED_ENCODING);
  EXPECT_EQ(hint(), "copy the stored bytes with ht_tensor_copy_to");
  char copy[2] = {};
  ASSERT_EQ(ht_tensor_copy_to(untyped.get(), 0, copy, 2, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(std::string_view(copy, 2), "ab");
}

TEST_F(DlPack, every_dtype_round_trips) {
  const std::vector<std::uint8_t> bytes(64);
  const std::vector<std::int64_t> eight{8};
  for (const auto& dtype : library_dtypes()) {
    const auto type = static_cast<ht_type>(dtype.tag);
    const std::vector<std::uint8_t> data(bytes.begin(), bytes.begin() + dtype.bits);
    save(std::string(dtype.name) + ".ht", {testing::dense(dtype.name.data(), type, eight, data)});
    const auto tensor = get(open(std::string(dtype.name) + ".ht"), dtype.name.data());
    const auto managed = versioned(tensor, HT_ACCESS_READ_ONLY);
    auto back = sized<ht_tensor_to_save>();
    ASSERT_EQ(ht_from_dlpack_versioned(managed.get(), &back, failed_.out()), HT_OK) << failed_;
    EXPECT_EQ(back.type, type);
    EXPECT_EQ(back.bytes, data.size());
    EXPECT_EQ(back.rank, 1U);
    EXPECT_EQ(back.dims[0], 8);
  }
}

TEST_F(DlPack, dlpack_elements_are_in_native_byte_order) {
  const auto tensor = only_tensor_of(
      "b.npy", testing::npy_file(">i2", false, "(2,)", testing::stored<std::int16_t>({1, 2}, true)));
  EXPECT_EQ(try_unversioned(tensor, HT_ACCESS_READ_ONLY), HT_UNSUPPORTED_ENCODING);
  EXPECT_EQ(failed_.rule(), "dlpack_elements_are_in_native_byte_order");
  EXPECT_EQ(static_cast<std::int16_t*>(versioned(tensor, HT_ACCESS_COPY)->dl_tensor.data)[1], 2);
}

TEST_F(DlPack, dlpack_elements_are_aligned) {
  testing::write_file(
      folder_ / "u.safetensors",
      testing::safetensors_file(
          R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}}  )",
          5));
  const auto model = open("u.safetensors");
  const auto b = get(model, "b");
  const void* data = nullptr;
  ASSERT_EQ(ht_tensor_data(b.get(), &data, nullptr, failed_.out()), HT_OK);
  ASSERT_NE(reinterpret_cast<std::uintptr_t>(data) % 4, 0U);
  EXPECT_EQ(try_unversioned(b, HT_ACCESS_READ_ONLY), HT_MISALIGNED);
  EXPECT_EQ(failed_.rule(), "dlpack_elements_are_aligned");
  EXPECT_EQ(try_unversioned(b, HT_ACCESS_COPY), HT_OK) << failed_;
}

TEST_F(DlPack, splat_is_exported_as_a_copy_only) {
  const auto note = testing::tensor_note("uint8", "[8]");
  const auto tensor = only_tensor_of(
      "s.irpa", testing::irpa_file({{.name = "s", .note = note, .length = 8, .pattern = "ab"}}));
  for (const auto access : {HT_ACCESS_READ_ONLY, HT_ACCESS_PRIVATE}) {
    EXPECT_EQ(try_unversioned(tensor, access), HT_UNSUPPORTED_ENCODING);
    EXPECT_EQ(failed_.rule(), "splat_has_no_stored_bytes");
  }
  const auto copy = versioned(tensor, HT_ACCESS_COPY);
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->dl_tensor.strides[0], 1);
  EXPECT_EQ(std::string_view(static_cast<const char*>(copy->dl_tensor.data), 8), "abababab");
}

TEST_F(DlPack, scalar_and_empty_tensors_are_exported) {
  const std::vector<std::int64_t> none{};
  const std::vector<std::int64_t> zero{0, 4};
  const std::vector<float> one{2.5F};
  const std::vector<float> empty;
  save("s.safetensors", {testing::dense("s", HT_F32, none, one), testing::dense("e", HT_F32, zero, empty)});
  const auto model = open("s.safetensors");
  const auto scalar = versioned(get(model, "s"), HT_ACCESS_READ_ONLY);
  EXPECT_EQ(scalar->dl_tensor.ndim, 0);
  EXPECT_EQ(*static_cast<const float*>(scalar->dl_tensor.data), 2.5F);
  const auto nothing = versioned(get(model, "e"), HT_ACCESS_READ_ONLY);
  EXPECT_EQ(nothing->dl_tensor.data, nullptr);
  EXPECT_EQ(nothing->dl_tensor.shape[1], 4);
}

// A column-major [2, 3] tensor that the caller provides.
struct Import {
  std::int64_t shape[2] = {2, 3};
  std::int64_t strides[2] = {1, 2};
  float data[6] = {1, 4, 2, 5, 3, 6};
  DLManagedTensorVersioned managed{1,
                                   0,
                                   nullptr,
                                   nullptr,
                                   0,
                                   {.data = data,
                                    .device_type = 1,
                                    .device_id = 0,
                                    .ndim = 2,
                                    .dtype = {2, 32, 1},
                                    .shape = shape,
                                    .strides = strides,
                                    .byte_offset = 0}};
};

TEST_F(DlPack, import_with_strides_is_saved_row_major) {
  const Import import;
  auto tensor = sized<ht_tensor_to_save>();
  tensor.name = {"w", 0};
  ASSERT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(tensor.bytes, 24U);
  EXPECT_STREQ(tensor.name.data, "w");
  save("i.safetensors", {tensor});
  float values[6] = {};
  ASSERT_EQ(ht_tensor_read_f32(get(open("i.safetensors"), "w").get(), nullptr, 0, values, 6, failed_.out()),
            HT_OK)
      << failed_;
  EXPECT_EQ(std::vector(values, values + 6), floats_);
}

TEST_F(DlPack, import_begins_at_the_byte_offset) {
  Import import;
  import.managed.dl_tensor.byte_offset = 8;
  auto tensor = sized<ht_tensor_to_save>();
  ASSERT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(tensor.data, import.data + 2);
  const DLManagedTensor old{import.managed.dl_tensor, nullptr, nullptr};
  ASSERT_EQ(ht_from_dlpack(&old, &tensor, failed_.out()), HT_OK) << failed_;
  EXPECT_EQ(tensor.data, import.data + 2);
}

TEST_F(DlPack, dlpack_type_is_known) {
  Import import;
  auto tensor = sized<ht_tensor_to_save>();
  import.managed.dl_tensor.dtype.lanes = 4;
  EXPECT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_BAD_DTYPE);
  EXPECT_EQ(failed_.rule(), "dlpack_type_is_known");
  import.managed.dl_tensor.dtype = {7, 8, 1};
  EXPECT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_BAD_DTYPE);
}

TEST_F(DlPack, dlpack_memory_is_on_the_cpu) {
  Import import;
  auto tensor = sized<ht_tensor_to_save>();
  import.managed.dl_tensor.device_type = 2;
  EXPECT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_DEVICE_UNAVAILABLE);
  EXPECT_EQ(failed_.rule(), "dlpack_memory_is_on_the_cpu");
}

TEST_F(DlPack, dlpack_elements_are_packed) {
  Import import;
  auto tensor = sized<ht_tensor_to_save>();
  import.managed.dl_tensor.dtype = {17, 4, 1};
  import.managed.flags = 4;
  EXPECT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_UNSUPPORTED_ENCODING);
  EXPECT_EQ(failed_.rule(), "dlpack_elements_are_packed");
}

TEST_F(DlPack, dlpack_tensor_has_a_shape) {
  Import import;
  auto tensor = sized<ht_tensor_to_save>();
  import.managed.dl_tensor.shape = nullptr;
  EXPECT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_BAD_SHAPE);
  EXPECT_EQ(failed_.rule(), "dlpack_tensor_has_a_shape");
  import.managed.dl_tensor.shape = import.shape;
  import.shape[0] = -1;
  EXPECT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_BAD_SHAPE);
  import.shape[0] = INT64_MAX;
  EXPECT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_SIZE_OVERFLOW);
}

TEST_F(DlPack, import_whose_byte_count_exceeds_int64_is_refused) {
  Import import;
  import.managed.dl_tensor.ndim = 1;
  import.managed.dl_tensor.dtype = {2, 64, 1};
  import.shape[0] = std::int64_t{1} << 61;
  const DLManagedTensor old{import.managed.dl_tensor, nullptr, nullptr};
  auto tensor = sized<ht_tensor_to_save>();
  EXPECT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_SIZE_OVERFLOW);
  EXPECT_EQ(failed_.rule(), "bytes_fit_63_bits");
  EXPECT_EQ(ht_from_dlpack(&old, &tensor, failed_.out()), HT_SIZE_OVERFLOW);
  EXPECT_EQ(tensor.bytes, 0U);
}

TEST_F(DlPack, dlpack_version_is_1) {
  Import import;
  auto tensor = sized<ht_tensor_to_save>();
  import.managed.major = 2;
  EXPECT_EQ(ht_from_dlpack_versioned(&import.managed, &tensor, failed_.out()), HT_BAD_VERSION);
  EXPECT_EQ(failed_.rule(), "dlpack_version_is_1");
}

}  // namespace
}  // namespace ht::c_dlpack_test
