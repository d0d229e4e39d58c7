#!/usr/bin/env python3
"""Seeds for gguf_fuzz: eight bytes of a claimed file size, then a GGUF file. Usage: gguf_fuzz_seeds.py FOLDER"""

import pathlib
import struct
import sys

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
NUMBERS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}


class Gguf:
    """Values are (key, type, value), an array's value is (type, elements); tensors (name, dims innermost first, type, bytes)."""

    def __init__(self, values=(), tensors=(), order="<", version=3, alignment=32):
        self.order = order
        out = b"GGUF" + self.pack("Iqq", version, len(tensors), len(values))
        for key, type, value in values:
            out += self.string(key) + self.pack("I", type) + self.value(type, value)
        offset = 0
        for name, dims, type, bytes_ in tensors:
            out += self.string(name) + self.pack("I%dq" % len(dims), len(dims), *dims) + self.pack("IQ", type, offset)
            offset += bytes_ + -bytes_ % alignment
        if tensors:
            out += bytes(-len(out) % alignment) + bytes(offset)
        self.bytes = out

    def pack(self, format, *numbers):
        return struct.pack(self.order + format, *numbers)

    def string(self, text):
        data = text.encode() if isinstance(text, str) else text
        return self.pack("Q", len(data)) + data

    def value(self, type, value):
        if type == STRING:
            return self.string(value)
        if type == ARRAY:
            element, values = value
            return self.pack("IQ", element, len(values)) + b"".join(self.value(element, v) for v in values)
        return self.pack(NUMBERS[type], value)


SCALARS = [("k%d" % type, type, 1) for type in NUMBERS] + [("s", STRING, "text"), ("any", STRING, b"\xff\x00")]
ARRAYS = [("a%d" % type, ARRAY, (type, [1, 2, 3])) for type in NUMBERS] + [("t", ARRAY, (STRING, ["a", "", "bc"])), ("e", ARRAY, (U8, []))]
NESTED = [
    ("n", ARRAY, (ARRAY, [(U16, [1, 2]), (STRING, ["x"]), (ARRAY, [(F32, [0.5]), (ARRAY, [])])])),
    ("d", ARRAY, (ARRAY, [(ARRAY, [(ARRAY, [(ARRAY, [(ARRAY, [(ARRAY, [(ARRAY, [])])])])])])])),
]
DENSE = [("f32", [2, 3], 0, 24), ("f16", [5], 1, 10), ("i8", [3], 24, 3), ("i64", [2], 27, 16), ("f64", [1], 28, 8), ("bf16", [4], 30, 8)]
BLOCKS = [("q4_0", [32, 2], 2, 36), ("q8_0", [64], 8, 68), ("q4_k", [256], 12, 144), ("mxfp4", [32], 39, 17), ("q1_0", [128], 41, 18)]
RANKS = [("r%d" % rank, [2] * rank, 24, 2**rank) for rank in range(5)]
ALIGNED = [("general.alignment", U32, 64)]


def with_byte(data, at, byte):
    return data[:at] + bytes([byte]) + data[at + 1 :]


GOOD = Gguf(SCALARS[:3], DENSE[:2]).bytes
SEEDS = {
    "empty": Gguf().bytes,
    "scalars": Gguf(SCALARS).bytes,
    "arrays": Gguf(ARRAYS, DENSE[:1]).bytes,
    "nested": Gguf(NESTED).bytes,
    "dense": Gguf((), DENSE).bytes,
    "blocks": Gguf((), BLOCKS).bytes,
    "ranks": Gguf((), RANKS).bytes,
    "zero_dims": Gguf((), [("a", [3, 0], 0, 0), ("b", [0], 2, 0), ("c", [1], 0, 4)]).bytes,
    "version2": Gguf(SCALARS, DENSE, version=2).bytes,
    "aligned": Gguf(ALIGNED, DENSE, alignment=64).bytes,
    "unaligned": Gguf([("general.alignment", U32, 1)], DENSE, alignment=1).bytes,
    "big_endian": Gguf(SCALARS + ARRAYS + NESTED + ALIGNED, DENSE + BLOCKS, order=">", alignment=64).bytes,
    "big_endian_2": Gguf(NESTED, RANKS, order=">", version=2).bytes,
    "many": Gguf((), [("blk.%d.weight" % i, [1], 24, 1) for i in range(100)]).bytes,
    "vocabulary": Gguf([("tokens", ARRAY, (STRING, ["t%d" % i for i in range(300)])), ("scores", ARRAY, (F32, [1.0] * 300))]).bytes,
    "large_header": Gguf([("big", STRING, "x" * 70000)], DENSE[:1]).bytes,
    "trailing": GOOD + bytes(40),
    "no_data": GOOD[:-64],
    "cut_in_header": GOOD[:60],
    "bad_version": with_byte(GOOD, 4, 4),
    "bad_count": with_byte(GOOD, 23, 0x80),
    "bad_alignment": Gguf([("general.alignment", U32, 13)], DENSE).bytes,
    "wrong_alignment_type": Gguf([("general.alignment", I32, 32)], DENSE).bytes,
    "duplicate_key": Gguf(SCALARS[:1] * 2).bytes,
    "duplicate_name": Gguf((), DENSE[:1] * 2).bytes,
    "retired_type": Gguf((), [("old", [32], 4, 18)]).bytes,
    "half_block": Gguf((), [("q", [33], 2, 18)]).bytes,
    "huge": Gguf((), [("h", [2**31, 2**31], 0, 0)]).bytes,
}

folder = pathlib.Path(sys.argv[1])
for name, data in SEEDS.items():
    (folder / name).write_bytes(struct.pack("<Q", len(data)) + data)
