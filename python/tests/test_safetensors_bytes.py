"""htensor.safetensors writes the same bytes as the reference package, and reads them back."""

import ctypes
import json
import math
import os
import random
import stat

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

import htensor
import htensor.safetensors as safetensors
from htensor.safetensors.numpy import load, load_file, save, save_file

# Maps each dtype to the name that files store, in the order of the reference's enumeration of dtypes. The reference
# stores tensors in the reverse order of their dtypes.
STORED_NAMES = {
    "bool": "BOOL", "float4_e2m1fn_x2": "F4", "uint8": "U8", "int8": "I8", "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "int16": "I16", "uint16": "U16", "float16": "F16", "bfloat16": "BF16",
    "int32": "I32", "uint32": "U32", "float32": "F32", "complex64": "C64", "float64": "F64", "int64": "I64",
    "uint64": "U64",
}  # fmt: skip
BYTES = {"64": 8, "32": 4, "16": 2}


def item_bytes(dtype):
    if dtype == "complex64":
        return 8
    return next((size for bits, size in BYTES.items() if dtype.endswith(bits)), 1) if "8" not in dtype[-3:] else 1


def expected(tensors, metadata=None):
    """The file of {name: (dtype, shape, bytes)} as the reference lays it out."""
    order = list(STORED_NAMES)
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = dict(sorted(metadata.items()))
    for name, (dtype, shape, raw) in sorted(tensors.items(), key=lambda item: (-order.index(item[1][0]), item[0])):
        shape = [*shape[:-1], shape[-1] * 2] if dtype == "float4_e2m1fn_x2" else list(shape)
        header[name] = {"dtype": STORED_NAMES[dtype], "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def specs(tensors):
    buffers = {name: np.frombuffer(bytearray(raw), np.uint8) for name, (_, _, raw) in tensors.items()}
    return buffers, {
        name: safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=buffers[name].ctypes.data, data_len=len(raw))
        for name, (dtype, shape, raw) in tensors.items()
    }


def written(tensors, metadata, tmp_path):
    """The serialized bytes; asserts that a file gets the same bytes."""
    buffers, given = specs(tensors)
    data = safetensors.serialize(given, metadata=metadata)
    path = tmp_path / "model.safetensors"
    safetensors.serialize_file(given, path, metadata=metadata)
    assert path.read_bytes() == data
    return data


def random_tensors(seed):
    draw = random.Random(seed)
    tensors = {}
    for i in range(draw.randrange(1, 12)):
        dtype = draw.choice(list(STORED_NAMES))
        shape = [draw.randrange(0, 5) for _ in range(draw.randrange(1, 4))]
        name = draw.choice(["w", "a.b", "ünï", 'quote"', "tab\t", "back\\slash", "\x01", "😀"]) + str(i % 4)
        tensors[name] = (dtype, shape, draw.randbytes(math.prod(shape) * item_bytes(dtype)))
    return tensors


@pytest.mark.parametrize("seed", range(30))
def test_bytes_equal_the_reference_layout(seed, tmp_path):
    tensors = random_tensors(seed)
    metadata = [None, {}, {"format": "pt"}, {"z": "1", "a": 'ü"\n'}][seed % 4]
    data = written(tensors, metadata, tmp_path)
    assert data == expected(tensors, metadata)
    found = dict(safetensors.deserialize(data))
    assert {name: bytes(entry["data"]) for name, entry in found.items()} == {k: v[2] for k, v in tensors.items()}
    assert all(isinstance(entry["data"], bytearray) for entry in found.values())
    with safetensors.safe_open(tmp_path / "model.safetensors", framework="np") as file:
        assert file.metadata() == metadata
        assert file.keys() == sorted(tensors)
        assert file.offset_keys() == [name for name, _ in safetensors.deserialize(data)]


@pytest.mark.parametrize("metadata", [None, {}, {"a": "b"}])
def test_a_file_without_tensors_equals_the_reference_layout(metadata, tmp_path):
    assert written({}, metadata, tmp_path) == expected({}, metadata)
    assert load_file(tmp_path / "model.safetensors") == {}


def test_tensors_of_every_dtype_equal_the_reference_layout(tmp_path):
    tensors = {dtype: (dtype, [3, 2], bytes(range(6 * item_bytes(dtype)))) for dtype in STORED_NAMES}
    assert written(tensors, None, tmp_path) == expected(tensors)


def test_order_of_the_dict_does_not_matter():
    arrays = {f"t{i}": np.full((2, 2), i, dtype) for i, dtype in enumerate(["int32", "float16", "int32", "uint8"])}
    assert save(arrays) == save(dict(reversed(arrays.items())))


@pytest.mark.parametrize("array", [
    np.arange(6, dtype=">i4").reshape(2, 3),
    np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    np.arange(24, dtype="f4").reshape(4, 6)[::2, 1::2],
    np.array(True),
    np.zeros((0, 3), "complex64"),
])  # fmt: skip
def test_arrays_of_any_layout_and_byte_order_are_read_back(array, tmp_path):
    save_file({"a": array}, tmp_path / "a")
    for found in (load_file(tmp_path / "a")["a"], load(save({"a": array}))["a"]):
        assert found.dtype == array.dtype.newbyteorder("=") and found.shape == array.shape
        assert np.array_equal(found, array) and found.flags.writeable


