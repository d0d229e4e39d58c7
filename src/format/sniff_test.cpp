#include "format/sniff.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <htensor/format/format.hpp>
#include <iterator>
#include <string>

#include "testing/shared_folder.hpp"

namespace ht::sniff_test {
namespace {

using namespace std::string_literals;

Error sniffed(const std::string& file, std::uint64_t more = 0) {
  const auto seen = bytes_of(file).first(std::min<std::size_t>(file.size(), sniffed_bytes));
  return unknown_format_error(seen, file.size() + more);
}

// Expects this kind for the file itself and for a longer file with the same first bytes.
void expect_kind(const std::string& file, std::string_view rule, std::string_view hint) {
  for (const std::uint64_t more : {0U, 1U << 30}) {
    const auto error = sniffed(file, more);
    EXPECT_EQ(error.code(), ErrorCode::bad_magic);
    EXPECT_EQ(error.rule(), rule) << file.substr(0, 40);
    EXPECT_EQ(error.offset(), 0U);
    EXPECT_FALSE(error.message().empty());
    EXPECT_NE(error.hint().find(hint), std::string_view::npos) << error.hint();
  }
}

void expect_rule(const std::string& file, std::string_view rule = "format_is_known") {
  EXPECT_EQ(sniffed(file).rule(), rule) << file.substr(0, 40);
}

// Binary data of an unknown kind, to append to a magic.
const std::string garbage = "\x01\xFF\x00\xFE\x02\x90\x00\x00garbage"s;

TEST(Sniff, format_is_known_to_the_sniffer) {
  expect_kind(garbage, "format_is_known", "ht");
  expect_kind("FUGG\3\0\0\0"s, "format_is_known", "use a file in one of these formats: ");
}

TEST(Sniff, file_is_not_an_lfs_pointer) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:8ed0\nsize 35877760\n";
  expect_kind(pointer, "file_is_not_an_lfs_pointer", "git lfs pull");
  EXPECT_NE(sniffed(pointer).message().find("35877760"), std::string_view::npos);
  // The size is missing or malformed.
  for (const char* end : {"", "size ", "size 99999999999999999999\n", "size x\n"}) {
    const std::string without = "version https://git-lfs.github.com/spec/v1\n"s + end;
    expect_kind(without, "file_is_not_an_lfs_pointer", "git lfs pull");
    EXPECT_EQ(sniffed(without).message(), "is a Git LFS pointer");
  }
  expect_rule("version https://git-lfs.github.org/", "file_is_not_text");
}

TEST(Sniff, pointers_of_the_corpus_are_recognized) {
  HT_SHARED_OR_SKIP(folder, "corpus/malformed/lfs");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string file((std::istreambuf_iterator<char>(stream)), {});
    const auto parsed = parse(bytes_of(file), file.size());
    ASSERT_FALSE(parsed) << entry.path();
    EXPECT_EQ(parsed.error().rule(), "file_is_not_an_lfs_pointer") << entry.path();
    EXPECT_NE(parsed.error().message().find("35877760"), std::string_view::npos) << entry.path();
  }
}

TEST(Sniff, file_is_not_html) {
  for (const char* page : {"<!DOCTYPE html><html>", "<!doctype HTML PUBLIC>", "<HTML lang=en>", "\n\t <html>",
                           "\xEF\xBB\xBF\r\n<!DocType Html>", "<html>caf\xE9"}) {
    expect_kind(page, "file_is_not_html", "login page");
  }
  expect_rule("<htm", "file_is_not_text");
}

TEST(Sniff, file_is_not_xml) {
  expect_kind("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "file_is_not_xml",
              "AccessDenied");
}

TEST(Sniff, file_is_not_json) {
  for (const char* json : {"{\"architectures\": []}", " \n{ \n\"a\": 1}", "{}", "[1, 2]", "[[]]", "[-1]",
                           "[ \"a\" ]", "\xEF\xBB\xBF{\"a\": \"\xC3\xA9\"}"}) {
    expect_kind(json, "file_is_not_json", ".index.json");
  }
  for (const char* text : {"{", "[section]\nkey = 1", "{name}", "(1, 2)"})
    expect_rule(text, "file_is_not_text");
  expect_rule("{\"a\"\x01\x02");
}

// Returns the start of a zip whose first file has this name.
std::string zip_of(const std::string& name) {
  std::string zip = "PK\x03\x04"s + std::string(22, '\0');
  zip.push_back(static_cast<char>(name.size()));
  return zip + std::string(3, '\0') + name + garbage;
}

