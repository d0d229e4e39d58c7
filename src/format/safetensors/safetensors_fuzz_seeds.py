#!/usr/bin/env python3
"""Seeds for safetensors_fuzz: eight bytes of a claimed file size, then a file. Usage: … FOLDER"""

import json
import pathlib
import struct
import sys


def file(header, data=0):
    text = header if isinstance(header, str) else json.dumps(header)
    raw = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(raw)) + raw + bytes(data)


def info(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


SEEDS = {
    "empty": file("{}"),
    "spaces": file(" \t\n{} \r"),
    "one": file({"a": info("F32", [2, 2], 0, 16)}, 16),
    "two": file({"a": info("F32", [2], 0, 8), "b": info("BF16", [3, 1], 8, 14)}, 14),
    "swapped": file({"b": info("U8", [3], 2, 5), "a": info("F16", [], 0, 2)}, 5),
    "zero": file({"a": info("I64", [0, 5], 0, 0), "b": info("BOOL", [1], 0, 1)}, 1),
    "packed": file({"a": info("F4", [4], 0, 2), "b": info("F6_E3M2", [8], 2, 8)}, 8),
    "metadata": file({"__metadata__": {"format": "pt", "ü": "\n\u0000"}, "a": info("C64", [1], 0, 8)}, 8),
    "null": file('{"__metadata__":null}'),
    "escapes": file('{"a\\u0000\\"\\\\":{"d\\u0074ype":"U8","shape":[1],"data_offsets":[0,1]}}', 1),
    "extra": file('{"a":{"x":[1,2.5e-3,{"y":null}],"dtype":"U8","shape":[1],"data_offsets":[0,1],"z":true}}', 1),
    "overlap": file({"a": info("U8", [2], 0, 2), "b": info("U8", [2], 1, 3)}, 3),
    "gap": file({"a": info("U8", [2], 1, 3)}, 3),
    "duplicate": file('{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'),
    "huge": file('{"a":{"dtype":"F64","shape":[9223372036854775807,2],"data_offsets":[0,18446744073709551615]}}'),
    "nested": file('{"a":{"x":' + "[" * 130 + "]" * 130 + "}}"),
    "dtypes": file({n: info(n, [0], 0, 0) for n in "BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ "
                    "F8_E5M2FNUZ I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64".split()}),
    "many": file({f"model.layers.{i}.weight": info("U8", [1], i, i + 1) for i in range(60)}, 60),
    "length": struct.pack("<Q", 1 << 40) + b"{}",
}

folder = pathlib.Path(sys.argv[1])
for name, data in SEEDS.items():
    (folder / name).write_bytes(struct.pack("<Q", len(data)) + data)
