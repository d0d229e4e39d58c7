#!/usr/bin/env python3
"""Exports a model with the shapes of whisper-tiny, and checks the IRPA archive and the MLIR module.

Usage: export_test.py HTENSOR WHISPER_EXPORT
"""

import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from make_whisper import first_values, whisper_tiny, write

HTENSOR, EXPORT = "", ""


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, check=False, **options)


class WhisperExport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        cls.shapes = whisper_tiny()
        write(cls.path / "model.safetensors", cls.shapes)
        cls.exported = run(EXPORT, "model.safetensors", "whisper.irpa", "whisper.mlir", cwd=cls.path, text=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_model_is_whisper_tiny(self):
        self.assertEqual(len(self.shapes), 167)
        self.assertEqual(sum(math.prod(shape) for shape in self.shapes.values()), 37_760_640)
        self.assertEqual(self.exported.returncode, 0, self.exported.stderr)
        self.assertIn("167 parameters", self.exported.stdout)

    def test_every_parameter_is_external_and_in_the_archive(self):
        listed = json.loads(run(HTENSOR, "ls", self.path / "whisper.irpa", "--json").stdout)
        archive = {tensor["name"]: tensor for tensor in listed["tensors"]}
        self.assertEqual(archive.keys(), self.shapes.keys())
        module = (self.path / "whisper.mlir").read_text()
        # The module contains no data.
        self.assertNotIn("dense<", module)
        lines = [line for line in module.splitlines() if "util.global" in line]
        self.assertEqual(len(lines), len(self.shapes))
        for line, (name, shape) in zip(lines, self.shapes.items()):
            found = re.search(r'#stream\.parameter\.named<"model"::"([^"]+)"> : tensor<([0-9x]+)xf32>', line)
            self.assertIsNotNone(found, line)
            self.assertEqual(found[1], name)
            self.assertEqual([int(dim) for dim in found[2].split("x")], shape)
            self.assertEqual(archive[name]["shape"], shape)
            self.assertEqual(archive[name]["bytes"], 4 * math.prod(shape))
            self.assertEqual(archive[name]["dtype"], "F32")

    def test_the_archive_has_the_bytes(self):
        listed = json.loads(run(HTENSOR, "ls", self.path / "whisper.irpa", "--json").stdout)
        with open(self.path / "whisper.irpa", "rb") as file:
            for tensor in listed["tensors"]:
                file.seek(tensor["offset"])
                self.assertEqual(file.read(16), first_values(list(self.shapes).index(tensor["name"])), tensor)
        differs = run(HTENSOR, "diff", self.path / "model.safetensors", self.path / "whisper.irpa", "--json")
        self.assertEqual(json.loads(differs.stdout)["differ"], [])

    def test_mlir_reads_the_module(self):
        found = sorted(pathlib.Path("/usr/lib").glob("llvm-*/bin/mlir-opt"))
        program = str(found[-1]) if found else shutil.which("mlir-opt")
        if program is None:
            self.skipTest("mlir-opt not found (mlir-19-tools)")
        read = run(program, "--allow-unregistered-dialect", self.path / "whisper.mlir", text=True)
        self.assertEqual(read.returncode, 0, read.stderr)
        self.assertEqual(read.stdout.count("util.global"), len(self.shapes))

    def test_error_for_a_ggml_file_of_whisper_cpp_names_that_program(self):
        old = self.path / "ggml-tiny.bin"
        old.write_bytes(b"lmgg" + bytes(64))
        done = run(EXPORT, old, self.path / "o.irpa", self.path / "o.mlir", text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("whisper.cpp", done.stderr)


if __name__ == "__main__":
    HTENSOR, EXPORT = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
