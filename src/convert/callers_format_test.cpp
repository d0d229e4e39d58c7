// A caller's format, written with public headers only, works in the whole library like a built-in format.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <htensor/convert/convert.hpp>
#include <htensor/convert/diff.hpp>
#include <htensor/convert/edit_metadata.hpp>
#include <htensor/convert/save.hpp>
#include <htensor/format/format.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/load/load.hpp>
#include <htensor/model/model.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "testing/temporary_folder.hpp"

namespace toy {

// "toyfile\n", u64 size of the header in bytes, u64 checksum of the data, then lines of words:
//   m KEY TYPE BYTE…                          a key of the metadata
//   t NAME DTYPE OFFSET BYTES RANK DIM…       a tensor; offsets count from the end of the header
constexpr std::string_view magic = "toyfile\n";
constexpr std::size_t fixed_bytes = 24;

int parsed = 0;
int encoded = 0;

bool looks_like(ht::Bytes prefix, std::uint64_t /*file_bytes*/) {
  const auto expected = ht::bytes_of(magic);
  return prefix.size() >= expected.size() && std::ranges::equal(prefix.first(expected.size()), expected);
}

ht::Result<void> read_metadata(std::istream& line, ht::Metadata& metadata) {
  std::string key;
  unsigned type = 0;
  line >> key >> type;
  std::vector<std::byte> value;
  for (unsigned byte = 0; line >> byte;) value.push_back(static_cast<std::byte>(byte));
  return metadata.add(key, ht::MetaValue(static_cast<ht::MetaType>(type), value));
}

ht::Result<void> read_tensor(std::istream& line, std::uint64_t data_begin, ht::CatalogBuilder& builder) {
  std::string name;
  unsigned dtype = 0;
  std::size_t rank = 0;
  ht::Entry entry;
  line >> name >> dtype >> entry.offset >> entry.bytes >> rank;
  std::vector<std::int64_t> dims(rank);
  for (auto& dim : dims) line >> dim;
  entry.name = name;
  entry.dtype = static_cast<ht::DTypeTag>(dtype);
  entry.dims = dims;
  entry.offset += data_begin;
  return builder.add(entry);
}

ht::Result<ht::ParseResult> parse(const ht::FileParts& seen, std::uint64_t /*file_bytes*/,
                                  const ht::ParseOptions& /*options*/) {
  ++parsed;
  const auto fixed = seen.range(0, fixed_bytes);
  if (!fixed) return ht::Need{0, fixed_bytes};
  const auto length = ht::load_le<std::uint64_t>(fixed->subspan(magic.size()));
  const auto header = seen.range(0, length);
  if (!header) return ht::Need{0, length};
  const auto text = header->subspan(fixed_bytes);
  std::istringstream lines(std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  ht::CatalogBuilder builder("toy");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "m") HT_TRY(read_metadata(words, builder.metadata()));
    if (kind == "t") HT_TRY(read_tensor(words, length, builder));
  }
  return std::move(builder).build();
}

ht::Result<ht::EncodedFile> encode(const ht::Catalog& catalog, const ht::EncodeOptions& layout) {
  ++encoded;
  const std::uint64_t alignment = std::max<std::uint64_t>(layout.alignment, 16);
  std::ostringstream text;
  for (const auto& [key, value] : catalog.metadata()) {
    text << "m " << key << ' ' << static_cast<unsigned>(value.type());
    for (const std::byte byte : value.bytes()) text << ' ' << std::to_integer<unsigned>(byte);
    text << '\n';
  }
  ht::EncodedFile file;
  std::uint64_t end = 0;
  for (const ht::Entry& entry : catalog) {
    if (entry.encoding != ht::EncodingTag::dense || entry.byte_order == ht::ByteOrder::big ||
        entry.order == ht::ElementOrder::column_major || !entry.note.empty()) {
      return ht::fail(ht::ErrorCode::would_lose, "toy_is_simple", "a toy cannot store this tensor");
    }
    text << "t " << entry.name << ' ' << static_cast<unsigned>(entry.dtype) << ' ' << end << ' '
         << entry.bytes << ' ' << entry.dims.size();
    for (const auto dim : entry.dims) text << ' ' << dim;
    text << '\n';
    file.offsets.emplace_back(end);
    end = (end + entry.bytes + alignment - 1) / alignment * alignment;
  }
  const std::uint64_t begin = (fixed_bytes + text.str().size() + alignment - 1) / alignment * alignment;
  file.header.assign(static_cast<std::size_t>(begin), std::byte{'\n'});
  std::ranges::copy(ht::bytes_of(magic), file.header.begin());
  ht::store_le(ht::MutableBytes(file.header).subspan(magic.size()), begin);
  ht::store_le(ht::MutableBytes(file.header).subspan(16), std::uint64_t{0});
  std::ranges::copy(ht::bytes_of(text.str()), file.header.begin() + fixed_bytes);
  for (auto& offset : file.offsets) *offset += begin;
  file.file_bytes = begin + end;
  return file;
}

