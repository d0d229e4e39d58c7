"""Indexing equals numpy for every stored layout: element widths, byte orders, orders of dimensions, splats, blocks."""

import random
import struct

import numpy as np
import pytest
from conftest import random_array, random_index, safetensors_bytes, splat_irpa

import htensor
from htensor.safetensors import SafetensorError, safe_open
from htensor.safetensors.numpy import save_file

SEED = 20261120
SHAPES = [(), (7,), (5, 6), (3, 1, 8), (2, 3, 4, 5), (4, 0, 3)]


def compare(tensor, array, seed, count=120):
    """Random indices of the tensor equal those of the array, or raise IndexError for both. Returns the numbers of
    refused and of accepted indices."""
    choose = random.Random(f"{SEED}{seed}")
    refused = accepted = 0
    assert tensor.shape == array.shape
    indices = [random_index(choose, array.shape, bad=choose.random() < 0.3) for _ in range(count)]
    # The first integers out of range of each dimension, counted from either side.
    for dim, extent in enumerate(array.shape):
        for number in (extent, -extent - 1):
            indices.append((slice(None),) * dim + (number,))
            indices.append((..., number) + (slice(None),) * (array.ndim - dim - 1))
    for index in indices:
        try:
            expected = array[index]
        except IndexError as error:
            refused += 1
            with pytest.raises(IndexError) as caught:
                tensor[index]
            assert "out of bounds" in str(error) and "out of bounds" in str(caught.value), index
            continue
        accepted += 1
        found = tensor[index]
        assert found.shape == expected.shape and found.dtype == expected.dtype, index
        assert found.tobytes() == np.ascontiguousarray(expected).tobytes(), index
    return refused, accepted


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["F16", "BF16", "F8_E4M3", "F8_E5M2", "I8", "U16", "F32", "C64"])
def test_dense_dtypes_are_indexed_as_in_numpy(dtype, shape):
    array = random_array(np.random.default_rng(SEED), dtype, shape)
    model = htensor.from_bytes(safetensors_bytes({"pad": ("U8", (3,), b"abc"), "a": (dtype, shape, array.tobytes())}))
    refused, accepted = compare(model["a"], array, f"{dtype}{shape}")
    assert accepted > 20 and refused >= 4 * len(shape)


@pytest.mark.parametrize("dtype", ["I4", "U4", "F4", "F6_E2M3", "F6_E3M2"])
@pytest.mark.parametrize("shape", [(8,), (5, 8), (3, 2, 4), (3, 7, 4)])
def test_packed_dtypes_are_indexed_as_in_numpy(dtype, shape):
    bits = 6 if dtype.startswith("F6") else 4
    codes = np.random.default_rng(SEED).integers(0, 1 << bits, shape, dtype=np.uint8)
    packed = np.packbits(np.unpackbits(codes.reshape(-1, 1), axis=1, count=bits, bitorder="little").reshape(-1), bitorder="little")
    format = "irpa" if dtype in ("I4", "U4") else "safetensors"
    tensor = htensor.from_bytes(htensor.to_bytes({"a": htensor.Raw(dtype, shape, packed.tobytes())}, format=format))["a"]
    expected = tensor.numpy()
    if expected.dtype == np.uint8:
        assert np.array_equal(expected, codes)
    compare(tensor, expected, f"{dtype}{shape}", count=300)


GGUF_TYPES = {"f4": 0, "f2": 1, "i1": 24, "i2": 25, "i4": 26, "i8": 27, "f8": 28}


def gguf_bytes(array, order):
    """A GGUF of version 3 with one tensor "a", in a byte order: "<" or ">"."""
    text = lambda words: struct.pack(order + "Q", len(words)) + words  # noqa: E731
    header = b"GGUF" + struct.pack(order + "IQQ", 3, 1, 1)
    header += text(b"general.architecture") + struct.pack(order + "I", 8) + text(b"x")
    header += text(b"a") + struct.pack(order + "I", array.ndim)
    header += struct.pack(f"{order}{array.ndim}Q", *array.shape[::-1])
    header += struct.pack(order + "IQ", GGUF_TYPES[array.dtype.str[1:]], 0)
    data = array.astype(array.dtype.newbyteorder(order)).tobytes()
    return header + b"\0" * (-len(header) % 32) + data + b"\0" * (-len(data) % 32)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", GGUF_TYPES)
def test_gguf_of_either_byte_order_is_indexed_as_in_numpy(kind, order):
    for shape in [(7,), (5, 6), (2, 3, 4, 5)]:
        array = (np.random.default_rng(SEED).normal(size=shape) * 50).astype(kind)
        tensor = htensor.from_bytes(gguf_bytes(array, order))["a"]
        assert tensor.dtype == np.dtype(order + kind) and np.array_equal(tensor.numpy(), array)
        # A new array has the native byte order.
        compare(tensor, array, f"{kind}{order}{shape}")


