#!/usr/bin/env python3
"""MLIR's own mlir-opt reads the modules with the expected names and values.

Usage: mlir_opt_test.py WRITER, the program of write_module.cpp. Exits with 77 and prints the reason if it is skipped.
Older versions of mlir-opt lack some types; the test leaves these out and prints a line for each.
"""

import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

WRITER, MLIR_OPT = "", ""
ALL = str(2**64 - 1)

# dtype in IREE's notes, its type in MLIR, the bytes of a tensor, its shape, and its values.
DTYPES = [
    ("bool", "i1", b"\0\1\1\0\0\0", [2, 3], "[[false, true, true], [false, false, false]]"),
    ("int4", "i4", b"\x21\xf7\x08", [5], "[1, 2, 7, -1, -8]"),
    ("uint4", "i4", b"\x21\xf7", [2, 2], "[[1, 2], [7, -1]]"),
    ("int8", "i8", b"\x01\x80\xff", [3], "[1, -128, -1]"),
    ("uint8", "i8", b"\x01\x80\xff", [3], "[1, -128, -1]"),
    ("int16", "i16", struct.pack("<2h", 1, -2), [2], "[1, -2]"),
    ("uint16", "i16", struct.pack("<2H", 1, 65535), [2], "[1, -1]"),
    ("int32", "i32", struct.pack("<2i", 70000, -2), [2], "[70000, -2]"),
    ("uint32", "i32", struct.pack("<2I", 70000, 2**32 - 1), [2], "[70000, -1]"),
    ("int64", "i64", struct.pack("<2q", 2**40, -2), [2], "[1099511627776, -2]"),
    ("uint64", "i64", struct.pack("<2Q", 2**40, 2**64 - 1), [2], "[1099511627776, -1]"),
    ("float16", "f16", struct.pack("<2e", 1.5, -2), [2], "[1.500000e+00, -2.000000e+00]"),
    ("bfloat16", "bf16", struct.pack("<2H", 0x3FC0, 0xC000), [2], "[1.500000e+00, -2.000000e+00]"),
    ("float32", "f32", struct.pack("<2fI", 1.5, -2, 0x7FC00001), [3], "[1.500000e+00, -2.000000e+00, 0x7FC00001]"),
    ("float64", "f64", struct.pack("<2d", 1.5, -2), [2], "[1.500000e+00, -2.000000e+00]"),
    ("complex64", "complex<f32>", struct.pack("<4f", 1, 2, 3, 4), [2],
     "[(1.000000e+00,2.000000e+00), (3.000000e+00,4.000000e+00)]"),
    ("float4_e2m1fn", "f4E2M1FN", b"\x21\x0f", [3], "[5.000000e-01, 1.000000e+00, -6.000000e+00]"),
    ("float6_e2m3fn", None, b"\1\2\3", [4], "[1, 2, 3]"),
    ("float6_e3m2fn", None, b"\1\2\3", [4], "[1, 2, 3]"),
    ("float8_e4m3fn", "f8E4M3FN", b"\x38\xc0", [2], "[1.000000e+00, -2.000000e+00]"),
    ("float8_e5m2", "f8E5M2", b"\x3c\xc0", [2], "[1.000000e+00, -2.000000e+00]"),
    ("float8_e8m0fnu", "f8E8M0FNU", b"\x7f\x81", [2], "[1.000000e+00, 4.000000e+00]"),
    ("float8_e4m3fnuz", "f8E4M3FNUZ", b"\x40\xc8", [2], "[1.000000e+00, -2.000000e+00]"),
    ("float8_e5m2fnuz", "f8E5M2FNUZ", b"\x40\xc4", [2], "[1.000000e+00, -2.000000e+00]"),
]

NAMES = ["plain", "a.b$_9", "9a", "a b", '"', "\\", "a\nb\t\x7f", "a\0b", "é", "@a", '">}] : tensor<', "\\22", "%0", "^bb0", "a-b"]