void finish(ht::MutableBytes header, std::uint64_t crc) { ht::store_le(header.subspan(16), crc); }

// Supports only a file of one tensor without metadata. The prefix has the line of the tensor.
ht::Result<std::optional<ht::Format::OwnChecksum>> own_checksum(ht::Bytes prefix) {
  const auto begin = ht::load_le<std::uint64_t>(prefix.subspan(magic.size()));
  std::istringstream words(
      std::string(reinterpret_cast<const char*>(prefix.data()) + fixed_bytes, prefix.size() - fixed_bytes));
  std::string word;
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  words >> word >> word >> number >> number >> bytes;
  return ht::Format::OwnChecksum{.header_bytes = begin,
                                 .offset = begin,
                                 .bytes = bytes,
                                 .crc = ht::load_le<std::uint64_t>(prefix.subspan(16))};
}

ht::Result<ht::Format::EditedHeader> edit(const ht::Format::HeaderEdit& edit) {
  ht::CatalogBuilder builder("toy");
  builder.metadata() = edit.metadata;
  for (const ht::Entry& entry : edit.catalog) HT_TRY(builder.add(entry));
  auto header = HT_TRY(encode(HT_TRY(std::move(builder).build()), {})).header;
  finish(header, ht::load_le<std::uint64_t>(edit.prefix.subspan(16)));
  return ht::Format::EditedHeader{
      .bytes = std::move(header),
      .replaced_bytes = ht::load_le<std::uint64_t>(edit.prefix.subspan(magic.size()))};
}

constexpr ht::Format format(ht::Format::Sharding sharding) {
  return {.name = "toy",
          .extension = ".toy",
          .looks_like = looks_like,
          .parse = parse,
          .encode = encode,
          .edit = edit,
          .finish = finish,
          .sharding = sharding,
          .max_alignment = 4096,
          .metadata = ht::Format::MetadataTypes::all,
          .raw_dtype = ht::I8::tag};
}

}  // namespace toy

namespace ht::callers_format_test {
namespace {

using testing::read_file;

// A caller's dtype of two bytes. The library knows only its size.
struct Pair {
  using Family = Pair;
  using Element = std::array<std::uint8_t, 2>;
  static constexpr std::string_view name = "PAIR";
  static constexpr int bits = 16;
  static constexpr DTypeTag tag = user_tag(3);
};

class CallersFormat : public ::testing::Test {
 protected:
  static TensorToSave tensor(std::string name, DTypeTag dtype, std::vector<std::int64_t> dims,
                             std::string_view data) {
    return {.name = std::move(name),
            .dtype = dtype,
            .dims = std::move(dims),
            .data = Storage::borrowed_read_only(bytes_of(data)).value()};
  }

  /// A safetensors file of three tensors and metadata.
  Model source() {
    SaveOptions options;
    EXPECT_TRUE(options.metadata.add("author", "somebody"));
    const auto saved =
        save(folder_ / "source.safetensors",
             std::vector{tensor("b", F32::tag, {1, 2}, "01234567"), tensor("a", U8::tag, {3}, "abc"),
                         tensor("c", F64::tag, {}, "01234567")},
             options);
    EXPECT_TRUE(saved) << to_string(saved.error());
    return Model::open(folder_ / "source.safetensors").value();
  }

  Model opened(const std::filesystem::path& path) {
    auto model = Model::open(path, {.dtypes = {dtype_info<Pair>()}, .formats = formats_});
    if (!model) ADD_FAILURE() << to_string(model.error());
    return std::move(model).value();
  }

  ConversionReport converted(const Model& model, std::string_view target, ConvertOptions options = {},
                             const ApplyOptions& apply_options = {}) {
    options.formats = formats_;
    auto done = convert(model, folder_ / target, options, apply_options);
    if (!done) ADD_FAILURE() << to_string(done.error());
    return done ? *std::move(done) : ConversionReport{};
  }