@pytest.mark.parametrize("kind", ["<f4", ">f4", ">i2", "<f2", "|u1", "<c8", ">f8", "|b1"])
@pytest.mark.parametrize("shape", [(6,), (5, 6), (3, 4, 5), (2, 3, 2, 4)])
def test_npy_in_column_major_order_is_indexed_as_in_numpy(tmp_path, kind, shape):
    values = np.random.default_rng(SEED).integers(0, 100, shape)
    array = np.asfortranarray(values % 2 if kind == "|b1" else values).astype(kind, order="F")
    np.save(tmp_path / "a.npy", array)
    tensor = htensor.open(tmp_path / "a.npy")["a"]
    assert tensor.strides == array.strides
    compare(tensor, array.astype(array.dtype.newbyteorder("=")), f"{kind}{shape}")


@pytest.mark.parametrize("dtype, value", [("float32", 1.5), ("uint8", 7), ("int64", -3), ("float16", 0.25), ("complex64", 1j)])
@pytest.mark.parametrize("shape", [(), (300,), (20, 30), (4, 5, 60)])
def test_splats_are_indexed_as_in_numpy(dtype, value, shape):
    array = np.full(shape, value, dtype)
    tensor = htensor.from_bytes(splat_irpa(array, dtype))["a"]
    assert tensor.offset is None and tensor.dtype == array.dtype and np.array_equal(tensor.numpy(), array)
    compare(tensor, array, f"{dtype}{shape}")


@pytest.mark.parametrize("encoding", ["Q4_K", "Q6_K", "Q8_0", "Q4_0", "Q5_1"])
def test_block_encodings_are_decoded_before_indexing(encoding):
    """Blocks are decoded to float32: an index gives the elements of the decoded tensor."""
    for shape in [(512,), (3, 256), (2, 3, 768)]:
        values = np.random.default_rng(SEED).normal(size=shape).astype(np.float32)
        data = htensor.to_bytes({"w": values}, {"general.architecture": "x"}, format="gguf", quantize={"w": encoding}, round=True)
        tensor = htensor.from_bytes(data)["w"]
        assert tensor.type == encoding
        decoded = tensor.to("float32")
        assert np.abs(decoded - values).max() < 0.6
        compare(tensor, decoded, f"{encoding}{shape}")


def test_integers_out_of_range_name_axis_and_size(path):
    tensor = htensor.open(path)["blk.0.weight"]
    for index, words in [
        (6, "index 6 is out of bounds for axis 0 with size 6"), (-7, "index -7 is out of bounds for axis 0 with size 6"),
        ((0, 8), "index 8 is out of bounds for axis 1 with size 8"), ((..., 8), "index 8 is out of bounds for axis 1 with size 8"),
        ((..., -7, 0), "index -7 is out of bounds for axis 0 with size 6"), ((None, 6), "index 6 is out of bounds for axis 0 with size 6"),
        (2**70, "out of bounds"), (-(2**70), "out of bounds"), ((..., 2**63), "out of bounds"),
    ]:  # fmt: skip
        with pytest.raises(IndexError) as caught:
            tensor[index]
        assert words in str(caught.value), index
        with pytest.raises(IndexError) as caught:
            tensor.to("float64", index=index)
        assert words in str(caught.value), index


# The drop-in. The reference adds the size of the dimension to a negative integer, and refuses it if it is still
# negative; slices of the reference have no negative bounds, and htensor.safetensors accepts them for numpy.


@pytest.fixture
def part(tmp_path):
    array = np.arange(2 * 3 * 4, dtype=np.int16).reshape(2, 3, 4)
    save_file({"a": array}, tmp_path / "m")
    return lambda framework, backend: safe_open(tmp_path / "m", framework, backend=backend).get_slice("a"), array


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_negative_integers_count_from_the_end_in_the_drop_in(part, backend):
    open_part, array = part
    found = open_part("np", backend)
    for index in [-1, -2, (-1, -3), (0, -1, -4), (slice(None), -1), (..., -1), (-2, ..., -4), (slice(0, 1), -2, ...)]:
        assert np.array_equal(found[index], array[index]) and found[index].shape == np.shape(array[index]), index
    for dim, size in enumerate(array.shape):
        index = (slice(None),) * dim + (-size - 1,)
        with pytest.raises(SafetensorError) as caught:
            found[index]
        assert str(caught.value) == f"Invalid index {-size - 1} for dimension {dim} of size {size}"
        assert caught.value.code == "out_of_bounds"


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_negative_bounds_of_slices_count_from_the_end_in_the_drop_in(part, backend):
    open_part, array = part
    found = open_part("np", backend)
    for index in [slice(-1, None), slice(None, -1), (0, slice(-3, -1)), (..., slice(-2, None)), (slice(-2, -1), -1, slice(-4, None, 2))]:
        assert np.array_equal(found[index], array[index]), index
    with pytest.raises(SafetensorError, match="Invalid index -5 for dimension 2 of size 4"):
        found[..., -5:]


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_negative_integers_count_from_the_end_in_the_drop_in_for_torch(part, backend):
    pytest.importorskip("torch", reason="torch is not installed")
    open_part, array = part
    found = open_part("pt", backend)
    for index in [-1, (-1, -3), (slice(None), -1), (..., -1), (-2, ..., -4)]:
        assert np.array_equal(found[index].numpy(), array[index]), index
    with pytest.raises((SafetensorError, IndexError)):
        found[-3]
