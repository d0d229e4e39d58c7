#!/usr/bin/env python3
"""Tests that tidy.py checks a file again if, and only if, the result may have changed.

A stand-in for clang-tidy records that it was called and has a finding in every file that contains BAD.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TIDY = pathlib.Path(__file__).parent / "tidy.py"
STAND_IN = """#!/bin/sh
case "$1" in --version) echo "stand-in $VERSION"; exit 0;; esac
echo called >>"$CALLS"
for last; do :; done
! grep -Hn BAD "$last"
"""


@unittest.skipIf(shutil.which("ccache") is None or shutil.which("clang++-19") is None, "ccache or clang++-19 is not installed")
class Tidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="a folder with spaces ")
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name).resolve()
        (self.home / "bin").mkdir()
        stand_in = self.home / "bin" / "clang-tidy-19"
        stand_in.write_text(STAND_IN)
        stand_in.chmod(0o755)
        self.environment = {"PATH": f"{self.home / 'bin'}:{os.environ['PATH']}", "HOME": str(self.home), "VERSION": "1",
                            "CCACHE_DIR": str(self.home / "cache"), "CALLS": str(self.home / "calls")}
        self.root = self.project("first")

    def project(self, name, flags=""):
        root = self.home / name
        for path, text in {"src/a.cpp": '#include "a.hpp"\nint a = one;\n', "src/a.hpp": "const int one = 1;\n",
                           "src/b.cpp": "", ".clang-tidy": "Checks: '*'\n"}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / "tools").mkdir()
        shutil.copy(TIDY, root / "tools")
        (root / "build").mkdir()
        self.set_flags(root, flags)
        return root

    def set_flags(self, root, flags):
        command = f"c++ '-I{root}/src' {flags} -o a.cpp.o -c '{root}/src/a.cpp'"
        entry = {"directory": str(root / "build"), "command": command, "file": str(root / "src/a.cpp")}
        (root / "build" / "compile_commands.json").write_text(json.dumps([entry]))

    def tidy(self, root=None, file="src/a.cpp"):
        """Returns whether the file was clean, the output, and whether clang-tidy was run."""
        root = root or self.root
        calls = self.home / "calls"
        calls.unlink(missing_ok=True)
        run = subprocess.run(["python3", str(root / "tools/tidy.py"), "build", file], cwd=root, env=self.environment,
                             capture_output=True, text=True, check=False)
        return run.returncode == 0, run.stdout + run.stderr, calls.exists()

    def checks_again(self):
        self.assertEqual(self.tidy(), (True, "", True))
        self.assertEqual(self.tidy(), (True, "", False))

    def test_clean_file_is_checked_once(self):
        self.checks_again()

    def test_clean_file_of_another_clone_is_not_checked(self):
        self.checks_again()
        self.assertEqual(self.tidy(self.project("second")), (True, "", False))

    def test_findings_are_reported_every_time(self):
        self.checks_again()
        (self.root / "src/a.cpp").write_text("int BAD;\n")
        for _ in range(2):
            clean, output, was_run = self.tidy()
            self.assertFalse(clean)
            self.assertIn("a.cpp:1:int BAD;", output)
            self.assertTrue(was_run)

    def test_checks_again_when_a_comment_or_an_unused_macro_has_changed(self):
        for text in ("const int one = 1;  // NOLINT\n", "const int one = 1;\n#define UNUSED(x) x * 2\n"):
            self.checks_again()
            (self.root / "src/a.hpp").write_text(text)
        self.checks_again()

    def test_checks_again_when_flags_have_changed(self):
        self.checks_again()
        self.set_flags(self.root, "-DX=1")
        self.checks_again()
        self.set_flags(self.root, "-DX=1 -Wshadow")
        self.checks_again()

    def test_checks_again_when_the_checks_have_changed(self):
        self.checks_again()
        (self.root / ".clang-tidy").write_text("Checks: 'bugprone-*'\n")
        self.checks_again()

    def test_checks_again_with_another_clang_tidy_or_tidy_py(self):
        self.checks_again()
        self.environment["VERSION"] = "2"
        self.checks_again()
        with open(self.root / "tools/tidy.py", "a", encoding="utf-8") as file:
            file.write("# changed\n")
        self.checks_again()

    def test_checks_again_when_the_cache_is_broken(self):
        self.checks_again()
        for path in (self.home / "cache").rglob("*"):
            if path.is_file():
                path.write_bytes(b"broken")
        self.assertEqual(self.tidy(), (True, "", True))

    def test_file_without_a_target_is_checked_every_time(self):
        for _ in range(2):
            self.assertEqual(self.tidy(file="src/b.cpp"), (True, "", True))


if __name__ == "__main__":
    unittest.main()
