#include <gtest/gtest.h>

#include "format/safetensors/safetensors.hpp"
#include "format/safetensors/test_file.hpp"

namespace ht::format_safetensors::safetensors_edit_test {
namespace {

using testing::safetensors_file;

constexpr std::string_view tensor = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"note":[1, "}"]})";

Metadata metadata_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Metadata metadata;
  for (const auto& [key, value] : pairs) EXPECT_TRUE(metadata.add(key, value));
  EXPECT_TRUE(metadata.index());
  return metadata;
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The JSON of the file after the edit, or the Error.
Result<std::string> after(const std::string& json, const Pairs& pairs, bool grow = false,
                          std::size_t data_bytes = 4) {
  const auto file = safetensors_file(json, data_bytes);
  const auto catalog = std::get<Catalog>(parse(file, file.size()).value());
  const auto metadata = metadata_of(pairs);
  const auto header = HT_TRY(edit({file, file.size(), catalog, metadata, grow}));
  EXPECT_EQ(header.replaced_bytes, 8 + json.size());
  const auto parsed = parse(header.bytes, header.bytes.size() + data_bytes);
  EXPECT_TRUE(parsed) << to_string(parsed.error());
  EXPECT_EQ(std::get<Catalog>(*parsed).metadata(), metadata);
  EXPECT_EQ(std::get<Catalog>(*parsed).size(), catalog.size());
  return std::string(reinterpret_cast<const char*>(header.bytes.data()) + 8, header.bytes.size() - 8);
}

std::string object(std::string_view members, std::size_t spaces = 0) {
  return "{" + std::string(members) + "}" + std::string(spaces, ' ');
}

TEST(SafetensorsEdit, replaces_metadata_at_any_position) {
  const std::string old = R"("__metadata__":{"k":"long value"})";
  const std::string now = R"("__metadata__":{"k":"v"})";
  // The text before and after the metadata.
  for (const auto& [before, behind] :
       std::vector<std::pair<std::string, std::string>>{{"", "," + std::string(tensor)},
                                                        {std::string(tensor) + ",", ""},
                                                        {" ", " ,\n" + std::string(tensor)}}) {
    const auto around = [&, front = before, back = behind](const std::string& member) {
      return std::string(front).append(member).append(back);
    };
    EXPECT_EQ(after(object(around(old), 3), {{"k", "v"}}), object(around(now), 3 + old.size() - now.size()));
  }
}

TEST(SafetensorsEdit, adds_the_first_value_and_removes_the_last) {
  const std::string t(tensor);
  const std::string member = R"("__metadata__":{"k":"v"})";
  EXPECT_EQ(after(object(t, 50), {{"k", "v"}}), object(member + "," + t, 49 - member.size()));
  EXPECT_EQ(after(object(member + "," + t), {}), object(t, member.size() + 1));
  EXPECT_EQ(after(object(t + " , " + member), {}), object(t + " ", member.size() + 2));
  EXPECT_EQ(after(object(member), {}, false, 0), object("", member.size()));
  EXPECT_EQ(after(object(" ", 40), {{"k", "v"}}, false, 0), object(member + " ", 40 - member.size()));
  EXPECT_EQ(after(object("\"__metadata__\" : null," + t, 40), {{"k", "v"}}).value().substr(0, 30),
            object(member + "," + t).substr(0, 30));
}

TEST(SafetensorsEdit, recognizes_the_escaped_key) {
  const std::string t(tensor);
  const std::string escaped = "\"__meta\\u0064ata__\":{}," + t;
  EXPECT_EQ(after(object(escaped), {}), object(t, escaped.size() - t.size()));
  const std::string other = R"("__metadata__\\":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},)" + t;
  EXPECT_EQ(after(object(other), {}), object(other));
}

TEST(SafetensorsEdit, escapes_strings) {
  const Pairs pairs{{"quote \" and \\", "line\nbreak"}, {"\u00e9\u4e2d", "}{\",:"}, {"", ""}};
  EXPECT_TRUE(after(object(tensor, 200), pairs));
}