TEST(Sniff, file_is_not_a_torch_zip) {
  for (const char* name : {"archive/data.pkl", "pytorch_model/data.pkl", "data.pkl"}) {
    expect_kind(zip_of(name), "file_is_not_a_torch_zip", "safetensors.torch.save_file");
  }
}

TEST(Sniff, file_is_not_an_npz) {
  expect_kind(zip_of("arr_0.npy"), "file_is_not_an_npz", "unzip");
  expect_rule(zip_of("arr_0.npy.txt"), "file_is_not_a_zip");
}

TEST(Sniff, file_is_not_a_keras_zip) {
  for (const char* name : {"metadata.json", "config.json", "model.weights.h5"}) {
    expect_kind(zip_of(name), "file_is_not_a_keras_zip", "Keras");
  }
}

TEST(Sniff, file_is_not_a_zip) {
  expect_kind(zip_of("README"), "file_is_not_a_zip", "unpack");
  // The zip ends within its header or within the file name.
  expect_kind("PK\x03\x04", "file_is_not_a_zip", "unpack");
  expect_kind(zip_of("archive/data.pkl").substr(0, 36), "file_is_not_a_zip", "unpack");
}

TEST(Sniff, file_is_not_an_empty_zip) {
  expect_kind("PK\x05\x06"s + std::string(18, '\0'), "file_is_not_an_empty_zip", "pack the archive again");
}

TEST(Sniff, file_is_not_a_pickle) {
  for (const char protocol : {'\2', '\3', '\4', '\5'}) {
    expect_kind("\x80"s + protocol + "\x8A\nl\xFC\x9C", "file_is_not_a_pickle", "if you trust its source");
  }
  expect_rule("\x80\x01}q"s);
  expect_rule("\x80\x06}q"s);
  expect_rule("\x80"s);
}

TEST(Sniff, file_is_not_a_tar_archive) {
  const std::string tar = "model.safetensors" + std::string(240, '\0') + "ustar  " + std::string(300, '\0');
  expect_kind(tar, "file_is_not_a_tar_archive", "unpack");
}

TEST(Sniff, file_is_not_gzip) { expect_kind("\x1F\x8B\x08" + garbage, "file_is_not_gzip", "unpack"); }

TEST(Sniff, file_is_not_zstd) { expect_kind("\x28\xB5\x2F\xFD" + garbage, "file_is_not_zstd", "unpack"); }

TEST(Sniff, file_is_not_xz) { expect_kind("\xFD\x37zXZ\0"s + garbage, "file_is_not_xz", "unpack"); }

TEST(Sniff, file_is_not_bzip2) {
  expect_kind("BZh91AY&SY" + garbage, "file_is_not_bzip2", "unpack");
  expect_rule("BZhong", "file_is_not_text");
}

TEST(Sniff, file_is_not_7z) { expect_kind("7z\xBC\xAF\x27\x1C" + garbage, "file_is_not_7z", "unpack"); }

TEST(Sniff, file_is_not_hdf5) { expect_kind("\x89HDF\r\n\x1A\n" + garbage, "file_is_not_hdf5", "Keras"); }

TEST(Sniff, file_is_not_tflite) {
  expect_kind("\x1C\0\0\0TFL3"s + garbage, "file_is_not_tflite", "converted from");
}

TEST(Sniff, file_is_not_onnx) {
  const std::string graph = "\x3A\x05\x0A\x03xyz"s;
  for (const std::string& model : {"\x08\x08\x12\x07pytorch\x1A\x05"
                                   "2.0.0" +
                                       graph,
                                   "\x08\x0A" + graph, "\x08\x03\x12\x00\x22\x00\x28\x00\x32\x00"s + graph,
                                   "\x08\x07\x42\x04\x0A\x00\x10\x0D"s + graph}) {
    expect_kind(model, "file_is_not_onnx", "initializers");
  }
  // Each file violates one condition: the version is 1 to 63; the graph exists; it fits in the file; it is
  // not empty; it begins with a known field; the producer is complete and is text; all fields are known; all
  // numbers are complete.
  for (const std::string& other :
       {"\x08\x00"s + graph, "\x08\x7F"s + graph, "\x08\x08\x12\x07pytorch"s, "\x08\x08\x3A\x06\x0A\x03xyz"s,
        "\x08\x08\x3A\x00\x0A\x03xyz"s, "\x08\x08\x3A\x05\x0B\x03xyz"s, "\x08\x08\x12\x01\x01"s + graph,
        "\x08\x08\x4A\x00"s + graph, "\x08\x08\x12\x7Fpytorch"s + graph, "\x08"s, "\x08\xFF\xFF"s}) {
    expect_rule(other);
  }
}

