#include <fcntl.h>
#include <fmt/format.h>

#include <array>

#include "cli/program_test.hpp"

namespace ht::meta_test {
namespace {

using ::testing::ContainsRegex;

class CliMeta : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    ASSERT_EQ(run("synth m.gguf --preset llama-1b-q4_k_m --size 9M -q").status, 0);
    write_safetensors(
        "m.safetensors",
        R"({"__metadata__":{"format":"pt","k":"v"},"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})" +
            std::string(40, ' '),
        9);
  }
};

TEST_F(CliMeta, lists_all_values) {
  EXPECT_EQ(run("meta m.safetensors").out, "format  string  pt\nk       string  v\n");
  EXPECT_EQ(run("meta m.safetensors --json").out, "{\"metadata\":{\"format\":\"pt\",\"k\":\"v\"}}\n");
  const auto gguf = run("meta m.gguf");
  EXPECT_EQ(gguf.status, 0) << gguf.err;
  EXPECT_THAT(gguf.out, HasSubstr("  array:string  [string x "));
  EXPECT_THAT(gguf.out, ContainsRegex("llama.block_count +u32 +[0-9]+\n"));
  EXPECT_TRUE(is_json(run("meta m.gguf --json").out));
  EXPECT_EQ(run("meta m.ht").out, "");
  EXPECT_EQ(run("meta m.ht --json").out, "{\"metadata\":{}}\n");
}

TEST_F(CliMeta, gets_one_value) {
  EXPECT_EQ(run("meta m.safetensors get k").out, "v");
  EXPECT_EQ(run("meta m.safetensors get k --json").out, "{\"metadata\":{\"k\":\"v\"}}\n");
  EXPECT_EQ(run("--json meta m.gguf get general.architecture").out,
            "{\"metadata\":{\"general.architecture\":\"llama\"}}\n");
}

TEST_F(CliMeta, metadata_has_the_key) {
  for (const std::string action : {"get", "rm"}) {
    const auto refused = run("meta m.safetensors " + action + " none");
    EXPECT_EQ(refused.status, 2) << "the same status as for a missing tensor";
    EXPECT_THAT(refused.err, HasSubstr("m.safetensors: the metadata has no key 'none' [not_found]"));
    EXPECT_THAT(refused.err, HasSubstr("hint: list the keys: htensor meta"));
    const auto json = run("meta m.safetensors " + action + " none --json");
    EXPECT_EQ(json.status, 2);
    EXPECT_THAT(json.out, HasSubstr(R"("code":"not_found")"));
  }
}

TEST_F(CliMeta, sets_and_removes) {
  const auto before = run("hash m.safetensors --per-tensor --jsonl").out;
  const auto offsets = run("ls m.safetensors --jsonl").out;
  const auto set = run("meta m.safetensors set k 'new \"text\"'");
  EXPECT_EQ(set.status, 0) << set.err;
  EXPECT_EQ(set.out, "m.safetensors: set 'k'\n");
  EXPECT_EQ(run("meta m.safetensors get k").out, "new \"text\"");
  EXPECT_EQ(run("meta m.safetensors set k 'new \"text\"'").out, "m.safetensors: unchanged\n");
  EXPECT_EQ(run("meta m.safetensors set more 1 --json").out,
            "{\"metadata\":{\"format\":\"pt\",\"k\":\"new \\\"text\\\"\",\"more\":\"1\"}}\n");
  EXPECT_EQ(run("meta m.safetensors rm format").out, "m.safetensors: removed 'format'\n");
  EXPECT_EQ(run("meta m.safetensors rm k -q").out, "");
  EXPECT_EQ(run("meta m.safetensors rm more --json").out, "{\"metadata\":{}}\n");
  EXPECT_EQ(run("hash m.safetensors --per-tensor --jsonl").out, before);
  EXPECT_EQ(run("ls m.safetensors --jsonl").out, offsets);
}

constexpr std::string_view chat_template =
    "{% for m in messages %}\n\t{{ '<|' + m['role'] + \"|>\\n\" }}\r\n{% endfor %}\\\x1b "
    "\u4e2d\U0001F600\n\n";

// Returns all output of a program that has already closed the terminal.
std::string printed_on_a_terminal(int terminal) {
  std::string out;
  std::array<char, 4096> piece{};
  ssize_t count = 0;
  while ((count = read(terminal, piece.data(), piece.size())) > 0)
    out.append(piece.data(), static_cast<std::size_t>(count));
  close(terminal);
  return out;
}

