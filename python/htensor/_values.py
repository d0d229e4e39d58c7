"""Converts values of the caller to tensors to save."""

from __future__ import annotations

import sys

from . import _native, _types
from ._tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


class Raw:
    """Stored bytes of a type for `save`: Raw("BF16", (2, 3), data), Raw("Q4_K", (1, 256), blocks).

    `data` is any contiguous buffer with the elements in native byte order: blocks as ggml stores them, elements of
    4 and 6 bits packed.
    """

    __slots__ = ("type", "shape", "data")

    def __init__(self, type: str, shape: Sequence[int], data: Any) -> None:
        if not _native.type_from_name(type):
            raise ValueError(f"type {type!r} does not exist; use a name such as 'BF16' or 'Q4_K'")
        self.type = type
        self.shape = tuple(shape)
        self.data = data

    def __repr__(self) -> str:
        return f"Raw({self.type!r}, {self.shape!r}, …)"


def _from_numpy(name: str, array: Any) -> tuple[Any, ...]:
    np = _types.import_numpy()
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    code = _types.CODES.get(array.dtype.name)
    if code is None:
        raise TypeError(f"tensor {name!r}: dtype {array.dtype} cannot be stored")
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if code in _types.PACKED:
        width = _types.PACKED[code]
        bits = np.unpackbits(data.reshape(-1, 1), axis=1, count=width, bitorder="little")
        data = np.packbits(bits.reshape(-1), bitorder="little")
    return name, code, array.shape, data


def _from_torch(name: str, tensor: Any, torch: Any) -> tuple[Any, ...]:
    code = _types.CODES.get(str(tensor.dtype).rpartition(".")[2])
    if code is None:
        raise TypeError(f"tensor {name!r}: {tensor.dtype} cannot be stored")
    if tensor.layout != torch.strided:
        raise TypeError(f"tensor {name!r}: {tensor.layout} cannot be stored; use to_dense()")
    flat = tensor.detach().resolve_conj().resolve_neg().to("cpu").contiguous().reshape(-1)
    return name, code, tuple(tensor.shape), flat.view(torch.uint8).numpy()


def _item(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, Tensor):
        return name, value
    if isinstance(value, Raw):
        return name, _native.type_from_name(value.type), value.shape, value.data
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _from_torch(name, value, torch)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        return _from_numpy(name, numpy.asarray(value))
    if hasattr(value, "__dlpack__"):
        try:
            # Only DLPack 1.0 and later can export read-only memory.
            return name, value.__dlpack__(max_version=(1, 0))
        except TypeError:
            return name, value.__dlpack__()
    if isinstance(value, (str, bytes, dict)) or value is None:
        raise TypeError(f"tensor {name!r}: {type(value).__name__} cannot be stored; use an array, or Raw for bytes")
    return _from_numpy(name, _types.import_numpy().asarray(value))


def items_of(tensors: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The tensors for the extension: (name, Tensor), (name, capsule) or (name, type, shape, buffer)."""
    items = []
    for name, value in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"names of tensors are str, not {type(name).__name__}")
        items.append(_item(name, value))
    return items


Raw.__module__ = "htensor"
