#include "bench/python_contender.hpp"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include "bench/harness/must.hpp"

extern char** environ;

namespace ht::bench {
namespace {

// Idle threads of OpenBLAS and OpenMP spin for milliseconds after their last work. A pause keeps them from
// slowing down the contender that comes next in the other process.
constexpr std::chrono::milliseconds pause_between_processes{50};

}  // namespace

PythonChild::PythonChild() {
  for (const char* const interpreter : {"/usr/bin/python3", "python3"}) {
    start(interpreter);
    if (child_ < 0) continue;
    std::istringstream modules(receive_line());
    std::string module;
    std::string version;
    while (modules >> module >> version) versions_[module] = version;
    if (!versions_.empty()) break;
    end();
  }
  if (versions_.empty()) {
    std::fputs("numpy and torch: left out, as no python3 with numpy was found (python3-numpy)\n", stderr);
  } else if (!versions_.contains("torch")) {
    std::fputs("torch: left out, as python3 cannot import it (python3-torch)\n", stderr);
  }
}

void PythonChild::start(const char* interpreter) {
  // A socket, because a write to a pipe raises SIGPIPE if the process has ended.
  std::array<int, 2> ends{};
  system_must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "socketpair");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const std::array<const char*, 3> arguments{interpreter, HT_PYTHON_CONTENDER, nullptr};
  if (::posix_spawnp(&child_, interpreter, &actions, nullptr, const_cast<char**>(arguments.data()),
                     environ) != 0) {
    child_ = -1;
  }
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  socket_ = ends[0];
  if (child_ < 0) end();
}

void PythonChild::end() {
  // The script ends when its input does.
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  if (child_ >= 0) ::waitpid(std::exchange(child_, -1), nullptr, 0);
}

std::vector<std::string> PythonChild::available(const std::vector<std::string>& modules) const {
  std::vector<std::string> found;
  for (const auto& module : modules) {
    if (versions_.contains(module)) found.push_back(module);
  }
  return found;
}

void PythonChild::send(Bytes bytes) const {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    system_must(sent > 0, "python3: send");
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

void PythonChild::send(const std::string& text) const { send(std::as_bytes(std::span(text))); }

// Returns an empty line if the process has ended. The process sends one line per request.
std::string PythonChild::receive_line() {
  std::string line;
  std::array<char, 256> buffer{};
  while (!line.ends_with('\n')) {
    const auto count = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return {};
    line.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return line;
}

void PythonChild::load(const std::string& name, std::string_view dtype, Bytes bytes) {
  if (!loaded_.insert(name).second) return;
  send("load " + name + ' ' + std::string(dtype) + ' ' + std::to_string(bytes.size()) + '\n');
  send(bytes);
  must(!receive_line().empty(), "python3 ended during load of " + name);
}

PythonAnswer PythonChild::ask(const std::string& request) {
  std::this_thread::sleep_for(pause_between_processes);
  send(request + '\n');
  const auto line = receive_line();
  must(!line.empty(), "python3 ended during " + request);
  std::istringstream words(line);
  PythonAnswer answer;
  words >> answer.seconds;
  // A stream does not read nan and inf, but stod does.
  for (std::string word; words >> word;) answer.numbers.push_back(std::stod(word));
  std::this_thread::sleep_for(pause_between_processes);
  return answer;
}

void add_python(Cells& cells, const Cell& cell, const std::shared_ptr<PythonChild>& python,
                const std::string& module, const std::string& task, const std::string& operands,
                std::function<bool(const std::vector<double>&)> is_correct) {
  Contender contender{.cell = &cell, .name = module, .kind = Kind::other, .run = {}, .expected_answer = 1};
  contender.run = [python, module, request = task + ' ' + module + ' ' + operands,
                   is_correct = std::move(is_correct)] {
    const auto answer = python->ask(request);
    return TurnResult{.seconds = answer.seconds,
                      .answer = is_correct(answer.numbers) ? std::uint64_t{1} : 0,
                      .note = python->version(module)};
  };
  // The first turn is not counted, as for other contenders. It is checked before the long measurement.
  must(contender.run().answer == 1, cell.name + ", " + module + ": the answer is wrong");
  cells.contenders.push_back(std::move(contender));
}

}  // namespace ht::bench
