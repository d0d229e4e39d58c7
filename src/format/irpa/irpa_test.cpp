#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/relations.hpp>
#include <vector>

#include "format/irpa/irpa.hpp"
#include "format/irpa/irpa_metadata.hpp"
#include "format/irpa/irpa_test_archive.hpp"
#include "format/test_same_tensors.hpp"
#include "testing/library_types.hpp"

namespace ht::format_irpa::irpa_test {
namespace {

using testing::archive;
using testing::ArchiveEntry;

Catalog catalog_of(Bytes file) {
  auto parsed = parse(file, file.size());
  EXPECT_TRUE(parsed) << (parsed ? "" : to_string(parsed.error()));
  return std::get<Catalog>(*std::move(parsed));
}

Catalog catalog_of(const std::vector<Entry>& entries) {
  CatalogBuilder builder("irpa");
  for (const auto& entry : entries) EXPECT_TRUE(builder.add(entry));
  return std::move(builder).build().value();
}

// Encodes the catalog, parses the header, and expects the same tensors and the same bytes when encoded again.
EncodedFile encode_and_compare(const Catalog& catalog, const EncodeOptions& layout = {}) {
  const auto encoded = encode(catalog, layout);
  EXPECT_TRUE(encoded) << (encoded ? "" : to_string(encoded.error()));
  const auto parsed = parse(encoded->header, encoded->file_bytes);
  EXPECT_TRUE(parsed) << (parsed ? "" : to_string(parsed.error()));
  const auto& reparsed = std::get<Catalog>(*parsed);
  EXPECT_TRUE(ht::testing::same_tensors(catalog, reparsed));
  EXPECT_EQ(encode(reparsed, layout)->header, encoded->header);
  return *encoded;
}

TEST(Irpa, data_is_in_the_storage_segment) {
  const auto catalog = catalog_of(
      archive({{.name = "a", .offset = 0, .length = 16}, {.name = "b", .offset = 64, .length = 5}}, 69));
  ASSERT_EQ(catalog.size(), 2U);
  EXPECT_EQ(catalog.format(), "irpa");
  EXPECT_EQ(catalog[1].name, "b");
  EXPECT_EQ(catalog[1].offset - catalog[0].offset, 64U);
  EXPECT_EQ(catalog[1].bytes, 5U);
  EXPECT_FALSE(catalog[1].is_typed());
  EXPECT_TRUE(catalog[1].note.empty());
  encode_and_compare(catalog);
}

TEST(Irpa, empty_data_can_be_anywhere) {
  const auto catalog = catalog_of(archive({{.name = "a", .offset = UINT64_MAX, .length = 0}}));
  EXPECT_EQ(catalog[0].offset, 0U);
  EXPECT_EQ(catalog[0].bytes, 0U);
}

TEST(Irpa, splats_of_every_pattern_length_are_read) {
  for (const std::size_t bytes : {1U, 2U, 4U, 8U, 16U}) {
    const std::string pattern(bytes, 'p');
    const auto catalog = catalog_of(archive({{.kind = 1, .name = "s", .length = 112, .pattern = pattern}}));
    EXPECT_TRUE(std::ranges::equal(catalog[0].splat, bytes_of(pattern)));
    EXPECT_EQ(catalog[0].bytes, 112U);
    encode_and_compare(catalog);
  }
}

TEST(Irpa, skip_entries_are_omitted) {
  const auto catalog = catalog_of(archive({{.kind = 0, .name = "old"},
                                           {.kind = 1, .name = "s", .length = 4, .pattern = "x"},
                                           {.kind = 0, .name = "s"}}));
  ASSERT_EQ(catalog.size(), 1U);
  EXPECT_EQ(catalog[0].name, "s");
}

TEST(Irpa, names_may_be_empty) { EXPECT_EQ(catalog_of(archive({{.name = ""}}))[0].name, ""); }

TEST(Irpa, external_entries_refer_to_their_files) {
  const auto catalog =
      catalog_of(archive({{.kind = 3, .name = "a", .offset = 7, .length = 9, .path = "w/x.bin"},
                          {.kind = 3, .name = "b", .offset = 0, .length = 1, .path = "y.bin"},
                          {.kind = 3, .name = "c", .offset = 1, .length = 0, .path = "w/x.bin"}}));
  EXPECT_EQ(catalog.files(), (std::vector<std::string>{"", "w/x.bin", "y.bin"}));
  EXPECT_EQ(catalog[0].file, 1U);
  EXPECT_EQ(catalog[0].offset, 7U);
  EXPECT_EQ(catalog[0].bytes, 9U);
  EXPECT_EQ(catalog[1].file, 2U);
  EXPECT_EQ(catalog[2].file, 1U);
  const auto encoded = encode_and_compare(catalog);
  const auto reparsed = parse(encoded.header, encoded.file_bytes);
  EXPECT_EQ(std::get<Catalog>(*reparsed)[0].offset, 7U);
}

TEST(Irpa, shards_of_other_formats_are_included) {
  CatalogBuilder builder("safetensors");
  const auto shard = builder.add_file("b.safetensors").value();
  const std::vector<std::int64_t> dims{8};
  ASSERT_TRUE(
      builder.add({.name = "t", .dtype = U8::tag, .dims = dims, .file = shard, .offset = 100, .bytes = 8}));
  const auto encoded = encode(std::move(builder).build().value(), {});
  ASSERT_TRUE(encoded);
  const auto parsed = parse(encoded->header, encoded->file_bytes);
  const Entry entry = std::get<Catalog>(*parsed)[0];
  EXPECT_EQ(entry.file, 0U);
  EXPECT_EQ(entry.offset, encoded->offsets[0]);
}

TEST(Irpa, offsets_are_relative_to_the_linked_header) {
  auto file = archive({{.name = "a", .length = 8}}, 8, 4096);
  file.resize(4096);
  const auto second = archive({{.name = "b", .length = 3}}, 3);
  file.insert(file.end(), second.begin(), second.end());
  const auto catalog = catalog_of(file);
  ASSERT_EQ(catalog.size(), 2U);
  EXPECT_EQ(catalog[1].name, "b");
  EXPECT_EQ(catalog[1].offset, 4096U + second.size() - 3);
  encode_and_compare(catalog);
}

TEST(Irpa, entries_and_metadata_are_requested_at_any_offset) {
  constexpr std::uint64_t far = std::uint64_t{10} << 30;
  constexpr std::uint64_t file_bytes = far + (std::uint64_t{1} << 20);
  const auto prefix = archive({{.name = "a", .length = 8}}, 8, far);
  auto second = archive({{.name = "b", .length = 3}}, 3);
  // Moves the metadata away from the entry table.
  store_le(MutableBytes(second).subspan(56), std::uint64_t{1} << 16);
  const auto name = bytes_of("b");
  const std::vector<FileParts::Part> all{
      {far, Bytes(second).first(88)}, {far + 96, Bytes(second).subspan(96, 76)}, {far + (1 << 16), name}};
  for (std::size_t parts = 0; parts < all.size(); ++parts) {
    const auto parsed = format_irpa::parse(FileParts(prefix, std::span(all).first(parts)), file_bytes);
    ASSERT_TRUE(parsed);
    const auto need = std::get<Need>(*parsed);
    EXPECT_EQ(need.offset, all[parts].offset);
    EXPECT_EQ(need.bytes, all[parts].bytes.size());
  }
  const auto parsed = format_irpa::parse(FileParts(prefix, all), file_bytes);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(std::get<Catalog>(*parsed)[1].name, "b");
}

TEST(Irpa, adjacent_entries_and_metadata_are_requested_together) {
  const auto file = archive({{.name = "a"}, {.name = "b"}, {.name = "c"}});
  const auto parsed = parse(Bytes(file).first(88), file.size());
  const auto need = std::get<Need>(*parsed);
  EXPECT_EQ(need.offset, 96U);
  EXPECT_EQ(need.bytes, 80U + 80 + 76 + 3);
}

TEST(Irpa, close_segments_are_requested_together_after_overlapping_segments) {
  constexpr std::uint64_t second = 2048;
  auto first = archive({{.name = "a"}}, 0, second);
  store_le(MutableBytes(first).subspan(56), std::uint64_t{100});  // the metadata is inside the entry table
  const auto linked = archive({{.name = "b"}}, 0);
  const std::vector<FileParts::Part> headers{{second, Bytes(linked).first(88)}};
  const auto parsed =
      format_irpa::parse(FileParts(Bytes(first).first(88), headers), second + linked.size()).value();
  const auto need = std::get<Need>(parsed);
  EXPECT_EQ(need.offset, 96U);
  EXPECT_EQ(need.offset + need.bytes, second + 96 + 76 + 1);  // the entry and the name of the second header
}

TEST(Irpa, descriptions_define_dtype_and_shape) {
  for (const std::string_view metadata :
       {R"(TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [2, 3]})",
        R"(PYTORCH:{"type": "Tensor", "dtype": "float32", "shape": [2, 3], "dtype_desc": {"itemsize": 4}})",
        R"(TENSORv0:{"shape":[2,3],"dtype":"torch.float32","type":"Tensor"})"}) {
    const auto catalog =
        catalog_of(archive({{.name = "t", .metadata = std::string(metadata), .length = 24}}, 24));
    const Entry entry = catalog[0];
    EXPECT_EQ(entry.dtype, F32::tag) << metadata;
    EXPECT_TRUE(std::ranges::equal(entry.dims, std::vector<std::int64_t>{2, 3}));
    // The metadata of an entry is kept as a note only if the encoder would write another text.
    const bool is_canonical =
        metadata.find("_desc") == metadata.npos && metadata.find("torch") == metadata.npos;
    EXPECT_EQ(entry.note, is_canonical ? "" : metadata);
    encode_and_compare(catalog);
    encode_and_compare(catalog, {.alignment = 4096});
  }
}

TEST(Irpa, cached_description_is_used_only_for_its_size) {
  const auto description = [](int rows) {
    return R"(TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [)" + std::to_string(rows) + "]}";
  };
  std::vector<testing::ArchiveEntry> entries;
  // More descriptions than the cache holds, each once with its size and once with another size.
  for (int round = 0; round < 3; ++round) {
    for (int rows = 0; rows < 7; ++rows) {
      const auto bytes = static_cast<std::uint64_t>(4 * rows);
      const auto name = std::to_string(round) + "." + std::to_string(rows);
      entries.push_back({.name = name, .metadata = description(rows), .length = bytes});
      entries.push_back({.name = name + ".other", .metadata = description(rows), .length = bytes + 1});
    }
  }
  const auto catalog = catalog_of(archive(entries, 32));
  ASSERT_EQ(catalog.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    const auto rows = static_cast<std::int64_t>(i / 2 % 7);
    EXPECT_EQ(catalog[i].dtype, F32::tag);
    EXPECT_TRUE(std::ranges::equal(catalog[i].dims, std::vector<std::int64_t>{rows})) << i;
    EXPECT_FALSE(catalog[i + 1].is_typed());
    EXPECT_EQ(catalog[i + 1].note, entries[i + 1].metadata);
  }
}

TEST(Irpa, metadata_without_a_description_is_kept_verbatim) {
  const std::string deep(1000, '[');
  for (const std::string& metadata :
       {std::string("what is this"), std::string("\xff\x00\xfe", 3), std::string("TENSORv0:"),
        std::string("TENSORv0:{"), "TENSORv0:{\"type\": " + deep,
        std::string(R"(TENSORv0:{"type": "Tensor", "dtype": "complex128", "shape": []})"),
        std::string(R"(TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [2]})"),
        std::string(R"(TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [-4]})"),
        std::string(R"(TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [1.0]})"),
        std::string(R"(TENSORv0:{"type": "Tensor", "dtype": "int8", "shape": [18446744073709551615, 0]})"),
        std::string(R"(TENSORv0:{"type": "Scalar", "dtype": "float32", "shape": []})"),
        std::string(R"(TENSORv0:{"dtype": "float32", "shape": []})"),
        std::string(R"(TENSORv0:{"type": "Tensor", "shape": []})"),
        std::string(R"(TENSORv0:{"type": "Tensor", "dtype": "float32"})"),
        std::string(R"(TENSORv0:{"type": "Tensor", "dtype": "float32", "dtype": "float32", "shape": []})"),
        std::string(R"(TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [4], "encoding": "Q9"})"),
        std::string(R"(TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": []} more)")}) {
    const auto catalog = catalog_of(archive({{.name = "t", .metadata = metadata, .length = 4}}, 4));
    EXPECT_FALSE(catalog[0].is_typed()) << metadata;
    EXPECT_TRUE(catalog[0].dims.empty());
    EXPECT_EQ(catalog[0].note, metadata);
    encode_and_compare(catalog, {.describe_types = false});
  }
}

TEST(Irpa, description_has_at_most_64_dimensions_and_16_kib) {
  const auto with_rank = [](std::size_t rank) {
    std::string dims = "1";
    for (std::size_t i = 1; i < rank; ++i) dims += ", 1";
    return R"(TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [)" + dims + "]}";
  };
  json::Scratch scratch;
  EXPECT_EQ(read_description(with_rank(64), 1, scratch)->extents().size(), 64U);
  EXPECT_FALSE(read_description(with_rank(65), 1, scratch));
  const std::string small = R"(TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [1]})";
  EXPECT_TRUE(read_description(small + std::string(max_description_bytes - small.size(), ' '), 1, scratch));
  EXPECT_FALSE(
      read_description(small + std::string(max_description_bytes + 1 - small.size(), ' '), 1, scratch));
}

TEST(Irpa, every_library_dtype_round_trips) {
  const std::vector<std::int64_t> dims{3, 5};
  for (const auto& dtype : library_dtypes()) {
    const auto bytes = dense_bytes(dims, dtype.bits).value();
    encode_and_compare(
        catalog_of({{.name = "t", .dtype = dtype.tag, .dims = dims, .bytes = bytes},
                    {.name = "scalar", .dtype = dtype.tag, .bytes = bytes_for(1, dtype.bits).value()}}));
  }
}

TEST(Irpa, every_block_encoding_round_trips) {
  for (const auto& encoding : library_encodings()) {
    const std::vector<std::int64_t> dims{3, 2 * encoding.block_elements};
    const auto catalog = catalog_of({{.name = "t",
                                      .encoding = encoding.tag,
                                      .dims = dims,
                                      .bytes = std::uint64_t{6} * encoding.block_bytes}});
    encode_and_compare(catalog);
  }
}

TEST(Irpa, descriptions_have_the_spelling_of_iree) {
  const std::vector<std::int64_t> dims{2, 256};
  EXPECT_EQ(describe({.dtype = BF16::tag, .dims = dims, .bytes = 1024}),
            R"(TENSORv0:{"type": "Tensor", "dtype": "bfloat16", "shape": [2, 256]})");
}

TEST(Irpa, descriptions_of_blocks_add_encoding_and_logical_shape_to_an_array_of_bytes) {
  const std::vector<std::int64_t> dims{2, 256};
  EXPECT_EQ(describe({.encoding = find_encoding("Q4_K")->tag, .dims = dims, .bytes = 288}),
            R"(TENSORv0:{"type": "Tensor", "dtype": "uint8", "shape": [288], "encoding": "Q4_K", )"
            R"("logical_shape": [2, 256]})");
}

TEST(Irpa, types_can_be_omitted) {
  const std::vector<std::int64_t> dims{4};
  const auto catalog = catalog_of({{.name = "t", .dtype = F32::tag, .dims = dims, .bytes = 16}});
  const auto encoded = encode(catalog, {.describe_types = false});
  const auto parsed = parse(encoded->header, encoded->file_bytes);
  EXPECT_FALSE(std::get<Catalog>(*parsed)[0].is_typed());
  EXPECT_EQ(encoded->file_bytes, 4096U);
  EXPECT_EQ(encoded->offsets[0], 192U);
}

TEST(Irpa, alignment_can_be_raised_and_not_lowered) {
  const auto catalog = catalog_of({{.name = "a", .bytes = 3}, {.name = "b", .bytes = 3}});
  EXPECT_EQ(encode(catalog, {.alignment = 1})->offsets,
            (std::vector<std::optional<std::uint64_t>>{256, 320}));
  const auto encoded = encode(catalog, {.alignment = 8192});
  EXPECT_EQ(encoded->offsets, (std::vector<std::optional<std::uint64_t>>{8192, 16384}));
  EXPECT_EQ(encoded->file_bytes, 20480U);
  EXPECT_EQ(load_le<std::uint64_t>(Bytes(encoded->header).subspan(96 + 52)), 8192U);
}

TEST(Irpa, irpa_note_matches_the_type) {
  const std::vector<std::int64_t> dims{4};
  const std::string_view note = R"(TENSORv0:{"type": "Tensor", "dtype": "int8", "shape": [4], "by": "me"})";
  const auto expect_lost = [](const Entry& entry, std::string_view fault, std::string_view hint) {
    const auto encoded = encode(catalog_of({entry}), {});
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().code(), ErrorCode::would_lose);
    EXPECT_EQ(encoded.error().rule(), "irpa_note_matches_the_type");
    EXPECT_EQ(encoded.error().tensor(), "t");
    EXPECT_NE(encoded.error().message().find(fault), std::string_view::npos) << encoded.error().message();
    EXPECT_EQ(encoded.error().hint(), hint);
  };
  constexpr std::string_view other = "its note describes a dtype or shape that the tensor does not have";
  constexpr std::string_view set_type = "clear Entry::note, or set the dtype and shape that it describes";
  expect_lost({.name = "t", .dtype = U8::tag, .dims = dims, .bytes = 4, .note = note}, other, set_type);
  expect_lost({.name = "t", .bytes = 4, .note = note}, other, set_type);
  expect_lost({.name = "t", .dtype = U8::tag, .dims = dims, .bytes = 4, .note = "words"},
              "its note does not describe its dtype and shape",
              "clear Entry::note, or describe dtype and shape in it by TENSORv0:");
}

TEST(Irpa, irpa_can_describe_the_type) {
  const std::vector<std::int64_t> dims{4};
  const std::vector<std::int64_t> deep(65, 1);
  const std::array wrong{Entry{.name = "t", .dtype = user_tag(3), .dims = dims, .bytes = 4},
                         Entry{.name = "t", .dtype = U8::tag, .dims = deep, .bytes = 1}};
  for (const auto& entry : wrong) {
    const auto encoded = encode(catalog_of({entry}), {});
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().code(), ErrorCode::would_lose);
    EXPECT_EQ(encoded.error().rule(), "irpa_can_describe_the_type");
    EXPECT_TRUE(encode(catalog_of({entry}), {.describe_types = false}));
  }
}

