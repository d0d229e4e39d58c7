"""htensor.safetensors.torch: tensors, modules with shared tensors, and slices."""

import random
import struct

import pytest
from conftest import file_of

torch = pytest.importorskip("torch", reason="torch is not installed: apt install python3-torch")

from htensor.safetensors import SafetensorError, safe_open
from htensor.safetensors.torch import (
    _end_ptr,
    _find_shared_tensors,
    _is_complete,
    _remove_duplicate_names,
    load,
    load_file,
    load_model,
    save,
    save_file,
    save_model,
    storage_ptr,
    storage_size,
)

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
          torch.float32, torch.float64, torch.complex64]  # fmt: skip
NEW_DTYPES = ["float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64"]
DTYPES += [getattr(torch, name) for name in NEW_DTYPES if hasattr(torch, name)]
BACKENDS = ["mmap", "pread"]


def raw(tensor):
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""


@pytest.fixture
def tensors():
    by_dtype = {str(dtype)[6:]: torch.arange(24).remainder(2).reshape(2, 3, 4).to(dtype) for dtype in DTYPES}
    return {**by_dtype, "scalar": torch.tensor(7.5), "empty": torch.empty((2, 0), dtype=torch.float16)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_saved_tensors_are_loaded_unchanged(tensors, backend, tmp_path):
    save_file(tensors, tmp_path / "m", metadata={"a": "b"})
    for found in (load_file(tmp_path / "m", backend=backend), load((tmp_path / "m").read_bytes()), load(save(tensors))):
        assert sorted(found) == sorted(tensors)
        for name, tensor in tensors.items():
            assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
            assert raw(found[name]) == raw(tensor) and found[name].device.type == "cpu"


def test_every_tensor_has_a_storage_of_its_own_size(tensors, tmp_path):
    save_file(tensors, tmp_path / "m")
    found = load_file(tmp_path / "m")
    assert all(_is_complete(tensor) for tensor in found.values() if tensor.numel())
    save_file(found, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "m").read_bytes()


def test_writes_do_not_reach_the_file(tmp_path):
    save_file({"a": torch.zeros(1000)}, tmp_path / "m")
    with safe_open(tmp_path / "m", "pt") as file:
        whole, part = file.get_tensor("a"), file.get_slice("a")[10:20]
    whole += 1
    assert part.sum() == 10
    assert load_file(tmp_path / "m")["a"].sum() == 0


def test_a_misaligned_tensor_is_copied(tmp_path):
    u8 = b'"u8":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}'
    f32 = b'"f32":{"dtype":"F32","shape":[4],"data_offsets":[3,19]}'
    (tmp_path / "m").write_bytes(file_of(b"{%s,%s}" % (u8, f32), bytes([1, 2, 3]) + struct.pack("<4f", 0, 1, 2, 3)))
    found = load_file(tmp_path / "m")
    assert found["f32"].tolist() == [0, 1, 2, 3] and found["u8"].tolist() == [1, 2, 3]
    assert found["f32"].data_ptr() % 4 == 0


@pytest.mark.parametrize("index", [
    slice(None), (), slice(0, 2), (slice(None), slice(0, 2)), (0, slice(0, 2)), (slice(2, None), -1), [], [0, 2],
    (None, 0), Ellipsis, (Ellipsis, 1), (slice(-3, None, 2), slice(None, -1)), (slice(0, 100), 0), (3, 4),
    torch.tensor([True] * 5 + [False] * 5),
])  # fmt: skip
def test_slices_are_those_of_torch(index, tmp_path):
    tensor = torch.randn(10, 5)
    save_file({"a": tensor}, tmp_path / "m")
    with safe_open(tmp_path / "m", framework="pt") as file:
        assert torch.equal(file.get_slice("a")[index], tensor[index])


@pytest.mark.parametrize("seed", range(5))
def test_slices_of_the_pread_backend_are_those_of_torch(seed, tmp_path):
    draw = random.Random(seed)
    tensor = torch.randn(10, 5, 3)
    save_file({"a": tensor}, tmp_path / "m")
    with safe_open(tmp_path / "m", framework="pt", backend="pread") as file:
        for _ in range(50):
            start = draw.randrange(10)
            rows = slice(start, draw.randrange(start, 11), draw.choice([None, 2, 3]))
            index = (rows, draw.randrange(-5, 5), slice(1, None))
            found = file.get_slice("a")[index]
            assert torch.equal(found, tensor[index]) and found.is_contiguous()
        with pytest.raises(SafetensorError, match="index 10 out of bounds for tensor dimension #0 of size 10"):
            file.get_slice("a")[10]


def test_dtypes_that_torch_lacks_are_not_reinterpreted(tmp_path):
    (tmp_path / "m").write_bytes(file_of(b'{"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}', b"abc"))
    with pytest.raises(SafetensorError, match="has no dtype for F6_E2M3"):
        load_file(tmp_path / "m")


def test_a_missing_device_is_an_error_of_torch(tmp_path):
    save_file({"a": torch.zeros(2)}, tmp_path / "m")
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises((RuntimeError, AssertionError)):
        load_file(tmp_path / "m", device="cuda:0")


# Refusals of save.


@pytest.mark.parametrize("given, error, text", [
    ("text", ValueError, "Expected a dict of [str, torch.Tensor] but received <class 'str'>"),
    ({"a": 1}, ValueError, "Key `a` is invalid, expected torch.Tensor but received <class 'int'>"),
    ({"a": torch.sparse_coo_tensor(size=(2, 3))}, ValueError, "sparse tensors: `['a']`"),
    ({"a": torch.zeros(4, 4).t()}, ValueError, "`a` is not contiguous"),
    ({"a": torch.zeros(2, device="meta")}, RuntimeError, "Cannot copy out of meta tensor"),
    ({"a": torch.zeros(2, dtype=torch.complex128)}, SafetensorError, 'Unknown dtype "complex128"'),
])  # fmt: skip
def test_tensors_that_cannot_be_stored_are_refused(given, error, text, tmp_path):
    with pytest.raises(error) as caught:
        save_file(given, tmp_path / "m")
    assert text in str(caught.value) and not (tmp_path / "m").exists()


def test_tensors_that_share_memory_are_refused(tmp_path):
    whole = torch.zeros(4, 4)
    with pytest.raises(RuntimeError, match="Some tensors share memory"):
        save_file({"a": whole, "b": whole[1:]}, tmp_path / "m")
    save_file({"a": whole[:1], "b": whole[1:]}, tmp_path / "m")


def test_lazy_conjugates_are_resolved():
    tensor = torch.tensor([1 + 2j], dtype=torch.complex64).conj()
    assert load(save({"a": tensor}))["a"].tolist() == [1 - 2j]


# Shared tensors.


def test_overlapping_tensors_are_one_group():
    whole = torch.zeros(8)
    assert _find_shared_tensors({"a": whole, "b": whole[:1]}) == [{"a", "b"}]
    assert _find_shared_tensors({"b": whole[:4], "c": whole[4:], "d": whole[:1]}) == [{"b", "d"}, {"c"}]
    assert _find_shared_tensors({"a": whole[:6], "b": whole[5:], "c": whole[1:2]}) == [{"a", "b", "c"}]
    assert _find_shared_tensors({"m": torch.zeros(2, device="meta"), "e": torch.zeros(0)}) == []


def test_tensors_that_cover_their_storage_are_complete():
    whole = torch.zeros(16, dtype=torch.float16)
    assert _end_ptr(whole[::4]) - whole.data_ptr() == 12 * 2 + 2
    assert _end_ptr(torch.zeros(0)) == torch.zeros(0).data_ptr()
    assert _is_complete(whole) and not _is_complete(whole[1:]) and not _is_complete(whole[::2])
    assert storage_ptr(whole[1:]) == whole.data_ptr() and storage_size(whole[1:]) == 32


def test_the_first_name_of_a_complete_tensor_is_kept():
    whole = torch.zeros(3, 3)
    state = {"a": whole, "b": whole[:1], "c": whole}
    assert _remove_duplicate_names(state) == {"a": ["b", "c"]}
    assert _remove_duplicate_names(state, preferred_names=["b", "c"]) == {"c": ["a", "b"]}
    assert _remove_duplicate_names(state, discard_names=["a"]) == {"c": ["a", "b"]}
    assert _remove_duplicate_names({"x": torch.zeros(2)}) == {}
    with pytest.raises(RuntimeError, match="Refusing to save/load the model"):
        _remove_duplicate_names({"b": whole[:1], "c": whole[:2]})


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 8)
        self.b = self.a


