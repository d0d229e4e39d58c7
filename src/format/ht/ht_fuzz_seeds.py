#!/usr/bin/env python3
"""Seeds for ht_fuzz: eight bytes of a claimed file size, then a .ht file. Usage: ht_fuzz_seeds.py FOLDER"""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))
from crc64nvme import crc64nvme  # noqa: E402


def ht(tag, dims, data_bytes, offset=128, flags=0, payload=0):
    padded = dims + [0] * (8 - len(dims))
    head = struct.pack("<8sHBBIQQ8QQQQ", b"HTENSOR\0", 1, tag, len(dims), flags, offset, data_bytes, *padded, payload, 0, 0)
    return head + struct.pack("<Q", crc64nvme(head)) + bytes(offset - 128) + bytes(min(data_bytes, 64))


SEEDS = {
    "scalar": ht(14, [], 4),
    "matrix": ht(13, [3, 5], 30),
    "empty": ht(14, [4, 0], 0),
    "packed": ht(17, [3], 2),
    "rank8": ht(5, [1, 2, 1, 2, 1, 2, 1, 2], 16),
    "checksum": ht(5, [8], 8, flags=1, payload=crc64nvme(bytes(8))),
    "offset": ht(5, [8], 8, offset=192),
    "large": ht(14, [1 << 19, 1 << 19], 1 << 40),
}

folder = pathlib.Path(sys.argv[1])
for name, data in SEEDS.items():
    (folder / name).write_bytes(struct.pack("<Q", len(data)) + data)