  static void expect_same(const Model& a, const Model& b) {
    const auto found = diff(a, b);
    ASSERT_TRUE(found) << to_string(found.error());
    EXPECT_TRUE(found->is_same());
  }

  testing::TemporaryFolder folder_;
  std::vector<Format> formats_{toy::format(Format::Sharding::index)};
};

TEST_F(CallersFormat, round_trip_is_lossless) {
  const Model model = source();
  converted(model, "there.toy");
  const Model intermediate = opened(folder_ / "there.toy");
  EXPECT_EQ(intermediate.catalog().format(), "toy");
  expect_same(model, intermediate);
  converted(intermediate, "back.safetensors");
  EXPECT_EQ(read_file(folder_ / "back.safetensors"), read_file(folder_ / "source.safetensors"));
}

TEST_F(CallersFormat, is_unknown_without_the_option) {
  const Model model = source();
  EXPECT_EQ(convert(model, folder_ / "x.toy").error().rule(), "extension_names_a_format");
  EXPECT_EQ(convert(model, folder_ / "x", {.format = "toy"}).error().rule(), "format_name_is_known");
  converted(model, "there.toy");
  EXPECT_EQ(Model::open(folder_ / "there.toy").error().code(), ErrorCode::bad_magic);
  EXPECT_TRUE(convert(model, folder_ / "x", {.format = "toy", .formats = formats_}));
}

TEST_F(CallersFormat, hint_lists_extensions) {
  Format other = formats_.front();
  other.extension = ".other";
  Format nameless = other;
  nameless.extension = {};
  const auto unknown = format_for("x.toy", std::array{other, nameless});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().hint(),
            "use one of the extensions .other, .ht, .gguf, .irpa, .npy, .safetensors");
}

TEST_F(CallersFormat, refuses_unsupported_alignment_shards_and_edits) {
  const Model model = source();
  const auto refused = plan_conversion(model, "x.toy", {.formats = formats_, .alignment = 8192});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().rule(), "alignment_within_format_limit");
  const auto single = toy::format(Format::Sharding::none);
  const auto cut = plan_conversion(model, "x.toy", {.formats = {single}, .shard_bytes = 1});
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().rule(), "format_has_shards");
  converted(model, "there.toy");
  auto without_edit = toy::format(Format::Sharding::none);
  without_edit.edit = nullptr;
  const auto edited = edit_metadata(folder_ / "there.toy", {}, {.formats = {without_edit}});
  ASSERT_FALSE(edited);
  EXPECT_EQ(edited.error().rule(), "format_has_metadata_to_edit");
}

TEST_F(CallersFormat, encodes_each_header_once) {
  const Model model = source();
  for (const std::uint64_t shard_bytes : {0U, 8U}) {
    toy::encoded = 0;
    const auto plan = plan_conversion(model, "x.toy", {.formats = formats_, .shard_bytes = shard_bytes});
    ASSERT_TRUE(plan) << to_string(plan.error());
    EXPECT_EQ(toy::encoded, shard_bytes == 0 ? 1 : 3);
  }
}

TEST_F(CallersFormat, edit_parses_the_old_and_the_new_header_once_each) {
  const Model before = source();
  converted(before, "there.toy");
  toy::parsed = 0;
  const std::vector<MetadataEdit> edits{{.key = "author", .value = "another author with a longer name"}};
  const auto edited = edit_metadata(folder_ / "there.toy", edits, {.formats = formats_});
  ASSERT_TRUE(edited) << to_string(edited.error());
  EXPECT_EQ(toy::parsed, 2);
  const Model model = opened(folder_ / "there.toy");
  EXPECT_EQ(model.catalog().metadata().find("author")->text(), "another author with a longer name");
  const auto found = diff(before, model);
  ASSERT_TRUE(found) << to_string(found.error());
  EXPECT_TRUE(found->has_same_tensors());
}

TEST_F(CallersFormat, header_gets_the_checksum_of_the_data) {
  converted(source(), "there.toy");
  const auto file = read_file(folder_ / "there.toy");
  EXPECT_EQ(load_le<std::uint64_t>(Bytes(file).subspan(16)), crc64nvme(bytes_of("01234567abc01234567")));
}

