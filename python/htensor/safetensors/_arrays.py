"""Arrays of numpy and tensors of torch, on bytes of a file or in memory of their own.

Each framework has a class with the same methods, so that the reader depends on neither framework.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from ._dtypes import numpy_dtype, torch_dtype, torch_item_bytes
from ._errors import SafetensorError


class NumpyArrays:
    def __init__(self) -> None:
        import numpy

        self._numpy = numpy

    def is_aligned(self, address: int, code: str) -> bool:
        """Whether an array may begin at this address; numpy accepts every address."""
        return True

    def view(self, buffer: Any, code: str, shape: Sequence[int]) -> Any:
        """An array on the bytes of a writable buffer, which it keeps alive."""
        if math.prod(shape) == 0:
            return self._numpy.zeros(shape, numpy_dtype(code))
        return self._numpy.frombuffer(buffer, numpy_dtype(code)).reshape(shape)

    def allocate(self, code: str, shape: Sequence[int]) -> tuple[Any, Any]:
        """A new array and its memory as a writable buffer of bytes."""
        array = self._numpy.empty(shape, numpy_dtype(code))
        return array, array.reshape(-1).view(self._numpy.uint8)

    def select(self, array: Any, index: Sequence[Any]) -> Any:
        """A part of an array. A single element is an array of rank 0, not a scalar."""
        return array[(*index, Ellipsis)]

    def copy(self, array: Any) -> Any:
        return array.copy()

    def to_device(self, array: Any, device: Any) -> Any:
        return array


class TorchArrays:
    def __init__(self) -> None:
        import torch

        self._torch = torch

    def is_aligned(self, address: int, code: str) -> bool:
        """Whether a tensor may begin at this address."""
        return address % torch_item_bytes(code) == 0

    def view(self, buffer: Any, code: str, shape: Sequence[int]) -> Any:
        """A tensor on the bytes of a writable buffer, which it keeps alive."""
        if math.prod(shape) == 0:
            return self.allocate(code, shape)[0]
        return self._torch.frombuffer(buffer, dtype=torch_dtype(code)).reshape(_torch_shape(code, shape))

    def allocate(self, code: str, shape: Sequence[int]) -> tuple[Any, Any]:
        """A new tensor and its memory as a writable buffer of bytes."""
        tensor = self._torch.empty(_torch_shape(code, shape), dtype=torch_dtype(code), device="cpu")
        count = tensor.nelement() * tensor.element_size()
        return tensor, (ctypes.c_char * count).from_address(tensor.data_ptr()) if count else bytearray()

    def select(self, tensor: Any, index: Sequence[Any]) -> Any:
        return tensor[tuple(index)]

    def copy(self, tensor: Any) -> Any:
        return tensor.clone(memory_format=self._torch.contiguous_format)

    def to_device(self, tensor: Any, device: Any) -> Any:
        return tensor if device == "cpu" else tensor.to(device)


def _torch_shape(code: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape in torch, where one F4 element is a byte with two elements of the file."""
    if code != "F4":
        return tuple(shape)
    if not shape or shape[-1] % 2:
        raise SafetensorError(
            f"f4_x2 dtype requires that the last dim be divisible by 2 in torch: got {list(shape)}",
            code="bad_shape",
        )
    return (*shape[:-1], shape[-1] // 2)
