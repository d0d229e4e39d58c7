"""Properties and values of tensors, and their exchange with numpy and torch."""

import contextlib
import gc
import importlib.util
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from conftest import DTYPES, random_array, safetensors_bytes

import htensor

torch = pytest.importorskip("torch") if importlib.util.find_spec("torch") else None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")


def bf16_values(bits):
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


@pytest.fixture(scope="module")
def every():
    """A model with each dtype, and its arrays."""
    random = np.random.default_rng(3)
    arrays = {dtype: random_array(random, dtype, (4, 6)) for dtype in DTYPES}
    data = safetensors_bytes({dtype: (dtype, a.shape, a.tobytes()) for dtype, a in arrays.items()})
    return htensor.from_bytes(data), arrays


@pytest.mark.parametrize("dtype", DTYPES)
def test_properties_equal_those_of_numpy(every, dtype):
    model, arrays = every
    tensor, array = model[dtype], arrays[dtype]
    assert tensor.name == tensor.type == dtype
    assert tensor.dtype == array.dtype
    assert tensor.shape == array.shape and tensor.strides == array.strides
    assert tensor.nbytes == array.nbytes and tensor.ndim == 2 and tensor.size == 24 and len(tensor) == 4
    assert repr(tensor) == f"<htensor.Tensor '{dtype}' {dtype} [4, 6]>"
    assert tensor.tobytes() == bytes(tensor.data) == array.tobytes()
    assert tensor.note == ""


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_is_in_place_and_read_only(every, dtype):
    model, arrays = every
    array = model[dtype].numpy()
    assert array.tobytes() == arrays[dtype].tobytes() and array.dtype == arrays[dtype].dtype
    assert array.shape == (4, 6) and not array.flags.writeable and not array.flags.owndata
    assert array.ctypes.data == model[dtype].numpy().ctypes.data
    with pytest.raises(ValueError):
        array[0, 0] = 0
    with pytest.raises(ValueError):
        array.flags.writeable = True


@pytest.mark.parametrize("dtype", DTYPES)
def test_asarray_and_interface_are_in_place(every, dtype):
    model, arrays = every
    array = np.asarray(model[dtype])
    assert array.tobytes() == arrays[dtype].tobytes() and not array.flags.writeable
    assert array.ctypes.data == model[dtype].numpy().ctypes.data
    if dtype in ("BF16", "F8_E4M3", "F8_E5M2"):
        assert not hasattr(model[dtype], "__array_interface__")
    else:
        assert model[dtype].__array_interface__["data"] == (array.ctypes.data, True)


def test_asarray_converts_values(every):
    model, arrays = every
    assert np.array_equal(np.asarray(model["I32"], np.float64), arrays["I32"].astype(np.float64))
    # The values of BF16, not its bits.
    expected = bf16_values(arrays["BF16"])
    assert np.array_equal(np.asarray(model["BF16"], np.float32), expected, equal_nan=True)
    assert np.array_equal(np.asarray(model["BF16"], np.float64), expected.astype(np.float64), equal_nan=True)
    with pytest.raises(ValueError):
        model["BF16"].__array__(np.float32, copy=False)
    copy = model["F32"].__array__(copy=True)
    assert copy.flags.writeable and copy.flags.owndata


def test_arithmetic_of_numpy_takes_a_tensor(every):
    model, arrays = every
    assert np.array_equal(np.add(model["I32"], 1), arrays["I32"] + 1)


def test_misaligned_tensors_are_read(tmp_path):
    array = np.arange(6, dtype=np.float64)
    data = safetensors_bytes({"one": ("U8", (1,), b"x"), "a": ("F64", (6,), array.tobytes())}, pad=False)
    tensor = htensor.from_bytes(data)["a"]
    assert np.array_equal(tensor.numpy(), array) and np.array_equal(tensor[::2], array[::2])
    assert np.array_equal(np.from_dlpack(tensor), array)
    if torch:
        assert np.array_equal(tensor.torch().numpy(), array)


