"""Opens safetensors files lazily: `safe_open`."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Sequence
from typing import Any

import htensor

from ._arrays import NumpyArrays, TorchArrays
from ._errors import SafetensorError
from ._indexing import resolve
from ._writer import in_data_order

_FRAMEWORKS = {
    "pt": "pytorch",
    "torch": "pytorch",
    "pytorch": "pytorch",
    "np": "numpy",
    "numpy": "numpy",
    "tf": "tensorflow",
    "tensorflow": "tensorflow",
    "jax": "flax",
    "flax": "flax",
    "mlx": "mlx",
    "paddle": "paddle",
}
_ARRAYS: dict[str, type[NumpyArrays] | type[TorchArrays]] = {"numpy": NumpyArrays, "pytorch": TorchArrays}
# Devices with an optional number, as in "cuda:1".
_NUMBERED = ("cuda", "musa", "npu", "xpu", "xla", "mlu", "hpu")

# Smaller files are read by page faults.
_MIN_LOADED_BYTES = 1 << 20
_PAGE_CACHE_SAMPLES = 64


class safe_open:
    """A safetensors file whose tensors are read when they are requested.

    `framework` is "pt" or "np" (also "torch", "pytorch", "numpy"); `device` is a torch device as a str or an
    int, and "cpu" for numpy. `backend` is "mmap" or "pread".

    With "mmap", arrays are private pages of the file: reading them reads the file, writing to them changes
    this process only, and all arrays of one `safe_open` show the change. They stay valid when the file is
    closed, replaced or deleted; if it is truncated, reading them raises SIGBUS. With "pread", every array has
    memory of its own.

    The file is checked when it is opened: FileNotFoundError and other OSErrors if it cannot be read,
    SafetensorError if it is not a valid safetensors file. Threads may share one object.
    """

    __module__ = "htensor.safetensors"

    def __init__(
        self,
        filename: str | os.PathLike[str],
        framework: str,
        device: str | int | None = "cpu",
        *,
        backend: str = "mmap",
    ) -> None:
        kind = _framework(framework)
        place = _device("cpu" if device is None else device)
        if backend not in ("mmap", "pread"):
            raise SafetensorError(f'backend "{backend}" is invalid (expected one of: "mmap", "pread")')
        self._file: _File | None = _File(os.fspath(filename), kind, place, backend)

    def _open(self) -> _File:
        file = self._file
        if file is None:
            raise SafetensorError("File is closed", hint="use the file inside its `with` block")
        return file

    def keys(self) -> list[str]:
        """The names of all tensors, sorted."""
        return sorted(self._open().model)

    def offset_keys(self) -> list[str]:
        """The names of all tensors in the order of their data."""
        return [tensor.name for tensor in in_data_order(self._open().model)]

    def metadata(self) -> dict[str, str] | None:
        """The texts that were stored with the tensors; None if the file has none."""
        return self._open().metadata()

    def get_tensor(self, name: str) -> Any:
        """The whole tensor of this name. SafetensorError if there is none."""
        file = self._open()
        return file.whole(file.find(name))

    def get_tensors(self) -> dict[str, Any]:
        """All tensors, in the order of their data.

        With "mmap", a file that is not in the page cache and fits into memory is read as a whole, with the
        GIL released. The arrays then share one block of memory instead of pages of the file. It is freed with
        the last array.
        """
        file = self._open()
        file.load()
        return {tensor.name: file.whole(tensor) for tensor in in_data_order(file.model)}

    def get_slice(self, name: str) -> PySafeSlice:
        """A tensor to index: `get_slice("embedding")[:1024, ::2]` reads only the selected part."""
        file = self._open()
        return PySafeSlice(file, file.find(name))

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file = None


class _safe_open_handle(safe_open):
    """`safe_open` for a file object that has `fileno` and `name`."""

    __module__ = "htensor.safetensors"

    def __init__(self, f: Any, framework: str, device: str | int | None = "cpu") -> None:
        f.fileno
        super().__init__(f.name, framework, device)


class PySafeSlice:
    """A tensor of an open file. Indexing it reads the selected part. Stays valid when the file is closed.

    With torch and "mmap", an index is anything that torch accepts. Otherwise it has ints, slices with a positive
    step and `...`, and a position beyond the shape is an error.
    """

    __module__ = "htensor.safetensors"

    def __init__(self, file: _File, tensor: htensor.Tensor) -> None:
        self._file = file
        self._tensor = tensor

    def get_shape(self) -> list[int]:
        """The shape of the whole tensor."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The dtype of the whole tensor as in the file, such as "F32"."""
        return self._tensor.type

    def __getitem__(self, index: Any) -> Any:
        return self._file.part(self._tensor, index)


