#!/usr/bin/env python3
"""Seeds for npy_fuzz: eight bytes of a claimed file size, then a .npy file. Usage: npy_fuzz_seeds.py FOLDER"""

import pathlib
import struct
import sys


def npy(header, data=b"", version=1, padded=True):
    text = header.encode()
    preamble = 10 if version == 1 else 12
    if padded:
        text += b" " * (-(preamble + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def plain(descr, shape, data=b"", order=False, version=1):
    return npy(f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}", data, version)


SEEDS = {
    "scalar": plain("<f8", "()", bytes(8)),
    "vector": plain("<i4", "(3,)", bytes(12)),
    "matrix": plain("<f4", "(2, 3)", bytes(24)),
    "fortran": plain("<f4", "(2, 3)", bytes(24), order=True),
    "big_endian": plain(">u2", "(2, 2)", bytes(8)),
    "native": plain("=i8", "(1,)", bytes(8)),
    "bool": plain("|b1", "(5,)", bytes(5)),
    "complex": plain("<c8", "(1, 2)", bytes(16)),
    "half": plain("<f2", "(1, 0, 4)"),
    "version_2": plain("|u1", "(4,)", bytes(4), version=2),
    "version_3": plain("|i1", "(4,)", bytes(4), version=3),
    "other_order": npy('{"shape":(2,),"descr":"<u4","fortran_order":False}', bytes(8), padded=False),
    "python_2": plain("<f4", "(2L, 3L)", bytes(24)),
    "rank_64": plain("|u1", "(" + "1, " * 63 + "1)", b"\0"),
    "large": plain("<f4", "(1099511627776, 1048576)"),
    "objects": plain("|O", "(1,)", b"\x80\x04N."),
    "void": plain("<V2", "(2,)", bytes(4)),
    "records": npy("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,), }", bytes(8)),
    "two_arrays": plain("|u1", "(1,)", b"\1") + plain("|u1", "(1,)", b"\2"),
    "number_in_brackets": plain("<f4", "(3)", bytes(12)),
    "negative": plain("<f4", "(-1,)"),
    "long_header": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }" + " " * 700, bytes(4), version=2),
}

folder = pathlib.Path(sys.argv[1])
for name, data in SEEDS.items():
    (folder / name).write_bytes(struct.pack("<Q", len(data)) + data)
