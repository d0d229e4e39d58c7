#!/usr/bin/env python3
"""Tests that run.py refuses each faulty case and accepts each valid case.

    run_test.py COMPILER

Each file in self_test/ states in its first line the expected message of the runner, or that the case is accepted.
"""

import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
COMPILER = sys.argv.pop(1) if len(sys.argv) > 1 else "c++"


class Runner(unittest.TestCase):
    def run_case(self, case):
        command = [sys.executable, HERE / "run.py", COMPILER, HERE / "self_test", case]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_reports_the_fault_of_each_case(self):
        cases = sorted((HERE / "self_test").glob("*.cpp"))
        self.assertGreater(len(cases), 0)
        for case in cases:
            with self.subTest(case.stem):
                first = case.read_text(encoding="utf-8").splitlines()[0]
                refused = re.match(r"// refused: (.*)", first)
                done = self.run_case(case)
                if refused:
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(refused[1], done.stderr)
                else:
                    self.assertEqual(first, "// accepted")
                    self.assertEqual(done.returncode, 0, done.stderr)

    def test_requires_its_arguments(self):
        done = subprocess.run([sys.executable, HERE / "run.py"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
