"""Fixtures and helpers that tests share: files that are written without htensor, indices, mappings, calls."""

import json
import pathlib
import struct
import sys

import numpy as np
import pytest

CORPUS = pathlib.Path(__file__).resolve().parents[3] / "shared" / "corpus"
DTYPES = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "I64": np.int64, "I32": np.int32,
          "I16": np.int16, "I8": np.int8, "U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "U64": np.uint64,
          "BOOL": np.bool_, "C64": np.complex64, "F8_E4M3": np.uint8, "F8_E5M2": np.uint8}  # fmt: skip


def corpus_rows():
    """The rows of the table of the corpus as dicts: path, verdict, verdict_headers_only and others. Empty without the
    corpus."""
    if not CORPUS.is_dir():
        return []
    names, *rows = [line.split("\t") for line in (CORPUS / "expected.tsv").read_text().splitlines()]
    return [dict(zip(names, row)) for row in rows]


def file_of(header, data=b""):
    """A safetensors file with this header."""
    return struct.pack("<Q", len(header)) + header + data


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
    return file_of(text, b"".join(data for _, _, data in tensors.values()))


def splat_irpa(array, dtype):
    """An IRPA with one entry "a" that repeats the first element of the array. Its note has dtype and shape."""
    pattern = array.reshape(-1)[:1].tobytes()
    note = b"TENSORv0:" + json.dumps({"type": "Tensor", "dtype": dtype, "shape": array.shape}).encode()
    entry = struct.pack("<QIQ4QQ", 85, 1, 0, 0, 1, 1, len(note), 0)
    entry += struct.pack("<Q16sB", array.nbytes, pattern, len(pattern))
    header = struct.pack("<IHHQQQQ", 0x41505249, 0, 0, 88, 0, 0, 1)
    header += struct.pack("<6Q", 96, len(entry), 96 + len(entry), 1 + len(note), 512, 0)
    return (header + bytes(8) + entry + b"a" + note).ljust(512, b"\0")


def flip(path, offset):
    """Flips one bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def mappings_of(*paths):
    """The number of mappings of this process that belong to files of these paths, or to files in these folders."""
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return sum(any(str(path) in line for path in paths) for line in lines)


def calls_of(function):
    """The number of calls of Python and C functions that a function makes."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def random_index(choose, shape, bad=False):
    """Integers, slices, Ellipsis and None. Items after an Ellipsis index the last dimensions. With `bad`, an
    integer may be out of range."""
    used = choose.randint(0, len(shape))
    at = choose.randint(0, used) if choose.random() < 0.5 else None
    dims = list(range(used)) if at is None else [*range(at), *range(len(shape) - (used - at), len(shape))]
    items = []
    for dim in dims:
        extent = shape[dim]
        if (extent or bad) and choose.random() < 0.5:
            limit = extent + (2 if bad else 0)
            number = choose.randrange(-limit, limit) if limit else 0
            items.append(choose.choice([int, np.int64, np.int16])(number))
        else:
            bound = lambda: choose.choice([None, choose.randint(-extent - 3, extent + 3)])  # noqa: E731
            items.append(slice(bound(), bound(), choose.choice([None, 1, 2, 3, -1, -2, -5])))
    if at is not None:
        items.insert(at, Ellipsis)
    for _ in range(choose.choice([0, 0, 1])):
        items.insert(choose.randint(0, len(items)), None)
    return items[0] if len(items) == 1 and choose.random() < 0.5 else tuple(items)


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
        out.write(file_of(text))
        out.truncate(8 + len(text) + size)
    return file
