#!/usr/bin/env python3
"""Compiles one case twice, once to pass and once with -DHT_FAIL to fail, and checks the messages of the compiler.

    run.py COMPILER INCLUDE_DIR CASE.cpp [FOLDER]
    run.py COMPILER INCLUDE_DIR --precompile FOLDER

The second form precompiles headers.hpp into FOLDER; the first form uses it, which saves most of the time.

The case marks the line that must not compile, and what the compiler must say, as regular expressions:

    #ifdef HT_FAIL
      auto sum = a + b;  // expect: no match(ing)? .*operator\\+
                         // expect: SameDType
    #else
      auto sum = ht::cast<ht::F64>(a);
    #endif

A comment line by itself belongs to the marked line above it. The first error has to be at a marked line,
and no other line of the case may have one. Where the compiler can only report a place inside of a header,
write `expect-inside` instead: the marked line then has to be named somewhere in the output.
"""

import os
import re
import shutil
import subprocess
import sys

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror",
         "-fdiagnostics-color=never"]
MARK = re.compile(r"//\s*expect(?P<inside>-inside)?:\s*(?P<regex>.*\S)")
# Compilers print the source line below a message, including the comments that state the expectations.
ECHO = re.compile(r"^ *\d* \|.*\n?", re.MULTILINE)
ERROR = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:fatal )?error:", re.MULTILINE)


class Refused(Exception):
    """The case is malformed, or the result of the compiler differs from what its comments state."""


def marks(source):
    """Returns the expectations: {line number: (reported inside of a header, [regular expressions])}."""
    found = {}
    current = 0  # the marked line of code
    last = 0  # the line of the last expectation
    for number, text in enumerate(source.splitlines(), start=1):
        mark = MARK.search(text)
        if not mark:
            # A formatter may wrap a long comment. The part of the regular expression before the break, such as `a|`,
            # could then match any output.
            if last == number - 1 and last > 0 and text.strip().startswith("//"):
                raise Refused(f"line {number}: this comment is not an expectation; write each expectation on one line")
            continue
        if text[:mark.start()].strip():
            current = number
        if not current:
            raise Refused(f"line {number}: no marked line of code precedes this expectation")
        inside, regexes = found.setdefault(current, (bool(mark["inside"]), []))
        regexes.append(mark["regex"])
        last = number
    if not found:
        raise Refused("no line is marked with `// expect: REGEX`")
    return found


def precompiled(compiler, folder):
    """The precompiled header in a folder, and the options that use it. Without a folder, cases are compiled without it."""
    if not folder:
        return None, []
    if "clang" in os.path.basename(compiler):
        path = os.path.join(folder, "headers.pch")
        return path, ["-include-pch", path]
    return os.path.join(folder, "headers.hpp.gch"), ["-Winvalid-pch", "-include", os.path.join(folder, "headers.hpp")]


def precompile(compiler, include, folder):
    os.makedirs(folder, exist_ok=True)
    header = os.path.join(folder, "headers.hpp")
    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "headers.hpp"), header)
    flags = [flag for flag in FLAGS if flag != "-fsyntax-only"]
    path, _ = precompiled(compiler, folder)
    return subprocess.run([compiler, *flags, "-I", include, "-x", "c++-header", header, "-o", path], check=False).returncode


def compile_case(compiler, include, case, folder, *defines):
    command = [compiler, *FLAGS, *precompiled(compiler, folder)[1], *defines, "-I", include, case]
    environment = dict(os.environ, LC_ALL="C")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode not in (0, 1):
        raise Refused(f"the compiler itself failed with {done.returncode}:\n{done.stderr}")
    return done.returncode == 0, done.stderr


def check(compiler, include, case, folder):
    with open(case, encoding="utf-8") as file:
        expected = marks(file.read())

    passes, output = compile_case(compiler, include, case, folder)
    if not passes:
        raise Refused(f"the valid branch does not compile:\n{output}")

    passes, output = compile_case(compiler, include, case, folder, "-DHT_FAIL")
    if passes:
        raise Refused("compiles with -DHT_FAIL but must not")

    errors = [(match["file"], int(match["line"])) for match in ERROR.finditer(output)]
    if not errors:
        raise Refused(f"the output names no line with an error:\n{output}")
    for line, (inside, regexes) in expected.items():
        if inside:
            if not re.search(rf"^{re.escape(case)}:{line}[:,]", output, re.MULTILINE):
                raise Refused(f"the output does not name line {line}:\n{output}")
        elif (case, line) not in errors:
            raise Refused(f"there is no error at line {line}:\n{output}")
        for regex in regexes:
            if not re.search(regex, ECHO.sub("", output)):
                raise Refused(f"the output of line {line} does not match `{regex}`:\n{output}")
    file, line = errors[0]
    if (file != case or line not in expected) and not any(inside for inside, _ in expected.values()):
        raise Refused(f"the first error is at {file}:{line} and not at a marked line:\n{output}")
    for file, line in errors:
        if file == case and line not in expected:
            raise Refused(f"line {line} does not compile either, and is not marked:\n{output}")


def main(arguments):
    if len(arguments) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    compiler, include, case, folder = [*arguments, ""][:4]
    if case == "--precompile":
        return precompile(compiler, include, folder)
    try:
        check(compiler, include, case, folder)
    except Refused as why:
        print(f"{case}: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