TEST(Irpa, data_size_matches_the_shape) {
  const std::vector<std::int64_t> dims{4};
  const std::vector<std::int64_t> block{256};
  const std::array pattern{std::byte{1}};
  const std::array wrong{
      Entry{.name = "t", .dtype = U8::tag, .dims = dims, .bytes = 5},
      Entry{.name = "t", .dtype = U8::tag, .dims = dims, .bytes = 5, .splat = pattern},
      Entry{.name = "t", .encoding = find_encoding("Q4_K")->tag, .dims = block, .bytes = 145},
      Entry{.name = "t", .encoding = find_encoding("Q4_K")->tag, .dims = dims, .bytes = 144}};
  for (const auto& entry : wrong) {
    const auto encoded = encode(catalog_of({entry}), {});
    ASSERT_FALSE(encoded);
    EXPECT_EQ(encoded.error().code(), ErrorCode::size_mismatch);
    EXPECT_EQ(encoded.error().rule(), "data_size_matches_the_shape");
  }
}

TEST(Irpa, metadata_is_stored_in_an_entry_that_other_readers_skip) {
  CatalogBuilder builder("irpa");
  const std::vector<std::int64_t> dims{4};
  ASSERT_TRUE(builder.add({.name = "a", .dtype = U8::tag, .dims = dims, .bytes = 4}));
  ASSERT_TRUE(builder.metadata().add("text", "значение"));
  ASSERT_TRUE(builder.metadata().add("number", std::uint16_t{7}));
  const auto catalog = std::move(builder).build().value();
  const auto encoded = encode(catalog, {}).value();
  auto file = encoded.header;
  file.resize(static_cast<std::size_t>(encoded.file_bytes));
  const auto parsed = std::get<Catalog>(format_irpa::parse(FileParts(file), file.size()).value());
  EXPECT_EQ(parsed.metadata(), catalog.metadata());
  EXPECT_EQ(parsed.size(), 1U);
  constexpr std::size_t second_entry = testing::first_entry + 80;
  EXPECT_EQ(load_le<std::uint32_t>(Bytes(file).subspan(second_entry + 8)), 0U)
      << "the kind of skipped entries";
}

