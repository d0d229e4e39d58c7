#!/usr/bin/env python3
"""Tests the options and the messages of the benchmark programs, and a plot.

Usage: programs_test.py FOLDER, which contains the programs.
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path()
# For each benchmark that uses bench/harness: the name of one of its cells.
CELLS = {
    "load": "cold, first", "convert": "warm", "values": "statistics of F32", "retype": "F32 to BF16", "compute": "F64 64",
    "devices": "rms_norm", "gemv": "Q8_0", "llama": "small", "checksum": "warm, verify",
}  # fmt: skip


def run(task, *options, **how):
    return subprocess.run([FOLDER / f"bench_{task}", *options], capture_output=True, text=True, check=False, **how)


class Programs(unittest.TestCase):
    def test_measure_only_the_selected_cells(self):
        for task, cell in CELLS.items():
            with self.subTest(task), tempfile.TemporaryDirectory() as folder:
                measurements = pathlib.Path(folder) / "measurements.json"
                done = run(task, "--smoke", "--cells", cell, "--json", measurements)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual({row["cell"] for row in json.loads(measurements.read_text())["cells"]}, {cell})

    def test_run_the_large_model_of_llama_in_a_smoke_test(self):
        done = run("llama", "--smoke", "--cells", "1B")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_refuse_cells_that_do_not_exist(self):
        for task in CELLS:
            with self.subTest(task):
                done = run(task, "--smoke", "--cells", "nonsense")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("no cell has a name that contains the text of --cells", done.stderr)

    def test_refuse_options_without_effect(self):
        for task, *options in (("compute", "--size", "1G"), ("devices", "--size", "1G"), ("compute", "--folder", "/"),
                               ("devices", "--folder", "/"), ("values", "--folder", "/")):  # fmt: skip
            with self.subTest(f"{task} {options[0]}"):
                done = run(task, "--smoke", *options)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"bench_{task}: ", done.stderr)
                self.assertIn(f"{options[0]} is not known", done.stderr)
        for task in ("open", "catalog", "element_access", "startup", "listing"):
            with self.subTest(task):
                self.assertEqual(run(task, "--cells", "ls").returncode, 2)

    def test_report_a_file_that_cannot_be_written(self):
        # Python ignores SIGXFSZ, so a write beyond the limit is an error for its child, too.
        done = run("startup", "--smoke", restore_signals=False,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))  # fmt: skip
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "bench_startup: .*File too large")

    def test_report_a_missing_temporary_folder(self):
        for task in ("open", "catalog", "startup", "listing", "gemv"):
            with self.subTest(task):
                done = run(task, "--smoke", env=os.environ | {"TMPDIR": "/nonexistent"})
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"bench_{task}: ", done.stderr)


class Plots(unittest.TestCase):
    def test_state_the_size_of_the_small_llama(self):
        row = {"cell": "small", "contender": "htensor", "kind": "ours", "bytes": 10**9, "median_s": 1, "best_s": 1}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            measurements = {"file_bytes": 10**9, "repeats": 1, "cells": [row], "goals": []}
            (folder / "measurements.json").write_text(json.dumps(measurements))
            plot = pathlib.Path(__file__).parent / "llama" / "plot.py"
            subprocess.run([sys.executable, plot, folder / "measurements.json", folder / "llama.svg"],
                           stdout=subprocess.DEVNULL, check=True)  # fmt: skip
            picture = (folder / "llama.svg").read_text(encoding="utf-8")
        self.assertIn("small: 1000 MB", picture)
        self.assertNotIn("200 MB", picture)


if __name__ == "__main__":
    FOLDER = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
