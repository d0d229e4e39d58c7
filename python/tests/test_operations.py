"""Functions on files and models."""

import array
import ctypes
import io
import os
import pickle
import signal
import sys
import threading

import numpy as np
import pytest
from conftest import flip, splat_irpa

import htensor

try:
    import torch
except ImportError:
    torch = None


def contents(path):
    return {name: np.array(t.numpy()) for name, t in htensor.open(path).items()}


def assert_equal(found, expected):
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert np.array_equal(found[name], array) and found[name].dtype == np.asarray(array).dtype, name


# Load.


@pytest.mark.parametrize("strategy", ["automatic", "mapped", "read"])
def test_load_returns_the_model(path, arrays, strategy):
    model = htensor.load(path, strategy=strategy, budget="1G", progress=None)
    assert_equal({name: t.numpy() for name, t in model.items()}, arrays)


def test_a_model_loaded_with_the_strategy_read_does_not_depend_on_its_file(path, arrays):
    model = htensor.load(path, strategy="read")
    os.truncate(path, 0)
    assert np.array_equal(model["ids"].numpy(), arrays["ids"])
    assert htensor.residency(model)["ids"].state == "resident"


def test_load_of_a_model_returns_a_report(path):
    model = htensor.open(path)
    calls = []
    report = model.load(strategy="read", include="blk.*", exclude=["*bias"], progress=lambda d, t: calls.append((d, t)))
    assert report.strategy == "read" and report.requested_bytes == 192 and report.bytes == 192 and report.reason
    assert calls and calls[-1] == (192, 192)
    assert report.as_dict()["bytes"] == 192
    with pytest.raises(htensor.Error) as caught:
        model.load(include="nothing*")
    assert caught.value.code == "not_found"
    with pytest.raises(htensor.Error) as caught:
        model.load(strategy="read", budget=10)
    assert caught.value.code == "budget_too_small"


def test_load_verifies(path):
    with pytest.raises(htensor.Error) as caught:
        htensor.load(path, verify=True)
    assert caught.value.code == "not_sealed"
    htensor.seal(path)
    assert htensor.open(path).load(verify=True, strategy="read").verified_bytes > 0
    flip(path, -1)
    with pytest.raises(htensor.Error) as caught:
        htensor.load(path, verify=True, strategy="read")
    assert caught.value.code == "checksum_mismatch"


def test_load_into_fills_buffers(path, arrays):
    model = htensor.open(path)
    targets = {name: np.empty(a.shape, a.dtype) for name, a in arrays.items() if name != "half"}
    report = model.load_into(targets)
    assert report.bytes == sum(a.nbytes for a in targets.values())
    for name, array in targets.items():
        assert np.array_equal(array, arrays[name])
    with pytest.raises(ValueError, match="48"):
        model.load_into({"ids": bytearray(3)})
    with pytest.raises(KeyError):
        model.load_into({"x": bytearray(3)})
    with pytest.raises((BufferError, TypeError)):
        model.load_into({"ids": bytes(48)})
    shared = bytearray(48)
    with pytest.raises(htensor.Error) as caught:
        model.load_into({"ids": shared, "blk.0.bias": memoryview(shared)[:24]})
    assert caught.value.code == "overlap"


def test_prefetch_and_evict_return_the_bytes_of_tensors(path):
    assert htensor.prefetch(path) == sum(t.nbytes for t in htensor.open(path).values())
    found = htensor.residency(path)
    assert list(found) == list(htensor.open(path)) and found["ids"].bytes == 48
    assert htensor.evict(path, include="ids") == 48
    model = htensor.open(path)
    assert htensor.residency(model)["ids"].state in ("unbound", "mapped")


# Integrity.


@pytest.mark.parametrize("algorithm", ["crc64nvme", "xxh3-128", "sha256"])
def test_sealed_model_is_intact(path, algorithm):
    seal = htensor.seal(path, algorithm=algorithm)
    assert seal.path == f"{path}.htseal" and seal.algorithm == algorithm and seal.bytes == path.stat().st_size
    assert htensor.read_seal(path) == htensor.read_seal(seal.path) == seal
    assert set(seal.tensors) == set(htensor.open(path)) and list(seal.files) == [path.name]
    found = htensor.verify(path)
    assert found and found.ok and found.verdict == "intact" and found.checked_bytes >= path.stat().st_size
    assert htensor.verify(path, quick=True).verdict == "headers_match"
    of_open_model = htensor.verify(htensor.open(path))
    assert of_open_model.ok and of_open_model.algorithm == "" and of_open_model.seal is None
    hashes = htensor.hash(path, algorithm=algorithm, per_tensor=True)
    assert hashes.digest == seal.digest and hashes.tensors == seal.tensors
    assert hashes.files == {str(path): seal.files[path.name]}
    assert htensor.hash(path, algorithm=algorithm).tensors is None


