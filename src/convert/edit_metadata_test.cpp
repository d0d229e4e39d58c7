#include <htensor/convert/edit_metadata.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <algorithm>
#include <htensor/convert/convert.hpp>
#include <htensor/format/format.hpp>
#include <htensor/model/model.hpp>

#include "convert/edit_metadata_test.hpp"

namespace ht::edit_metadata_test {
namespace {

using testing::all_values;

TEST_F(EditMeta, sets_and_removes_keys_and_keeps_the_data) {
  for (const auto& path : {safetensors_, gguf_, big_endian_gguf_}) {
    const auto before = read_file(path);
    const std::string key(catalog_of(before).metadata()[0].key);
    const auto set = edit(path, {{.key = key, .value = "x\u00e9\""}});
    ASSERT_TRUE(set) << to_string(set.error());
    EXPECT_TRUE(set->changed);
    EXPECT_EQ(set->moved_by, 0U);
    EXPECT_EQ(set->metadata.find(key)->text(), "x\u00e9\"");
    EXPECT_EQ(set->metadata, catalog_of(read_file(path)).metadata());
    expect_same_data(path, before);
    const auto removed = edit(path, {{.key = key}}).value();
    EXPECT_FALSE(removed.metadata.find(key));
    expect_same_data(path, before);
  }
  EXPECT_EQ(catalog_of(read_file(gguf_)).metadata().find("llama.block_count")->unsigned_integer(), 22U);
  EXPECT_EQ(catalog_of(read_file(big_endian_gguf_)).metadata().find("llama.block_count")->unsigned_integer(),
            22U);
  EXPECT_EQ(catalog_of(read_file(big_endian_gguf_))[0].byte_order, ByteOrder::big);
  expect_no_temporary_files();
}

TEST_F(EditMeta, reuses_freed_header_space) {
  for (const auto& path : {safetensors_, gguf_, big_endian_gguf_}) {
    const auto before = read_file(path);
    const std::string key(catalog_of(before).metadata()[0].key);
    const std::string value(*catalog_of(before).metadata().find(key)->text());
    ASSERT_TRUE(edit(path, {{.key = key, .value = ""}}));
    EXPECT_NE(read_file(path), before);
    ASSERT_TRUE(edit(path, {{.key = key, .value = value}}));
    EXPECT_EQ(read_file(path), before);
  }
}

TEST_F(EditMeta, moves_the_data_if_allowed) {
  const Edits longer{{.key = "new", .value = std::string(2000, 'n')}};
  for (const auto& path : {safetensors_, gguf_, big_endian_gguf_}) {
    const auto before = read_file(path);
    const auto refused = edit(path, longer);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().rule(), "metadata_fits_the_padding");
    EXPECT_EQ(refused.error().path(), path.native());
    EXPECT_EQ(read_file(path), before);
    const auto grown = edit(path, longer, true);
    ASSERT_TRUE(grown) << to_string(grown.error());
    EXPECT_EQ(grown->moved_by, 4096U);
    expect_same_data(path, before, 4096);
    // The edit left padding, in which a few hundred more bytes fit.
    const auto second = edit(path, {{.key = "more", .value = std::string(800, 'm')}});
    ASSERT_TRUE(second) << to_string(second.error());
    EXPECT_EQ(second->moved_by, 0U);
    expect_same_data(path, before, 4096);
    EXPECT_EQ(second->metadata.find("new")->text()->size(), 2000U);
  }
  expect_no_temporary_files();
}

TEST_F(EditMeta, does_not_write_without_changes) {
  for (const auto& path : {safetensors_, gguf_, big_endian_gguf_}) {
    EXPECT_FALSE(edit(path, {})->changed);
    EXPECT_FALSE(edit(path, {{.key = "k", .value = "v"}, {.key = "k"}})->changed);
  }
  EXPECT_FALSE(edit(gguf_, {{.key = "llama.block_count", .value = "22"}})->changed);
  EXPECT_EQ(port_.count(Call::create_nameless) + port_.count(Call::create), 0);
}

TEST_F(EditMeta, reads_only_the_beginning_of_a_header_with_large_padding) {
  const auto path = folder_ / "aligned.gguf";
  constexpr std::uint64_t alignment = 1 << 16;
  ASSERT_TRUE(convert(Model::open(gguf_).value(), path, {.alignment = alignment}));
  ASSERT_EQ(Model::open(path)->catalog()[0].offset, alignment);
  port_.set_max_bytes(4096);
  EXPECT_FALSE(edit(path, {{.key = "llama.block_count", .value = "22"}})->changed);
  EXPECT_EQ(port_.count(Call::read_at), 1) << "only the first 4096 bytes are read";
  EXPECT_EQ(port_.count(Call::map), 0);
  port_.set_max_bytes(UINT64_MAX);
  EXPECT_TRUE(edit(path, {{.key = "llama.block_count", .value = "23"}})->changed);
  EXPECT_EQ(catalog_of(read_file(path)).metadata().find("llama.block_count")->unsigned_integer(), 23U);
}

TEST_F(EditMeta, adds_metadata_to_a_file_without_any) {
  const auto path = folder_ / "bare.safetensors";
  const auto before = safetensors_file(R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}       )", 9);
  write_file(path, before);
  EXPECT_EQ(edit(path, {{.key = "k", .value = "v"}}).error().code(), ErrorCode::header_too_large);
  const auto grown = edit(path, {{.key = "k", .value = "v"}}, true).value();
  EXPECT_EQ(grown.metadata.size(), 1U);
  expect_same_data(path, before, grown.moved_by);
}