TEST_F(CliMeta, value_round_trips_byte_for_byte) {
  testing::write_file(folder_ / "template", chat_template);
  for (const std::string name : {"m.safetensors", "m.gguf"}) {
    const auto set = run("meta " + name + " set tokenizer.chat_template --from template");
    ASSERT_EQ(set.status, 0) << set.err;
    EXPECT_EQ(run("meta " + name + " get tokenizer.chat_template").out, chat_template);
    // The output of `get` can be set as the value of another key.
    std::filesystem::copy_file(folder_ / ".out", folder_ / "again",
                               std::filesystem::copy_options::overwrite_existing);
    ASSERT_EQ(run("meta " + name + " set other --from again").status, 0);
    EXPECT_EQ(run("meta " + name + " get other").out, chat_template);
    EXPECT_TRUE(is_json(run("meta " + name + " --json").out));
  }
}

TEST_F(CliMeta, value_is_escaped_on_a_terminal) {
  testing::write_file(folder_ / "template", "a\x1b[31m\nb");
  ASSERT_EQ(run("meta m.safetensors set k --from template").status, 0);
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal) + unlockpt(terminal), 0);
  const std::string name = ptsname(terminal);
  const pid_t child = start({"meta", "m.safetensors", "get", "k"}, [&] {
    const int end = open(name.c_str(), O_RDWR | O_NOCTTY);
    dup2(end, STDOUT_FILENO);
    close(end);
  });
  EXPECT_EQ(exit_status(child), 0);
  EXPECT_EQ(printed_on_a_terminal(terminal), "a\\u{1b}[31m\\nb\r\n");
}

TEST_F(CliMeta, value_must_be_utf8_if_the_format_requires_it) {
  testing::write_file(folder_ / "bytes", std::string("\xFF\0x", 3));
  const auto before = text_of("m.safetensors");
  EXPECT_EQ(run("meta m.safetensors set k --from bytes").status, 2);
  EXPECT_EQ(text_of("m.safetensors"), before);
  EXPECT_EQ(run("meta m.gguf set k --from bytes").status, 0);
  EXPECT_EQ(run("meta m.gguf get k").out, std::string("\xFF\0x", 3));
}

TEST_F(CliMeta, value_file_can_be_read) {
  for (const std::string name : {"nowhere", "."}) {
    const auto refused = run("meta m.safetensors set k --from " + name + " --json");
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.out, HasSubstr(R"("rule":"value_file_can_be_read")"));
  }
}

TEST_F(CliMeta, value_file_fits_a_header) {
  testing::write_file(folder_ / "large", "");
  std::filesystem::resize_file(folder_ / "large", (std::uint64_t{256} << 20) + 1);
  const auto refused = run("meta m.safetensors set k --from large --json");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.out, HasSubstr(R"("rule":"value_file_fits_a_header")"));
}

TEST_F(CliMeta, several_edits_are_atomic) {
  EXPECT_EQ(run("meta m.safetensors set k 1 more 2").out, "m.safetensors: set 'k', 'more'\n");
  EXPECT_EQ(run("meta m.safetensors --json").out,
            "{\"metadata\":{\"format\":\"pt\",\"k\":\"1\",\"more\":\"2\"}}\n");
  const auto before = text_of("m.safetensors");
  const auto refused = run("meta m.safetensors rm k none more");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("'none'"));
  EXPECT_EQ(text_of("m.safetensors"), before);
  const auto gguf = text_of("m.gguf");
  EXPECT_EQ(run("meta m.gguf set llama.block_count 7 llama.context_length many").status, 2);
  EXPECT_EQ(text_of("m.gguf"), gguf);
  EXPECT_EQ(run("meta m.safetensors rm k more").out, "m.safetensors: removed 'k', 'more'\n");
}

// An edit that moves the data leaves padding; converting the file removes it.
TEST_F(CliMeta, convert_removes_header_padding) {
  for (const std::string extension : {".safetensors", ".gguf"}) {
    const std::string file = "m" + extension;
    ASSERT_EQ(run("convert " + file + " before" + extension + " -q").status, 0);
    testing::write_file(folder_ / "value", std::string(5000, 'x'));
    const auto set = run("meta " + file + " set grown --from value");
    EXPECT_THAT(set.out, HasSubstr("; data moved by ")) << set.err;
    EXPECT_EQ(run("meta " + file + " rm grown").status, 0);
    EXPECT_GT(text_of(file).size(), text_of("before" + extension).size());
    EXPECT_EQ(run("hash " + file + " --per-tensor --jsonl").out,
              run("hash before" + extension + " --per-tensor --jsonl").out);
    ASSERT_EQ(run("convert " + file + " after" + extension + " -q").status, 0);
    EXPECT_EQ(text_of("after" + extension), text_of("before" + extension));
  }
}