def test_damage_raises_and_names_the_tensor(path):
    htensor.seal(path)
    model = htensor.open(path)
    flip(path, model["ids"].offset + 3)
    with pytest.raises(htensor.Error) as caught:
        htensor.verify(path)
    error = caught.value
    assert error.code == "checksum_mismatch" and error.path == str(path)
    found = error.verification
    assert not found.ok and not found and found.bad[0].file == str(path)
    assert "ids" in [item.tensor for item in found.bad]
    assert htensor.verify(path, check=False) == found
    with pytest.raises(htensor.Error) as caught:
        htensor.verify(htensor.open(path))
    assert caught.value.code == "checksum_mismatch"
    with pytest.raises(htensor.Error) as caught:
        htensor.seal(path)
    assert caught.value.code == "checksum_mismatch"
    htensor.seal(path, force=True)
    assert htensor.verify(path)


def test_verify_reports_a_truncated_file(path):
    htensor.seal(path)
    os.truncate(path, path.stat().st_size - 5)
    assert htensor.verify(path, check=False).verdict == "truncated"
    with pytest.raises(htensor.Error) as caught:
        htensor.verify(path)
    assert caught.value.code == "truncated"


def test_validate_lists_the_problems_of_a_file(path, tmp_path):
    found = htensor.validate(path)
    assert found.readable and found.format == "safetensors" and not found.problems
    os.truncate(path, 100)
    found = htensor.validate(path)
    assert not found.readable and isinstance(found.problems[0], htensor.Error) and found.problems[0].hint
    with pytest.raises(FileNotFoundError):
        htensor.validate(tmp_path / "none")


# Save.


def test_saved_arrays_are_read_back(tmp_path):
    random = np.random.default_rng(5)
    arrays = {
        str(dtype): np.asarray(random.integers(0, 2, (3, 4))).astype(dtype)
        for dtype in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
                      "float64", "complex64")
    }  # fmt: skip
    arrays |= {
        "fortran": np.asfortranarray(random.normal(size=(3, 4))),
        "reversed": random.normal(size=(6, 4))[::-2, 1:],
        "big_endian": np.arange(4, dtype=">i4"),
        "scalar": np.float32(3),
        "empty": np.zeros((0, 2), np.int8),
    }
    report = htensor.save(tmp_path / "m.safetensors", arrays, {"a": "b"})
    assert report.path == str(tmp_path / "m.safetensors") == report.files[0]
    assert report.bytes == report.file_bytes[0] == (tmp_path / "m.safetensors").stat().st_size
    model = htensor.open(tmp_path / "m.safetensors")
    assert set(model) == set(arrays) and model.metadata == {"a": "b"}
    for name, array in arrays.items():
        assert np.array_equal(model[name].numpy(), array), name
        assert model[name].shape == np.shape(array)
    assert htensor.from_bytes(htensor.to_bytes(arrays, {"a": "b"}))["fortran"].shape == (3, 4)
    assert htensor.to_bytes(arrays, {"a": "b"}) == (tmp_path / "m.safetensors").read_bytes()


def test_lists_and_raw_bytes_are_saved(tmp_path):
    htensor.save(tmp_path / "m.safetensors", {"list": [[1.5, 2.0]], "raw": htensor.Raw("BF16", [2], b"\x80\x3f\0\0")})
    model = htensor.open(tmp_path / "m.safetensors")
    assert model["list"].numpy().tolist() == [[1.5, 2.0]] and model["raw"].to("float32").tolist() == [1, 0]
    assert repr(htensor.Raw("U8", (1,), b"a")) == "Raw('U8', (1,), …)"


def test_tensors_of_models_are_saved(path, tmp_path, arrays):
    model = htensor.open(path)
    htensor.save(tmp_path / "two.safetensors", {f"x.{name}": tensor for name, tensor in model.items()})
    assert_equal(dict(sorted(contents(tmp_path / "two.safetensors").items())), {f"x.{n}": a for n, a in sorted(arrays.items())})
    # A model may replace its own file.
    htensor.save(path, model, model.metadata, force=True)
    assert np.array_equal(htensor.open(path)["ids"].numpy(), arrays["ids"])


@pytest.mark.skipif(torch is None, reason="torch is not installed")
def test_torch_tensors_are_saved(tmp_path):
    tensors = {
        "bf16": torch.arange(6).reshape(2, 3).to(torch.bfloat16),
        "grad": torch.ones(3, requires_grad=True),
        "strided": torch.arange(6.0).reshape(2, 3).t(),
        "bool": torch.tensor([True, False]),
        "scalar": torch.tensor(5),
        "conj": torch.tensor([1 + 2j], dtype=torch.complex64).conj(),
    }
    htensor.save(tmp_path / "m.safetensors", tensors)
    model = htensor.open(tmp_path / "m.safetensors")
    for name, tensor in tensors.items():
        assert torch.equal(model[name].torch(), tensor.detach().resolve_conj()), name
    with pytest.raises(TypeError, match="sparse"):
        htensor.save(tmp_path / "x.safetensors", {"a": torch.eye(2).to_sparse()})


def test_objects_with_dlpack_are_saved(tmp_path):
    class Other:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__()

    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    htensor.save(tmp_path / "m.safetensors", {"a": Other(array), "t": Other(array.T)})
    model = htensor.open(tmp_path / "m.safetensors")
    assert np.array_equal(model["a"].numpy(), array) and np.array_equal(model["t"].numpy(), array.T)


@pytest.mark.parametrize("value", ["text", b"bytes", None, {}, np.array(["a"]), np.zeros(2, np.complex128), object()])
def test_other_values_are_refused(tmp_path, value):
    with pytest.raises(TypeError):
        htensor.save(tmp_path / "m.safetensors", {"a": value})
    assert os.listdir(tmp_path) == []