TEST(Sniff, file_is_not_old_ggml) {
  for (const char* magic : {"ggml", "lmgg", "ggmf", "fmgg", "ggjt", "tjgg", "ggla", "algg"}) {
    expect_kind(magic + "\x01\0\0\0\0\x7D\0\0"s, "file_is_not_old_ggml", "GGUF");
    expect_kind(magic + "\x01\0\0\0\0\x7D\0\0"s, "file_is_not_old_ggml", "whisper.cpp");
  }
  expect_rule("ggml is a library", "file_is_not_text");
}

TEST(Sniff, file_is_not_elf) {
  expect_kind(
      "\x7F"
      "ELF\2\1\1" +
          garbage,
      "file_is_not_elf", "beside");
}

TEST(Sniff, file_is_not_a_windows_program) {
  const std::string program =
      "MZ" + std::string(58, '\0') + "\x80\0\0\0"s + std::string(64, '\0') + "PE\0\0"s;
  expect_kind(program, "file_is_not_a_windows_program", "beside");
  auto other = program;
  other[0x3F] = '\xFF';
  expect_rule(other);
  expect_rule("MZungu", "file_is_not_text");
}

TEST(Sniff, file_is_not_png) { expect_kind("\x89PNG\r\n\x1A\n" + garbage, "file_is_not_png", "beside"); }

TEST(Sniff, file_is_not_jpeg) { expect_kind("\xFF\xD8\xFF\xE0" + garbage, "file_is_not_jpeg", "beside"); }

TEST(Sniff, file_is_not_pdf) { expect_kind("%PDF-1.7\n" + garbage, "file_is_not_pdf", "beside"); }

TEST(Sniff, file_does_not_begin_with_zeros) {
  for (const std::size_t size : {1U, 100U, 512U, 600U}) {
    expect_kind(std::string(size, '\0'), "file_does_not_begin_with_zeros", "download the file again");
  }
  expect_rule(std::string(511, '\0') + "\1");
}

TEST(Sniff, file_is_not_text) {
  for (const char* text :
       {"# Model card", "a,b\r\n1,2\f\t", "\xEF\xBB\xBF", "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80"}) {
    expect_kind(text, "file_is_not_text", "beside");
  }
  for (const char* other : {"a\x01", "a\x7F", "a\xFF", "caf\xE9 x", "\xC0\x80", "\xED\xA0\x80 x"}) {
    expect_rule(other);
  }
}

TEST(Sniff, character_may_continue_beyond_the_prefix) {
  for (const std::string character : {"\xC3\xAF", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    for (std::size_t seen = 0; seen <= character.size(); ++seen) {
      const std::string text = std::string(sniffed_bytes - seen, 'x') + character;
      EXPECT_EQ(sniffed(text + "more").rule(), "file_is_not_text") << seen;
    }
  }
  // A file is not text if it ends in an incomplete character, or if its prefix ends in a byte that cannot
  // begin a character.
  expect_rule("x\xE2\x82");
  expect_rule(std::string(sniffed_bytes - 1, 'x') + "\xFFmore", "format_is_known");
  expect_rule(std::string(sniffed_bytes - 1, 'x') + "\x80more", "format_is_known");
}

TEST(Sniff, every_prefix_has_the_code_bad_magic_and_a_hint) {
  for (const std::string& file :
       {zip_of("archive/data.pkl"), "\x08\x08\x12\x07pytorch\x3A\x05\x0A\x03xyz"s,
        "\xEF\xBB\xBF <!DOCTYPE html>"s, "MZ" + std::string(80, '\0'), " {\"a\""s}) {
    for (std::size_t size = 1; size <= file.size(); ++size) {
      const std::string part = file.substr(0, size);
      for (const std::uint64_t more : {std::uint64_t{0}, UINT64_MAX - size}) {
        EXPECT_EQ(sniffed(part, more).code(), ErrorCode::bad_magic);
        EXPECT_FALSE(sniffed(part, more).hint().empty());
      }
    }
  }
}

}  // namespace
}  // namespace ht::sniff_test