class Untied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 8)
        self.b = torch.nn.Linear(8, 8)


def test_shared_tensors_of_a_module_are_stored_once(tmp_path):
    model, metadata = Tied(), {"format": "pt"}
    save_model(model, tmp_path / "m", metadata=metadata)
    assert metadata == {"format": "pt"}
    with safe_open(tmp_path / "m", "pt") as file:
        assert file.keys() == ["a.bias", "a.weight"]
        assert file.metadata() == {"b.bias": "a.bias", "b.weight": "a.weight", "format": "pt"}
    copy = Tied()
    assert load_model(copy, tmp_path / "m") == (set(), [])
    assert torch.equal(copy.b.weight, model.a.weight)


def test_names_that_do_not_match_the_module_are_refused(tmp_path):
    save_model(Tied(), tmp_path / "tied")
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "b.bias", "b.weight"'):
        load_model(Untied(), tmp_path / "tied")
    assert load_model(Untied(), tmp_path / "tied", strict=False) == ({"b.bias", "b.weight"}, [])
    save_model(Untied(), tmp_path / "free")
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "b.bias", "b.weight"'):
        load_model(Tied(), tmp_path / "free")


def test_any_name_of_a_group_is_loaded(tmp_path):
    model = Tied()
    state = {name: tensor for name, tensor in model.state_dict().items() if name.startswith("b.")}
    save_file(state, tmp_path / "m")
    copy = Tied()
    load_model(copy, tmp_path / "m", backend="pread")
    assert torch.equal(copy.a.weight, model.a.weight)


def test_tensors_that_are_not_contiguous_are_stored_contiguously(tmp_path):
    model = torch.nn.Linear(4, 6)
    model.weight = torch.nn.Parameter(torch.randn(4, 6).t())
    with pytest.raises(ValueError, match=r"use save_model\(..., force_contiguous=True\)"):
        save_model(model, tmp_path / "m", force_contiguous=False)
    save_model(model, tmp_path / "m")
    assert torch.equal(load_file(tmp_path / "m")["weight"], model.weight)