def test_save_refuses_wrong_sizes_and_losses(tmp_path):
    with pytest.raises(htensor.Error) as caught:
        htensor.save(tmp_path / "m.safetensors", {"a": htensor.Raw("F32", (3,), b"1234")})
    assert caught.value.code == "size_mismatch"
    with pytest.raises(htensor.Error) as caught:
        htensor.save(tmp_path / "m.safetensors", {"a": [1.0]}, {"number": 5})
    assert caught.value.code == "would_lose"
    with pytest.raises(TypeError):
        htensor.save(tmp_path / "m.safetensors", {5: [1.0]})
    with pytest.raises(TypeError):
        htensor.save(tmp_path / "m.safetensors", {"a": [1.0]}, unknown=1)
    assert os.listdir(tmp_path) == []


def test_save_casts_and_seals(tmp_path):
    values = np.linspace(0, 1, 64, dtype=np.float32).reshape(2, 32)
    report = htensor.save(tmp_path / "m.safetensors", {"w": values}, cast={"*": "F16"}, round=True, seal=True)
    assert report.seal == str(tmp_path / "m.safetensors.htseal")
    assert np.array_equal(htensor.open(tmp_path / "m.safetensors")["w"].numpy(), values.astype(np.float16))


# Convert and compare.


@pytest.mark.parametrize("format", ["gguf", "irpa", "safetensors"])
def test_convert_keeps_tensors(path, tmp_path, arrays, format):
    target = tmp_path / f"out.{format}"
    report = htensor.convert(path, target)
    assert report.path == str(target) and report.bytes == target.stat().st_size
    assert sum(report.copied_by.values()) > 0
    assert htensor.open(target).format == format
    found = htensor.diff(path, target)
    assert found.same_tensors and not found.differ and not found.only_a


def test_convert_applies_its_options(path, tmp_path, arrays):
    target = tmp_path / "out.safetensors"
    dry = htensor.convert(path, target, cast={"blk.*": "F16"}, dry_run=True)
    assert not target.exists() and [loss.kind for loss in dry.losses] == ["rounding"] * len(dry.losses) and dry.losses
    with pytest.raises(htensor.Error) as caught:
        htensor.convert(path, target, cast={"blk.*": "F16"})
    assert caught.value.code == "would_lose"
    htensor.convert(path, target, include=["blk.*", "ids"], exclude="*bias", rename={"blk.*": "layers.*"},
                    cast={"*weight": "F16"}, round="nearest_even", align=64, seal=True, skip_metadata=True)  # fmt: skip
    model = htensor.open(target)
    assert sorted(model) == ["ids", "layers.0.weight"] and model.metadata == {}
    assert model["layers.0.weight"].type == "F16" and min(t.offset for t in model.values()) % 64 == 0
    assert htensor.verify(target)
    with pytest.raises(FileExistsError):
        htensor.convert(path, target)
    htensor.convert(path, target, force=True)
    assert len(htensor.open(target)) == 5


def test_convert_quantizes_and_decodes(tmp_path):
    values = np.random.default_rng(0).normal(size=(8, 256)).astype(np.float32)
    htensor.save(tmp_path / "a.safetensors", {"w.weight": values})
    htensor.convert(tmp_path / "a.safetensors", tmp_path / "q.gguf", quantize={"*": "Q8_0"})
    assert htensor.open(tmp_path / "q.gguf")["w.weight"].type == "Q8_0"
    htensor.convert(tmp_path / "q.gguf", tmp_path / "b.safetensors", dequantize=True, drop_metadata=True)
    assert np.abs(htensor.open(tmp_path / "b.safetensors")["w.weight"].numpy() - values).max() < 0.05
    found = htensor.diff(tmp_path / "a.safetensors", tmp_path / "q.gguf", tolerance=0.05)
    assert found.same_tensors, found
    found = htensor.diff(tmp_path / "a.safetensors", tmp_path / "q.gguf", tolerance=0.0)
    assert found.differ[0].name == "w.weight" and found.differ[0].max_abs > 0 and found.differ[0].cosine > 0.99


def test_convert_merges_paths(tmp_path):
    for name in "ab":
        htensor.save(tmp_path / f"{name}.safetensors", {name: [1.0, 2.0]})
    htensor.convert([tmp_path / "a.safetensors", str(tmp_path / "b.safetensors")], tmp_path / "c.safetensors")
    assert sorted(htensor.open(tmp_path / "c.safetensors")) == ["a", "b"]
    with pytest.raises(htensor.Error) as caught:
        htensor.convert([tmp_path / "a.safetensors"] * 2, tmp_path / "d.safetensors")
    assert caught.value.code == "duplicate_tensor"


