// The Mermaid diagram of a state machine, as docs/io.md shows it.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ht::testing {

class StateDiagram {
 public:
  explicit StateDiagram(std::string_view initial, std::vector<std::string> finals = {})
      : initial_(initial), finals_(std::move(finals)) {}

  /// Adds a transition; a repeated one counts once.
  void add(std::string_view from, std::string_view to, std::string_view event) {
    arrows_.insert("    " + std::string(from) + " --> " + std::string(to) + " : " + std::string(event) +
                   "\n");
  }

  /// Transitions in alphabetical order, then the final states.
  [[nodiscard]] std::string text() const {
    std::string text = "stateDiagram-v2\n    [*] --> " + initial_ + "\n";
    for (const auto& arrow : arrows_) text += arrow;
    for (const auto& state : finals_) text += "    " + state + " --> [*]\n";
    return text + "```\n";
  }

  /// Fails if docs/io.md does not have exactly this diagram.
  void expect_in_docs() const {
    const std::ifstream file("docs/io.md");
    std::ostringstream docs;
    docs << file.rdbuf();
    EXPECT_NE(docs.str().find("```mermaid\n" + text()), std::string::npos) << "docs/io.md should have:\n"
                                                                           << text();
  }

 private:
  std::string initial_;
  std::vector<std::string> finals_;
  std::set<std::string> arrows_;
};

}  // namespace ht::testing