TEST(SafetensorsEdit, metadata_fits_the_padding) {
  const std::string member = R"("__metadata__":{"k":"v"},)";
  const std::string t(tensor);
  EXPECT_EQ(after(object(t, member.size()), {{"k", "v"}}), object(member + t)) << "exactly";
  const auto refused = after(object(t, member.size() - 1), {{"k", "v"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::header_too_large);
  EXPECT_EQ(refused.error().rule(), "metadata_fits_the_padding");
  const auto replaced_bytes = 8 + t.size() + 2 + member.size() - 1;
  EXPECT_EQ(refused.error().message(), "header needs " + std::to_string(replaced_bytes + 1) +
                                           " bytes but the space before the data has " +
                                           std::to_string(replaced_bytes));
  EXPECT_NE(refused.error().hint().find("--no-grow"), std::string_view::npos);
}

TEST(SafetensorsEdit, safetensors_header_can_be_read) {
  const auto catalog = std::get<Catalog>(parse(safetensors_file("{}"), 10).value());
  const auto rule_of_edit = [&](std::size_t json_bytes, const std::string& value) -> std::string {
    // The space is in the middle of the JSON, so that an edit cannot use it.
    std::string file(8, '\0');
    file += R"({"__metadata__":{"k":"value"},)";
    const std::string end = std::string(tensor) + "}";
    file.append(8 + json_bytes - file.size() - end.size(), ' ');
    file += end;
    store_le(std::as_writable_bytes(std::span(file)), std::uint64_t{json_bytes});
    const auto edited = edit({bytes_of(file), file.size(), catalog, metadata_of({{"k", value}}), true});
    return edited ? "" : std::string(edited.error().rule());
  };
  EXPECT_EQ(rule_of_edit(1000, "longer"), "");
  EXPECT_EQ(rule_of_edit(default_max_header_bytes, "longer"), "safetensors_header_can_be_read");
  EXPECT_EQ(rule_of_edit(default_max_header_bytes + 1, "short"), "") << "the header keeps its size";
}

TEST(SafetensorsEdit, grows_by_whole_blocks_with_slack) {
  for (const std::size_t begin :
       {std::size_t{101}, std::size_t{128}, std::size_t{4096}, std::size_t{65536}}) {
    const std::string json = object(tensor, begin - 8 - tensor.size() - 2);
    const std::string value(begin, 'x');
    const auto grown = after(json, {{"k", value}}, true);
    ASSERT_TRUE(grown);
    const std::size_t now = grown->size() + 8;
    EXPECT_EQ((now - begin) % 4096, 0U);
    EXPECT_GE(grown->size() - grown->find_last_not_of(' ') - 1, 1024U);
    EXPECT_TRUE(begin != 65536 || now == 131072);
    EXPECT_EQ(after(json, {}, true), json) << "the header grows only if necessary";
  }
}

TEST(SafetensorsEdit, header_without_tensors_can_grow) { EXPECT_TRUE(after("{}", {{"k", "v"}}, false, 0)); }

TEST(SafetensorsEdit, refuses_values_that_safetensors_cannot_store) {
  const auto file = safetensors_file(object(tensor, 100), 4);
  const auto catalog = std::get<Catalog>(parse(file, file.size()).value());
  Metadata metadata;
  EXPECT_TRUE(metadata.add("n", std::uint8_t{1}));
  EXPECT_EQ(edit({file, file.size(), catalog, metadata, true}).error().rule(),
            "safetensors_metadata_values_are_strings");
}

TEST(SafetensorsEdit, edit_sees_the_whole_header) {
  const auto file = safetensors_file(object(tensor), 4);
  const auto catalog = std::get<Catalog>(parse(file, file.size()).value());
  for (const std::size_t seen : {std::size_t{0}, std::size_t{7}, std::size_t{8}, file.size() - 5}) {
    const auto refused = edit({Bytes(file).first(seen), file.size(), catalog, catalog.metadata(), false});
    ASSERT_FALSE(refused) << seen;
    EXPECT_EQ(refused.error().code(), ErrorCode::internal);
    EXPECT_EQ(refused.error().rule(), "edit_sees_the_whole_header");
  }
}

}  // namespace
}  // namespace ht::format_safetensors::safetensors_edit_test