class _File:
    """An open file with the framework and the device of its arrays."""

    def __init__(self, path: str, framework: str, device: str | int, backend: str) -> None:
        self.path = path
        self.device = device
        self.backend = backend
        descriptor = _open_descriptor(path)
        try:
            if device != "cpu" and framework not in ("pytorch", "paddle"):
                raise SafetensorError(f"Device {device} is not supported for framework {framework}")
            self.model = _open_model(descriptor, path, backend)
            self.has_metadata = bool(self.model.metadata) or _has_metadata(descriptor)
            self.file_bytes = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if framework not in _ARRAYS:
            raise ImportError(f"htensor.safetensors reads files for numpy and torch, but not for {framework}")
        self.framework = framework
        self.arrays = _ARRAYS[framework]()

    def metadata(self) -> dict[str, str] | None:
        return dict(self.model.metadata) if self.has_metadata else None

    def find(self, name: str) -> htensor.Tensor:
        try:
            return self.model[name]
        except htensor.Error as error:
            raise SafetensorError(f"File does not contain tensor {name}", cause=error) from error

    def whole(self, tensor: htensor.Tensor) -> Any:
        return self.arrays.to_device(self._on_host(tensor), self.device)

    def part(self, tensor: htensor.Tensor, index: Any) -> Any:
        if self.backend == "pread":
            array = self._read_part(tensor, resolve(index, tensor.shape))
        elif self.framework == "pytorch":
            array = self._on_host(tensor)[index]
        else:
            array = self.arrays.select(self._on_host(tensor), resolve(index, tensor.shape))
        return self.arrays.to_device(array, self.device)

    def load(self) -> None:
        """Reads the file into the model's own memory, unless the file is in the page cache or exceeds memory.

        Direct I/O into huge pages is faster than page faults, and `_private_buffer` then returns that memory.
        """
        if self.backend != "mmap" or self._is_cached():
            return
        try:
            self.model.load(strategy="read")
        except htensor.Error as error:
            if error.code != "budget_too_small":
                raise self._error(error) from error

    def _on_host(self, tensor: htensor.Tensor) -> Any:
        if self.backend == "pread" or tensor.nbytes == 0:
            return self._read(tensor, 0, tensor.shape)
        try:
            buffer = tensor._private_buffer()
        except htensor.Error as error:
            raise self._error(error) from error
        if self.arrays.is_aligned(buffer.address, tensor.type):
            return self.arrays.view(buffer, tensor)
        return self._read(tensor, 0, tensor.shape)

    def _read(self, tensor: htensor.Tensor, begin: int, shape: Sequence[int]) -> Any:
        """An array in memory of its own, from byte `begin` of the tensor on."""
        array, memory = self.arrays.allocate(tensor, shape)
        try:
            tensor._copy_to(begin, memory)
        except htensor.Error as error:
            raise self._error(error) from error
        return array

    def _read_part(self, tensor: htensor.Tensor, index: list[int | slice]) -> Any:
        """The selected elements. Reads all rows from the first to the last selected row."""
        shape = tensor.shape
        if not index or not tensor.nbytes:
            return self.arrays.select(self._read(tensor, 0, shape), index)
        rows = index[0] if isinstance(index[0], slice) else slice(index[0], index[0] + 1, 1)
        count = max(rows.stop - rows.start, 0)
        row_bits = tensor.nbytes * 8 // shape[0]
        if row_bits % 8:
            return self.arrays.select(self._read(tensor, 0, shape), index)
        array = self._read(tensor, rows.start * row_bits // 8, (count, *shape[1:]))
        first = slice(None, None, rows.step) if isinstance(index[0], slice) else 0
        found = self.arrays.select(array, [first, *index[1:]])
        is_all = math.prod(found.shape) == math.prod(array.shape)
        return found if is_all else self.arrays.copy(found)

    def _error(self, error: htensor.Error) -> SafetensorError:
        return _wrap(f"Error while reading tensors: {error}", error, self.path)

    def _is_cached(self) -> bool:
        """Whether samples of the file are in the page cache; takes microseconds."""
        if self.file_bytes < _MIN_LOADED_BYTES:
            return True
        part = self.file_bytes // _PAGE_CACHE_SAMPLES
        try:
            with open(self.path, "rb", buffering=0) as file:
                for i in range(_PAGE_CACHE_SAMPLES):
                    os.preadv(file.fileno(), [bytearray(1)], i * part + part // 2, os.RWF_NOWAIT)
        except OSError:
            # EAGAIN: a page is not in the page cache. The load reports other errors.
            return False
        return True


def _framework(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"framework is a str, not {type(name).__name__}")
    if name not in _FRAMEWORKS:
        raise SafetensorError(f"framework {name} is invalid", hint="pass 'pt' or 'np'")
    return _FRAMEWORKS[name]


def _device(device: str | int) -> str | int:
    """The device as torch spells it."""
    text = device if isinstance(device, str) else repr(device)
    why = ": only mps or mps:0 is supported" if text.startswith("mps:") else ""
    invalid = SafetensorError(f"device {text} is invalid{why}", hint="pass 'cpu', 'cuda', 'cuda:0', … or a number")
    if not isinstance(device, str):
        try:
            number = operator.index(device)
        except TypeError:
            raise invalid from None
        if number < 0:
            raise invalid
        return number
    kind, colon, digits = device.partition(":")
    if kind in ("cpu", "mps"):
        if colon and device != "mps:0":
            raise invalid
        return kind
    if kind not in _NUMBERED or (colon and not digits.isdecimal()):
        raise invalid
    return f"{kind}:{int(digits or 0)}"


def _open_descriptor(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        # The message of the reference lacks the errno, which Python adds if strerror or filename is set.
        found = type(error)(f"{error.strerror}: {os.fsdecode(path)}")
        found.errno = error.errno
        raise found from None


def _open_model(descriptor: int, path: str, backend: str) -> htensor.Model:
    try:
        # With faults="off", the library reads by system calls.
        model = htensor.from_fd(descriptor, faults="off" if backend == "pread" else "guarded")
    except htensor.Error as error:
        if isinstance(error, OSError):
            raise
        raise _wrap(f"Error while deserializing header: {error}", error, path) from error
    if model.format != "safetensors":
        raise SafetensorError(
            f"Error while deserializing header: the file is {model.format}, not safetensors",
            code="bad_magic",
            path=os.fsdecode(path),
            hint="open it with htensor.open, or convert it with htensor.convert",
        )
    return model


def _wrap(message: str, error: htensor.Error, path: str) -> SafetensorError:
    # The error has no path, because the library opened a descriptor.
    return SafetensorError(message, cause=error, path=os.fsdecode(path))


def _has_metadata(descriptor: int) -> bool:
    """Whether the header has `__metadata__`. The model does not distinguish empty from missing metadata."""
    length = int.from_bytes(os.pread(descriptor, 8, 0), "little")
    header = os.pread(descriptor, length, 8)
    return b"__metadata__" in header and isinstance(json.loads(header).get("__metadata__"), dict)
