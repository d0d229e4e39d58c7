"""Signatures: those of the extension equal its stub, those of the drop-in equal the safetensors package, and those of
the public functions equal a list."""

import ast
import importlib.util
import inspect
import pathlib
import re

import pytest

import htensor
import htensor.safetensors

native = htensor._model._native
STUB = ast.parse(pathlib.Path(htensor.__file__).with_name("_native.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUB.body if isinstance(node, ast.FunctionDef)}
METHODS = {
    f"{kind}.{node.name}": node
    for kind, tree in CLASSES.items()
    for node in tree.body
    if isinstance(node, ast.FunctionDef) and not node.decorator_list and not node.name.startswith("__")
}
PROPERTIES = [
    (kind, node.name)
    for kind, tree in CLASSES.items()
    for node in tree.body
    if isinstance(node, ast.FunctionDef) and [ast.unparse(item) for item in node.decorator_list] == ["property"]
]


def positional_parameters(node, is_method=False):
    """The number of parameters; all must be positional and required."""
    rest = node.args
    assert not (rest.vararg or rest.kwarg or rest.kwonlyargs or rest.defaults or rest.kw_defaults), node.name
    names = [item.arg for item in rest.args]
    assert names in ([], ["self"]), f"{node.name}: the extension takes no keywords, so the stub needs a '/' after {names}"
    return len(rest.posonlyargs) + len(names) - is_method


def stated_count(call, count):
    """Calls `call` with `count` arguments, a wrong number. Returns the number that `call` takes, from the text of the
    TypeError."""
    with pytest.raises(TypeError) as caught:
        call(*[None] * count)
    found = re.search(rf"takes (?:exactly )?(no|one|\d+) arguments? \({count} given\)", str(caught.value))
    assert found, caught.value
    return {"no": 0, "one": 1}.get(found[1]) if not found[1].isdigit() else int(found[1])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_the_extension_take_the_parameters_of_the_stub(name):
    function = getattr(native, name)
    count = positional_parameters(FUNCTIONS[name])
    if function.__text_signature__:
        assert len(inspect.signature(function).parameters) == count
    assert stated_count(function, count + 1) == count
    if count:
        assert stated_count(function, count - 1) == count
    with pytest.raises(TypeError, match="keyword"):
        function(*[None] * count, no_such_keyword=1)


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_the_extension_take_the_parameters_of_the_stub(path, name):
    model = htensor.open(path)
    kind, _, method = name.partition(".")
    function = getattr({"Model": model, "Tensor": model["ids"]}[kind], method)
    count = positional_parameters(METHODS[name], is_method=True)
    assert stated_count(function, count + 1) == count
    if count:
        assert stated_count(function, count - 1) == count


def test_properties_of_the_stub_are_read_only_attributes(path):
    model = htensor.open(path)
    objects = {"Model": model, "Tensor": model["ids"], "Buffer": model["ids"]._buffer()}
    assert len(PROPERTIES) > 10
    for kind, name in PROPERTIES:
        assert inspect.isdatadescriptor(getattr(getattr(native, kind), name)), (kind, name)
        getattr(objects[kind], name)
        with pytest.raises(AttributeError):
            setattr(objects[kind], name, 1)


# The types of the values that the properties return. The stub must state the same types.
RETURNED = {
    "Model.closed": bool, "Model.format": str, "Model.files": list, "Model.metadata": dict, "Tensor.name": str,
    "Tensor.type": str, "Tensor.shape": tuple, "Tensor.strides": tuple, "Tensor.nbytes": int, "Tensor.offset": int,
    "Tensor.file": str, "Tensor.note": str, "Tensor.index": int, "Tensor._type_and_bits": int, "Tensor._facts": tuple,
    "Buffer.address": int,
}  # fmt: skip


def test_properties_of_the_stub_have_their_type(path):
    model = htensor.open(path)
    objects = {"Model": model, "Tensor": model["ids"], "Buffer": model["ids"]._buffer()}
    assert {f"{kind}.{name}" for kind, name in PROPERTIES} == set(RETURNED)
    for kind, name in PROPERTIES:
        node = next(item for item in CLASSES[kind].body if item.name == name)
        assert type(getattr(objects[kind], name)) is RETURNED[f"{kind}.{name}"]
        assert re.match(rf"{RETURNED[f'{kind}.{name}'].__name__}\b", ast.unparse(node.returns)), (kind, name)


def text_of(function):
    """The signature without annotations."""
    signature = inspect.signature(function)
    bare = [item.replace(annotation=inspect.Parameter.empty) for item in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


# A change here changes the API of users: names, kinds and defaults.
PUBLIC = {
    "convert": (
        "(source, target, *, format=None, include=None, exclude=None, rename=None, cast=None, quantize=None, "
        "dequantize=None, round=False, saturate=False, seed=0, align=None, canonical=False, "
        "normalize_layout=False, share_blocks=False, plain=False, skip_metadata=False, shard_size=None, "
        "drop_metadata=False, raw_bytes=False, lossy=False, seal=False, force=False, dry_run=False, "
        "emit_mlir=None, scope=None, inline_below=None, max_header=None, progress=None)"
    ),
    "cpu_features": "()",
    "crc64nvme": "(data, before=0)",
    "crc64nvme_combine": "(first, second, second_bytes)",
    "diff": "(a, b, *, tolerance=None, progress=None)",
    "edit_metadata": "(path, changes, *, no_grow=False, max_header=None, progress=None)",
    "evict": "(source, *, include=None, exclude=None)",
    "from_bytes": "(data, *, allow_incomplete=False, max_header=None)",
    "from_fd": "(fd, *, faults='guarded', allow_incomplete=False, max_header=None)",
    "hash": "(source, *, algorithm='crc64nvme', per_tensor=False, max_splat=None, progress=None)",
    "load": (
        "(path, *, strategy='automatic', include=None, exclude=None, budget=None, verify=False, drop_after=False, "
        "chunks=0, chunk_bytes=None, progress=None, faults='guarded', max_header=None)"
    ),
    "open": "(path, *, faults='guarded', allow_incomplete=False, max_header=None)",
    "prefetch": "(source, *, include=None, exclude=None, progress=None)",
    "read_seal": "(path)",
    "residency": "(source)",
    "save": "(path, tensors, metadata=None, *, format=None, force=False, seal=False, progress=None, **options)",
    "seal": "(source, *, algorithm='crc64nvme', force=False, max_splat=None, progress=None)",
    "to_bytes": "(tensors, metadata=None, *, format='safetensors', progress=None, **options)",
    "validate": "(path, *, max_header=None)",
    "verify": "(path, *, quick=False, check=True, max_header=None, progress=None)",
    "Model.values": "(self)",
    "Model.items": "(self)",
    "Model.load": (
        "(self, *, strategy='automatic', include=None, exclude=None, budget=None, verify=False, drop_after=False, "
        "chunks=0, chunk_bytes=None, progress=None)"
    ),
    "Model.load_into": "(self, buffers, *, verify=False, drop_after=False, chunks=0, chunk_bytes=None, progress=None)",
    "Tensor.tobytes": "(self)",
    "Tensor.copy_to": "(self, buffer)",
    "Tensor.numpy": "(self)",
    "Tensor.to": "(self, dtype='float32', *, round=False, saturate=False, seed=0, index=Ellipsis, progress=None)",
    "Tensor.torch": "(self)",
    "Tensor.stats": "(self, *, progress=None)",
    "Tensor.__array__": "(self, dtype=None, copy=None)",
    "Tensor.__dlpack__": "(self, *, stream=None, max_version=None, dl_device=None, copy=None)",
    "Tensor.__dlpack_device__": "(self)",
    "Raw": "(type, shape, data)",
}


def public_functions():
    """Maps names to the public functions, and to the public methods of Model and Tensor."""
    found = {name: getattr(htensor, name) for name in htensor.__all__ if inspect.isfunction(getattr(htensor, name))}
    for kind in (htensor.Model, htensor.Tensor):
        found.update((f"{kind.__name__}.{name}", item) for name, item in vars(kind).items() if inspect.isfunction(item) and not name.startswith("_"))
    for name in ("__array__", "__dlpack__", "__dlpack_device__"):
        found[f"Tensor.{name}"] = getattr(htensor.Tensor, name)
    found["Raw"] = htensor.Raw
    return found


def test_public_functions_have_their_signatures():
    assert {name: text_of(function) for name, function in public_functions().items()} == PUBLIC


def test_public_functions_have_types_and_a_description():
    for name, function in public_functions().items():
        assert function.__doc__, name
        if inspect.isfunction(function):
            signature = inspect.signature(function)
            assert signature.return_annotation is not inspect.Signature.empty, name
            for item in list(signature.parameters.values())[name.count(".") :]:
                assert item.annotation is not inspect.Parameter.empty, (name, item)


# The signatures of safetensors 0.8, from its documentation and stubs.
# https://huggingface.co/docs/safetensors/api/torch and bindings/python/py_src/safetensors/__init__.pyi
REFERENCE = {
    "safe_open": "(filename, framework, device='cpu', *, backend='mmap')",
    "safe_open.keys": "(self)",
    "safe_open.offset_keys": "(self)",
    "safe_open.metadata": "(self)",
    "safe_open.get_tensor": "(self, name)",
    "safe_open.get_tensors": "(self)",
    "safe_open.get_slice": "(self, name)",
    "serialize": "(tensor_dict, metadata=None)",
    "serialize_file": "(tensor_dict, filename, metadata=None)",
    "deserialize": "(bytes)",
    "TensorSpec": "(*, dtype, shape, data_ptr, data_len)",
}
REFERENCE_NUMPY = {
    "save": "(tensor_dict, metadata=None)",
    "save_file": "(tensor_dict, filename, metadata=None)",
    "load": "(data)",
    "load_file": "(filename, *, backend='mmap')",
}
REFERENCE_TORCH = {
    "save": "(tensors, metadata=None)",
    "save_file": "(tensors, filename, metadata=None)",
    "load": "(data)",
    "load_file": "(filename, device='cpu', *, backend='mmap')",
    "save_model": "(model, filename, metadata=None, force_contiguous=True)",
    "load_model": "(model, filename, strict=True, device='cpu', *, backend='mmap')",
}


def check_signatures(module, expected):
    for name, signature in expected.items():
        item = module
        for part in name.split("."):
            item = getattr(item, part)
        assert text_of(item) == signature, name


def test_drop_in_has_the_signatures_of_the_reference():
    check_signatures(htensor.safetensors, REFERENCE)


def test_drop_in_for_numpy_has_the_signatures_of_the_reference():
    pytest.importorskip("numpy", reason="numpy is not installed")
    import htensor.safetensors.numpy

    check_signatures(htensor.safetensors.numpy, REFERENCE_NUMPY)


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="torch is not installed")
def test_drop_in_for_torch_has_the_signatures_of_the_reference():
    import htensor.safetensors.torch

    check_signatures(htensor.safetensors.torch, REFERENCE_TORCH)


def test_tensor_spec_has_the_fields_of_the_reference():
    spec = htensor.safetensors.TensorSpec(dtype="float4_e2m1fn_x2", shape=(2, 3), data_ptr=64, data_len=6)
    assert (spec.dtype, spec.shape, spec.data_ptr, spec.data_len) == ("F4", [2, 6], 64, 6)
    for name in ("dtype", "shape", "data_ptr", "data_len"):
        with pytest.raises(AttributeError):
            setattr(spec, name, 1)
    with pytest.raises(TypeError):
        htensor.safetensors.TensorSpec("float32", (2, 3), 64, 24)