def test_a_file_is_replaced_and_mapped_arrays_keep_the_old_contents(tmp_path):
    path = tmp_path / "model.safetensors"
    for metadata in (None, {}):
        save_file({"a": np.zeros(1000)}, path)
        old = load_file(path)["a"]
        save_file({"a": np.ones(1000)}, path, metadata=metadata)
        assert old.sum() == 0 and load_file(path)["a"].sum() == 1000
        assert os.listdir(tmp_path) == ["model.safetensors"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()


@pytest.mark.parametrize("metadata", [None, {}])
def test_a_replaced_file_keeps_its_permissions_and_its_seal_is_renewed(metadata, tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"a": np.zeros(3)}, path)
    path.chmod(0o600)
    htensor.seal(path)
    save_file({"a": np.ones(3)}, path, metadata=metadata)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_file(path)["a"].sum() == 3 and htensor.verify(path)


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_spec_has_properties_and_a_repr():
    spec = safetensors.TensorSpec(dtype="float4_e2m1fn_x2", shape=(2, 3), data_ptr=64, data_len=6)
    assert (spec.dtype, spec.shape, spec.data_ptr, spec.data_len) == ("F4", [2, 6], 64, 6)
    assert repr(spec) == "TensorSpec(dtype='F4', shape=[2, 6], data_ptr=64, data_len=6)"
    with pytest.raises(AttributeError):
        spec.shape = [1]
    with pytest.raises(TypeError):
        safetensors.TensorSpec("float32", [1], 0, 4)


@pytest.mark.parametrize("arguments, error", [
    ({"dtype": "complex128"}, safetensors.SafetensorError),
    ({"dtype": "float4_e2m1fn_x2", "shape": [2, 2**63]}, safetensors.SafetensorError),
    ({"dtype": 5}, TypeError),
    ({"shape": [-1]}, OverflowError),
    ({"shape": ["a"]}, TypeError),
    ({"data_ptr": -1}, OverflowError),
    ({"data_len": 1.5}, TypeError),
])  # fmt: skip
def test_a_wrong_spec_is_refused(arguments, error):
    with pytest.raises(error):
        safetensors.TensorSpec(**{"dtype": "float32", "shape": [1], "data_ptr": 0, "data_len": 4, **arguments})


def test_wrong_arguments_are_a_type_error():
    buffers, good = specs({"a": ("uint8", [1], b"x")})
    raw = {"a": {"dtype": "uint8", "shape": [1], "data": b"x"}}
    for tensors, metadata in [(raw, None), ({1: good["a"]}, None), ([("a", good["a"])], None), (good, {"a": 1}),
                              (good, {1: "a"}), (good, ["a"])]:  # fmt: skip
        with pytest.raises(TypeError):
            safetensors.serialize(tensors, metadata)


def test_a_size_that_does_not_match_is_refused(tmp_path):
    buffers, wrong = specs({"a": ("float32", [3], b"12345678")})
    with pytest.raises(safetensors.SafetensorError, match="Error while serializing") as caught:
        safetensors.serialize(wrong)
    assert caught.value.code == "size_mismatch" and caught.value.tensor == "a"
    with pytest.raises(safetensors.SafetensorError):
        safetensors.serialize_file(wrong, tmp_path / "a")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("shape, size", [([2**63], 4), ([2**64 - 1], 4), ([2**63, 0], 0), ([1], 2**63), ([2**62, 2**62], 4)])
def test_sizes_beyond_63_bits_are_refused(shape, size, tmp_path):
    memory = ctypes.create_string_buffer(8)
    spec = safetensors.TensorSpec(dtype="float32", shape=shape, data_ptr=ctypes.addressof(memory), data_len=size)
    for write in (safetensors.serialize, lambda specs: safetensors.serialize_file(specs, tmp_path / "a")):
        with pytest.raises(safetensors.SafetensorError, match="Error while serializing") as caught:
            write({"a": spec})
        assert caught.value.tensor == "a"
    assert os.listdir(tmp_path) == []


def test_a_dict_in_place_of_a_spec_is_refused_with_the_text_of_the_reference():
    with pytest.raises(TypeError, match="argument 'tensor_dict': 'dict' object is not an instance of 'TensorSpec'"):
        safetensors.serialize({"a": {"dtype": "float32", "shape": [1], "data": b"1234"}})


def test_a_null_pointer_is_refused():
    spec = safetensors.TensorSpec(dtype="uint8", shape=[4], data_ptr=0, data_len=4)
    with pytest.raises(safetensors.SafetensorError, match="data_ptr is null but data_len is 4"):
        safetensors.serialize({"a": spec})


@pytest.mark.parametrize("metadata", [None, {}])
def test_a_folder_that_does_not_exist_is_an_error(metadata, tmp_path):
    with pytest.raises(safetensors.SafetensorError, match="Error while serializing"):
        save_file({"a": np.zeros(1)}, tmp_path / "none" / "a.safetensors", metadata=metadata)


@pytest.mark.parametrize("data", [b"", b"1234567", b"\xff" * 100, b"\x02" + bytes(7) + b"{}x", b"GGUF\3" + bytes(19)])
def test_bytes_of_another_format_are_refused(data):
    with pytest.raises(safetensors.SafetensorError, match="Error while deserializing") as caught:
        load(data)
    assert isinstance(caught.value, htensor.Error) and caught.value.code
