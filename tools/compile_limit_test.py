#!/usr/bin/env python3
"""Checks that the build limits the memory of the compiler.

Usage: compile_limit_test.py BUILD PRLIMIT COMPILER MIB
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import compile_cost  # noqa: E402

BUILD, PRLIMIT, COMPILER, MIB = pathlib.Path(), "", "", 0
SOURCE = "#include <map>\n#include <regex>\nstd::map<int, std::regex> all;\n"


def compile_within(mib):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "a.cpp")
        source.write_text(SOURCE)
        return subprocess.run([PRLIMIT, f"--data={mib << 20}", COMPILER, "-std=c++20", "-c", source, "-o", "/dev/null"],
                              capture_output=True, text=True, check=False)


class CompileLimit(unittest.TestCase):
    def test_the_limit_equals_that_of_compile_cost(self):
        self.assertEqual(MIB << 20, compile_cost.MAX_BYTES)

    def test_every_file_is_compiled_within_the_limit(self):
        lines = (BUILD / "CMakeFiles" / "rules.ninja").read_text().splitlines()
        rules = [line for line in lines if re.match(r"\s+command = .* -c \$in$", line)]
        self.assertTrue(rules)
        for rule in rules:
            self.assertIn(f"--data={MIB << 20} ", rule)

    def test_a_file_that_needs_more_is_refused(self):
        within = compile_within(MIB)
        self.assertEqual(within.returncode, 0, within.stderr)
        beyond = compile_within(32)
        self.assertNotEqual(beyond.returncode, 0)
        self.assertIn("memory", beyond.stderr)

    def test_the_cost_of_a_file_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "a.cpp").write_text(SOURCE)
            command = [COMPILER, "-std=c++20", "-MD", "-MT", "a.o", "-MF", "a.d", "-o", "a.o", "-c", "a.cpp"]
            status, memory, seconds = compile_cost.cost_of(command, folder)
            self.assertEqual(status, 0)
            self.assertTrue(32 << 20 < memory < MIB << 20, memory)
            self.assertGreater(seconds, 0)
            # No file of the build was overwritten.
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], ["a.cpp"])


if __name__ == "__main__":
    BUILD, PRLIMIT, COMPILER, MIB = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    unittest.main(argv=sys.argv[:1])
