// In this folder because compute does not depend on model and `save`, which the test uses.
//
// linear and embedding of weights whose type is known at run time.
#include <htensor/compute/weights.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <htensor/compute/embedding.hpp>
#include <htensor/compute/linear.hpp>
#include <htensor/convert/save.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/model/model.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "format/safetensors/test_file.hpp"
#include "model/test_formats.hpp"
#include "tensor/test_tools.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::runtime_weights_test {
namespace {

using testing::irpa_file;
using testing::npy_file;
using testing::stored;
using testing::tensor_note;
using tests::must;

static_assert(RuntimeWeights<AnyTensor>);

const std::vector<std::int32_t> ids{4, 0, 4, 2};

template <class D = F32, class S>
Tensor<D, S> random_tensor(S shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<typename D::Element> values(static_cast<std::size_t>(shape.elements()));
  for (auto& value : values) value = typename D::Element(normal(engine));
  return must(Tensor<D, S>::of(shape, values));
}

template <class A, class B>
void expect_same_bits(const A& a, const B& b) {
  ASSERT_EQ(a.shape(), b.shape());
  EXPECT_TRUE(std::ranges::equal(
      a, b, {}, [](auto x) { return tests::code_of(x); }, [](auto x) { return tests::code_of(x); }));
}

template <class T>
void expect_refusal(const Result<T>& result, ErrorCode code, std::string_view rule) {
  ASSERT_TRUE(tests::fails(result, code, rule));
  EXPECT_FALSE(result.error().hint().empty());
}

class RuntimeWeightsTest : public ::testing::Test {
 protected:
  AnyTensor tensor_of(const std::vector<std::byte>& file) {
    testing::write_file(path_, file);
    return must(must(Model::open(path_)).at(0));
  }
  AnyTensor saved(const TensorToSave& tensor, const std::string& file) {
    const std::vector tensors{tensor};
    must(save(folder_ / file, tensors));
    return must(must(Model::open(folder_ / file)).at(0));
  }

