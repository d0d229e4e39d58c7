#!/usr/bin/env python3
"""Seeds for irpa_fuzz: eight bytes of a claimed file size, then an archive. Usage: irpa_fuzz_seeds.py FOLDER"""

import pathlib
import struct
import sys

SKIP, SPLAT, DATA, EXTERNAL = range(4)
SIZES = {SKIP: 60, SPLAT: 85, DATA: 76, EXTERNAL: 92}


def up(number, alignment):
    return (number + alignment - 1) // alignment * alignment


def archive(entries, storage=0, following=0, tables=96, gap=0, count=None):
    """Entries are (kind, name, metadata, more): more is the pattern and length of a splat, the offset and
    length of data, or the path, offset and length of an external entry."""
    table, metadata = b"", b""
    for kind, name, entry_metadata, more in entries:
        table += bytes(up(len(table), 16) - len(table))
        refs = b""
        for text in (name, entry_metadata) + ((more[0],) if kind == EXTERNAL else ()):
            refs += struct.pack("<QQ", len(metadata), len(text))
            metadata += text
        table += struct.pack("<QIQ", SIZES[kind], kind, 0) + refs[:32] + struct.pack("<Q", 64 if kind == DATA else 0)
        if kind == SPLAT:
            table += struct.pack("<Q16sB", more[1], more[0], len(more[0]))
        elif kind == DATA:
            table += struct.pack("<QQ", *more)
        elif kind == EXTERNAL:
            table += refs[32:] + struct.pack("<QQ", *more[1:])
    at = tables + len(table) + gap
    begin = up(at + len(metadata), 64)
    head = struct.pack("<4sHHQQQQ", b"IRPA", 0, 0, 88, following, 0, len(entries) if count is None else count)
    head += struct.pack("<QQQQQQ", tables, len(table), at, len(metadata), begin, storage)
    return head + bytes(tables - 88) + table + bytes(gap) + metadata + bytes(begin + storage - at - len(metadata))


def tensor(dtype, shape, extra="", prefix="TENSORv0:"):
    return f'{prefix}{{"type": "Tensor", "dtype": "{dtype}", "shape": {shape}{extra}}}'.encode()


def linked(*archives):
    """Links each archive to the next one."""
    joined = b""
    for number, each in enumerate(archives):
        last = number + 1 == len(archives)
        joined += each[:16] + struct.pack("<Q", 0 if last else len(each)) + each[24:]
    return joined


def changed(data, at, form, number):
    return data[:at] + struct.pack(form, number) + data[at + struct.calcsize(form):]


MIXED = [
    (SPLAT, b"splat", b"", (b"\x66", 1)),
    (DATA, b"data", tensor("float32", [2, 2]), (0, 16)),
    (SKIP, b"skipped", b"", None),
    (EXTERNAL, b"there", tensor("int8", [7]), (b"w/x.bin", 5, 7)),
    (DATA, b"bytes", b"a note", (64, 5)),
]
DESC = ', "dtype_desc": {"class_name": "dtype", "is_complex": false, "itemsize": 1}'
Q4 = ', "encoding": "Q4_K", "logical_shape": [2, 256]'

METADATA = b"METADATAv0:" + struct.pack("<QQ1sIB", 2, 1, b"k", 0, 7) + struct.pack("<Q4sIIQB", 4, b"list", 9, 0, 1, 3)

SEEDS = {
    "empty": archive([]),
    "single": archive([(DATA, b"key0", b"", (0, 16))], 16),
    "multiple": archive([(DATA, b"key0", b"", (0, 16)), (DATA, b"key1", b"", (64, 5))], 69),
    "mixed": archive(MIXED, 69),
    "splats": archive([(SPLAT, b"s%d" % n, tensor("uint8", [48]), (bytes(range(n)), 48)) for n in (1, 2, 4, 8, 16)]),
    "splat_cut": archive([(SPLAT, b"s", b"", (b"0123456789abcdef", 17))]),
    "splat_huge": archive([(SPLAT, b"s", b"", (b"01", (1 << 64) - 1))]),
    "external": archive([(EXTERNAL, b"a%d" % n, b"", (path, n, n)) for n, path in enumerate([b"x", b"y", b"x"])]),
    "escapes": archive([(EXTERNAL, b"a", b"", (b"a/../../x", 0, 1))]),
    "linked": linked(archive(MIXED[:2], 69), archive(MIXED[2:4]), archive(MIXED[4:], 69)),
    "linked_twice": linked(archive(MIXED, 69), archive(MIXED, 69)),
    "tensorv0": archive([(DATA, b"t", tensor("bfloat16", [3, 5]), (0, 30))], 30),
    "pytorch": archive([(DATA, b"t", tensor("uint8", [4], DESC, "PYTORCH:"), (0, 4))], 4),
    "torch": archive([(DATA, b"t", tensor("torch.float16", [2]), (0, 4))], 4),
    "q4_k": archive([(DATA, b"t", tensor("uint8", [288], Q4), (0, 288))], 288),
    "mini": archive([(DATA, b"t", tensor("float6_e2m3fn", [3]), (0, 3)), (DATA, b"u", tensor("float4_e2m1fn", [3]), (0, 2))], 3),
    "complex128": archive([(DATA, b"t", tensor("complex128", []), (0, 16))], 16),
    "json_cut": archive([(DATA, b"t", tensor("float32", [1])[:-3], (0, 4))], 4),
    "shape_off": archive([(DATA, b"t", tensor("float32", [5]), (0, 4))], 4),
    "unnamed": archive([(DATA, b"", b"", (0, 1))], 1),
    "duplicate": archive([(DATA, b"a", b"", (0, 1)), (DATA, b"a", b"", (0, 1))], 1),
    "nothing_in_it": archive([(DATA, b"a", b"", ((1 << 64) - 1, 0))]),
    "metadata": archive([(DATA, b"a", b"", (0, 1)), (SKIP, b"htensor.metadata", METADATA, None)], 1),
    "far": archive(MIXED, 69, tables=5000, gap=6000),
    "many": archive([(DATA, b"layer.%d.weight" % n, tensor("float32", [4]), (64 * n, 16)) for n in range(40)], 64 * 40),
    "version": changed(archive(MIXED, 69), 6, "<H", 1),
    "count": changed(archive(MIXED, 69), 32, "<Q", 6),
    "entry_size": changed(archive(MIXED, 69), 96, "<Q", 84),
    "last_entry": changed(archive([(SKIP, b"a", b"", None)] * 2), 96, "<Q", 124),
    "kind": changed(archive(MIXED, 69), 104, "<I", 4),
    "wraps": changed(archive(MIXED, 69), 72, "<Q", (1 << 64) - 64),
    "truncated": archive(MIXED, 69)[:-30],
}

folder = pathlib.Path(sys.argv[1])
for name, data in SEEDS.items():
    (folder / name).write_bytes(struct.pack("<Q", len(data)) + data)
# The seed ends before the second header, which is 10 GiB from the start.
start = changed(archive(MIXED, 69), 16, "<Q", 10 << 30)
(folder / "far_header").write_bytes(struct.pack("<Q", 11 << 30) + start)