def find_mlir_opt():
    """Returns the newest mlir-opt of Debian's packages, or else the one on PATH."""
    found = [(int(match[1]), match[0]) for path in pathlib.Path("/usr/lib").glob("llvm-*/bin/mlir-opt")
             if (match := re.fullmatch(r"/usr/lib/llvm-(\d+)/bin/mlir-opt", str(path)))]
    return max(found)[1] if found else shutil.which("mlir-opt")


def irpa(entries):
    """A parameter archive with (name, note, data), or (name, note, length, pattern) for a splat."""
    table, metadata, storage = b"", b"", b""
    for name, note, *rest in entries:
        name, note = name.encode(), note.encode()
        table += bytes(-len(table) % 16)
        places = struct.pack("<4Q", len(metadata), len(name), len(metadata) + len(name), len(note))
        metadata += name + note
        if len(rest) == 2:
            length, pattern = rest
            table += struct.pack("<QIQ", 85, 1, 0) + places + struct.pack("<QQ", 0, length) + pattern.ljust(16, b"\0") + bytes([len(pattern)])
        else:
            table += struct.pack("<QIQ", 76, 2, 0) + places + struct.pack("<3Q", 0, len(storage), len(rest[0]))
            storage += rest[0]
    names_at = 96 + len(table)
    data_at = -(-(names_at + len(metadata)) // 64) * 64
    head = struct.pack("<4s2H10Q", b"IRPA", 0, 0, 88, 0, 0, len(entries), 96, len(table), names_at, len(metadata), data_at, len(storage))
    file = (head.ljust(96, b"\0") + table + metadata).ljust(data_at, b"\0") + storage
    return file + bytes(-len(file) % 4096)


def note(dtype, shape):
    return "TENSORv0:" + json.dumps({"type": "Tensor", "dtype": dtype, "shape": shape})


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)


def supports(element):
    return element is None or run(MLIR_OPT, "--allow-unregistered-dialect", text=f'"a.b"() {{t = tensor<1x{element}>}} : () -> ()').returncode == 0


def unescaped(text):
    """The text that an MLIR literal stands for."""
    raw = re.sub(rb"\\(?:\\|([0-9A-F]{2}))", lambda match: bytes.fromhex(match[1].decode()) if match[1] else b"\\", text.encode())
    return raw.decode()


