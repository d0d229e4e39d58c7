"""The class Model, and the functions that open a model."""

from __future__ import annotations

import os
from collections.abc import ItemsView, Mapping, ValuesView

from . import _native, _types
from ._progress import reporting
from ._results import LoadReport
from ._tensor import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Any, NoReturn, Union

    from ._progress import Progress

    StrPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
    #: One pattern, or several.
    Patterns = Union[str, Iterable[str], None]
    #: Bytes, or a text such as "4G".
    Size = Union[int, str, None]

_FAULTS = {"guarded": 0, "off": 1, "zero_fill": 2}
_STRATEGIES = {"automatic": 0, "mapped": 1, "read": 2}
# The strategy of `load_into`, which reads into buffers of the caller.
_EXTERNAL = 4
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def size_of(size: Size, name: str) -> int:
    """The bytes of a number or of a text such as "512M" or "2.5GiB" (powers of 1024); 0 for None."""
    if size is None:
        return 0
    if isinstance(size, str):
        text = size.strip().upper()
        number = text.rstrip("KMGTIB ")
        unit = text[len(number) :].strip().removesuffix("IB").removesuffix("B")
        if unit not in _UNITS:
            raise ValueError(f"{name}={size!r} is not a size; write '512M' or '4G'")
        try:
            return int(number) * 1024 ** _UNITS[unit] if number.isdigit() else int(float(number) * 1024 ** _UNITS[unit])
        except (OverflowError, ValueError):
            raise ValueError(f"{name}={size!r} is not a size; write '512M' or '4G'") from None
    return size


def patterns_of(patterns: Patterns) -> list[str]:
    """The patterns as a list."""
    if patterns is None:
        return []
    return [patterns] if isinstance(patterns, str) else list(patterns)


def choose(table: dict[str, int], value: str, name: str) -> int:
    """The number of a word in the table; ValueError for other words."""
    if value not in table:
        raise ValueError(f"{name}={value!r} does not exist; use {' or '.join(map(repr, table))}")
    return table[value]


class _Values(ValuesView):  # type: ignore[type-arg]
    __slots__ = ()

    def __iter__(self) -> Iterator[Tensor]:
        return self._mapping._tensors()  # type: ignore[attr-defined]


class _Items(ItemsView):  # type: ignore[type-arg]
    __slots__ = ()

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return self._mapping._pairs()  # type: ignore[attr-defined]