def test_diff_lists_differences(tmp_path):
    htensor.save(tmp_path / "a.safetensors", {"x": [1.0, 2.0], "y": [1.0], "z": [1.0]}, {"k": "1", "l": "1"})
    htensor.save(tmp_path / "b.safetensors", {"x": [1.0, 3.0], "y": np.float32([1.0]), "w": [1.0]}, {"k": "2", "m": "1"})
    found = htensor.diff(tmp_path / "a.safetensors", htensor.open(tmp_path / "b.safetensors"))
    assert not found.same and found.only_a == ["z"] and found.only_b == ["w"]
    assert {item.name: item.why for item in found.differ} == {"x": "contents", "y": "dtype"}
    assert found.metadata_differ == ["k"] and found.metadata_only_a == ["l"] and found.metadata_only_b == ["m"]
    assert htensor.diff(tmp_path / "a.safetensors", tmp_path / "a.safetensors").same


def test_edit_metadata_sets_and_removes_keys(path):
    model = htensor.open(path)
    assert htensor.edit_metadata(path, {"format": "np", "note": None, "new": "x"})
    assert htensor.open(path).metadata == {"format": "np", "new": "x"}
    assert model.metadata["format"] == "pt"
    assert not htensor.edit_metadata(path, {"format": "np"})
    with pytest.raises(KeyError):
        htensor.edit_metadata(path, {"missing": None})


def test_edit_metadata_keeps_the_types_of_keys(tmp_path):
    path = tmp_path / "m.gguf"
    types = {"u8": 1, "i8": 1, "u16": 1, "i16": 1, "u32": 1, "i32": 1, "u64": 1, "i64": 1, "f32": 0.5, "f64": 0.5}
    metadata = {f"x.{name}": htensor.Value(name.upper(), value) for name, value in types.items()}
    metadata |= {"x.bool": True, "x.list": htensor.Value("U64", [1, 2]), "x.floats": htensor.Value("F32", [1.0])}
    htensor.save(path, {"w": [1.0]}, {"general.architecture": "x", **metadata})

    def stored():
        with htensor.open(path) as model:
            return htensor._operations._native.typed_metadata(model)

    before = stored()
    changes = {f"x.{name}": 2 if isinstance(value, int) else 0.1 for name, value in types.items()}
    assert htensor.edit_metadata(path, {**changes, "x.list": [3], "x.floats": [0.1, 2], "x.bool": False})
    after = stored()
    for key, pair in before.items():
        assert after[key][:-1] == pair[:-1], key
    assert after["x.f32"][1] == float(np.float32(0.1)) and after["x.f64"][1] == 0.1 and after["x.list"][2] == [3]
    assert after["x.floats"][2] == [float(np.float32(0.1)), 2.0] and after["x.bool"] == (7, False)
    # Values that do not fit, and values with a type of their own.
    other = {"x.u8": 256, "x.i8": -129, "x.f32": 1e300, "x.u16": 1.5, "x.u32": "text", "x.i64": np.uint8(3), "x.f64": 2**60,
             "x.bool": 1, "x.u64": htensor.Value("F32", 0.5), "x.list": [-1], "x.new": 5}  # fmt: skip
    assert htensor.edit_metadata(path, other)
    after = stored()
    assert {key: after[key][0] for key in other if key != "x.list"} == {
        "x.u8": 4, "x.i8": 5, "x.f32": 12, "x.u16": 6, "x.u32": 8, "x.i64": 0, "x.f64": 10, "x.bool": 4, "x.u64": 6,
        "x.new": 4}  # fmt: skip
    assert after["x.list"] == (9, 5, [-1])


@pytest.mark.parametrize("value", [[256], [2], [-1], [1.0], ["x"], [None], 256, 0.5, "True", None])
def test_values_other_than_bools_are_refused_as_bool(value):
    with pytest.raises(TypeError, match="'k'"):
        htensor.to_bytes({"w": [1.0]}, {"general.architecture": "x", "k": htensor.Value("BOOL", value)}, format="gguf")


@pytest.mark.parametrize("type, value", [
    ("U8", "x"), ("U64", 1.5), ("I32", None), ("F32", "1"), ("F64", None), ("STRING", 5), ("STRING", None),
])  # fmt: skip
def test_values_of_another_type_are_refused_with_the_name_of_the_type(type, value):
    for given in (value, [value]):
        metadata = {"general.architecture": "x", "k": htensor.Value(type, given)}
        with pytest.raises(TypeError) as caught:
            htensor.to_bytes({"w": [1.0]}, metadata, format="gguf")
        assert str(caught.value) == f"metadata 'k': {value!r} is not of type {type}"


def test_value_takes_scalars_of_numpy():
    given = {"u8": ("U8", np.uint8(3)), "i64": ("I64", np.int64(-4)), "f32": ("F32", np.float32(0.5)), "f64": ("F64", np.int8(2))}
    metadata = {"general.architecture": "x", **{key: htensor.Value(*pair) for key, pair in given.items()}}
    read = htensor.from_bytes(htensor.to_bytes({"w": [1.0]}, metadata, format="gguf")).metadata
    assert {key: read[key] for key in given} == {"u8": 3, "i64": -4, "f32": 0.5, "f64": 2.0}


def test_zero_and_one_are_bools():
    given = htensor.Value("BOOL", [True, 0, 1, np.False_, np.True_])
    data = htensor.to_bytes({"w": [1.0]}, {"general.architecture": "x", "k": given}, format="gguf")
    assert htensor.from_bytes(data).metadata["k"] == [True, False, True, False, True]


