#!/usr/bin/env python3
"""Compiles the code that newcomers see first: at the top of htensor.hpp, and the C++ code in Markdown.

Usage: compile_snippets.py COMPILER INCLUDE_DIR FILE...
"""

import pathlib
import re
import subprocess
import sys
import tempfile

FLAGS = "-std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror".split()


def snippets(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.findall(r"^```cpp\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = re.findall(r"^//   (.*)$", text, re.MULTILINE)
    return ["\n".join(lines)] if lines else []


def main():
    compiler, include, *files = sys.argv[1:]
    count = 0
    for file in map(pathlib.Path, files):
        found = snippets(file)
        if not found:
            sys.exit(f"{file}: contains no code")
        for code in found:
            with tempfile.NamedTemporaryFile("w", suffix=".cpp", encoding="utf-8") as source:
                source.write(code)
                source.flush()
                run = subprocess.run([compiler, *FLAGS, f"-I{include}", source.name], capture_output=True, text=True, check=False)
            if run.returncode != 0:
                sys.exit(f"{file}: code does not compile:\n{code}\n{run.stderr}")
            count += 1
    print(f"compile_snippets: {count} snippets compile")


if __name__ == "__main__":
    main()