TEST_F(EditMeta, keeps_permissions) {
  ASSERT_EQ(chmod(gguf_.c_str(), 0640), 0);
  ASSERT_TRUE(edit(gguf_, {{.key = "general.name", .value = "x"}}));
  struct stat now{};
  ASSERT_EQ(stat(gguf_.c_str(), &now), 0);
  EXPECT_EQ(now.st_mode & 0777U, 0640U);
}

TEST_F(EditMeta, replaces_a_link_and_keeps_its_target) {
  const auto link = folder_ / "link.gguf";
  std::filesystem::create_symlink("m.gguf", link);
  const auto before = read_file(gguf_);
  ASSERT_TRUE(edit(link, {{.key = "general.name", .value = "x"}}));
  EXPECT_FALSE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_file(gguf_), before);
  EXPECT_EQ(catalog_of(read_file(link)).metadata().find("general.name")->text(), "x");
}

TEST_F(EditMeta, keeps_the_old_file_for_programs_that_opened_it) {
  const auto before = read_file(gguf_);
  const auto model = Model::open(gguf_).value();
  const auto raw = model.storage("u").value();
  ASSERT_TRUE(edit(gguf_, {{.key = "general.name", .value = std::string(100, 'x')}}, true));
  EXPECT_EQ(model.catalog().metadata().find("general.name")->text()->size(), 36U);
  EXPECT_TRUE(std::ranges::equal(raw.bytes(), Bytes(before).last(32)));
}

