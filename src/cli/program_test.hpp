// Runs the program as a user does and returns its output and exit status. HT_PROGRAM is the path relative to
// the tests: an absolute path would prevent ccache hits between clones.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <htensor/base/bytes.hpp>
#include <htensor/htensor.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "format/safetensors/test_file.hpp"
#include "testing/temporary_folder.hpp"

namespace ht {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string out;
  std::string err;
};

// The value at the last occurrence of the key: a number, a boolean, null or a text without commas and braces.
// Empty if there is no such key.
inline std::string json_field(const std::string& json, const std::string& key) {
  const std::string quoted = '"' + key + "\":";
  const auto at = json.rfind(quoted);
  if (at == std::string::npos) return "";
  const auto begin = at + quoted.size();
  return json.substr(begin, json.find_first_of(",}", begin) - begin);
}

inline std::string program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / HT_PROGRAM).string();
}

class Cli : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments, const std::string& before = "") {
    const std::string command = "cd '" + folder_.path().string() + "' && " + before + " '" + program() +
                                "' " + arguments + " >.out 2>.err </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(".out"), text_of(".err")};
  }

  // Starts a child process that calls `first` and then runs the program in the folder.
  template <class First>
  pid_t start(std::vector<std::string> arguments, const First& first) {
    std::string path = program();
    const pid_t child = fork();
    if (child != 0) return child;
    std::filesystem::current_path(folder_.path());
    first();
    std::vector<char*> words{path.data()};
    for (auto& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    execv(path.c_str(), words.data());
    _exit(127);
  }

  // Sends the signal once `is_ready()` is true and returns the exit status; -1 if the process ends before.
  template <class IsReady>
  static int status_after_signal(pid_t child, int signal, const IsReady& is_ready) {
    int status = 0;
    while (!is_ready()) {
      if (waitpid(child, &status, WNOHANG) != 0) return -1;
      std::this_thread::yield();
    }
    kill(child, signal);
    return exit_status(child);
  }

  // Starts the program, sends the signal once it writes a file, and returns its exit status.
  int status_once_writing(int signal, std::vector<std::string> arguments,
                          void (*disposition)(int) = SIG_DFL) {
    const pid_t child = start(std::move(arguments), [&] { std::signal(signal, disposition); });
    return status_after_signal(child, signal, [&] { return is_writing(child); });
  }

  // Starts the program and sends the signal once the program has installed a handler for it.
  Outcome outcome_once_catching(int signal, std::vector<std::string> arguments) {
    const pid_t child = start(std::move(arguments), [&] {
      std::signal(signal, SIG_DFL);
      std::freopen(".out", "w", stdout);
      std::freopen(".err", "w", stderr);
    });
    const int status = status_after_signal(child, signal, [&] { return is_catching(child, signal); });
    return {status, text_of(".out"), text_of(".err")};
  }

  // Starts the program with its output in a pipe, calls `change` once a part of the output is in the pipe,
  // and reads the rest. A program whose output is larger than the pipe waits for the reader, hence for
  // `change`.
  template <class Change>
  Outcome run_and_change(std::vector<std::string> arguments, const Change& change) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    const auto [reading, writing] = ends;
    const pid_t child = start(std::move(arguments), [&, end = writing] {
      dup2(end, STDOUT_FILENO);
      std::freopen(".err", "w", stderr);
    });
    close(writing);
    pollfd ready{.fd = reading, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&ready, 1, -1), 1);
    change();
    std::string out;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = read(reading, piece.data(), piece.size())) > 0;)
      out.append(piece.data(), static_cast<std::size_t>(count));
    close(reading);
    const int status = exit_status(child);
    return {status, out, text_of(".err")};
  }

  // Waits for the end of the process; -1 after a signal.
  static int exit_status(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  static bool is_catching(pid_t process, int signal) {
    // Before the child executes the program, it can have the handlers of a test that called cli::run.
    const auto folder = std::filesystem::path("/proc") / std::to_string(process);
    std::error_code gone;
    if (std::filesystem::read_symlink(folder / "exe", gone).filename() !=
        std::filesystem::path(program()).filename())
      return false;
    std::ifstream status(folder / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigCgt:")) continue;
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1U) != 0;
    }
    return false;
  }

  // True if the process has an unnamed or temporary file of this folder open.
  bool is_writing(pid_t process) {
    std::error_code gone;
    const auto own = std::filesystem::canonical(folder_.path()).string();
    for (const auto& file :
         std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd", gone)) {
      const auto name = std::filesystem::read_symlink(file.path(), gone).string();
      // File systems without unnamed files use the suffix .part.
      if (name.starts_with(own) && (name.ends_with(" (deleted)") || name.ends_with(".part"))) return true;
    }
    return false;
  }

  std::string text_of(std::string_view name) {
    const auto bytes = testing::read_file(folder_ / name);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // Writes a safetensors file: the length, the JSON, and data of bytes that count up.
  void write_safetensors(std::string_view name, std::string_view json, std::size_t data_bytes) {
    testing::write_file(folder_ / name, testing::safetensors_file(json, data_bytes));
  }

  // Writes the catalog in its own format. The data of each tensor is bytes that count up.
  void write_encoded(std::string_view name, const Catalog& catalog) {
    const auto encoded = encode(catalog.format(), catalog);
    ASSERT_TRUE(encoded) << to_string(encoded.error());
    auto file = encoded->header;
    file.resize(static_cast<std::size_t>(encoded->file_bytes));
    for (std::size_t i = 0; i < catalog.size(); ++i) {
      const auto offset = encoded->offsets[i];
      for (std::uint64_t j = 0; offset && j < catalog[i].bytes; ++j)
        file[static_cast<std::size_t>(*offset + j)] = static_cast<std::byte>(j);
    }
    testing::write_file(folder_ / name, file);
  }

  // True if the output is one JSON document, checked by an independent parser.
  bool is_json(const std::string& text) {
    testing::write_file(folder_ / ".json", text);
    const std::string command =
        "python3 -m json.tool '" + (folder_ / ".json").string() + "' >/dev/null 2>/dev/null";
    return std::system(command.c_str()) == 0;
  }

  void SetUp() override {
    ASSERT_TRUE(
        write(folder_ / "m.ht", Tensor<F32, Rank<2>>::of(Rank<2>(2, 3), {1, 2, 3, 4, 5, 6.5F}).value()));
  }

  testing::TemporaryFolder folder_;
};

}  // namespace ht
