"""The dtypes of the format: their names in files, in numpy and in torch."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import SafetensorError

if TYPE_CHECKING:
    import numpy

# Maps the names of dtypes in numpy, ml_dtypes and torch, which `TensorSpec` accepts, to the names that files store.
STORED_NAMES = {
    "bool": "BOOL",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2": "F8_E5M2",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0",
    "float4_e2m1fn_x2": "F4",
    "complex64": "C64",
}
_FRAMEWORK_NAMES = {stored: name for name, stored in STORED_NAMES.items()}


def stored_name_of(name: str) -> str:
    """The name that a file stores for a dtype of numpy or torch."""
    if name in STORED_NAMES:
        return STORED_NAMES[name]
    raise SafetensorError(
        f'Unknown dtype "{name}". Supported dtypes: {", ".join(STORED_NAMES)}',
        code="bad_dtype",
        hint="convert the tensor to a supported dtype",
    )


@lru_cache(maxsize=None)
def numpy_dtype(stored_name: str) -> numpy.dtype[Any]:
    """The little-endian numpy dtype for the name of a dtype in a file."""
    import numpy

    name = _FRAMEWORK_NAMES.get(stored_name, "")
    for module in ("numpy", "ml_dtypes"):
        # Importing ml_dtypes registers its dtypes with numpy.
        with suppress(ImportError, TypeError):
            import_module(module)
            return numpy.dtype(name).newbyteorder("<")
    raise SafetensorError(
        f"numpy has no dtype for {stored_name}",
        code="bad_dtype",
        hint="install ml_dtypes, open the file with framework='pt', or decode the tensor with "
        "htensor.open(path)[name].to('float32')",
    )


@lru_cache(maxsize=None)
def torch_dtype(stored_name: str) -> Any:
    """The torch dtype for the name of a dtype in a file."""
    import torch

    dtype = getattr(torch, _FRAMEWORK_NAMES.get(stored_name, ""), None)
    if dtype is not None:
        return dtype
    raise SafetensorError(
        f"torch {torch.__version__} has no dtype for {stored_name}",
        code="bad_dtype",
        hint="install a newer torch, or decode the tensor with htensor.open(path)[name].to('float32')",
    )


@lru_cache(maxsize=None)
def torch_item_bytes(stored_name: str) -> int:
    """The bytes of one element in torch."""
    import torch

    return torch.empty(0, dtype=torch_dtype(stored_name)).element_size()