class Model(_native.Model, Mapping[str, Tensor]):
    """An open file, set of files or folder: a mapping from names to tensors, in file order.

        with htensor.open("model.safetensors") as model:
            for name, tensor in model.items():
                print(name, tensor.type, tensor.shape)

    Opening reads headers only, and files are mapped on first use. Threads: many threads may use a model at once.
    Fork: a child may use the models of its parent. Tensors and arrays stay valid after `close`.
    """

    __slots__ = ()

    def values(self) -> ValuesView[Tensor]:
        """The tensors, in file order."""
        return _Values(self)

    def items(self) -> ItemsView[str, Tensor]:
        """Pairs of name and tensor, in file order."""
        return _Items(self)

    # Models compare by identity; htensor.diff compares contents.
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def load(
        self,
        *,
        strategy: str = "automatic",
        include: Patterns = None,
        exclude: Patterns = None,
        budget: Size = None,
        verify: bool = False,
        drop_after: bool = False,
        chunks: int = 0,
        chunk_bytes: Size = None,
        progress: Progress = None,
    ) -> LoadReport:
        """Brings tensors into memory; `htensor.load` describes the options. After strategy="read", tensors that are
        looked up afterwards are in the model's own memory, independent of the file."""
        options = {
            "strategy": choose(_STRATEGIES, strategy, "strategy"),
            "budget": size_of(budget, "budget"),
            "chunks": chunks,
            "chunk_bytes": size_of(chunk_bytes, "chunk_bytes"),
            "verify": verify,
            "drop_after": drop_after,
        }
        with reporting(progress, "load") as report:
            return LoadReport(**_native.load(self, patterns_of(include), patterns_of(exclude), options, report))

    def load_into(
        self,
        buffers: dict[str, Any],
        *,
        verify: bool = False,
        drop_after: bool = False,
        chunks: int = 0,
        chunk_bytes: Size = None,
        progress: Progress = None,
    ) -> LoadReport:
        """Reads tensors into writable buffers, by direct I/O where possible. Splats are expanded.

        An array of numpy needs the dtype and the shape of `Tensor.numpy()`: TypeError for another dtype,
        ValueError for another shape. Its byte order and layout may differ from those of the file. For a dtype of
        ml_dtypes, the unsigned integers of the same width are accepted too. A buffer with typed elements, such
        as array.array, is treated as a numpy array, and may be one-dimensional.

        Buffers of bytes, such as bytearray, and arrays of uint8 with the shape (nbytes,) receive the stored bytes,
        also for elements of 4 and 6 bits: ValueError for another size and for column-major tensors."""
        to_fill: dict[str, Any] = {}
        for name, buffer in buffers.items():
            to_fill.update(self._place(name, buffer, verify))
        options = {
            "strategy": _EXTERNAL,
            "verify": verify,
            "drop_after": drop_after,
            "chunks": chunks,
            "chunk_bytes": size_of(chunk_bytes, "chunk_bytes"),
        }
        with reporting(progress, "load") as report:
            return LoadReport(**_native.load_into(self, to_fill, options, report))

    def _place(self, name: str, buffer: Any, verify: bool) -> dict[str, Any]:
        """Returns {name: buffer} for the extension to fill. If the array has another layout or byte order than
        the file, copies the elements and returns {}."""
        tensor = self[name]
        is_array = hasattr(buffer, "flags") and hasattr(buffer, "dtype") and hasattr(buffer, "view")
        if not is_array:
            with memoryview(buffer) as view:
                is_raw = view.format.lstrip("@=<>!") in ("B", "b", "c")
            if not is_raw:
                buffer, is_array = _types.import_numpy().asarray(buffer), True
                if buffer.shape == (tensor.size,):
                    buffer = buffer.reshape(tensor.shape)
        if is_array and not (buffer.dtype.name == "uint8" and buffer.shape == (tensor.nbytes,)):
            return self._place_array(name, tensor, buffer, verify)
        if tensor._facts[5]:
            raise ValueError(f"tensor {name!r} is column-major; pass an array of its shape and dtype, or use tobytes()")
        return {name: buffer}

    def _place_array(self, name: str, tensor: Tensor, array: Any, verify: bool) -> dict[str, Any]:
        """As `_place`, for an array of elements."""
        code, bits, elements, block_bytes, _, column_major = tensor._facts[:6]
        if code in _types.PACKED:
            raise TypeError(f"tensor {name!r} has elements of {bits} bits; pass a uint8 array of {tensor.nbytes} bytes")
        dtype, shape = tensor.dtype, tensor.shape
        # The dtype without ml_dtypes: for a type that numpy lacks, unsigned integers with the stored bits.
        builtin = _types.import_numpy().dtype(_types.dtype_name(code, bits)).newbyteorder(dtype.byteorder)
        if array.dtype.newbyteorder("=") not in (dtype.newbyteorder("="), builtin.newbyteorder("=")):
            raise TypeError(f"tensor {name!r} has the dtype {dtype}, but its array has {array.dtype}")
        if block_bytes:
            shape = (*shape[:-1], shape[-1] // elements * block_bytes)
        if array.shape != shape:
            raise ValueError(f"tensor {name!r} has the shape {shape}, but its array has {array.shape}")
        if not array.flags.writeable:
            raise ValueError(f"the array of tensor {name!r} is read-only")
        stored = builtin if array.dtype.newbyteorder("=") == builtin.newbyteorder("=") else dtype
        if array.dtype == stored and array.flags.c_contiguous and not column_major:
            # The buffer protocol does not support dtypes of ml_dtypes.
            return {name: array.reshape(-1).view("uint8")}
        # The pattern of a splat is in the header. `_native.load_into` verifies the header, also if no buffer is left
        # to fill.
        if verify and tensor._facts[7] is None:
            tensor.verify()
        # A copy by the library: an unreadable page is an Error and not SIGBUS.
        copy = _types.import_numpy().empty(shape, builtin.newbyteorder("<"))
        tensor.copy_to(copy.reshape(-1).view("uint8"))
        _types.import_numpy().copyto(array, copy.view(stored.newbyteorder("<")), casting="equiv")
        return {}

    def __repr__(self) -> str:
        if self.closed:
            return "<htensor.Model, closed>"
        files = self.files
        names = "in memory" if not files else repr(files[0]) if len(files) == 1 else f"{len(files)} files"
        return f"<htensor.Model {names}, {self.format}, {len(self)} tensors>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "cannot pickle htensor.Model, as it refers to open files: pickle the path, and open the file in the other "
            "process"
        )


Model.__module__ = "htensor"


def open_options(
    faults: str = "guarded", allow_incomplete: bool = False, max_header: Size = None, catalog_only: bool = False
) -> dict[str, Any]:
    """The options as the extension takes them."""
    return {
        "faults": choose(_FAULTS, faults, "faults"),
        "allow_incomplete": allow_incomplete,
        "catalog_only": catalog_only,
        "max_header": size_of(max_header, "max_header"),
    }


def open(
    path: StrPath, *, faults: str = "guarded", allow_incomplete: bool = False, max_header: Size = None
) -> Model:
    """Opens a file of any format, the index of a sharded model, one part of a split model, or a folder with one model.

    faults            the effect of reading an unreadable page of a mapped file (truncated file, disk error).
                      "guarded": calls of htensor raise Error, and reading an array in place raises SIGBUS;
                      "zero_fill": in arrays in place, such pages read as zeros, see Model.check_faults();
                      "off": as "guarded", but htensor reads by system calls and installs no handler of SIGBUS
    allow_incomplete  also opens an incomplete download: all tensors are listed, and reading missing bytes
                      raises Error
    max_header        the maximum bytes of a header, such as 1000000 or "1G"; None is the limit of the format

    Raises FileError, which is an OSError, if the file cannot be opened, and Error if it breaks a rule of its format.
    """
    return _native.open_path(Model, os.fsencode(path), open_options(faults, allow_incomplete, max_header))


def from_bytes(data: Any, *, allow_incomplete: bool = False, max_header: Size = None) -> Model:
    """Opens a file in memory, without a copy. `data` is bytes, memoryview, mmap or another buffer; it must
    not change while the model, its tensors or arrays in place exist."""
    return _native.open_bytes(Model, data, open_options("guarded", allow_incomplete, max_header))


def from_fd(fd: int, *, faults: str = "guarded", allow_incomplete: bool = False, max_header: Size = None) -> Model:
    """Opens a file by a descriptor. The descriptor is duplicated, so the caller may close it."""
    return _native.open_fd(Model, fd, open_options(faults, allow_incomplete, max_header))
