#!/usr/bin/env python3
"""Compares the converted values and the statistics of htensor with numpy and, if it is installed, torch.

Usage: numpy_values_test.py HTENSOR. Exits with 77 and prints the reason if it is skipped.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HTENSOR = ""


def use_interpreter_with_numpy():
    """Restarts with /usr/bin/python3 if this interpreter lacks numpy, because Debian installs numpy for that one."""
    if importlib.util.find_spec("numpy"):
        return
    other = "/usr/bin/python3"
    if sys.executable != other and os.path.exists(other) and "HT_RESTARTED_FOR_NUMPY" not in os.environ:
        os.execve(other, [other, *sys.argv], {**os.environ, "HT_RESTARTED_FOR_NUMPY": "1"})
    print("skipped: numpy is not installed")
    sys.exit(77)


use_interpreter_with_numpy()
import numpy as np  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from readers_test import NUMPY, read_safetensors, write_safetensors  # noqa: E402


def run(*arguments):
    return subprocess.run([HTENSOR, *map(str, arguments)], capture_output=True, text=True, check=True)


def floats(bits, dtype):
    """Every exponent with random mantissas, values around ties of narrower dtypes, and special values."""
    random = np.random.default_rng(1)
    unsigned = {16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
    codes = random.integers(0, np.iinfo(unsigned).max, 20000, dtype=unsigned)
    normal = random.normal(0, 1, 20000).astype(dtype)
    halves = (np.arange(0, 4096, dtype=np.float64) / 2048 + 1).astype(dtype)
    edges = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, 5.96e-8, 2.98e-8], dtype=dtype)
    return np.concatenate([codes.view(dtype), normal, halves, np.nextafter(halves, dtype(0)), edges])


class Values(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def converted(self, source, values, target):
        """The values as htensor converts them, as raw bytes."""
        before, after = self.folder / "before.safetensors", self.folder / "after.safetensors"
        write_safetensors(before, {"t": (source, values.shape, values.tobytes())})
        run("convert", before, after, "--cast", f"t={target}", "--round", "--force")
        tensors, _ = read_safetensors(after)
        dtype, _, content = tensors["t"]
        self.assertEqual(dtype, target)
        return content

    def expect_same(self, source, values, target, expected):
        found = np.frombuffer(self.converted(source, values, target), dtype=expected.dtype)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        self.assertTrue(same.all(), f"{source} to {target}: {values[~same][:5]} became {found[~same][:5]}")
        zeros = expected == 0
        self.assertTrue((np.signbit(found[zeros]) == np.signbit(expected[zeros])).all(), f"{source} to {target}")

    def test_conversions_of_floats_equal_numpy(self):
        with np.errstate(all="ignore"):
            for source, bits in (("F16", 16), ("F32", 32), ("F64", 64)):
                values = floats(bits, np.dtype(NUMPY[source]).type)
                for target in ("F16", "F32", "F64"):
                    if target != source:
                        self.expect_same(source, values, target, values.astype(NUMPY[target]))

    def test_conversions_of_integers_equal_numpy(self):
        random = np.random.default_rng(2)
        with np.errstate(all="ignore"):
            for source in ("I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64"):
                dtype = np.dtype(NUMPY[source])
                limits = np.iinfo(dtype)
                values = random.integers(limits.min, limits.max, 5000, dtype=dtype, endpoint=True)
                for target in ("F32", "F64"):
                    self.expect_same(source, values, target, values.astype(NUMPY[target]))

    def test_conversions_to_bf16_equal_torch(self):
        if not importlib.util.find_spec("torch"):
            self.skipTest("torch is not installed")
        import torch
        values = floats(32, np.float32)
        values = values[~np.isnan(values)]
        expected = torch.from_numpy(values).to(torch.bfloat16).view(torch.int16).numpy().tobytes()
        self.assertEqual(self.converted("F32", values, "BF16"), expected)

    def test_statistics_equal_numpy(self):
        random = np.random.default_rng(3)
        for name, values in (("F32", random.normal(0.5, 2, (37, 411)).astype(np.float32)),
                             ("F64", random.normal(-3, 0.1, 70001)),
                             ("F16", random.normal(0, 0.05, 9000).astype(np.float16)),
                             ("I16", random.integers(-3000, 3000, 5000).astype(np.int16))):
            path = self.folder / "stats.safetensors"
            write_safetensors(path, {"t": (name, values.shape, values.tobytes())})
            stats = json.loads(run("show", path, "t", "--stats", "--json").stdout)["stats"]
            wide = values.astype(np.float64)
            self.assertEqual((stats["min"], stats["max"]), (wide.min(), wide.max()), name)
            self.assertEqual((stats["argmin"], stats["argmax"]), (wide.argmin(), wide.argmax()), name)
            self.assertEqual(stats["zeros"], int((wide == 0).sum()), name)
            scale = np.abs(wide).sum()
            self.assertAlmostEqual(stats["sum"], wide.sum(), delta=1e-6 * scale, msg=name)
            self.assertAlmostEqual(stats["std"], wide.std(), delta=1e-5 * wide.std(), msg=name)
            norm = np.sqrt((wide ** 2).sum())
            self.assertAlmostEqual(stats["norm"], norm, delta=1e-6 * norm, msg=name)


if __name__ == "__main__":
    HTENSOR = sys.argv.pop(1)
    unittest.main()