  /// The results are the same as those of the overloads for typed weights.
  template <class W>
  void expect_like_typed(const W& typed, const AnyTensor& any) {
    const auto columns = typed.extent(1);
    const auto x = random_tensor(Rank<2>(3, columns), 7);
    const auto wide = must(cast<F64>(x));
    const auto bias = random_tensor(Rank<1>(typed.extent(0)), 8);
    expect_same_bits(must(linear(x, any)), must(linear(x, typed)));
    expect_same_bits(must(linear(x, any, bias)), must(linear(x, typed, bias)));
    expect_same_bits(must(linear(wide, any)), must(linear(wide, typed)));
    const LinearOptions fast{.int8_activations = true};
    expect_same_bits(must(linear(x, any, fast)), must(linear(x, typed, fast)));
    expect_same_bits(must(embedding(any, ids)), must(embedding(typed, ids)));
    const std::vector<std::int64_t> long_ids(ids.begin(), ids.end());
    expect_same_bits(must(embedding<F64>(any, long_ids)), must(embedding<F64>(typed, long_ids)));
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "t";
};

template <class D>
class RuntimeWeightsOfDType : public RuntimeWeightsTest {};
using DTypes = ::testing::Types<F32, BF16, F16, F8_E4M3, I8, U8, F4>;
TYPED_TEST_SUITE(RuntimeWeightsOfDType, DTypes);

TYPED_TEST(RuntimeWeightsOfDType, equal_typed_weights) {
  const auto weights = must(cast_lossy<TypeParam>(random_tensor(Rank<2>(5, 72), 3)));
  this->expect_like_typed(weights, this->saved(must(to_save("w", weights)), "w.safetensors"));
}

template <class E>
class RuntimeWeightsOfEncoding : public RuntimeWeightsTest {};
using Encodings = ::testing::Types<Q8_0, Q4_0, Q4_K, Q6_K>;
TYPED_TEST_SUITE(RuntimeWeightsOfEncoding, Encodings);

TYPED_TEST(RuntimeWeightsOfEncoding, equal_typed_weights) {
  const auto weights = must(cast_lossy<TypeParam>(random_tensor(Rank<2>(5, 512), 3)));
  this->expect_like_typed(weights, this->saved({.name = "w",
                                                .dtype = DTypeTag::invalid,
                                                .encoding = TypeParam::tag,
                                                .dims = {5, 512},
                                                .data = weights.storage()},
                                               "w.gguf"));
}

TEST_F(RuntimeWeightsTest, f64_weights_multiply_f64_vectors) {
  const auto weights = random_tensor<F64>(Rank<2>(5, 24), 3);
  const auto any = saved(must(to_save("w", weights)), "w.safetensors");
  const auto x = random_tensor<F64>(Rank<1>(24), 4);
  expect_same_bits(must(linear(x, any)), must(linear(x, weights)));
  expect_same_bits(must(embedding<F64>(any, ids)), must(embedding<F64>(weights, ids)));
}

TEST_F(RuntimeWeightsTest, products_with_several_weights_equal_separate_products) {
  const auto blocks_of = [&]<class E>(E, std::int64_t rows, unsigned seed) {
    const auto weights = must(cast_lossy<E>(random_tensor(Rank<2>(rows, 512), seed)));
    return saved({.name = "w",
                  .dtype = DTypeTag::invalid,
                  .encoding = E::tag,
                  .dims = {rows, 512},
                  .data = weights.storage()},
                 "w" + std::to_string(seed) + ".gguf");
  };
  const auto dense = random_tensor(Rank<2>(3, 512), 5);
  // Sizes that are divided among threads, also within one matrix, and odd numbers of rows.
  const std::array weights{blocks_of(Q4_K{}, 701, 1), blocks_of(Q6_K{}, 1, 2), blocks_of(Q8_0{}, 403, 3),
                           saved(must(to_save("w", dense)), "w.safetensors"), blocks_of(Q4_K{}, 256, 4)};
  for (const std::int64_t vectors : {0, 1, 3, 5, 33}) {
    const auto x = random_tensor(Rank<2>(vectors, 512), 7);
    const auto wide = must(cast<F64>(x));
    for (const bool int8 : {false, true}) {
      const LinearOptions options{.int8_activations = int8};
      const auto results = must(linear(x, weights, options));
      const auto wide_results = must(linear(wide, weights, options));
      for (std::size_t i = 0; i < weights.size(); ++i) {
        expect_same_bits(results[i], must(linear(x, weights[i], options)));
        expect_same_bits(wide_results[i], must(linear(wide, weights[i], options)));
      }
    }
  }
}

TEST_F(RuntimeWeightsTest, several_weights_need_equal_columns) {
  const std::array weights{saved(must(to_save("w", random_tensor(Rank<2>(2, 24), 1))), "a.safetensors"),
                           saved(must(to_save("w", random_tensor(Rank<2>(2, 16), 2))), "b.safetensors")};
  expect_refusal(linear(random_tensor(Rank<1>(24), 3), weights), ErrorCode::shape_mismatch,
                 "inner_extents_are_equal");
}

TEST_F(RuntimeWeightsTest, other_layouts_are_cast_first) {
  const auto x = must(Tensor<F32, Rank<1>>::of(Rank<1>(3), {1.0F, 2.0F, 4.0F}));
  const std::vector<std::int32_t> rows{1, 0};
  const auto expect = [&](const AnyTensor& any, std::vector<float> product, std::vector<float> second_row) {
    EXPECT_TRUE(std::ranges::equal(must(linear(x, any)), product));
    const auto gathered = must(embedding(any, rows));
    ASSERT_EQ(gathered.shape(), Rank<2>(2, 3));
    EXPECT_TRUE(std::ranges::equal(must(gathered.select<0>(0)), second_row));
  };
  // The columns (1, 4), (2, 5), (3, 6).
  expect(tensor_of(npy_file("<f4", true, "(2, 3)", stored<float>({1, 4, 2, 5, 3, 6}))), {17, 38}, {4, 5, 6});
  expect(tensor_of(npy_file(">f4", false, "(2, 3)", stored<float>({1, 2, 3, 4, 5, 6}, true))), {17, 38},
         {4, 5, 6});
  expect(tensor_of(irpa_file({{.name = "t",
                               .note = tensor_note("float32", "[2,3]"),
                               .length = 24,
                               .pattern = stored<float>({0.5F})}})),
         {3.5F, 3.5F}, {0.5F, 0.5F, 0.5F});
}

TEST_F(RuntimeWeightsTest, unaligned_weights_are_cast_first) {
  std::string json = R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  while ((json.size() + 8) % 4 != 1) json += ' ';
  const auto any = tensor_of(testing::safetensors_file(json, 16));
  ASSERT_NE(reinterpret_cast<std::uintptr_t>(must(any.bytes()).data()) % alignof(float), 0U);
  const auto weights = must(must(any.cast<F32>()).reshape(Rank<2>(2, 2)));
  const auto x = random_tensor(Rank<1>(2), 1);
  expect_same_bits(must(linear(x, any)), must(linear(x, weights)));
  const std::vector<std::int32_t> rows{1};
  expect_same_bits(must(embedding(any, rows)), must(embedding(weights, rows)));
}

TEST_F(RuntimeWeightsTest, shapes_that_do_not_match_are_errors) {
  const auto any = saved(must(to_save("w", random_tensor(Rank<2>(5, 24), 3))), "w.safetensors");
  const auto x = random_tensor(Rank<1>(23), 4);
  EXPECT_TRUE(tests::fails(linear(x, any), ErrorCode::shape_mismatch, "inner_extents_are_equal"));
  const auto fitting = random_tensor(Rank<1>(24), 4);
  EXPECT_TRUE(
      tests::fails(linear(fitting, any, fitting), ErrorCode::shape_mismatch, "bias_size_matches_the_rows"));
  EXPECT_TRUE(tests::fails(embedding(any, std::vector<std::int32_t>{5}), ErrorCode::out_of_bounds,
                           "id_is_a_row_of_the_table"));
}

TEST_F(RuntimeWeightsTest, weights_are_a_matrix) {
  const auto any = saved(must(to_save("norm", random_tensor(Rank<1>(24), 3))), "w.safetensors");
  const auto product = linear(random_tensor(Rank<1>(24), 4), any);
  expect_refusal(product, ErrorCode::shape_mismatch, "weights_are_a_matrix");
  EXPECT_EQ(product.error().tensor(), "norm");
  expect_refusal(embedding(any, ids), ErrorCode::shape_mismatch, "weights_are_a_matrix");
}

TEST_F(RuntimeWeightsTest, weights_keep_every_value) {
  const auto any = saved(must(to_save("w", random_tensor<F64>(Rank<2>(5, 24), 3))), "w.safetensors");
  expect_refusal(linear(random_tensor(Rank<1>(24), 4), any), ErrorCode::would_lose,
                 "weights_keep_every_value");
  expect_refusal(embedding(any, ids), ErrorCode::would_lose, "weights_keep_every_value");
}

TEST_F(RuntimeWeightsTest, weights_have_a_known_type) {
  const auto any = tensor_of(irpa_file({{.name = "t", .length = 4}}, "abcd"));
  expect_refusal(linear(random_tensor(Rank<1>(4), 4), any), ErrorCode::unsupported_encoding,
                 "weights_have_a_known_type");
}

TEST_F(RuntimeWeightsTest, pages_that_cannot_be_read_are_errors) {
  std::string json = R"({"w":{"dtype":"F32","shape":[8,1024],"data_offsets":[0,32768]}})";
  while ((json.size() + 8) % alignof(float) != 0) json += ' ';
  const auto any = tensor_of(testing::safetensors_file(json, 32768));
  ASSERT_TRUE(any.bytes());
  std::filesystem::resize_file(path_, 4096);
  const auto x = random_tensor(Rank<1>(1024), 4);
  const auto product = linear(x, any);
  ASSERT_FALSE(product);
  EXPECT_EQ(product.error().code(), ErrorCode::changed_underfoot) << to_string(product.error());
  const auto rows = embedding(any, std::vector<std::int32_t>{7});
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().path(), path_.string());
}

TEST_F(RuntimeWeightsTest, are_read_by_system_calls_if_fault_handling_is_off) {
  std::string json = R"({"w":{"dtype":"F32","shape":[8,1024],"data_offsets":[0,32768]}})";
  while ((json.size() + 8) % alignof(float) != 0) json += ' ';
  testing::write_file(path_, testing::safetensors_file(json, 32768));
  const auto mapped = must(must(Model::open(path_)).at(0));
  const auto any = must(must(Model::open(path_, {.faults = FaultPolicy::off})).at(0));
  const auto x = random_tensor(Rank<1>(1024), 4);
  expect_same_bits(must(linear(x, any)), must(linear(x, mapped)));
  expect_same_bits(must(embedding(any, ids)), must(embedding(mapped, ids)));
  std::filesystem::resize_file(path_, 4096);
  EXPECT_FALSE(linear(x, any));
  EXPECT_FALSE(embedding(any, std::vector<std::int32_t>{7}));
}

TEST_F(RuntimeWeightsTest, packed_rows_that_begin_within_a_byte_equal_typed_weights) {
  const auto values = must(cast_lossy<F4>(random_tensor(Rank<2>(14, 3), 3)));
  const auto any = saved(must(to_save("w", values)), "w.safetensors");
  expect_same_bits(must(embedding(any, ids)), must(embedding(values, ids)));
  const std::vector<std::int32_t> last{13, 8, 7};
  expect_same_bits(must(embedding(any, last)), must(embedding(values, last)));
}

TEST_F(RuntimeWeightsTest, number_of_columns_is_checked_without_rows) {
  const auto any = tensor_of(testing::safetensors_file(
      R"({"w":{"dtype":"F32","shape":[0,4611686018427387904],"data_offsets":[0,0]}})", 0));
  const auto x = random_tensor(Rank<1>(8), 4);
  EXPECT_TRUE(tests::fails(linear(x, any), ErrorCode::shape_mismatch, "inner_extents_are_equal"));
}

}  // namespace
}  // namespace ht::runtime_weights_test