TEST(Irpa, irpa_can_store_the_value) {
  CatalogBuilder builder("irpa");
  ASSERT_TRUE(builder.metadata().add("", "a key without a name"));
  const auto encoded = encode(std::move(builder).build().value(), {});
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code(), ErrorCode::would_lose);
  EXPECT_EQ(encoded.error().rule(), "irpa_can_store_the_value");
}

TEST(Irpa, unsupported_features_are_refused) {
  const std::vector<std::int64_t> dims{2, 2};
  const auto rule = [](const Catalog& catalog) {
    const auto encoded = encode(catalog, {});
    return encoded ? "it was encoded" : std::string(encoded.error().rule());
  };
  EXPECT_EQ(
      rule(catalog_of({{.dtype = U8::tag, .dims = dims, .order = ElementOrder::column_major, .bytes = 4}})),
      "format_carries_the_order");
  EXPECT_EQ(rule(catalog_of({{.dtype = U8::tag, .dims = dims, .byte_order = ByteOrder::big, .bytes = 4}})),
            "format_carries_the_byte_order");
  CatalogBuilder builder("irpa");
  EXPECT_TRUE(builder.metadata().add("key", "value"));
  const auto with_metadata = std::move(builder).build().value();
  EXPECT_EQ(encode(with_metadata, {.describe_types = false}).error().rule(), "format_carries_metadata");
  EXPECT_EQ(rule(catalog_of({{.name = "a", .bytes = UINT64_MAX}})), "encoded_size_fits_64_bits");
  EXPECT_EQ(rule(catalog_of({{.name = "a", .bytes = UINT64_MAX - 70}, {.name = "b", .bytes = 70}})),
            "encoded_size_fits_64_bits");
}

