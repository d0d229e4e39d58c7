"""A file that is truncated while it is open: every call that reads it raises Error with the same code each time."""

import importlib.util
import os

import numpy as np
import pytest
from conftest import safetensors_bytes

import htensor
from htensor.safetensors import SafetensorError, safe_open

torch = pytest.importorskip("torch") if importlib.util.find_spec("torch") else None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")

ROWS = 1 << 12
HALF = 1 << 21


@pytest.fixture
def shortened(tmp_path):
    """A model of one F32 tensor of 4 MiB, sealed; afterwards its file loses the second half."""
    values = np.arange(ROWS * 256, dtype=np.float32).reshape(ROWS, 256)
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes({"w": ("F32", values.shape, values.tobytes())}))
    htensor.seal(path)
    model = htensor.open(path)
    assert model["w"][0, 1] == 1
    os.truncate(path, HALF)
    return model, path, values


def into_numpy(tensor):
    target = np.empty(tensor.shape, np.float32)
    tensor.copy_to(target)


# Calls that read the missing half, with their code.
READS = {
    "index_row": (lambda model, _: model["w"][-1], "changed_underfoot"),
    "index_element": (lambda model, _: model["w"][ROWS - 1, 255], "changed_underfoot"),
    "index_steps": (lambda model, _: model["w"][:: ROWS - 1, ::7], "changed_underfoot"),
    "index_all": (lambda model, _: model["w"][...], "changed_underfoot"),
    "to_same": (lambda model, _: model["w"].to("float32"), "changed_underfoot"),
    "to_wider": (lambda model, _: model["w"].to("float64"), "changed_underfoot"),
    "to_narrower": (lambda model, _: model["w"].to("bfloat16", round=True), "changed_underfoot"),
    "to_index": (lambda model, _: model["w"].to("float64", index=np.s_[-2:, 0]), "changed_underfoot"),
    "stats": (lambda model, _: model["w"].stats(), "changed_underfoot"),
    "tobytes": (lambda model, _: model["w"].tobytes(), "changed_underfoot"),
    "copy_to": (lambda model, _: into_numpy(model["w"]), "changed_underfoot"),
    "tensor_verify": (lambda model, _: model["w"].verify(), "changed_underfoot"),
    "crc64nvme": (lambda model, _: htensor.crc64nvme(model["w"].data), "changed_underfoot"),
    "hash": (lambda model, _: htensor.hash(model), "changed_underfoot"),
    "verify": (lambda model, _: htensor.verify(model), "changed_underfoot"),
    "seal": (lambda model, _: htensor.seal(model, force=True), "changed_underfoot"),
    "load_mapped": (lambda model, _: htensor.load(model, strategy="mapped"), "changed_underfoot"),
    "load_read": (lambda model, _: htensor.load(model, strategy="read"), "changed_underfoot"),
    "load_into_strided": (lambda model, _: model.load_into({"w": np.empty((ROWS, 512), np.float32)[:, ::2]}), "changed_underfoot"),
    "load_into": (lambda model, _: model.load_into({"w": np.empty((ROWS, 256), np.float32)}), "changed_underfoot"),
    "diff": (lambda model, path: htensor.diff(model, path.with_name("copy.safetensors")), "changed_underfoot"),
    "convert": (lambda model, path: htensor.convert(model, path.with_name("out.irpa")), "changed_underfoot"),
    "convert_cast": (lambda model, path: htensor.convert(model, path.with_name("out.irpa"), cast={"w": "F64"}), "changed_underfoot"),
    "save": (lambda model, path: htensor.save(path.with_name("out.irpa"), {"w": model["w"]}), "truncated"),
    "to_bytes": (lambda model, _: htensor.to_bytes({"w": model["w"]}), "truncated"),
    "open": (lambda _, path: htensor.open(path), "truncated"),
    "load_path": (lambda _, path: htensor.load(path), "truncated"),
    "prefetch": (lambda model, _: htensor.prefetch(model), "changed_underfoot"),
}