// The first tensor begins where the header ends, and is copied in several pieces. The other tensors are
// separated by holes. Several threads copy the pieces in any order, but the header stores the checksum of the
// tensors in file order, without the holes.
TEST_F(CallersFormat, header_gets_the_checksum_of_data_in_many_pieces) {
  constexpr std::uint64_t alignment = std::uint64_t{128} << 10;
  formats_[0].max_alignment = alignment;
  const std::string large(std::size_t{1} << 20, 'd');
  const std::string_view small = "0123456789abcdef";
  std::vector<TensorToSave> tensors{
      tensor("large", U8::tag, {static_cast<std::int64_t>(large.size())}, large)};
  std::string all = large;
  for (int i = 0; i < 40; ++i) {
    tensors.push_back(tensor("t" + std::to_string(i), U8::tag, {16}, small));
    all += small;
  }
  ASSERT_TRUE(save(folder_ / "many.safetensors", tensors));
  converted(opened(folder_ / "many.safetensors"), "many.toy", {.alignment = alignment});
  ASSERT_TRUE(std::filesystem::exists(folder_ / "many.toy"));
  const auto file = read_file(folder_ / "many.toy");
  EXPECT_EQ(load_le<std::uint64_t>(Bytes(file).subspan(16)), crc64nvme(bytes_of(all)));
}

TEST_F(CallersFormat, encoded_tensors_have_separate_bytes) {
  const Model model = source();
  const auto expect_refusal = [&](auto encode) {
    formats_[0].encode = encode;
    const auto done = convert(model, folder_ / "x.toy", {.formats = formats_});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().rule(), "encoded_tensors_have_separate_bytes");
    EXPECT_FALSE(std::filesystem::exists(folder_ / "x.toy"));
  };
  using Encoded = Result<EncodedFile>;
  expect_refusal([](const Catalog& catalog, const EncodeOptions& layout) -> Encoded {
    auto file = HT_TRY(toy::encode(catalog, layout));
    std::ranges::fill(file.offsets, file.offsets.front());
    return file;
  });
  expect_refusal([](const Catalog& catalog, const EncodeOptions& layout) -> Encoded {
    auto file = HT_TRY(toy::encode(catalog, layout));
    file.offsets.front() = file.header.size() - 1;
    return file;
  });
  expect_refusal([](const Catalog& catalog, const EncodeOptions& layout) -> Encoded {
    auto file = HT_TRY(toy::encode(catalog, layout));
    file.offsets.pop_back();
    return file;
  });
  expect_refusal([](const Catalog& catalog, const EncodeOptions& layout) -> Encoded {
    auto file = HT_TRY(toy::encode(catalog, layout));
    file.file_bytes = *file.offsets.back();
    return file;
  });
  expect_refusal([](const Catalog& catalog, const EncodeOptions& layout) -> Encoded {
    auto file = HT_TRY(toy::encode(catalog, layout));
    file.offsets.back() = ~std::uint64_t{0};
    return file;
  });
}

TEST_F(CallersFormat, is_verified_by_the_checksum_of_its_data) {
  formats_[0].own_checksum = toy::own_checksum;
  const auto path = folder_ / "one.toy";
  ASSERT_TRUE(save(folder_ / "one.safetensors", std::vector{tensor("a", U8::tag, {16}, "0123456789abcdef")}));
  converted(opened(folder_ / "one.safetensors"), "one.toy");
  EXPECT_EQ(compare_with_seal(path, {.formats = formats_})->verdict, Verification::Verdict::intact);
  EXPECT_TRUE(ht::verify(opened(path)));
  EXPECT_EQ(ht::load(opened(path), {.verify = true})->verified_bytes, 16U);
  EXPECT_TRUE(ht::verify(opened(path).at(0).value()));
  auto damaged = read_file(path);
  damaged.back() ^= std::byte{1};
  testing::write_file(path, damaged);
  EXPECT_EQ(compare_with_seal(path, {.formats = formats_})->verdict, Verification::Verdict::damaged);
  for (const auto& code :
       {ht::verify(opened(path)).error().code(), ht::verify(opened(path).at(0).value()).error().code(),
        ht::load(opened(path), {.verify = true}).error().code(), ht::seal(opened(path)).error().code()})
    EXPECT_EQ(code, ErrorCode::checksum_mismatch) << to_string(code);
}