// Expects the same result from both readers, and from `describe` for a canonical text.
void expect_readers_agree(std::string_view text, std::uint64_t bytes) {
  json::Scratch scratch;
  const auto read = read_description(text, bytes, scratch);
  const auto by_json = read_json_description(text, bytes, scratch);
  ASSERT_EQ(read.has_value(), by_json.has_value()) << text;
  if (!read) return;
  EXPECT_EQ(read->dtype, by_json->dtype) << text;
  EXPECT_EQ(read->encoding, by_json->encoding) << text;
  EXPECT_TRUE(std::ranges::equal(read->extents(), by_json->extents())) << text;
  if (!read->is_known_canonical) return;
  const Entry entry{
      .dtype = read->dtype, .encoding = read->encoding, .dims = read->extents(), .bytes = bytes};
  EXPECT_EQ(describe(entry), text);
}

TEST(IrpaDescription, written_descriptions_are_read_without_a_json_parser) {
  const std::array<std::int64_t, 2> dims{3, 256};
  json::Scratch scratch;
  for (const auto& dtype : library_dtypes()) {
    const auto bytes = dense_bytes(dims, dtype.bits).value();
    const auto text = describe({.dtype = dtype.tag, .dims = dims, .bytes = bytes}).value();
    EXPECT_TRUE(read_description(text, bytes, scratch)->is_known_canonical) << text;
    expect_readers_agree(text, bytes);
    expect_readers_agree(text, bytes + 1);
  }
  const auto blocks = find_encoding("Q4_K").value();
  const auto bytes = block_bytes(dims, blocks).value();
  const auto text = describe({.encoding = blocks.tag, .dims = dims, .bytes = bytes}).value();
  EXPECT_TRUE(read_description(text, bytes, scratch)->is_known_canonical) << text;
  expect_readers_agree(text, bytes);
}