def test_crc64nvme_equals_its_check_value():
    assert htensor.crc64nvme(b"123456789") == 0xAE8B14860A799888
    assert htensor.crc64nvme(b"6789", htensor.crc64nvme(b"12345")) == 0xAE8B14860A799888
    assert htensor.crc64nvme(np.zeros(0)) == 0


# Progress and interrupts.


def test_progress_is_called_to_the_end(big):
    calls = []
    htensor.hash(big, progress=lambda done, total: calls.append((done, total)))
    assert len(calls) > 1 and calls[-1][0] == calls[-1][1] and calls == sorted(calls)


@pytest.mark.parametrize("cold", [False, True])
def test_progress_of_a_verified_load_is_called_on_the_calling_thread(tmp_path, cold):
    path = tmp_path / "m.safetensors"
    htensor.save(path, {"w": np.zeros(64 << 20, np.uint8)}, seal=True)
    threads = []
    for strategy in ("mapped", "read", "automatic"):
        if cold:
            os.sync()
            htensor.evict(path)
        calls = []

        def report(done, total):
            threads.append(threading.get_ident())
            calls.append(done)

        htensor.load(path, strategy=strategy, verify=True, progress=report)
        assert calls[-1] == 64 << 20 and calls == sorted(calls)
    assert set(threads) == {threading.get_ident()}


def test_exception_of_progress_cancels_a_verified_load(tmp_path):
    path = tmp_path / "m.safetensors"
    htensor.save(path, {"w": np.zeros(64 << 20, np.uint8)}, seal=True)

    def stop(done, total):
        raise KeyboardInterrupt

    for cold in (False, True):
        if cold:
            os.sync()
            htensor.evict(path)
        with pytest.raises(KeyboardInterrupt):
            htensor.load(path, strategy="mapped", verify=True, progress=stop)


def test_exception_of_progress_cancels(big, tmp_path):
    class Stop(Exception):
        pass

    def stop(done, total):
        raise Stop

    before = sorted(os.listdir(tmp_path))
    calls = [lambda: htensor.convert(big, tmp_path / "out.gguf", progress=stop),
             lambda: htensor.seal(big, progress=stop), lambda: htensor.hash(big, progress=stop),
             lambda: htensor.open(big)["w"].to("float64", progress=stop),
             lambda: htensor.open(big)["w"].stats(progress=stop),
             lambda: htensor.load(big, strategy="read", progress=stop),
             lambda: htensor.save(tmp_path / "x.irpa", htensor.open(big), progress=stop)]  # fmt: skip
    for call in calls:
        with pytest.raises(Stop):
            call()
        assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("verb", ["convert", "seal", "hash"])
def test_keyboard_interrupt_leaves_no_file(big, tmp_path, verb):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = sorted(os.listdir(tmp_path))
    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    try:
        with pytest.raises(KeyboardInterrupt):
            # Takes seconds unless it is interrupted.
            for _ in range(100):
                if verb == "convert":
                    htensor.convert(big, tmp_path / "out.irpa", cast={"w": "F64"}, force=True)
                elif verb == "seal":
                    htensor.seal(big, algorithm="sha256")
                else:
                    htensor.hash(big, algorithm="sha256")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("from_callback", [True, False])
def test_calls_on_other_threads_ignore_signals(big, from_callback):
    """Signals that the system delivers to a thread during its call: Python handles them on the main thread."""
    expected = htensor.hash(big).digest
    handled, results, sent = [], [], []

    def send(*progress):
        sent.append(1)
        signal.pthread_kill(thread.ident, signal.SIGUSR1)

    def work():
        options = {"progress": send} if from_callback else {}
        results.append(htensor.hash(big, **options).digest)

    previous = signal.signal(signal.SIGUSR1, lambda number, frame: handled.append(threading.get_ident()))
    try:
        thread = threading.Thread(target=work)
        thread.start()
        while thread.is_alive():
            if not from_callback:
                send()
            thread.join(0.002)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert results == [expected]
    assert sent and handled and set(handled) == {threading.main_thread().ident}


def test_exception_of_a_signal_handler_is_raised_on_the_main_thread_only(big):
    """The handler raises on the main thread; the call of the other thread returns its result."""
    class Stop(Exception):
        pass

    def stop(number, frame):
        raise Stop

    expected = htensor.hash(big).digest
    results = []
    raised = threading.Event()

    def wait(done, total):
        os.kill(os.getpid(), signal.SIGUSR1) if not raised.is_set() else None
        assert raised.wait(60)

    previous = signal.signal(signal.SIGUSR1, stop)
    try:
        thread = threading.Thread(target=lambda: results.append(htensor.hash(big, progress=wait).digest))
        with pytest.raises(Stop):
            thread.start()
            raised.wait(60)
        raised.set()
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert results == [expected]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_is_shown_in_a_terminal_and_erased(monkeypatch):
    from htensor import _progress

    monkeypatch.setattr(sys, "stderr", Terminal())
    with _progress.reporting(True, "load") as report:
        report(1 << 20, 4 << 20, 0.1)
        assert sys.stderr.getvalue() == ""
        report(2 << 20, 4 << 20, 1.0)
        assert "load [############------------]  50% of 4.0 MiB, 2.0 MiB/s" in sys.stderr.getvalue()
    assert sys.stderr.getvalue().endswith("\r\x1b[K")