TEST_F(CliMeta, padding_is_hidden) {
  ASSERT_EQ(run("meta m.gguf set grown '" + std::string(5000, 'x') + "'").status, 0);
  ASSERT_EQ(run("meta m.gguf rm grown").status, 0);
  EXPECT_THAT(text_of("m.gguf"), HasSubstr("htensor.pad"));
  for (const std::string options : {"", "--json"}) {
    EXPECT_THAT(run("meta m.gguf " + options).out, Not(HasSubstr("htensor.pad"))) << options;
  }
  EXPECT_EQ(run("meta m.gguf get htensor.pad").status, 2);
}

TEST_F(CliMeta, values_are_not_read_as_options_or_verbs) {
  for (const auto& [given, type, shown] :
       std::vector<std::array<std::string, 3>>{{"-5", "i32", "-5"},
                                               {"-0.5", "f32", "-0.5"},
                                               {"''", "string", ""},
                                               {"set", "string", "set"},
                                               {"ls", "string", "ls"},
                                               {"true", "bool", "true"},
                                               {"'[1,-2]'", "array:i8", "[1,-2]"},
                                               {"'[\"a\"]'", "array:string", "[\"a\"]"}}) {
    const auto done = run(fmt::format("meta m.gguf set k {} --type {}", given, type));
    EXPECT_EQ(done.status, 0) << given << done.err;
    EXPECT_EQ(run("meta m.gguf get k").out, shown);
  }
  const auto dashes = run("meta --type string m.gguf set k -- --text");
  EXPECT_EQ(dashes.status, 0) << dashes.err;
  EXPECT_EQ(run("meta m.gguf get k").out, "--text");
  EXPECT_EQ(run("meta m.gguf set version 1 --type u32").status, 0) << "the key is the name of a verb";
  EXPECT_EQ(run("meta m.gguf get version").out, "1");
}

TEST_F(CliMeta, keeps_types_and_reports_values_that_do_not_fit) {
  EXPECT_EQ(run("meta m.gguf set llama.block_count 7").status, 0);
  EXPECT_EQ(run("meta m.gguf get llama.block_count --json").out,
            "{\"metadata\":{\"llama.block_count\":7}}\n");
  const auto no_number = run("meta m.gguf set llama.block_count seven");
  EXPECT_EQ(no_number.status, 2);
  EXPECT_THAT(no_number.err, HasSubstr("'seven' is not of type u32 [dtype_mismatch]"));
  const auto no_room = run("meta m.safetensors set k '" + std::string(100, 'x') + "' --no-grow");
  EXPECT_EQ(no_room.status, 2);
  EXPECT_THAT(no_room.err, HasSubstr("[header_too_large]"));
  EXPECT_THAT(no_room.err, HasSubstr("leave out --no-grow"));
  EXPECT_EQ(run("meta m.safetensors set k '" + std::string(100, 'x') + "'").out,
            "m.safetensors: set 'k'; data moved by 4K\n");
  EXPECT_EQ(run("meta m.ht set k v").status, 2);
  EXPECT_EQ(run("meta . set k v").status, 2);
}

TEST_F(CliMeta, updates_the_seal) {
  ASSERT_EQ(run("seal m.gguf -q").status, 0);
  const auto done = run("meta m.gguf set llama.block_count 7");
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(done.err, "");
  EXPECT_EQ(run("verify m.gguf -q").status, 0);
  EXPECT_EQ(run("seal m.gguf -q").status, 0);
}

TEST_F(CliMeta, refuses_bad_usage) {
  for (const std::string bad :
       {"", "m.gguf put k v", "m.gguf get", "m.gguf set k", "m.gguf rm", "m.gguf get k v", "m.gguf set k v w",
        "m.gguf set k v --type u33", "m.gguf get k --type u32", "m.gguf get k --no-grow", "m.gguf --no-grow",
        "m.gguf set k v --from f", "m.gguf set --from f", "m.gguf get k --from f"}) {
    const auto refused = run("meta " + bad);
    EXPECT_EQ(refused.status, 2) << bad;
    EXPECT_THAT(refused.err, HasSubstr("[usage]")) << bad;
  }
  EXPECT_THAT(run("meta --help").out, HasSubstr("htensor meta model.safetensors set title"));
}

}  // namespace
}  // namespace ht::meta_test
