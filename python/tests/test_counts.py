"""Repeated calls leak no references, mappings or descriptors, for every way to use a model."""

import gc
import importlib.util
import os
import sys

import numpy as np
import pytest
from conftest import mappings_of

import htensor
from htensor.safetensors import SafetensorError, safe_open, serialize
from htensor.safetensors import numpy as drop_in

torch = pytest.importorskip("torch") if importlib.util.find_spec("torch") else None


def use_save(path, folder):
    model = htensor.open(path)
    htensor.save(folder / "a.safetensors", dict(model), model, force=True)
    htensor.save(folder / "a.irpa", {"a": np.ones(3), "t": model["ids"], "raw": htensor.Raw("U8", (2,), b"ab")}, force=True)
    htensor.from_bytes(htensor.to_bytes({"a": model["half"][...], "b": [1.0, 2.0]}))["a"].numpy()
    with pytest.raises(FileExistsError):
        htensor.save(folder / "a.irpa", {"a": np.ones(3)})
    with pytest.raises(TypeError):
        htensor.save(folder / "b.irpa", {"a": object()})


def use_convert(path, folder):
    model = htensor.open(path)
    calls = []
    htensor.convert(model, folder / "c.gguf", cast={"half": "F32"}, force=True, seal=True, progress=lambda *at: calls.append(at))
    htensor.convert([path], folder / "s.safetensors", shard_size=200, force=True)
    assert htensor.convert(path, folder / "d.npy", include="*bias", dry_run=True).losses
    with pytest.raises(htensor.Error):
        htensor.convert(path, folder / "d.npy")
    htensor.edit_metadata(folder / "c.gguf", {"x.y": 1})


def use_seal(path, folder):
    seal = htensor.seal(path)
    assert seal.path == f"{path}.htseal" and htensor.read_seal(path).tensors
    model = htensor.open(path)
    htensor.verify(path), htensor.verify(model), htensor.verify(path, quick=True), model["ids"].verify()
    assert htensor.validate(path).readable
    os.remove(seal.path)
    with pytest.raises(htensor.Error):
        htensor.verify(path)


def use_diff(path, folder):
    htensor.save(folder / "other.safetensors", {"ids": np.zeros((3, 2), np.int64), "new": np.ones(1)}, force=True)
    found = htensor.diff(path, folder / "other.safetensors")
    assert not found.same and found.differ and found.only_a and found.only_b
    model = htensor.open(path)
    assert htensor.diff(model, model, tolerance=0.5).same


def use_load_into(path, folder):
    model = htensor.open(path)
    arrays = {name: np.empty(tensor.shape, tensor.dtype) for name, tensor in model.items()}
    assert model.load_into(arrays).bytes
    model.load_into({"ids": bytearray(48)})
    with pytest.raises(ValueError):
        model.load_into({"ids": bytearray(47)})
    with pytest.raises(KeyError):
        model.load_into({"absent": bytearray(47)})
    read = htensor.load(path, strategy="read")
    read["ids"].numpy(), read["ids"].data
    htensor.prefetch(model), htensor.residency(model), htensor.evict(model)


def use_safe_open(path, folder):
    for backend in ("mmap", "pread"):
        with safe_open(path, "np", backend=backend) as file:
            file.get_tensors(), file.get_tensor("ids"), file.get_slice("half")[1:, 0], file.metadata(), file.keys()
            with pytest.raises(SafetensorError):
                file.get_tensor("absent")
            with pytest.raises(SafetensorError):
                file.get_slice("half")[9]
    drop_in.save_file(drop_in.load_file(path), folder / "again")
    drop_in.load(drop_in.save({"a": np.ones(3)}, {"k": "v"}))
    with pytest.raises(SafetensorError):
        drop_in.load(b"short")
    assert serialize({})


def use_torch(path, folder):
    model = htensor.open(path)
    for tensor in model.values():
        tensor.torch().clone()
        torch.from_dlpack(tensor)
    with safe_open(path, "pt") as file:
        file.get_tensors(), file.get_slice("half")[:, ::2]
    htensor.save(folder / "t.safetensors", {"t": torch.ones(3), "b": torch.ones(2, dtype=torch.bfloat16)}, force=True)


USES = [use_save, use_convert, use_seal, use_diff, use_load_into, use_safe_open]
if torch:
    USES.append(use_torch)


@pytest.mark.parametrize("use", USES)
def test_repeated_calls_leak_nothing(path, tmp_path, use):
    folder = tmp_path / "out"
    folder.mkdir()
    native = htensor._model._native
    kinds = [htensor.Model, htensor.Tensor, native.Buffer, native.Model, native.Tensor, safe_open, np.dtype("float32")]
    counted = [*kinds, htensor.Error, htensor.Raw, SafetensorError]
    use(path, folder)
    use(path, folder)
    gc.collect()
    before = [sys.getrefcount(item) for item in counted]
    objects = len(gc.get_objects())
    descriptors = sorted(os.listdir("/proc/self/fd"))
    for _ in range(10):
        use(path, folder)
    gc.collect()
    grown = {str(item): sys.getrefcount(item) - count for item, count in zip(counted, before)}
    # Caches may keep a few references, but not one for each call.
    assert all(abs(count) < 10 for count in grown.values()), grown
    assert len(gc.get_objects()) - objects < 100
    assert sorted(os.listdir("/proc/self/fd")) == descriptors
    assert mappings_of(path.parent, folder) == 0
    alive = [item for item in gc.get_objects() if issubclass(type(item), (htensor.Model, htensor.Tensor, safe_open))]
    assert alive == []