def test_bar_is_silent_without_a_terminal(monkeypatch, path):
    from htensor import _progress

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with _progress.reporting(True, "load") as report:
        report(1, 2, 1.0)
    htensor.hash(path, progress=True)
    assert sys.stderr.getvalue() == ""


def test_bar_is_shown_in_a_notebook_and_erased(monkeypatch):
    import types

    from htensor import _progress

    shown = []

    class Handle:
        def update(self, item):
            shown.append(item)

    ipython, display = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=1)
    display.HTML, display.display = str, lambda item, display_id: Handle()
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with _progress.reporting(True, "load") as report:
        report(1, 2, 1.0)
    assert '<progress max="2" value="1">' in shown[0] and shown[-1] == ""


def test_load_into_reads_big_endian_and_column_major_tensors(tmp_path):
    expected = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name, stored in {"big": expected.astype(">f4"), "columns": np.asfortranarray(expected)}.items():
        np.save(tmp_path / f"{name}.npy", stored)
        model = htensor.open(tmp_path / f"{name}.npy")
        for dtype in (model[name].dtype, np.float32):
            arrays = {name: np.empty((2, 3), dtype)}
            model.load_into(arrays)
            assert np.array_equal(arrays[name], expected)
        with pytest.raises(TypeError):
            model.load_into({name: np.empty((2, 3), np.int32)} if name == "columns" else {name: np.empty((2, 3), "<i4")})
    with pytest.raises(ValueError, match="column-major"):
        htensor.open(tmp_path / "columns.npy").load_into({"columns": bytearray(24)})


