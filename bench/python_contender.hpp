// Contenders in Python: numpy and torch, in one process for the whole benchmark.
#pragma once

#include <sys/types.h>

#include <functional>
#include <htensor/base/bytes.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/harness/runner.hpp"

namespace ht::bench {

/// The seconds of the timed part, and numbers that describe the result.
struct PythonAnswer {
  double seconds = 0;
  std::vector<double> numbers{};
};

/// A process that runs bench/python_contender.py. The docstring of that script documents the requests. The
/// measured times exclude the start of Python and the import of modules.
class PythonChild {
 public:
  /// Starts /usr/bin/python3, or else the python3 in PATH if the former lacks numpy. A missing module is
  /// reported in one line on stderr and is not an error.
  PythonChild();
  PythonChild(const PythonChild&) = delete;
  PythonChild& operator=(const PythonChild&) = delete;
  ~PythonChild() { end(); }

  /// Returns the elements of `modules` that can be imported.
  [[nodiscard]] std::vector<std::string> available(const std::vector<std::string>& modules) const;
  /// The version of an available module.
  [[nodiscard]] const std::string& version(const std::string& module) const { return versions_.at(module); }

  /// Sends the bytes under a name, unless the name was sent before.
  void load(const std::string& name, std::string_view dtype, Bytes bytes);
  /// Sends a request and returns its answer. Throws if the process fails.
  [[nodiscard]] PythonAnswer ask(const std::string& request);

 private:
  void start(const char* interpreter);
  void send(Bytes bytes) const;
  void send(const std::string& text) const;
  [[nodiscard]] std::string receive_line();
  void end();

  pid_t child_ = -1;
  int socket_ = -1;
  std::map<std::string, std::string> versions_;
  std::set<std::string, std::less<>> loaded_;
};

/// Adds a contender that requests `task` from `module` in each turn. A turn is correct if `is_correct`
/// accepts the numbers.
void add_python(Cells& cells, const Cell& cell, const std::shared_ptr<PythonChild>& python,
                const std::string& module, const std::string& task, const std::string& operands,
                std::function<bool(const std::vector<double>&)> is_correct);

}  // namespace ht::bench
