"""Fixtures: files that are written without htensor."""

import json
import pathlib
import struct

import numpy as np
import pytest

CORPUS = pathlib.Path(__file__).resolve().parents[3] / "shared" / "corpus"
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64, "I32": np.int32,
          "I16": np.int16, "I8": np.int8, "U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64,
          "BOOL": np.bool_, "C64": np.complex64, "F8_E4M3": np.uint8, "F8_E5M2": np.uint8}  # fmt: skip


def safetensors_bytes(tensors, metadata=None, pad=True):
    """The file of {name: (dtype, shape, bytes)}."""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    if pad:
        text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def random_array(random, dtype, shape):
    if dtype == "BOOL":
        return random.integers(0, 2, shape).astype(np.bool_)
    kind = np.dtype(DTYPES[dtype])
    if kind.kind == "c":
        return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(kind)
    if kind.kind == "f":
        return np.asarray(random.normal(size=shape)).astype(kind)
    limits = np.iinfo(kind)
    return np.asarray(random.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True))


@pytest.fixture
def corpus():
    if not CORPUS.is_dir():
        pytest.skip(f"{CORPUS} does not exist")
    return CORPUS


@pytest.fixture
def arrays():
    random = np.random.default_rng(7)
    return {
        "blk.0.weight": random_array(random, "F32", (6, 8)),
        "blk.0.bias": random_array(random, "F32", (6,)),
        "ids": random_array(random, "I64", (3, 2)),
        "half": random_array(random, "F16", (4, 4)),
        "scalar": np.float32(2.5),
    }


NAMES = {np.dtype("float32"): "F32", np.dtype("int64"): "I64", np.dtype("float16"): "F16"}


@pytest.fixture
def path(tmp_path, arrays):
    file = tmp_path / "model.safetensors"
    tensors = {name: (NAMES[a.dtype], a.shape, a.tobytes()) for name, a in arrays.items()}
    file.write_bytes(safetensors_bytes(tensors, {"format": "pt", "note": "é"}))
    return file


@pytest.fixture
def big(tmp_path):
    """One tensor of 1 GiB of zeros, in a sparse file."""
    size = 1 << 30
    file = tmp_path / "big.safetensors"
    text = json.dumps({"w": {"dtype": "F32", "shape": [size // 4096, 1024], "data_offsets": [0, size]}}).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + size)
    return file
