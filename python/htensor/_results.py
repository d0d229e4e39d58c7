"""The results of long calls."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._errors import Error


class Record:
    """Named fields, compared and printed by value."""

    __slots__: tuple[str, ...] = ()

    def __init__(self, **fields: Any) -> None:
        for name in self.__slots__:
            setattr(self, name, fields.pop(name))
        if fields:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(fields)}")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def as_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""

        def plain(value: Any) -> Any:
            if isinstance(value, Record):
                return value.as_dict()
            if isinstance(value, list):
                return [plain(item) for item in value]
            if isinstance(value, dict):
                return {key: plain(item) for key, item in value.items()}
            return str(value) if isinstance(value, Exception) else value

        return {name: plain(getattr(self, name)) for name in self.__slots__}


class Stats(Record):
    """Statistics of a tensor. `count` is the number of all elements, including NaNs and infinities. The fields from `min`
    on describe the finite values. Without finite values, `min`, `max`, `mean` and `std` are NaN. `argmin` and `argmax`
    are row-major positions; `std` is that of the population."""

    __slots__ = (
        "count", "zeros", "subnormals", "nans", "infinities", "min", "max", "argmin", "argmax", "sum", "mean", "std",
        "norm",
    )  # fmt: skip
    count: int
    zeros: int
    subnormals: int
    nans: int
    infinities: int
    min: float
    max: float
    argmin: int
    argmax: int
    sum: float
    mean: float
    std: float
    norm: float


class LoadReport(Record):
    """The report of a load. Sizes are in bytes; None if unknown. `code` and `reason` state why the strategy was chosen,
    for programs and for people.

    `requested_bytes` is the stored size of the requested tensors. Of these, `resident_bytes` were in the model's own
    memory before this call and were not loaded again; `bytes` were loaded by this call. Of `bytes`, `cached_bytes` were
    in the page cache before this call, and `direct_bytes` were read by direct I/O. `streamed_bytes` equals `bytes` if
    the bytes were read but not kept in memory; else it is 0. `verified_bytes` were compared with their checksums.
    `peak_memory_bytes` is for the whole process."""

    __slots__ = (
        "strategy", "code", "reason", "requested_bytes", "bytes", "resident_bytes", "cached_bytes", "streamed_bytes",
        "direct_bytes", "verified_bytes", "peak_memory_bytes", "seconds",
    )  # fmt: skip
    strategy: str
    code: str
    reason: str
    requested_bytes: int
    bytes: int
    resident_bytes: int
    cached_bytes: int | None
    streamed_bytes: int
    direct_bytes: int
    verified_bytes: int
    peak_memory_bytes: int | None
    seconds: float


class BadRange(Record):
    """Bytes that differ from the seal, are missing, or follow the recorded end of the file. Damage is reported in whole
    chunks of up to 4 MiB; adjacent chunks are one range. `part` is "header" (from the start of the file to the first
    tensor), "tensor", "gap" (between tensors) or "tail" (after the last tensor)."""

    __slots__ = ("file", "part", "tensor", "offset", "bytes")
    file: str
    part: str
    tensor: str | None
    offset: int
    bytes: int


class Verification(Record):
    """The result of `verify`. `verdict` is "intact", "headers_match" (quick), "damaged", "grown", "truncated",
    "replaced" or "missing". Its truth value is `ok`."""

    __slots__ = ("ok", "verdict", "checked_bytes", "algorithm", "seal", "bad")
    ok: bool
    verdict: str
    checked_bytes: int
    algorithm: str
    seal: str | None
    bad: list[BadRange]

    def __bool__(self) -> bool:
        return self.ok


class Seal(Record):
    """Checksums of a model: of all files together, of each file and of each tensor, in hexadecimal."""

    __slots__ = ("path", "algorithm", "digest", "bytes", "files", "tensors")
    path: str
    algorithm: str
    digest: str
    bytes: int
    files: dict[str, str]
    tensors: dict[str, str]


class Hashes(Record):
    """Digests in hexadecimal. `tensors` is None unless per_tensor=True."""

    __slots__ = ("algorithm", "digest", "files", "tensors")
    algorithm: str
    digest: str
    files: dict[str, str]
    tensors: dict[str, str] | None


class Diagnosis(Record):
    """The format of a path and its problems. `readable` is whether `open` accepts the path."""

    __slots__ = ("format", "readable", "problems", "warnings", "missing_files")
    format: str
    readable: bool
    problems: list[Error]
    warnings: list[Error]
    missing_files: list[str]


class Loss(Record):
    """Data that the conversion does not keep. `kind` is "metadata", "raw_bytes" or "rounding". `change` is the type
    and shape before and after, such as "F8_E4M3 [8] → I8 [8]", or empty."""

    __slots__ = ("kind", "allowed", "is_tensor", "name", "why", "hint", "change")
    kind: str
    allowed: bool
    is_tensor: bool
    name: str
    why: str
    hint: str
    change: str


class ConversionReport(Record):
    """The files that were written, or with dry_run=True that would be written. Open the new model by `path`.
    `copied_by` maps each copy method to the number of bytes that it has written from the source. `removed` lists the
    shards, index and seal of the replaced set whose names were not reused. `stale_seal` is a seal that covers a
    replaced file and was not renewed."""

    __slots__ = (
        "path", "files", "file_bytes", "bytes", "copied_by", "removed", "seal", "stale_seal", "losses", "warnings",
    )  # fmt: skip
    path: str
    files: list[str]
    file_bytes: list[int]
    bytes: int
    copied_by: dict[str, int]
    removed: list[str]
    seal: str | None
    stale_seal: str | None
    losses: list[Loss]
    warnings: list[Error]


class Difference(Record):
    """A tensor that both models have and that differs. `why` is "dtype", "shape", "contents" or "note"; numbers are
    None if unknown."""

    __slots__ = ("name", "why", "first_byte", "max_abs", "rms", "cosine")
    name: str
    why: str
    first_byte: int | None
    max_abs: float | None
    rms: float | None
    cosine: float | None


class Differences(Record):
    """The differences of two models. `same` covers tensors and metadata, `same_tensors` tensors alone."""

    __slots__ = (
        "same", "same_tensors", "only_a", "only_b", "differ", "metadata_only_a", "metadata_only_b", "metadata_differ",
    )  # fmt: skip
    same: bool
    same_tensors: bool
    only_a: list[str]
    only_b: list[str]
    differ: list[Difference]
    metadata_only_a: list[str]
    metadata_only_b: list[str]
    metadata_differ: list[str]


class Residency(Record):
    """Where the bytes of a tensor are. `state` is "unbound", "mapped", "loading", "resident", "evicted" or "failed";
    `cached_bytes` are in the page cache (None if unknown), `resident_bytes` in the model's own memory."""

    __slots__ = ("state", "bytes", "cached_bytes", "resident_bytes")
    state: str
    bytes: int
    cached_bytes: int | None
    resident_bytes: int


for _class in list(globals().values()):
    if isinstance(_class, type) and issubclass(_class, Record):
        _class.__module__ = "htensor"
