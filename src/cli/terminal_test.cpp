// The program on a terminal: the lines that remain on the screen.
#include <pty.h>

#include <array>
#include <span>

#include "cli/print/progress.hpp"
#include "cli/print/text.hpp"
#include "cli/program_test.hpp"

namespace ht::terminal_test {
namespace {

struct Screen {
  std::vector<std::string> lines;
  std::string sent;
  std::size_t widest = 0;  // the most columns that any line had, also before it was erased
};

// Emulates the terminal functions that the program uses: text, carriage return, newline, erasing to the end
// of the line.
Screen emulate_terminal(std::string sent) {
  Screen screen{.lines = {""}, .sent = std::move(sent), .widest = 0};
  for (std::size_t i = 0; i < screen.sent.size(); ++i) {
    auto& line = screen.lines.back();
    if (screen.sent[i] == '\n') {
      screen.lines.emplace_back();
    } else if (screen.sent.compare(i, 2, "\r\n") == 0) {
      continue;
    } else if (screen.sent[i] == '\r') {
      line += '\r';
    } else if (screen.sent.compare(i, 3, "\x1b[K") == 0) {
      // All text before the return was overwritten or is erased.
      const auto at = line.rfind('\r');
      if (at != std::string::npos) line.erase(0, at + 1);
      i += 2;
    } else {
      line += screen.sent[i];
      const bool is_within_a_character =
          i + 1 < screen.sent.size() && (static_cast<unsigned char>(screen.sent[i + 1]) & 0xC0U) == 0x80U;
      if (is_within_a_character) continue;
      const auto at = line.rfind('\r');
      screen.widest =
          std::max(screen.widest, cli::display_width(at == std::string::npos ? line : line.substr(at + 1)));
    }
  }
  return screen;
}

class CliTerminal : public Cli {
 protected:
  Screen run_on_terminal(std::vector<std::string> arguments, unsigned short columns) {
    std::string path = program();
    std::vector<char*> words{path.data()};
    for (auto& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
    if (child == 0) {
      std::filesystem::current_path(folder_.path());
      execv(path.c_str(), words.data());
      _exit(127);
    }
    std::string sent;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = read(terminal, piece.data(), piece.size())) > 0;)
      sent.append(piece.data(), static_cast<std::size_t>(count));
    close(terminal);
    EXPECT_EQ(exit_status(child), 0) << sent;
    return emulate_terminal(std::move(sent));
  }
};

TEST_F(CliTerminal, tables_fit_the_terminal) {
  const std::string name = "model.layers.0.模型.self_attn.weight";
  write_safetensors("s.safetensors",
                    "{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)" + "\"" + name +
                        R"(2":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                    2);
  for (const unsigned short columns : std::array<unsigned short, 3>{40, 50, 60}) {
    const auto screen = run_on_terminal({"ls", "-q", "s.safetensors"}, columns);
    EXPECT_EQ(screen.lines.size(), 4U);
    EXPECT_EQ(screen.widest, columns) << screen.sent;
    EXPECT_THAT(screen.lines[1], HasSubstr("…"));
    EXPECT_THAT(screen.lines[2], HasSubstr("ht2 "));
  }
  EXPECT_THAT(run_on_terminal({"ls", "-q", "s.safetensors"}, 200).lines[1], StartsWith(name + "  "));
  EXPECT_THAT(run("ls -q s.safetensors", "COLUMNS=40").out, HasSubstr(name + "2  "));
}

TEST_F(CliTerminal, trees_fit_the_terminal) {
  write_safetensors("s.safetensors",
                    R"({"model.a_very_long_模型_part_of_a_name.weight":)"
                    R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("model.b.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.a_very_long_part_of_a_name":)"
                    R"({"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                    2);
  for (const unsigned short columns : std::array<unsigned short, 4>{5, 20, 35, 60}) {
    const auto screen = run_on_terminal({"ls", "-q", "--tree", "s.safetensors"}, columns);
    EXPECT_LE(screen.widest, columns) << screen.sent;
    EXPECT_THAT(screen.sent, HasSubstr("…"));
  }
  const auto narrow = run_on_terminal({"ls", "-q", "--tree", "s.safetensors"}, 35);
  EXPECT_EQ(narrow.lines[1], "  a_very_lon…of_a_name  1 tensor  1");
  const auto wide = run_on_terminal({"ls", "-q", "--tree", "s.safetensors"}, 200);
  EXPECT_THAT(wide.sent, HasSubstr("  a_very_long_模型_part_of_a_name  1 tensor  1"));
  EXPECT_THAT(run("ls -q --tree s.safetensors", "COLUMNS=20").out, Not(HasSubstr("…")));
}

TEST_F(CliTerminal, metadata_fits_the_terminal) {
  write_safetensors("s.safetensors",
                    R"({"__metadata__":{"a.key.that.is.not.short":"and a value that is not short either",)"
                    R"("k":"a value that is not short at all"},)"
                    R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                    1);
  for (const std::vector<std::string>& verb :
       {std::vector<std::string>{"ls", "--tree", "s.safetensors"}, {"meta", "s.safetensors"}}) {
    for (const unsigned short columns : std::array<unsigned short, 4>{2, 5, 24, 40}) {
      const auto screen = run_on_terminal(verb, columns);
      for (const auto& line : std::span(screen.lines).first(2)) {
        EXPECT_LE(cli::display_width(line.substr(0, line.find('\r'))), columns) << line;
      }
      EXPECT_THAT(screen.lines[0], HasSubstr("…"));
    }
    EXPECT_THAT(run_on_terminal(verb, 200).sent, Not(HasSubstr("…")));
  }
  const auto lines = run_on_terminal({"ls", "s.safetensors"}, 40).lines;
  EXPECT_THAT(lines[0], StartsWith("a.key.tha…not.short = and a val…t either"));
  EXPECT_THAT(lines[1], StartsWith("k = a value that is not short at all"));
  // `--metadata` does not shorten values.
  EXPECT_THAT(run_on_terminal({"ls", "--metadata", "s.safetensors"}, 40).lines[0],
              HasSubstr("a value that is not short either"));
}

TEST_F(CliTerminal, progress_bar_is_erased_at_the_end) {
  const auto synthesized = run_on_terminal(
      {"synth", "p.safetensors", "--preset", "llama-1b", "--size", "8M", "--progress=always"}, 30);
  EXPECT_THAT(synthesized.sent, HasSubstr("%  "));
  EXPECT_LE(synthesized.widest, 64U);
  ASSERT_EQ(synthesized.lines.size(), 2U) << synthesized.sent;
  EXPECT_THAT(synthesized.lines[0], StartsWith("p.safetensors: "));
  const auto sealed = run_on_terminal({"seal", "p.safetensors", "--progress=always"}, 40);
  EXPECT_THAT(sealed.sent, HasSubstr("%"));
  for (const auto& line : sealed.lines) EXPECT_THAT(line, Not(HasSubstr("%"))) << sealed.sent;
  const auto verified = run_on_terminal({"verify", "p.safetensors", "--progress=always"}, 40);
  EXPECT_THAT(verified.sent, HasSubstr("%"));
  for (const auto& line : verified.lines) EXPECT_THAT(line, Not(HasSubstr("%"))) << verified.sent;
}

TEST(ProgressBar, fits_narrow_terminals) {
  const auto text = [](std::size_t columns) { return cli::progress_text(0.5, 1 << 20, 12, columns); };
  EXPECT_EQ(text(80), "[###############...............]  50%  1M/s  12 s left");
  EXPECT_EQ(text(40), "[########........]  50%  1M/s  12 s left");
  EXPECT_EQ(text(22), " 50%  1M/s  12 s left");
  EXPECT_EQ(text(15), " 50%  12 s left");
  EXPECT_EQ(text(10), " 50%");
  EXPECT_EQ(text(3), "");
  for (std::size_t columns = 0; columns < 100; ++columns) EXPECT_LE(text(columns).size(), columns);
}

TEST(ProgressBar, is_erased_before_other_text) {
  constexpr std::string_view erase = "\r\x1b[K";
  for (const bool is_error : {false, true}) {
    ::testing::internal::CaptureStderr();
    ::testing::internal::CaptureStdout();
    {
      const cli::Common common{.progress = cli::ProgressBar::always};
      cli::WorkWithBar work(common);
      work.update({.done_bytes = 50, .total_bytes = 100});
      is_error ? cli::print_error("error\n") : cli::print("result\n");
    }
    std::fflush(stdout);
    const auto out = ::testing::internal::GetCapturedStdout();
    const auto err = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(out, is_error ? "" : "result\n");
    EXPECT_THAT(err, StartsWith("\r["));
    EXPECT_TRUE(err.ends_with(std::string(erase) + (is_error ? "error\n" : ""))) << err;
  }
}

}  // namespace
}  // namespace ht::terminal_test
