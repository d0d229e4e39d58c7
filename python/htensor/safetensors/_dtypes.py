"""The dtypes of the format: their names in files, in numpy and in torch."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._errors import SafetensorError

if TYPE_CHECKING:
    import numpy

# Maps the names of numpy, ml_dtypes and torch, which `TensorSpec` accepts, to the names in files.
CODES = {
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
NAMES = {code: name for name, code in CODES.items()}


def code_of(name: str) -> str:
    """The name in files of a dtype of numpy or torch."""
    if name in CODES:
        return CODES[name]
    raise SafetensorError(
        f'Unknown dtype "{name}". Supported dtypes: {", ".join(CODES)}',
        code="bad_dtype",
        hint="convert the tensor to a supported dtype",
    )


@lru_cache(maxsize=None)
def numpy_dtype(code: str) -> numpy.dtype[Any]:
    """The little-endian numpy dtype of a dtype in a file."""
    import numpy

    name = NAMES.get(code, "")
    for module in ("numpy", "ml_dtypes"):
        # Importing ml_dtypes registers its dtypes with numpy.
        with suppress(ImportError, TypeError):
            import_module(module)
            return numpy.dtype(name).newbyteorder("<")
    raise SafetensorError(
        f"numpy has no dtype for {code}",
        code="bad_dtype",
        hint="install ml_dtypes, open the file with framework='pt', or decode the tensor with "
        "htensor.open(path)[name].to('float32')",
    )


@lru_cache(maxsize=None)
def torch_dtype(code: str) -> Any:
    """The torch dtype of a dtype in a file."""
    import torch

    dtype = getattr(torch, NAMES.get(code, ""), None)
    if dtype is not None:
        return dtype
    raise SafetensorError(
        f"torch {torch.__version__} has no dtype for {code}",
        code="bad_dtype",
        hint="install a newer torch, or decode the tensor with htensor.open(path)[name].to('float32')",
    )


@lru_cache(maxsize=None)
def torch_item_bytes(code: str) -> int:
    """The bytes of one element in torch."""
    import torch

    return torch.empty(0, dtype=torch_dtype(code)).element_size()