@pytest.mark.parametrize("name", READS)
def test_calls_raise_error_with_their_code(shortened, name):
    model, path, values = shortened
    htensor.save(path.with_name("copy.safetensors"), {"w": values})
    files = sorted(item.name for item in path.parent.iterdir())
    call, code = READS[name]
    for _ in range(2):
        with pytest.raises(htensor.Error) as caught:
            call(model, path)
        error = caught.value
        assert (error.code, error.path) == (code, str(path)) and error.message and error.hint, name
        assert error.tensor in (None, "w")
        assert not isinstance(error, (OSError, KeyError))
        assert sorted(item.name for item in path.parent.iterdir()) == files


def test_verify_of_the_path_reports_the_missing_bytes(shortened):
    _, path, _ = shortened
    found = htensor.verify(path, check=False)
    assert (found.ok, found.verdict) == (False, "truncated") and found.bad[0].file == str(path)
    with pytest.raises(htensor.Error) as caught:
        htensor.verify(path)
    assert caught.value.code == "truncated" and caught.value.verification.verdict == "truncated"
    assert [problem.code for problem in htensor.validate(path).problems] == ["truncated"]


def test_calls_that_read_no_bytes_work(shortened):
    model, _, values = shortened
    tensor = model["w"]
    assert (tensor.shape, tensor.nbytes, tensor.type) == (values.shape, values.nbytes, "F32")
    assert len(model) == 1 and list(model) == ["w"] and model.metadata == {}
    assert htensor.residency(model)["w"].bytes == values.nbytes
    htensor.evict(model)
    assert tensor.__dlpack_device__() == (1, 0)


def test_pages_before_the_end_are_read_in_place(shortened):
    model, _, values = shortened
    array = model["w"].numpy()
    assert np.array_equal(array[: ROWS // 4], values[: ROWS // 4])


def test_copy_for_dlpack_raises_error_with_its_code(shortened):
    model, path, _ = shortened
    with pytest.raises(htensor.Error) as caught:
        model["w"].__dlpack__(copy=True)
    assert (caught.value.code, caught.value.path) == ("changed_underfoot", str(path))


@pytest.mark.parametrize("export", [
    pytest.param(lambda tensor: tensor.torch(), id="torch", marks=needs_torch),
    pytest.param(lambda tensor: tensor.__dlpack__(), id="dlpack"),
])  # fmt: skip
def test_private_pages_are_refused_after_the_file_was_truncated(shortened, export):
    model, path, _ = shortened
    with pytest.raises((htensor.Error, BufferError), match="changed_underfoot"):
        export(model["w"])


def test_model_in_memory_does_not_change(tmp_path):
    values = np.arange(ROWS * 256, dtype=np.float32).reshape(ROWS, 256)
    path = tmp_path / "m.safetensors"
    htensor.save(path, {"w": values})
    model = htensor.load(path, strategy="read")
    os.truncate(path, HALF)
    assert np.array_equal(model["w"][...], values) and np.array_equal(model["w"].numpy(), values)
    assert model["w"].stats().max == values.max()
    if torch:
        assert model["w"].torch()[-1, -1] == values[-1, -1]


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_drop_in_reads_of_the_missing_half_raise_error_with_their_code(tmp_path, backend):
    values = np.arange(ROWS * 256, dtype=np.float32).reshape(ROWS, 256)
    path = tmp_path / "m.safetensors"
    htensor.save(path, {"w": values})
    file = safe_open(path, "np", backend=backend)
    os.truncate(path, HALF)
    with pytest.raises(SafetensorError) as caught:
        safe_open(path, "np", backend=backend)
    assert caught.value.code == "truncated"
    for call in (lambda: file.get_tensor("w"), lambda: file.get_slice("w")[:1], file.get_tensors):
        with pytest.raises(SafetensorError) as caught:
            call()
        assert (caught.value.code, caught.value.path) == ("changed_underfoot", str(path))
