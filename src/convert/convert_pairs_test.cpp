// Converts from every format to every other format and back, with everything that a file can contain.
#include "convert/convert_pairs_test.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "testing/library_types.hpp"

namespace ht::convert_pairs_test {
namespace {

using testing::ByteBuffer;
using testing::ConvertPairs;
using testing::hostile_names;
using testing::some_data;
using testing::TestTensor;

using Dims = std::vector<std::int64_t>;

std::string text_of(const Dims& dims) {
  std::string text;
  for (const auto dim : dims) text += "_" + std::to_string(dim);
  return text;
}

TestTensor dense(std::string name, const DTypeInfo& dtype, const Dims& dims) {
  const auto bytes = dense_bytes(dims, dtype.bits).value();
  const auto seed = static_cast<unsigned>(name.size() + bytes);
  return {.name = std::move(name), .dtype = dtype.tag, .dims = dims, .data = some_data(bytes, seed)};
}

TestTensor in_blocks(std::string name, const Encoding& encoding, const Dims& dims) {
  const auto bytes = block_bytes(dims, encoding).value();
  const auto seed = static_cast<unsigned>(encoding.tag);
  return {.name = std::move(name),
          .dtype = DTypeTag::invalid,
          .dims = dims,
          .data = some_data(bytes, seed),
          .encoding = encoding.tag};
}

// Every dtype and encoding in every kind of shape: of rank 0, without elements, of more dimensions than GGUF
// has, and with elements that end inside of a byte.
std::vector<TestTensor> every_kind() {
  std::vector<TestTensor> all;
  const std::vector<Dims> shapes{{}, {0}, {3}, {2, 4}, {4, 0, 7}, {1, 2, 1, 4}, {1, 2, 1, 1, 2, 2}};
  for (const auto& dtype : library_dtypes()) {
    for (const auto& dims : shapes)
      all.push_back(dense(std::string(dtype.name) + text_of(dims), dtype, dims));
  }
  for (const auto& encoding : library_encodings()) {
    for (const Dims& dims : {Dims{2, 256}, Dims{256}, Dims{0, 256}, Dims{3, 0}})
      all.push_back(in_blocks(std::string(encoding.name) + text_of(dims), encoding, dims));
  }
  all.push_back({.name = "untyped", .data = some_data(5, 5)});
  return all;
}

Result<void> add_text(Metadata& metadata) {
  HT_TRY(metadata.add("format", "pt"));
  HT_TRY(metadata.add("ключ 'с' \"$HOME\"", "значение\n\t\\ 🙂"));
  return metadata.add("empty", "");
}

// Adds a value of every GGUF type, including arrays of arrays.
Result<void> add_everything(Metadata& metadata) {
  HT_TRY(add_text(metadata));
  HT_TRY(metadata.add("u8", std::uint8_t{255}));
  HT_TRY(metadata.add("i8", std::int8_t{-128}));
  HT_TRY(metadata.add("u16", std::uint16_t{65535}));
  HT_TRY(metadata.add("i16", std::int16_t{-1}));
  HT_TRY(metadata.add("u32", std::uint32_t{4'000'000'000U}));
  HT_TRY(metadata.add("i32", std::int32_t{-7}));
  HT_TRY(metadata.add("u64", UINT64_MAX));
  HT_TRY(metadata.add("i64", INT64_MIN));
  HT_TRY(metadata.add("f32", std::numeric_limits<float>::quiet_NaN()));
  HT_TRY(metadata.add("f64", -0.0));
  HT_TRY(metadata.add("yes", true));
  HT_TRY(metadata.add("general.alignment", std::uint32_t{64}));
  ByteBuffer texts;
  texts.u32(8).u64(2).u64(3).text("é\n").u64(0);
  HT_TRY(metadata.add("texts", MetaValue(MetaType::array, texts.bytes())));
  ByteBuffer nested;
  nested.u32(9).u64(2).u32(5).u64(1).u32(77).u32(6).u64(0);
  return metadata.add("nested", MetaValue(MetaType::array, nested.bytes()));
}

TEST_F(ConvertPairs, round_trip_all_dtypes_and_encodings) {
  const auto all = every_kind();
  for (const std::string from : {"safetensors", "gguf", "irpa"}) {
    std::vector<TestTensor> taken;
    std::ranges::copy_if(all, std::back_inserter(taken),
                         [&](const auto& each) { return can_store(from, each); });
    ASSERT_GT(taken.size(), 20U) << from;
    const auto model =
        make_model("source." + from, from, taken, from == "safetensors" ? add_text : add_everything);
    for (const auto to : format_names()) expect_round_trip(model, to, "all");
  }
}

TEST_F(ConvertPairs, round_trip_single_tensors) {
  int sources = 0;
  const auto all = every_kind();
  // Uses every third tensor, because each of them takes as long as a whole file. Each dtype has seven shapes,
  // so no shape and no dtype is left out.
  for (std::size_t i = 0; i < all.size(); i += 3) {
    auto tensor = all[i];
    tensor.name = "t";
    for (const std::string from : {"ht", "npy"}) {
      if (!can_store(from, tensor)) continue;
      ++sources;
      const auto model = make_model("t." + from, from, {tensor});
      for (const auto to : format_names()) expect_round_trip(model, to, "t");
    }
  }
  EXPECT_GT(sources, 50);
}

TEST_F(ConvertPairs, keep_unusual_names) {
  std::vector<TestTensor> tensors;
  for (const auto& name : hostile_names()) tensors.push_back(dense(name, dtype_info<F32>(), {3}));
  for (const std::string from : {"safetensors", "gguf", "irpa"}) {
    std::vector<TestTensor> taken;
    std::ranges::copy_if(tensors, std::back_inserter(taken),
                         [&](const auto& each) { return can_store(from, each); });
    EXPECT_EQ(taken.size(), tensors.size()) << from;
    const auto model = make_model("names." + from, from, taken);
    for (const std::string to : {"safetensors", "gguf", "irpa"}) {
      expect_round_trip(model, to, "names");
      const auto reopened = Model::open(folder_ / ("names." + to)).value();
      EXPECT_EQ(testing::names_of(reopened.catalog()), testing::names_of(model.catalog()))
          << "the order of the tensors is kept";
    }
  }
}

// NPY stores both byte orders and both element orders. GGUF stays big-endian only if the source is a
// big-endian GGUF.
TEST_F(ConvertPairs, keep_the_byte_order_or_byte_swap) {
  const Dims dims{2, 3};
  for (const bool big : {false, true}) {
    for (const bool fortran : {false, true}) {
      const auto model =
          opened("t.npy", testing::npy_file(big ? ">f4" : "<f4", fortran, "(2, 3)", some_data(24, 1)));
      for (const auto to : format_names()) {
        SCOPED_TRACE(to);
        const auto intermediate = converted(model, to, "o");
        ASSERT_TRUE(intermediate);
        expect_kept(model, intermediate->model, {}, {});
        const Entry entry = intermediate->model.catalog()[0];
        EXPECT_EQ(entry.order == ElementOrder::column_major, fortran && to == "npy");
        EXPECT_EQ(entry.byte_order == ByteOrder::big, big && to == "npy");
      }
    }
  }
  auto tensor = dense("t", dtype_info<F32>(), dims);
  tensor.byte_order = ByteOrder::big;
  const auto big = make_model("big.gguf", "gguf", {tensor}, add_everything);
  for (const auto to : format_names()) expect_round_trip(big, to, "t");
  EXPECT_EQ(converted(big, "gguf", "t")->model.catalog()[0].byte_order, ByteOrder::big);
}

// Generates a name; rarely one that a format refuses or reserves.
rc::Gen<std::string> any_name() {
  return rc::gen::weightedOneOf<std::string>(
      {{20, rc::gen::elementOf(hostile_names())},
       {1, rc::gen::element<std::string>("", "htensor.metadata", "__metadata__", "general.alignment",
                                         "split.count", "a\xFF")}});
}

// The types in a model: only types that every format stores, all dtypes, or dtypes and block encodings.
enum class Kinds { common, dtypes, all };

TestTensor random_tensor(const std::string& name, Kinds kinds) {
  static const std::vector<DTypeInfo> common{dtype_info<F32>(), dtype_info<F16>(), dtype_info<F64>(),
                                             dtype_info<I8>(),  dtype_info<I16>(), dtype_info<I64>()};
  auto dims = *rc::gen::container<Dims>(rc::gen::inRange<std::int64_t>(0, 4));
  dims.resize(std::min<std::size_t>(dims.size(), kinds == Kinds::common ? 4 : 5));
  if (kinds == Kinds::common) return dense(name, *rc::gen::elementOf(common), dims);
  if (kinds == Kinds::dtypes || *rc::gen::inRange(0, 4) != 0)
    return dense(name, *rc::gen::elementOf(library_dtypes()), dims);
  const auto encoding = *rc::gen::elementOf(library_encodings());
  if (dims.empty()) dims.push_back(1);
  dims.back() *= encoding.block_elements;
  return in_blocks(name, encoding, dims);
}

struct RandomModel {
  std::vector<TestTensor> tensors;
  Metadata metadata;
};

RandomModel random_model() {
  RandomModel model;
  const auto kinds = *rc::gen::element(Kinds::common, Kinds::common, Kinds::dtypes, Kinds::all);
  const auto names = *rc::gen::unique<std::vector<std::string>>(any_name());
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 4); ++i)
    model.tensors.push_back(random_tensor(names[i], kinds));
  const auto keys = *rc::gen::unique<std::vector<std::string>>(any_name());
  for (std::size_t i = 0; i < std::min<std::size_t>(keys.size(), 3); ++i) {
    switch (kinds == Kinds::all ? *rc::gen::inRange(0, 3) : 2) {
      case 0: EXPECT_TRUE(model.metadata.add(keys[i], *rc::gen::arbitrary<std::uint32_t>())); break;
      case 1: EXPECT_TRUE(model.metadata.add(keys[i], *rc::gen::arbitrary<bool>())); break;
      default: EXPECT_TRUE(model.metadata.add(keys[i], *rc::gen::elementOf(hostile_names())));
    }
  }
  return model;
}

Result<EncodedFile> encoded_as(std::string_view format, const RandomModel& model) {
  CatalogBuilder builder(format);
  for (const auto& tensor : model.tensors) {
    HT_TRY(builder.add({.name = tensor.name,
                        .dtype = tensor.dtype,
                        .encoding = tensor.encoding,
                        .dims = tensor.dims,
                        .bytes = tensor.data.size()}));
  }
  for (const auto& item : model.metadata) HT_TRY(builder.metadata().add(item.key, item.value));
  return encode(format, HT_TRY(std::move(builder).build()));
}

// The property creates this fixture as an object, one for each generated model.
struct AnyModel : ConvertPairs {
  void TestBody() override {}

  int round_trips = 0;

  void expect_round_trips() {
    const auto expected = random_model();
    const auto to = *rc::gen::elementOf(format_names());
    auto formats = format_names();
    std::erase_if(formats, [&](std::string_view format) { return !encoded_as(format, expected); });
    if (formats.empty()) return;
    const auto from = *rc::gen::elementOf(formats);
    const auto model =
        make_model("any." + std::string(from), from, expected.tensors, [&](Metadata& metadata) {
          metadata = expected.metadata;
          return Result<void>();
        });
    const auto intermediate = converted(model, to, "there");
    RC_ASSERT(!HasFailure());
    if (!intermediate || !intermediate->lost_keys.empty() || !intermediate->lost_tensors.empty()) return;
    // If the intermediate format names the tensor by its file, the original name is restored.
    ConvertOptions options;
    if (holds_one_tensor(to)) options.renames = {{"there", expected.tensors[0].name}};
    const auto back = converted(intermediate->model, from, "back", options);
    RC_ASSERT(back.has_value());
    const auto differences = diff(model, back->model);
    RC_ASSERT(differences.has_value());
    RC_ASSERT(differences->is_same());
    RC_ASSERT(!HasFailure());
    ++round_trips;
  }
};

TEST(AnyModels, round_trip_through_every_format_that_can_hold_them) {
  int round_trips = 0;
  EXPECT_TRUE(rc::check([&] {
    AnyModel model;
    model.expect_round_trips();
    round_trips += model.round_trips;
  }));
  EXPECT_GT(round_trips, 30) << "many models are converted";
}

}  // namespace
}  // namespace ht::convert_pairs_test