def test_scalar_and_empty_tensors_are_read():
    model = htensor.from_bytes(safetensors_bytes({"s": ("F32", (), np.float32(2.5).tobytes()), "e": ("F32", (0, 3), b"")}))
    assert model["s"].numpy() == 2.5 and model["s"].numpy().shape == () and model["s"][()] == 2.5
    assert model["s"].to("float64") == 2.5 and model["s"].strides == ()
    assert model["e"].numpy().shape == (0, 3) and model["e"][:, 1].shape == (0,) and model["e"].to("float32").size == 0
    assert model["e"].stats().count == 0
    with pytest.raises(TypeError):
        len(model["s"])
    with pytest.raises(TypeError):
        bool(model["s"])
    assert list(model["e"]) == []


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">i2", "<c8", "|b1"])
def test_npy_of_either_order_is_in_place(tmp_path, dtype, order):
    array = np.asarray(np.arange(12).reshape(3, 4) % 5, dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    tensor = htensor.open(tmp_path / "a.npy")["a"]
    found = tensor.numpy()
    assert np.array_equal(found, array) and found.dtype == array.dtype and not found.flags.owndata
    assert tensor.strides == array.strides
    assert np.array_equal(tensor[1:, ::-1], array[1:, ::-1])
    assert np.array_equal(np.asarray(tensor), array)
    if torch:
        assert np.array_equal(tensor.torch().numpy(), array)


def test_to_keeps_values(every):
    model, arrays = every
    assert np.array_equal(model["F16"].to("float32"), arrays["F16"].astype(np.float32))
    assert np.array_equal(model["BF16"].to("float32"), bf16_values(arrays["BF16"]), equal_nan=True)
    for name in ("float64", "F64", np.float64, np.dtype(np.float64), float):
        assert np.array_equal(model["I32"].to(name), arrays["I32"].astype(np.float64))
    if torch:
        assert np.array_equal(model["I32"].to(torch.float64), arrays["I32"].astype(np.float64))
    array = model["F32"].to()
    assert array.flags.writeable and array.flags.owndata and np.array_equal(array, arrays["F32"])


def test_to_rounds_on_request(every):
    model, arrays = every
    with pytest.raises(htensor.Error) as caught:
        model["F32"].to("float16")
    assert caught.value.code == "would_lose" and "round=True" in caught.value.hint
    assert np.array_equal(model["F32"].to("float16", round=True), arrays["F32"].astype(np.float16))
    bits = arrays["F32"].view(np.uint32)
    nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    assert np.array_equal(model["F32"].to("bfloat16", round="nearest_even").view(np.uint16), nearest)
    assert np.array_equal(model["F32"].to("BF16", round="toward_zero").view(np.uint16), (bits >> 16).astype(np.uint16))
    one = model["F32"].to("bfloat16", round="stochastic", seed=1)
    assert np.array_equal(one, model["F32"].to("bfloat16", round="stochastic", seed=1))
    with pytest.raises(ValueError):
        model["F32"].to("float16", round="up")
    for dtype in ("float128", object, 5):
        with pytest.raises(TypeError):
            model["F32"].to(dtype)


def test_block_encodings_are_decoded(tmp_path):
    random = np.random.default_rng(1)
    blocks = b""
    expected = []
    for _ in range(4 * 2):  # Q8_0: an F16 scale and 32 signed bytes
        scale, values = np.float16(random.uniform(0.5, 2)), random.integers(-127, 128, 32).astype(np.int8)
        blocks += scale.tobytes() + values.tobytes()
        expected.append(np.float32(scale) * values.astype(np.float32))
    expected = np.concatenate(expected).reshape(4, 64)
    htensor.save(tmp_path / "q.gguf", {"w": htensor.Raw("Q8_0", (4, 64), blocks)}, {"general.architecture": "x"})
    tensor = htensor.open(tmp_path / "q.gguf")["w"]
    assert tensor.type == "Q8_0" and tensor.shape == (4, 64) and tensor.strides is None and tensor.nbytes == len(blocks)
    assert tensor.numpy().shape == (4, 68) and tensor.numpy().dtype == np.uint8 and tensor.numpy().tobytes() == blocks
    assert np.array_equal(tensor.to("float32"), expected)
    assert np.array_equal(tensor[1:3, 5:40:3], expected[1:3, 5:40:3])
    assert np.array_equal(np.asarray(tensor, np.float32), expected)
    with pytest.raises(BufferError):
        tensor.__dlpack__()
    if torch:
        assert tensor.torch().shape == (4, 68)


PACKED = {"I4": 4, "U4": 4, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


@pytest.mark.parametrize("dtype", PACKED)
def test_packed_dtypes_are_unpacked(dtype):
    codes = np.random.default_rng(2).integers(0, 2 ** PACKED[dtype], (4, 8)).astype(np.uint8)
    bits = np.unpackbits(codes.reshape(-1, 1), axis=1, count=PACKED[dtype], bitorder="little")
    packed = np.packbits(bits.reshape(-1), bitorder="little").tobytes()
    # safetensors has no 4-bit integers.
    format = "irpa" if dtype in ("I4", "U4") else "safetensors"
    model = htensor.from_bytes(htensor.to_bytes({"w": htensor.Raw(dtype, codes.shape, packed)}, format=format))
    tensor = model["w"]
    assert tensor.type == dtype and tensor.nbytes == len(packed) and tensor.strides is None
    assert np.array_equal(tensor.numpy(), codes) and not tensor.numpy().flags.writeable
    assert np.array_equal(tensor[1:, ::3], codes[1:, ::3])
    assert bytes(tensor.data) == packed
    if torch:
        assert np.array_equal(tensor.torch().numpy(), codes)


def test_ml_dtypes_are_used_where_installed(tmp_path):
    """Uses a stand-in for ml_dtypes, because Debian does not package it."""
    (tmp_path / "ml_dtypes.py").write_text(
        "import numpy as np\nbfloat16 = np.dtype([('bfloat16', 'u2')])\nint4 = np.dtype([('int4', 'i1')])\n"
    )
    program = """
        import numpy as np, htensor
        model = htensor.from_bytes(htensor.to_bytes({"w": htensor.Raw("BF16", (2,), b"abcd")}))
        assert model["w"].dtype.names == ("bfloat16",), model["w"].dtype
        assert model["w"].numpy().dtype.names == ("bfloat16",)
        assert model["w"][1:].tobytes() == b"cd"
        assert np.asarray(model["w"]).dtype.names == ("bfloat16",)
        packed = htensor.from_bytes(htensor.to_bytes({"w": htensor.Raw("I4", (2,), b"\\xf1")}, format="irpa"))["w"]
        assert packed.numpy().view(np.int8).tolist() == [1, -1]
        # A type that this ml_dtypes lacks stays an unsigned integer.
        model = htensor.from_bytes(htensor.to_bytes({"w": htensor.Raw("F8_E4M3", (2,), b"ab")}))
        assert model["w"].dtype == np.uint8
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, cwd="/", env={"PYTHONPATH": str(tmp_path)})


def test_splats_are_arrays(corpus):
    model = htensor.open(corpus / "irpa" / "iree" / "mixed.irpa")
    splats = [t for t in model.values() if t.offset is None]
    assert splats and all(t.file is None for t in splats)
    for tensor in splats:
        array = tensor.numpy()
        assert array.tobytes() == tensor.tobytes() and len(tensor.tobytes()) == tensor.nbytes
        assert not array.flags.writeable
        if tensor.type:
            assert np.array_equal(tensor[...], array)
            if torch:
                assert tensor.torch().numpy().tobytes() == array.tobytes()


def test_tensors_of_unknown_type_are_bytes(corpus):
    model = htensor.open(corpus / "irpa" / "iree" / "single.irpa")
    for tensor in model.values():
        assert tensor.type == "" and tensor.shape == (tensor.nbytes,) and tensor.dtype == np.uint8
        assert tensor.numpy().tobytes() == tensor.tobytes()
        assert tensor[1:3].tobytes() == tensor.tobytes()[1:3]
        assert "unknown" in repr(tensor)


def test_stats_equal_those_of_numpy(every):
    model, arrays = every
    array = arrays["F64"]
    stats = model["F64"].stats()
    assert stats.count == array.size and stats.nans == stats.infinities == 0
    assert stats.min == array.min() and stats.max == array.max()
    assert stats.argmin == array.argmin() and stats.argmax == array.argmax()
    assert stats.mean == pytest.approx(array.mean()) and stats.std == pytest.approx(array.std())
    assert stats.norm == pytest.approx(np.linalg.norm(array)) and stats.as_dict()["sum"] == pytest.approx(array.sum())
    with pytest.raises(htensor.Error):
        model["C64"].stats()


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name not in ("BF16", "F8_E4M3", "F8_E5M2", "BOOL")])
def test_numpy_imports_dlpack(every, dtype):
    model, arrays = every
    array = np.from_dlpack(model[dtype])
    assert np.array_equal(array, arrays[dtype])
    assert model[dtype].__dlpack_device__() == (1, 0)


def test_dlpack_honours_its_options(every):
    model, _ = every
    tensor = model["F32"]
    for options in ({"stream": 1}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError):
            tensor.__dlpack__(**options)
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(tensor.__dlpack__(copy=True))
    with pytest.raises(BufferError):
        model["F8_E4M3"].__dlpack__()
    assert "dltensor_versioned" in repr(model["F8_E4M3"].__dlpack__(max_version=(1, 1)))


def test_unused_capsules_delete_their_tensors(path):
    capsules = []
    for options in ({}, {"max_version": (1, 0)}, {"copy": True}, {"max_version": (1, 1), "copy": True}):
        capsules.append(htensor.open(path)["half"].__dlpack__(**options))
    gc.collect()
    assert str(path) in pathlib.Path("/proc/self/maps").read_text()
    del capsules
    gc.collect()
    assert str(path) not in pathlib.Path("/proc/self/maps").read_text()


@needs_torch
@pytest.mark.parametrize("dtype", [name for name in DTYPES if name not in ("U16", "U32", "U64")])
def test_torch_has_the_stored_elements(every, dtype):
    model, arrays = every
    tensor = model[dtype].torch()
    assert tuple(tensor.shape) == (4, 6)
    assert tensor.reshape(-1).view(torch.uint8).numpy().tobytes() == arrays[dtype].tobytes()
    if dtype == "BF16":
        assert tensor.dtype == torch.bfloat16


@needs_torch
def test_torch_lacks_wide_unsigned_integers(every):
    if hasattr(torch, "uint32"):
        pytest.skip("this torch has uint32")
    with pytest.raises(TypeError, match="uint32"):
        every[0]["U32"].torch()


@needs_torch
def test_writes_to_torch_do_not_change_the_file(path, arrays):
    before = path.read_bytes()
    model = htensor.open(path)
    tensor = model["blk.0.weight"].torch()
    tensor.zero_()
    from_dlpack = torch.from_dlpack(model["half"])
    from_dlpack.zero_()
    assert path.read_bytes() == before
    assert np.array_equal(model["blk.0.weight"].numpy(), arrays["blk.0.weight"])
    assert np.array_equal(model["half"][...], arrays["half"])
    model.close()
    assert not tensor.any() and not from_dlpack.any()


def test_tensor_verify_needs_a_seal(path):
    model = htensor.open(path)
    with pytest.raises(htensor.Error) as caught:
        model["ids"].verify()
    assert caught.value.code == "not_sealed"
    htensor.seal(path)
    htensor.open(path)["ids"].verify()


def test_dtype_is_that_of_the_array(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3, dtype=">f4"))
    tensor = htensor.open(tmp_path / "a.npy")["a"]
    assert tensor.dtype == tensor.numpy().dtype == np.dtype(">f4")


def test_to_reads_only_indexed_elements(path, arrays):
    tensor = htensor.open(path)["half"]
    assert np.array_equal(tensor.to("float64", index=np.s_[1:, ::2]), arrays["half"][1:, ::2].astype(np.float64))
    assert tensor.to("float32", index=(0, 0)).shape == ()


def test_digits_in_numpy_names_count_bytes(path):
    tensor = htensor.open(path)["ids"]
    assert tensor.to("i8").dtype == np.int64
    assert tensor.to("I8", round=True).dtype == np.int8


def test_steps_beyond_64_bits_are_clipped(path, arrays):
    tensor = htensor.open(path)["half"]
    assert np.array_equal(tensor[:, :: 2**70], arrays["half"][:, :: 2**70])
    assert np.array_equal(tensor[:: -(2**63)], arrays["half"][:: -(2**62)])


def test_dlpack_raises_buffer_error_for_blocks(tmp_path):
    data = htensor.to_bytes({"w": np.ones((1, 32), np.float32)}, {"general.architecture": "x"}, format="gguf", quantize={"*": "Q8_0"})
    tensor = htensor.from_bytes(data)["w"]
    for copy in (None, True, False):
        with pytest.raises(BufferError):
            tensor.__dlpack__(copy=copy)


def test_saves_read_only_memory_of_dlpack(tmp_path):
    class ReadOnly:
        """A producer that exports read-only memory, which only DLPack 1.0 and later support."""

        def __dlpack__(self, *, max_version=None):
            if max_version is None or max_version[0] < 1:
                raise BufferError("read-only memory needs version 1")
            return htensor.open(tmp_path / "a.safetensors")["w"].__dlpack__(max_version=max_version)

    htensor.save(tmp_path / "a.safetensors", {"w": np.arange(4, dtype=np.float32)})
    htensor.save(tmp_path / "b.safetensors", {"w": ReadOnly()})
    assert htensor.open(tmp_path / "b.safetensors")["w"].numpy().tolist() == [0, 1, 2, 3]


def test_copy_to_writes_row_major_little_endian_bytes(path, arrays):
    model = htensor.open(path)
    for name, array in arrays.items():
        memory = bytearray(array.nbytes)
        model[name].copy_to(memory)
        assert memory == array.tobytes()
        target = np.empty(array.shape, array.dtype)
        model[name].copy_to(target)
        assert target.tobytes() == array.tobytes()


def test_copy_to_needs_a_writable_buffer_of_the_size(path):
    tensor = htensor.open(path)["blk.0.bias"]
    with pytest.raises(ValueError, match="has 24 bytes, but its buffer has 23"):
        tensor.copy_to(bytearray(23))
    with pytest.raises(ValueError, match="not writable"):
        tensor.copy_to(bytes(24))
    with pytest.raises(ValueError, match="contiguous"):
        tensor.copy_to(np.empty(12, np.float32)[::2])


def test_copy_to_copies_more_than_one_part(tmp_path):
    values = np.arange((65 << 20) // 4, dtype=np.uint32)
    htensor.save(tmp_path / "m.safetensors", {"w": values})
    target = np.zeros_like(values)
    htensor.open(tmp_path / "m.safetensors")["w"].copy_to(target)
    assert np.array_equal(target, values)


class Stop(Exception):
    pass


@contextlib.contextmanager
def stop_after(seconds):
    """A signal handler raises Stop after this time."""
    def stop(number, frame):
        raise Stop

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        with pytest.raises(Stop) as caught:
            yield caught
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_copy_stops_on_a_signal(big):
    tensor = htensor.open(big)["w"]
    target = np.full(tensor.nbytes, 255, np.uint8)
    with stop_after(0.01):
        tensor.copy_to(target)
    # The handler ran before the copy was complete.
    assert target[-1] == 255


def test_verification_and_copies_for_dlpack_stop_on_a_signal(big):
    htensor.seal(big, algorithm="sha256")
    tensor = htensor.load(big, strategy="read")["w"]
    calls = [tensor.verify, lambda: tensor.__dlpack__(copy=True), lambda: tensor.__dlpack__(copy=True, max_version=(1, 0))]
    for call in calls:
        events = []

        def record(frame, event, function, events=events):
            if event.startswith("c_") and function.__name__ in ("verify", "_dlpack"):
                events.append(event)

        with stop_after(0.01):
            sys.setprofile(record)
            try:
                call()
            finally:
                sys.setprofile(None)
        # The native function raised. If it had ignored the signal, it would have returned before the handler ran.
        assert events == ["c_call", "c_exception"]


@pytest.mark.parametrize("shape", [(1,) * 33, (1,) * 64, (0, 2**62)])
def test_shapes_that_numpy_refuses_are_an_error(tmp_path, shape):
    path = tmp_path / "m.safetensors"
    data = bytes(4 * math.prod(shape))
    path.write_bytes(safetensors_bytes({"w": ("F32", shape, data)}))
    tensor = htensor.open(path)["w"]
    assert tensor.shape == shape and tensor.tobytes() == data
    for use in (tensor.numpy, lambda: tensor[...], lambda: tensor.to("float64"), lambda: np.asarray(tensor)):
        with pytest.raises(htensor.Error, match="which numpy refuses") as caught:
            use()
        error = caught.value
        assert (error.code, error.tensor, error.path) == ("bad_shape", "w", str(path)) and error.hint


def test_dlpack_keeps_errors_of_reading(tmp_path):
    path = tmp_path / "m.safetensors"
    htensor.save(path, {"w": np.ones(1 << 20, np.float32)})
    tensor = htensor.open(path)["w"]
    os.truncate(path, 4096)
    with pytest.raises(htensor.Error) as caught:
        tensor.__dlpack__(copy=True)
    assert caught.value.code in ("truncated", "changed_underfoot", "read_failed")


def test_dlpack_keeps_memory_errors(tmp_path):
    header = {"w": {"dtype": "U8", "shape": [2**46], "data_offsets": [0, 2**46]}}
    text = json.dumps(header).encode()
    path = tmp_path / "m.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        try:
            file.truncate(8 + len(text) + 2**46)
        except OSError:
            pytest.skip("the file system has no sparse files of 64 TiB")
    with pytest.raises(MemoryError):
        htensor.open(path, faults="off")["w"].__dlpack__(copy=True)


def test_equal_blocks_are_read_back_from_an_irpa(tmp_path):
    block = np.arange(34, dtype=np.uint8)
    raw = htensor.Raw("Q8_0", (3, 64), np.tile(block, 6).tobytes())
    tensor = htensor.from_bytes(htensor.to_bytes({"w": raw}, format="irpa"))["w"]
    assert tensor.numpy().shape == (3, 68) and tensor.numpy().tobytes() == raw.data