@pytest.mark.parametrize("stored", ["<f4", ">f4"])
@pytest.mark.parametrize("given", ["<f4", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_load_into_converts_byte_order_and_layout(tmp_path, stored, given, order):
    expected = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "w.npy", expected.astype(stored))
    target = np.zeros((2, 3), given, order)
    htensor.open(tmp_path / "w.npy").load_into({"w": target})
    assert np.array_equal(target, expected)
    strided = np.zeros((2, 6), given)
    htensor.open(tmp_path / "w.npy").load_into({"w": strided[:, ::2]})
    assert np.array_equal(strided[:, ::2], expected) and not strided[:, 1::2].any()


def test_load_into_verifies_a_splat_that_it_converts(tmp_path):
    file = tmp_path / "a.irpa"
    file.write_bytes(splat_irpa(np.full((2, 3), 1.5, np.float32), "float32"))
    htensor.seal(file)
    for target in (np.empty((2, 3), "<f4"), np.empty((2, 3), ">f4"), np.empty((2, 6), "<f4")[:, ::2]):
        htensor.open(file).load_into({"a": target}, verify=True)
        assert (target == 1.5).all()
    # The header has the pattern.
    flip(file, file.read_bytes().index(np.float32(1.5).tobytes()))
    with pytest.raises(htensor.Error) as caught:
        htensor.open(file).load_into({"a": np.empty((2, 3), ">f4")}, verify=True)
    assert caught.value.code == "checksum_mismatch"


def test_load_into_checks_dtype_and_shape(path, arrays):
    model = htensor.open(path)
    for dtype in ("int32", "uint32", ">i4", "S4", "float64", "float16"):
        with pytest.raises(TypeError, match="blk.0.weight"):
            model.load_into({"blk.0.weight": np.empty((6, 8), dtype)})
    for shape in ((48,), (8, 6), (6, 8, 1), (6, 7)):
        with pytest.raises(ValueError, match="blk.0.weight"):
            model.load_into({"blk.0.weight": np.empty(shape, np.float32)})
    read_only = np.empty((6, 8), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        model.load_into({"blk.0.weight": read_only})
    with pytest.raises(TypeError):
        model.load_into({"blk.0.weight": array.array("i", [0] * 48)})
    with pytest.raises(ValueError):
        model.load_into({"blk.0.weight": array.array("f", [0] * 47)})


def test_load_into_takes_bytes_and_typed_buffers(path, arrays):
    model = htensor.open(path)
    expected = arrays["blk.0.weight"].tobytes()
    for raw in (bytearray(192), np.empty(192, np.uint8), memoryview(bytearray(192))):
        model.load_into({"blk.0.weight": raw})
        assert bytes(raw) == expected
    typed = array.array("f", [0] * 48)
    model.load_into({"blk.0.weight": typed})
    assert typed.tobytes() == expected
    for raw in (np.empty(191, np.uint8), np.empty((2, 96), np.uint8)):
        with pytest.raises((TypeError, ValueError)):
            model.load_into({"blk.0.weight": raw})


def test_load_into_takes_bytes_of_ctypes(path, arrays):
    name = next(iter(arrays))
    with htensor.open(path) as model:
        memory = (ctypes.c_char * model[name].nbytes)()
        model.load_into({name: memory})
        assert bytes(memory) == model[name].tobytes()


def test_load_into_takes_stored_bits_and_packed_bytes(tmp_path):
    raw = htensor.Raw("BF16", (2, 2), np.arange(4, dtype=np.uint16).tobytes())
    packed = htensor.Raw("I4", (2, 4), bytes(range(4)))
    blocks = htensor.Raw("Q8_0", (2, 32), bytes(range(68)))
    model = htensor.from_bytes(htensor.to_bytes({"bits": raw, "packed": packed, "blocks": blocks}, format="irpa"))
    bits, packed_bytes, rows = np.zeros((2, 2), np.uint16), np.zeros(4, np.uint8), np.zeros((2, 34), np.uint8)
    model.load_into({"bits": bits, "packed": packed_bytes, "blocks": rows})
    assert bits.tolist() == [[0, 1], [2, 3]] and packed_bytes.tolist() == [0, 1, 2, 3] and rows.tobytes() == bytes(range(68))
    with pytest.raises(TypeError):
        model.load_into({"bits": np.zeros((2, 2), np.float16)})
    with pytest.raises(TypeError, match="4 bits"):
        model.load_into({"packed": np.zeros((2, 4), np.uint8)})


def test_load_refuses_the_strategy_staged(path):
    with pytest.raises(ValueError, match="'automatic' or 'mapped' or 'read'"):
        htensor.load(path, strategy="staged")


def test_message_of_damage_is_that_of_the_library(path):
    htensor.seal(path)
    model = htensor.open(path)
    damaged = []
    for name in ("blk.0.weight", "ids", "scalar"):
        flip(path, model[name].offset)
        damaged.append(name)
        with pytest.raises(htensor.Error) as caught:
            htensor.verify(path)
        ranges = [f"tensor '{n}', bytes {model[n].offset}–{model[n].offset + model[n].nbytes - 1}" for n in damaged]
        error = caught.value
        assert error.message == f"checksum mismatch in {', '.join(ranges)}" and error.tensor == "blk.0.weight"
        assert (error.rule, error.offset) == ("files_are_intact", model["blk.0.weight"].offset)
        assert "htensor.verify(path, check=False)" in error.hint


def test_quantize_rules_apply_before_cast_rules(tmp_path):
    source = tmp_path / "a.gguf"
    tensors = {"blk.w": np.ones((2, 32), np.float32), "o.w": np.ones((2, 32), np.float32)}
    htensor.save(source, tensors, {"general.architecture": "llama"})
    htensor.convert(source, tmp_path / "b.gguf", cast={"*": "F16"}, quantize={"blk.*": "Q8_0"}, round=True)
    assert {name: t.type for name, t in htensor.open(tmp_path / "b.gguf").items()} == {"blk.w": "Q8_0", "o.w": "F16"}


def test_verify_of_an_open_model_honours_check(path):
    htensor.seal(path)
    flip(path, -1)
    model = htensor.open(path)
    found = htensor.verify(model, check=False)
    assert not found and found.verdict == "damaged" and found.checked_bytes == 0
    assert found.algorithm == "" and found.seal is None and found.bad == []
    with pytest.raises(htensor.Error) as caught:
        htensor.verify(model)
    assert caught.value.verification.verdict == "damaged"
    assert pickle.loads(pickle.dumps(caught.value)).verification.verdict == "damaged"


def test_verify_of_a_missing_file_is_a_file_error(path):
    htensor.seal(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="missing") as caught:
        htensor.verify(path)
    assert caught.value.verification.verdict == "missing"


def test_paths_with_a_nul_are_refused(path, tmp_path):
    for call in (
        lambda: htensor.convert(path, tmp_path / "a.irpa", emit_mlir=str(tmp_path / "n.mlir") + "\0x"),
        lambda: htensor.convert([str(path) + "\0x"], tmp_path / "b.gguf"),
    ):
        with pytest.raises(ValueError):
            call()
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name]


def test_options_take_integers_of_numpy(path):
    assert htensor.load(path, strategy="read", budget=np.int64(1 << 20))
    assert htensor.open(path)["half"].to("float32", seed=np.int64(3)).shape == (4, 4)


def test_sizes_are_exact_or_refused(path):
    from htensor._model import size_of

    assert size_of("9007199254740993", "budget") == 9007199254740993
    assert size_of("2.5K", "budget") == 2560
    with pytest.raises(ValueError):
        size_of("inf", "budget")


def test_metadata_that_exceeds_its_type_is_refused(tmp_path):
    with pytest.raises(OverflowError):
        htensor.save(tmp_path / "a.gguf", {}, {"general.architecture": "x", "x": htensor.Value("F32", 1e300)})


@pytest.mark.parametrize("value, problem", [
    (2**64, f"{2**64} does not fit into 64 bits"),
    ([2**64, -1], f"{2**64} does not fit into 64 bits"),
    (-(2**63) - 1, f"{-(2**63) - 1} does not fit into 64 bits"),
    ([-1, 2**63], f"no 64-bit integer type holds both -1 and {2**63}"),
])  # fmt: skip
def test_metadata_integers_that_no_type_holds_are_refused(value, problem):
    with pytest.raises(OverflowError) as caught:
        htensor.to_bytes({}, {"general.architecture": "x", "x.y": value}, format="gguf")
    assert str(caught.value) == f"metadata 'x.y': {problem}"


def test_crc64nvme_takes_integers_of_numpy():
    assert htensor.crc64nvme(b"b", np.uint64(htensor.crc64nvme(b"a"))) == htensor.crc64nvme(b"ab")


def test_crc64nvme_refuses_numbers_beyond_64_bits():
    with pytest.raises(OverflowError):
        htensor.crc64nvme(b"", 2**64 + 5)


def test_exception_of_progress_cancels_a_metadata_edit_and_a_call_of_to_bytes(tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    file = tmp_path / "a.gguf"
    tensors = {"w": np.zeros((1 << 20,), np.int8)}
    htensor.save(file, tensors, {"general.architecture": "x"})
    before = file.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        htensor.edit_metadata(file, {"x.note": "y" * 100_000}, progress=stop)
    assert file.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["a.gguf"]
    with pytest.raises(KeyboardInterrupt):
        htensor.to_bytes(tensors, progress=stop)


def test_unknown_keyword_names_the_public_function(tmp_path):
    with pytest.raises(TypeError, match=r"^save\(\) got an unexpected keyword argument 'bogus'; use .*shard_size"):
        htensor.save(tmp_path / "a.safetensors", {"a": np.zeros(3)}, bogus=1)
    with pytest.raises(TypeError, match=r"^to_bytes\(\) got an unexpected keyword argument 'bogus'"):
        htensor.to_bytes({"a": np.zeros(3)}, bogus=1)
    with pytest.raises(TypeError, match=r"^convert\(\) got an unexpected keyword argument 'bogus'"):
        htensor.convert(tmp_path / "a.safetensors", tmp_path / "b.gguf", bogus=1)


def test_names_of_types_have_any_case(tmp_path):
    values = {"w": np.ones((2, 256), np.float32)}
    for name, type in (("q8_0", "Q8_0"), ("q4_k", "Q4_K"), ("Q6_K", "Q6_K")):
        data = htensor.to_bytes(values, format="gguf", quantize={"w": name}, round=True)
        assert htensor.from_bytes(data)["w"].type == type
    for name, type in (("bf16", "BF16"), ("float16", "F16"), (np.float16, "F16"), ("f8", "F64"), ("f8_e4m3", "F8_E4M3")):
        data = htensor.to_bytes(values, cast={"w": name}, round=True)
        assert htensor.from_bytes(data)["w"].type == type


def test_misspelt_type_has_a_hint_for_its_option():
    values = {"w": np.ones((2, 256), np.float32)}
    with pytest.raises(TypeError, match="quantize: type 'Q4_KM' does not exist; use a name such as 'Q8_0'"):
        htensor.to_bytes(values, format="gguf", quantize={"w": "Q4_KM"})
    with pytest.raises(TypeError, match="cast: type 'F17' does not exist; use a name such as 'F16'"):
        htensor.to_bytes(values, cast={"w": "F17"})
    with pytest.raises(TypeError, match="cast: 'F16' is not a mapping"):
        htensor.to_bytes(values, cast="F16")


def test_checksums_of_adjacent_ranges_combine():
    whole = htensor.crc64nvme(b"123456789")
    assert htensor.crc64nvme_combine(htensor.crc64nvme(b"12345"), htensor.crc64nvme(b"6789"), 4) == whole
    assert htensor.crc64nvme_combine(whole, 0, 0) == whole
    with pytest.raises(OverflowError):
        htensor.crc64nvme_combine(-1, 0, 0)


TYPED = {
    "general.architecture": "llama", "a.u8": htensor.Value("U8", 1), "a.i8": htensor.Value("I8", -1),
    "a.u16": htensor.Value("U16", 2), "a.i16": htensor.Value("I16", -2), "a.u32": htensor.Value("U32", 3),
    "a.i32": htensor.Value("I32", 3), "a.u64": htensor.Value("U64", 4), "a.i64": htensor.Value("I64", 4),
    "a.f32": htensor.Value("F32", 0.1), "a.f64": htensor.Value("F64", 0.5), "a.bool": True, "a.text": "é",
    "a.bools": [True, False], "a.texts": ["a", "b"], "a.u8s": htensor.Value("U8", [1, 2]),
    "a.i64s": htensor.Value("I64", [1, 2]), "a.f64s": htensor.Value("F64", [0.5]), "a.none": htensor.Value("U16", []),
    "a.nested": [[1, 2], [3]],
}  # fmt: skip


def test_metadata_of_a_model_keeps_its_types(tmp_path):
    file = tmp_path / "a.gguf"
    htensor.save(file, {"w": np.zeros(32, np.float32)}, TYPED)
    with htensor.open(file) as model:
        htensor.save(tmp_path / "b.gguf", dict(model), model)
        assert htensor.to_bytes(dict(model), model, format="gguf") == file.read_bytes()
    htensor.convert(file, tmp_path / "c.gguf")
    assert (tmp_path / "b.gguf").read_bytes() == (tmp_path / "c.gguf").read_bytes() == file.read_bytes()


def test_metadata_texts_that_are_not_utf8_are_saved_unchanged(tmp_path):
    file = tmp_path / "a.gguf"
    htensor.save(file, {"w": np.zeros(32, np.float32)}, {"general.architecture": "llama", "note": "a?b", "list": ["a?b"]})
    file.write_bytes(file.read_bytes().replace(b"a?b", b"a\xffb"))
    with htensor.open(file) as model:
        assert model.metadata["note"] == "a\udcffb"
        assert htensor.to_bytes(dict(model), model.metadata, format="gguf") == file.read_bytes()