TEST(IrpaDescription, readers_agree_on_nearly_canonical_texts) {
  const std::string start = R"(TENSORv0:{"type": "Tensor", "dtype": ")";
  for (const std::string_view rest :
       {R"(uint8", "shape": []})",
        R"(uint8", "shape": [1]})",
        R"(uint8", "shape": [01]})",
        R"(uint8", "shape": [-0]})",
        R"(uint8", "shape": [1, ]})",
        R"(uint8", "shape": [, 1]})",
        R"(uint8", "shape": [1,1]})",
        R"(uint8", "shape": [1,  1]})",
        R"(uint8", "shape": [+1]})",
        R"(uint8", "shape": [1.0]})",
        R"(uint8", "shape": [1e0]})",
        R"(uint8", "shape": [ 1]})",
        R"(uint8", "shape": [1]} )",
        R"(uint8", "shape": [1]}x)",
        R"(uint8", "shape": [1])",
        R"(torch.uint8", "shape": [1]})",
        R"(\u0075int8", "shape": [1]})",
        R"(uint9", "shape": [1]})",
        R"(uint8", "shape": [9223372036854775807]})",
        R"(uint8", "shape": [9223372036854775808]})",
        R"(uint8", "shape": [18446744073709551616]})",
        R"(uint8", "shape": [1], "shape": [1]})",
        R"(uint8", "shape": [144], "encoding": "Q4_K", "logical_shape": [256]})",
        R"(int8", "shape": [144], "encoding": "Q4_K", "logical_shape": [256]})",
        R"(uint8", "shape": [12, 12], "encoding": "Q4_K", "logical_shape": [256]})",
        R"(uint8", "shape": [144], "encoding": "q4_k", "logical_shape": [256]})",
        R"(uint8", "shape": [144], "encoding": "Q4_K", "logical_shape": [255]})",
        R"(uint8", "shape": [144], "encoding": "Q4_K"})"}) {
    for (const std::uint64_t bytes : {0U, 1U, 144U}) expect_readers_agree(start + std::string(rest), bytes);
  }
}

RC_GTEST_PROP(IrpaDescription, readers_agree_on_any_variation, ()) {
  const auto dtypes = library_dtypes();
  const auto dtype = dtypes[*rc::gen::inRange<std::size_t>(0, dtypes.size())];
  const auto dims = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 300));
  const auto bytes = dense_bytes(dims, dtype.bits);
  if (!bytes || dims.size() > max_rank) return;
  auto text = describe({.dtype = dtype.tag, .dims = dims, .bytes = *bytes}).value();
  constexpr std::string_view letters = "0123456789 ,[]{}:\"\\-+.eTENSOR";
  for (int changes = *rc::gen::inRange(0, 3); changes > 0; --changes) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const char letter = letters[*rc::gen::inRange<std::size_t>(0, letters.size())];
    switch (*rc::gen::inRange(0, 3)) {
      case 0: text[at] = letter; break;
      case 1: text.insert(at, 1, letter); break;
      default: text.erase(at, 1); break;
    }
  }
  expect_readers_agree(text, *bytes);
  expect_readers_agree(text, *bytes / 10);
}

}  // namespace
}  // namespace ht::format_irpa::irpa_test