TEST_F(CallersFormat, is_split_into_shards_and_merged) {
  const Model model = source();
  for (const auto sharding : {Format::Sharding::index, Format::Sharding::parts}) {
    formats_ = {toy::format(sharding)};
    std::filesystem::create_directories(folder_ / "set");
    const auto done =
        converted(model, "set/m.toy", {.shard_bytes = 8}, {.if_exists = IfExists::replace, .seal = true});
    ASSERT_EQ(done.written.size(), sharding == Format::Sharding::index ? 4U : 3U);
    const auto& opens_all = sharding == Format::Sharding::index ? done.written.back() : done.written[1];
    EXPECT_EQ(opens_all.filename(),
              sharding == Format::Sharding::index ? "m.toy.index.json" : "m-00002-of-00003.toy");
    const Model set = opened(opens_all);
    expect_same(model, set);
    EXPECT_TRUE(ht::verify(set));
    EXPECT_TRUE(ht::verify(set.at(0).value()));
    EXPECT_TRUE(ht::compare_with_seal(opens_all, {.formats = formats_})->is_intact());
    expect_same(model, opened(folder_ / "set"));
    converted(set, "back.safetensors", {}, {.if_exists = IfExists::replace});
    EXPECT_EQ(read_file(folder_ / "back.safetensors"), read_file(folder_ / "source.safetensors"));
    std::filesystem::remove_all(folder_ / "set");
  }
}

TEST_F(CallersFormat, gets_row_major_little_endian_tensors_and_reports_losses) {
  // [[1, 2], [3, 4]] in column-major, big-endian order.
  const std::string npy = std::string("\x93NUMPY\x01\0v\0", 10) +
                          "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2), }" +
                          std::string(59, ' ') + "\n" + std::string("\0\1\0\3\0\2\0\4", 8);
  testing::write_file(folder_ / "m.npy", npy);
  const Model columns = opened(folder_ / "m.npy");
  converted(columns, "m.toy");
  const Model rows = opened(folder_ / "m.toy");
  expect_same(columns, rows);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(rows.at(0)->bytes()->data()), 8),
            std::string("\1\0\2\0\3\0\4\0", 8));

  const std::string block(18, 'x');
  auto saved = tensor("q", DTypeTag::invalid, {32}, block);
  saved.encoding = find_encoding("Q4_0")->tag;
  ASSERT_TRUE(save(folder_ / "q.gguf", std::vector{saved}));
  const Model blocks = opened(folder_ / "q.gguf");
  const auto plan = plan_conversion(blocks, folder_ / "q.toy", {.formats = formats_});
  ASSERT_TRUE(plan) << to_string(plan.error());
  ASSERT_EQ(plan->losses.size(), 1U);
  EXPECT_EQ(plan->losses[0].change, "Q4_0 [32] → I8 [18]");
  // The format's error has no hint.
  EXPECT_EQ(apply(*plan, blocks).error().hint(), "allow the loss with --raw-bytes");
}

TEST_F(CallersFormat, stores_a_custom_dtype) {
  const auto type = dtype_info<Pair>();
  ASSERT_TRUE(write(folder_ / "pairs.ht", type, std::array<std::int64_t, 2>{2, 2}, bytes_of("ABCDEFGH")));
  const Model pairs = opened(folder_ / "pairs.ht");
  for (const std::string target : {"copy.ht", "there.toy"}) {
    const auto done = converted(pairs, target, {}, {.seal = true});
    ASSERT_TRUE(done.seal);
    EXPECT_EQ(compare_with_seal(folder_ / target)->verdict, Verification::Verdict::intact);
    const Model copy = opened(folder_ / target);
    EXPECT_EQ(copy.at(0)->type().name, "PAIR");
    EXPECT_TRUE(ht::verify(copy));
    EXPECT_TRUE(ht::verify(copy[copy.catalog()[0].name].value()));
    EXPECT_EQ(ht::load(copy, {.verify = true})->verified_bytes, 8U);
    EXPECT_TRUE(ht::seal(copy, {.force = true}));
  }
  std::filesystem::create_directories(folder_ / "back");
  converted(opened(folder_ / "there.toy"), "back/pairs.ht");
  EXPECT_EQ(read_file(folder_ / "back/pairs.ht"), read_file(folder_ / "pairs.ht"));
}

TEST_F(CallersFormat, loses_a_custom_dtype_only_on_request) {
  ASSERT_TRUE(
      write(folder_ / "pairs.ht", dtype_info<Pair>(), std::array<std::int64_t, 1>{4}, bytes_of("ABCDEFGH")));
  const Model pairs = opened(folder_ / "pairs.ht");
  EXPECT_EQ(convert(pairs, folder_ / "x.safetensors").error().code(), ErrorCode::would_lose);
  EXPECT_TRUE(convert(pairs, folder_ / "x.safetensors", {}, {.raw_bytes = true}));
}

}  // namespace
}  // namespace ht::callers_format_test