class MlirOpt(unittest.TestCase):
    def emitted(self, form, entries, below, *scope):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "weights.irpa")
            path.write_bytes(irpa(entries))
            written = run(WRITER, form, str(path), below, *scope)
        self.assertEqual(written.returncode, 0, written.stderr)
        return written.stdout

    def read_by_mlir(self, text):
        read = run(MLIR_OPT, "--allow-unregistered-dialect", text=text)
        self.assertEqual(read.returncode, 0, read.stderr + text)
        return [line for line in read.stdout.splitlines() if "util.global" in line]

    def supported_dtypes(self):
        rows = [row for row in DTYPES if supports(row[1])]
        for row in DTYPES:
            if row not in rows:
                print(f"left out: {MLIR_OPT} does not support {row[1]}")
        return rows

    def test_every_dtype_inlined_has_its_values(self):
        rows = self.supported_dtypes()
        lines = self.read_by_mlir(self.emitted("generic", [(d, note(d, shape), data) for d, _, data, shape, _ in rows], ALL))
        self.assertEqual(len(lines), len(rows))
        for line, (dtype, element, data, shape, values) in zip(lines, rows):
            if element is None:
                element, shape = "i8", [len(data)]
            tensor = "tensor<" + "".join(f"{dim}x" for dim in shape) + element + ">"
            self.assertIn(f'initial_value = dense<{values}> : {tensor}, sym_name = "{dtype}"', line)
            self.assertIn(f"type = {tensor}}}>", line)

    def test_every_external_dtype_names_its_key(self):
        rows = self.supported_dtypes()
        lines = self.read_by_mlir(self.emitted("generic", [(d, note(d, shape), data) for d, _, data, shape, _ in rows], "0", 'sc"ope'))
        self.assertEqual(len(lines), len(rows))
        for line, row in zip(lines, rows):
            self.assertIn(f'#stream.parameter.named<"sc\\22ope"::"{row[0]}"> : tensor<', line)

    def test_scalars_and_empty_tensors_have_their_values(self):
        entries = [("scalar", note("float32", []), struct.pack("<f", 1)), ("truth", note("bool", []), b"\1"),
                   ("empty", note("float32", [0, 4]), b""), ("no_truth", note("bool", [2, 0]), b""), ("untyped", "", b""),
                   ("deep", note("bool", [1, 1, 2, 1]), b"\0\1")]
        lines = self.read_by_mlir(self.emitted("generic", entries, ALL))
        for line, value in zip(lines, ["dense<1.000000e+00> : tensor<f32>", "dense<true> : tensor<i1>", "dense<> : tensor<0x4xf32>",
                                       "dense<> : tensor<2x0xi1>", "dense<> : tensor<0xi8>",
                                       "dense<[[[[false], [true]]]]> : tensor<1x1x2x1xi1>"], strict=True):
            self.assertIn(f"initial_value = {value}", line)
        self.assertEqual(len(self.read_by_mlir(self.emitted("generic", entries, "0"))), len(entries))

    def test_splats_have_their_values(self):
        entries = [("f", note("float32", [2, 2]), 16, struct.pack("<f", 1.5)), ("nan", note("float32", [2]), 8, struct.pack("<I", 0xFFC00001)),
                   ("b", note("bool", [9]), 9, b"\1"), ("i", note("int4", [5]), 3, b"\xff"), ("c", note("complex64", [2]), 16, struct.pack("<2f", 1, 2)),
                   ("mixed", note("int8", [3]), 3, b"\1\2"), ("large", "", 2**40, b"\7")]
        lines = self.read_by_mlir(self.emitted("generic", entries, ALL))
        for line, value in zip(lines, ["dense<1.500000e+00> : tensor<2x2xf32>", "dense<0xFFC00001> : tensor<2xf32>", "dense<true> : tensor<9xi1>",
                                       "dense<-1> : tensor<5xi4>", "dense<(1.000000e+00,2.000000e+00)> : tensor<2xcomplex<f32>>",
                                       "dense<[1, 2, 1]> : tensor<3xi8>", "dense<7> : tensor<1099511627776xi8>"], strict=True):
            self.assertIn(f"initial_value = {value}", line)

    def test_names_are_kept(self):
        text = self.emitted("generic", [(name, "", b"x") for name in NAMES], "0")
        for name, line in zip(NAMES, self.read_by_mlir(text), strict=True):
            found = re.search(r'named<("(?:[^"\\]|\\.)*")> : tensor<1xi8>, sym_name = ("(?:[^"\\]|\\.)*"), sym_vis', line)
            self.assertIsNotNone(found, line)
            self.assertEqual([unescaped(part[1:-1]) for part in found.groups()], [name, name])

    def test_symbols_are_quoted_as_by_mlir(self):
        text = self.emitted("iree", [(name, "", b"x") for name in NAMES], "0")
        symbols = re.findall(r'(?m)^  util\.global private (@.*) = #stream\.parameter\.named<".*"> : tensor<1xi8>$', text)
        self.assertEqual(len(symbols), len(NAMES))
        # mlir-opt does not know IREE's operation, so the symbol is put into another operation.
        read = run(MLIR_OPT, text="".join(f'memref.global "private" {symbol} : memref<4xf32>\n' for symbol in symbols))
        self.assertEqual(read.returncode, 0, read.stderr)
        self.assertEqual(re.findall(r'"private" (@.*) : memref', read.stdout), symbols)

    def test_long_data_is_complete(self):
        data = bytes(i * 7 % 251 for i in range(400_000))
        text = self.emitted("generic", [("t", note("float32", [100, 1000]), data)], ALL)
        self.assertIn(f'dense<"0x{data.hex().upper()}"> : tensor<100x1000xf32>', self.read_by_mlir(text)[0])

    def test_module_without_tensors_has_no_globals(self):
        self.assertEqual(self.read_by_mlir(self.emitted("generic", [], "0")), [])


if __name__ == "__main__":
    WRITER, MLIR_OPT = sys.argv.pop(1), find_mlir_opt()
    if MLIR_OPT is None:
        print("skipped: mlir-opt not found (mlir-19-tools)")
        sys.exit(77)
    unittest.main()