TEST_F(EditMeta, one_file_is_edited) {
  write_file(folder_ / "model.safetensors.index.json", R"({"weight_map":{"a":"m.safetensors"}})");
  for (const auto& path : {folder_.path(), folder_ / "model.safetensors.index.json"}) {
    const auto refused = edit(path, {{.key = "k", .value = "v"}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::not_regular_file);
    EXPECT_EQ(refused.error().rule(), "one_file_is_edited");
    EXPECT_EQ(refused.error().path(), path.native());
  }
  EXPECT_EQ(edit(folder_ / "none", {}).error().code(), ErrorCode::open_failed);
}

TEST_F(EditMeta, metadata_is_in_the_first_part) {
  const auto part = [&](std::uint16_t number) {
    GgufFile file;
    file.header(1, 4)
        .pair("split.no", MetaType::u16, number)
        .pair("split.count", MetaType::u16, std::uint16_t{2})
        .pair("split.tensors.count", MetaType::i32, std::int32_t{2});
    file.key("k", MetaType::string).text("value");
    file.tensor(number == 0 ? "a" : "b", {8}, 0, 0).pad().zeros(32);
    const auto path = folder_ / (number == 0 ? "s-00001-of-00002.gguf" : "s-00002-of-00002.gguf");
    write_file(path, file.bytes());
    return path;
  };
  const auto first = part(0);
  const auto refused = edit(part(1), {{.key = "k", .value = "v"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::bad_state);
  EXPECT_EQ(refused.error().rule(), "metadata_is_in_the_first_part");
  ASSERT_TRUE(edit(first, {{.key = "k", .value = "v"}}));
  EXPECT_EQ(Model::open(first)->catalog().metadata().find("k")->text(), "v");
}

TEST_F(EditMeta, format_has_metadata_to_edit) {
  for (const std::string format : {"ht", "npy", "irpa"}) {
    CatalogBuilder builder("safetensors");
    const std::vector<std::int64_t> dims{4};
    ASSERT_TRUE(builder.add({.name = "t", .dtype = U8::tag, .dims = dims, .bytes = 4}));
    auto encoded = encode(format, std::move(builder).build().value()).value();
    encoded.header.resize(encoded.file_bytes);
    const auto path = folder_ / ("t." + format);
    write_file(path, encoded.header);
    const auto refused = edit(path, {{.key = "k", .value = "v"}}, true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::unsupported_encoding);
    EXPECT_EQ(refused.error().rule(), "format_has_metadata_to_edit");
    EXPECT_EQ(read_file(path), encoded.header);
  }
}

TEST_F(EditMeta, refuses_the_same_hostile_files_as_the_parsers) {
  const auto path = folder_ / "bad";
  for (auto file : {safetensors_file(json, 20'001), gguf_file(std::endian::little)}) {
    file.resize(file.size() - 33);
    write_file(path, file);
    EXPECT_FALSE(edit(path, {{.key = "k", .value = ""}}, true));
    EXPECT_EQ(read_file(path), file);
  }
  write_file(path, safetensors_file("{\"__metadata__\":{\"k\":1}}"));
  EXPECT_EQ(edit(path, {}, true).error().rule(), "metadata_values_are_strings");
  write_file(path, "");
  EXPECT_EQ(edit(path, {}, true).error().rule(), "file_is_not_empty");
}

TEST_F(EditMeta, new_header_is_within_max_header_bytes) {
  const EditOptions small{.grow = true, .max_header_bytes = 1000, .port = &port_};
  const Edits longer{{.key = "k", .value = std::string(100, 'v')}};
  EXPECT_EQ(edit_metadata(safetensors_, longer, small).error().rule(),
            "safetensors_header_is_within_the_limit");
  EXPECT_EQ(edit_metadata(gguf_, longer, small).error().rule(), "gguf_header_is_within_the_limit");
}

TEST_F(EditMeta, leaves_the_old_or_new_file_after_any_failure) {
  const Edits edits{{.key = "general.name", .value = "another"}};
  const auto before = read_file(gguf_);
  ASSERT_TRUE(edit(gguf_, edits));
  const auto after = read_file(gguf_);
  constexpr int last = static_cast<int>(Call::unlink);
  for (int kind = 0; kind <= last; ++kind) {
    const auto call = static_cast<Call>(kind);
    for (int nth = 0;; ++nth) {
      write_file(gguf_, before);
      FaultyPort port;
      port.fail_at(call, nth, std::errc::io_error);
      const auto done = edit_metadata(gguf_, edits, {.port = &port});
      const auto now = read_file(gguf_);
      // Only the fsync of the folder and close follow the rename.
      const bool is_new = now == after;
      EXPECT_TRUE(is_new || now == before) << kind << " " << nth;
      EXPECT_TRUE(!done || is_new) << kind << " " << nth;
      EXPECT_TRUE(done || !is_new || call == Call::sync || call == Call::close) << kind << " " << nth;
      // If unmap fails, the mapping stays in the process.
      EXPECT_TRUE(call == Call::unmap || port.mapped_regions() == 0) << kind << " " << nth;
      EXPECT_EQ(port.open_files(), 0) << kind << " " << nth;
      EXPECT_EQ(folder_.names().size(), 3U) << kind << " " << nth;
      if (port.count(call) <= nth) break;
    }
  }
}

TEST_F(EditMeta, detects_a_changed_source) {
  const auto before = read_file(gguf_);
  port_.before_each([&](Call call, int nth) {
    if (call != Call::create_nameless || nth != 0) return;
    std::filesystem::last_write_time(gguf_,
                                     std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  });
  EXPECT_EQ(edit(gguf_, {{.key = "general.name", .value = "x"}}).error().code(),
            ErrorCode::changed_underfoot);
  EXPECT_EQ(read_file(gguf_), before);
}

TEST_F(EditMeta, file_is_not_replaced_during_the_edit) {
  const auto other = gguf_file(std::endian::big);
  port_.before_each([&](Call call, int nth) {
    if (call != Call::sync || nth != 0) return;
    std::filesystem::rename(big_endian_gguf_, gguf_);
  });
  const auto refused = edit(gguf_, {{.key = "general.name", .value = "x"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::changed_underfoot);
  EXPECT_EQ(refused.error().rule(), "file_is_not_replaced_during_the_edit");
  EXPECT_EQ(read_file(gguf_), other);
}

TEST_F(EditMeta, edited_file_still_exists) {
  port_.before_each([&](Call call, int nth) {
    if (call == Call::sync && nth == 0) std::filesystem::remove(gguf_);
  });
  const auto refused = edit(gguf_, {{.key = "general.name", .value = "x"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::changed_underfoot);
  EXPECT_EQ(refused.error().rule(), "edited_file_still_exists");
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"big.gguf", "m.safetensors"}));
}

TEST_F(EditMeta, can_be_cancelled) {
  const std::stop_source stop = [] {
    std::stop_source requested;
    requested.request_stop();
    return requested;
  }();
  const auto before = read_file(gguf_);
  const auto stopped = edit_metadata(gguf_, Edits{{.key = "general.name", .value = "x"}},
                                     {.work = {.stop = stop.get_token()}, .port = &port_});
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(read_file(gguf_), before);
  expect_no_temporary_files();
}

// Edits of existing and new keys, with values of any length, in any order.
Edits any_edits(bool only_strings) {
  Edits edits;
  const auto count = *rc::gen::inRange(1, 6);
  for (int i = 0; i < count; ++i) {
    const auto key = std::string(1, *rc::gen::inRange('a', 'e'));
    const auto length = static_cast<std::size_t>(*rc::gen::inRange(0, 300));
    const auto number = std::to_string(*rc::gen::inRange(0, 1000));
    const bool is_number = !only_strings && *rc::gen::arbitrary<bool>();
    edits.push_back({.key = key,
                     .value = is_number ? number : std::string(length, '"'),
                     .type = MetadataEdit::Type{is_number ? MetaType::u32 : MetaType::string}});
  }
  return edits;
}

RC_GTEST_PROP(EditMetaProperties, any_edits_keep_the_data, ()) {
  const bool is_gguf = *rc::gen::arbitrary<bool>();
  auto file = is_gguf
                  ? all_values(*rc::gen::arbitrary<bool>() ? std::endian::big : std::endian::little).bytes()
                  : safetensors_file(json, 20'000);
  const TemporaryFolder folder;
  const auto path = folder / "m";
  const auto rounds = *rc::gen::inRange(1, 5);
  for (int i = 0; i < rounds; ++i) {
    const auto old = std::get<Catalog>(parse(file, file.size()).value());
    const auto edits = any_edits(!is_gguf);
    write_file(path, file);
    const auto done = edit_metadata(path, edits, {.grow = *rc::gen::arbitrary<bool>()});
    if (!done) {
      RC_ASSERT(done.error().rule() == "metadata_fits_the_padding");
      continue;
    }
    const auto now = read_file(path);
    RC_ASSERT(now.size() == file.size() + done->moved_by && done->moved_by % 4096 == 0);
    const auto catalog = std::get<Catalog>(parse(now, now.size()).value());
    RC_ASSERT(catalog.size() == old.size());
    for (std::size_t j = 0; j < old.size(); ++j) {
      RC_ASSERT(catalog[j].offset == old[j].offset + done->moved_by);
      RC_ASSERT(std::ranges::equal(Bytes(now).subspan(catalog[j].offset, catalog[j].bytes),
                                   Bytes(file).subspan(old[j].offset, old[j].bytes)));
    }
    const auto expected = apply_edits(old.metadata(), edits).value();
    for (std::size_t j = 0; j < expected.size(); ++j) {
      if (expected[j].key == "htensor.pad") continue;
      const auto found = catalog.metadata().find(expected[j].key);
      RC_ASSERT(found && found->type() == expected[j].value.type());
      RC_ASSERT(std::ranges::equal(found->bytes(), expected[j].value.bytes()));
    }
    file = now;
  }
}

}  // namespace
}  // namespace ht::edit_metadata_test
