#!/usr/bin/env python3
"""Seeds for sniff_fuzz: the first bytes of files of many kinds. Usage: … FOLDER"""

import pathlib
import struct
import sys
import zlib

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123456\n"
SEEDS = {
    "lfs": LFS,
    "html": b"<!DOCTYPE html><html><body>Sign in</body></html>",
    "xml": b'<?xml version="1.0"?><a/>',
    "json": b'{"architectures": ["LlamaForCausalLM"]}',
    "text": "Lösung: hello\n".encode(),
    "zip": b"PK\x03\x04" + bytes(22) + struct.pack("<HH", 16, 0) + b"archive/data.pkl",
    "npz": b"PK\x03\x04" + bytes(22) + struct.pack("<HH", 5, 0) + b"a.npy",
    "pickle": b"\x80\x02}q\x00.",
    "gzip": b"\x1f\x8b\x08" + bytes(7) + zlib.compress(b"x" * 50),
    "tar": b"./".ljust(257, b"\0") + b"ustar\x0000" + bytes(250),
    "zstd": b"\x28\xb5\x2f\xfd" + bytes(20),
    "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(40),
    "onnx": b"\x08\x07\x12\x07pytorch\x1a\x032.0:\x04\x0a\x02ab",
    "ggml": b"lmgg" + bytes(40),
    "elf": b"\x7fELF\x02\x01\x01" + bytes(40),
    "pe": b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + bytes(20),
    "zeros": bytes(600),
    "safetensors": struct.pack("<Q", 2) + b"{}",
    "gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(8),
    "irpa": b"IRPA" + bytes(100),
    "npy": b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n" + bytes(4),
}

folder = pathlib.Path(sys.argv[1])
for name, data in SEEDS.items():
    (folder / name).write_bytes(data)
