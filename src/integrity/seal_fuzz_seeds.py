#!/usr/bin/env python3
"""Seeds for seal_fuzz: seals of one and of two files, with valid checksums. Usage: seal_fuzz_seeds.py FOLDER"""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from crc64nvme import crc64nvme  # noqa: E402


def seal(files, tensors, chunks):
    names = b"".join(name for name, _ in files) + b"".join(name for name, *_ in tensors)
    body = b"".join(struct.pack("<QIIQ", size, len(name), 0, 7) for name, size in files)
    body += b"".join(struct.pack("<QQIIQ", offset, size, file, len(name), 9) for name, file, offset, size in tensors)
    body += struct.pack("<Q", 3) * chunks + names
    head = struct.pack("<8sHBBIQQQQQQ", b"HTSEAL\0\0", 1, 1, 0, len(files), len(tensors), chunks, 4 << 20, len(names),
                       64 + len(body) + 8, 0)
    return head + body + struct.pack(">Q", crc64nvme(head + body))


SEEDS = {
    "one": seal([(b"m.gguf", 100)], [(b"a", 0, 10, 20), (b"b", 0, 40, 60)], 4),
    "two": seal([(b"x", 9 << 20), (b"y/z", 5)], [(b"a", 0, 0, 9 << 20), (b"splat", 0xFFFFFFFF, 0, 8)], 4),
    "shared": seal([(b"x", 100)], [(b"a", 0, 10, 50), (b"b", 0, 10, 50), (b"c", 0, 30, 70), (b"e", 0, 5, 0)], 4),
}

if __name__ == "__main__":
    for name, data in SEEDS.items():
        pathlib.Path(sys.argv[1], name).write_bytes(data)
