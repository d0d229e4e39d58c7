"""Functions on files and models."""

from __future__ import annotations

import os

from . import _hints, _metadata, _native, _types, _values
from ._errors import Error
from ._model import Model, choose, open, open_options, patterns_of, size_of
from ._progress import reporting
from ._results import (
    BadRange,
    ConversionReport,
    Diagnosis,
    Difference,
    Differences,
    Hashes,
    Loss,
    Residency,
    Seal,
    Verification,
)
from ._tensor import rounding_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Union

    from ._model import Patterns, Size, StrPath
    from ._progress import Progress
    from ._tensor import Round

    #: A path, or an open model.
    Source = Union[StrPath, Model]

_ALGORITHMS = {"crc64nvme": 1, "xxh3-128": 2, "sha256": 3}
_MAX = 2**64 - 1


class _opened:
    """`with _opened(source) as model`: an open model stays open, a path is opened and closed."""

    def __init__(self, source: Source, max_header: Size = None) -> None:
        self._owned = None if isinstance(source, Model) else open(source, max_header=max_header)
        self._model = source if isinstance(source, Model) else self._owned

    def __enter__(self) -> Model:
        assert self._model is not None
        return self._model

    def __exit__(self, *_: object) -> None:
        if self._owned is not None:
            self._owned.close()


# Loading and the page cache.


def load(
    path: Source,
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
    faults: str = "guarded",
    max_header: Size = None,
) -> Model:
    """Opens a model and brings its tensors into memory. Returns the model.

    path        a path, or an open model, which is loaded and returned; `faults` and `max_header` are for a path
    strategy    "automatic" chooses from facts about files and machine; "mapped" fills the page cache; "read"
                reads into the model's own memory, which does not depend on the file afterwards. To check a
                model that exceeds memory, call `verify` or `hash`, which read it once into a few small buffers.
    include     patterns of names to load, such as "blk.0.*"; None is all
    exclude     patterns of names to leave out
    budget      the memory limit, such as "8G"; None is 7/8 of the available memory
    verify      compares every byte with the seal while it is loaded
    drop_after  drops the files from the page cache afterwards
    chunks, chunk_bytes  reads in flight and the bytes of each
    progress    True shows a bar; a callable is called with (done_bytes, total_bytes)

    `Model.load` loads an open model and returns a report.
    """
    model = path if isinstance(path, Model) else open(path, faults=faults, max_header=max_header)
    try:
        model.load(
            strategy=strategy, include=include, exclude=exclude, budget=budget, verify=verify, drop_after=drop_after,
            chunks=chunks, chunk_bytes=chunk_bytes, progress=progress,
        )  # fmt: skip
    except BaseException:
        if model is not path:
            model.close()
        raise
    return model


def prefetch(
    source: Source, *, include: Patterns = None, exclude: Patterns = None, progress: Progress = None
) -> int:
    """Brings tensors into the page cache. Returns their number of bytes."""
    with _opened(source) as model, reporting(progress, "prefetch") as report:
        return _native.prefetch(model, patterns_of(include), patterns_of(exclude), report)


def evict(source: Source, *, include: Patterns = None, exclude: Patterns = None) -> int:
    """Drops tensors from memory and from the page cache; they stay usable. Returns their number of bytes."""
    with _opened(source) as model:
        return _native.evict(model, patterns_of(include), patterns_of(exclude))


def residency(source: Source) -> dict[str, Residency]:
    """Where the bytes of each tensor are, by name."""
    with _opened(source) as model:
        names = ("state", "bytes", "cached_bytes", "resident_bytes")
        found = _native.residency(model)
        return {name: Residency(**dict(zip(names, facts))) for name, facts in zip(model, found)}


# Integrity.


def _seal(found: dict[str, Any]) -> Seal:
    found["files"], found["tensors"] = dict(found["files"]), dict(found["tensors"])
    return Seal(**found)


def seal(
    source: Source,
    *,
    algorithm: str = "crc64nvme",
    force: bool = False,
    max_splat: Size = None,
    progress: Progress = None,
) -> Seal:
    """Writes checksums of every byte beside the model: FILE.htseal for a single file, model.htseal for a shard index
    and for a folder. The seal of a split GGUF covers all parts and is named after part 1.

    algorithm  "crc64nvme", "xxh3-128" or "sha256"
    force      replaces a seal that the files do not match; else Error (checksum_mismatch)
    max_splat  the largest expanded size of a splat for "xxh3-128" and "sha256"; None is 1 GiB. A larger splat is
               Error (budget_too_small)
    """
    options = {
        "algorithm": choose(_ALGORITHMS, algorithm, "algorithm"),
        "force": force,
        "max_splat": size_of(max_splat, "max_splat"),
    }
    with _opened(source) as model, reporting(progress, "seal") as report:
        return _seal(_native.seal(model, options, report))


def read_seal(path: StrPath) -> Seal:
    """The seal of a model, or of a path that ends in ".htseal". Error (not_sealed) if there is none."""
    return _seal(_native.read_seal(os.fsencode(path)))


_VERDICT_CODES = {
    "damaged": "checksum_mismatch",
    "replaced": "checksum_mismatch",
    "grown": "trailing_bytes",
    "truncated": "truncated",
    "missing": "missing_shard",
}


def _verify_open(model: Model, options: dict[str, Any], check: bool, progress: Progress) -> Verification:
    """Verifies the files that the model has open. The library stops at the first difference."""
    quick = options["quick"]
    try:
        with reporting(progress, "verify") as report:
            _native.verify_model(model, options, report)
    except Error as error:
        verdicts = {code: verdict for verdict, code in reversed(_VERDICT_CODES.items())}
        if error.code not in verdicts:
            raise
        found = Verification(ok=False, verdict=verdicts[error.code], checked_bytes=0, algorithm="", seal=None, bad=[])
        if check:
            error.verification = found
            raise
        return found
    checked = 0 if quick else sum(tensor.nbytes for tensor in model.values())
    verdict = "headers_match" if quick else "intact"
    return Verification(ok=True, verdict=verdict, checked_bytes=checked, algorithm="", seal=None, bad=[])


def verify(
    path: Source,
    *,
    quick: bool = False,
    check: bool = True,
    max_header: Size = None,
    progress: Progress = None,
) -> Verification:
    """Compares the files of a model with their seal, or a .ht file with its own checksum, on all processors.

    quick  reads headers and sizes only: milliseconds for files of any size
    check  raises Error if bytes differ, with the report as `verification`; check=False returns a report whose
           `ok` and truth value are False instead

    Works for files that no longer parse. Error (not_sealed) if there is no seal.

    `path` may be an open model. The files that the model has open are then compared, even if its path names another
    file now. The library stops at the first difference, so the report has no ranges: `bad` is empty, `algorithm` is
    "" and `seal` is None. `checked_bytes` counts the bytes of tensors, and is 0 with `quick` or if bytes differ.
    """
    options = {"quick": quick, "max_header": size_of(max_header, "max_header")}
    if isinstance(path, Model):
        return _verify_open(path, options, check, progress)
    with reporting(progress, "verify") as report:
        found = _native.verify(os.fsencode(path), options, report)
    damage = found.pop("damage")
    found["bad"] = [BadRange(**item) for item in found["bad"]]
    verification = Verification(**found)
    if check and damage is not None:
        damage.verification = verification
        raise damage
    return verification


def hash(
    source: Source,
    *,
    algorithm: str = "crc64nvme",
    per_tensor: bool = False,
    max_splat: Size = None,
    progress: Progress = None,
) -> Hashes:
    """Digests of a model. The digest of a tensor covers its bytes alone, so it is equal in every format.

    per_tensor  also returns a digest of each tensor
    max_splat   with `per_tensor`: the largest expanded size of a splat for "xxh3-128" and "sha256"; None is 1 GiB. A
                larger splat is Error (budget_too_small)
    """
    options = {
        "algorithm": choose(_ALGORITHMS, algorithm, "algorithm"),
        "per_tensor": per_tensor,
        "max_splat": size_of(max_splat, "max_splat"),
    }
    with _opened(source) as model, reporting(progress, "hash") as report:
        found = _native.hash(model, options, report)
        tensors = dict(zip(model, found["tensor_digests"])) if per_tensor else None
    files = dict(zip(found["files"], found["file_digests"]))
    return Hashes(algorithm=found["algorithm"], digest=found["digest"], files=files, tensors=tensors)


def validate(path: StrPath, *, max_header: Size = None) -> Diagnosis:
    """Checks the headers and file sizes of a path. Returns its format and its problems with hints. A
    malformed file does not raise: its problems are in the result."""
    return Diagnosis(**_native.validate(os.fsencode(path), open_options(max_header=max_header)))


# Conversion.


def _type_code(name: Any, option: str) -> int:
    """The number of a type, named as in htensor (in upper or lower case), numpy or torch."""
    if not isinstance(name, str):
        return _types.code_of(name)
    # "f4" is F32 as in numpy, and "F4" has four bits.
    code = _native.type_from_name(name) or _types.find_code(name) or _native.type_from_name(name.upper())
    if not code:
        example = "'Q8_0' or 'Q4_K'" if option == "quantize" else "'F16' or 'BF16'"
        raise TypeError(f"{option}: type {name!r} does not exist; use a name such as {example}")
    return code


def _type_rules(rules: Mapping[str, Any] | None, option: str) -> list[tuple[str, int]]:
    if rules is not None and not hasattr(rules, "items"):
        raise TypeError(f"{option}: {rules!r} is not a mapping; use {option}={{'*': {rules!r}}}")
    return [(pattern, _type_code(kind, option)) for pattern, kind in (rules or {}).items()]


def _check_keywords(function: str, options: dict[str, Any], own: tuple[str, ...]) -> None:
    """Raises TypeError for a keyword that is neither an option of a conversion nor in `own`. The message names the
    public function."""
    valid = sorted({*(_convert_options.__kwdefaults__ or ()), *own})
    for name in options:
        if name not in valid:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}; use {', '.join(valid)}")


def _convert_options(
    *,
    format: str | None,
    include: Patterns = None,
    exclude: Patterns = None,
    rename: Mapping[str, str] | None = None,
    cast: Mapping[str, Any] | None = None,
    quantize: Mapping[str, str] | None = None,
    dequantize: Any = None,
    round: Round = False,
    saturate: bool = False,
    seed: int = 0,
    align: Size = None,
    canonical: bool = False,
    normalize_layout: bool = False,
    share_blocks: bool = False,
    plain: bool = False,
    skip_metadata: bool = False,
    shard_size: Size = None,
    drop_metadata: bool = False,
    raw_bytes: bool = False,
    lossy: bool = False,
    seal: bool = False,
    force: bool = False,
    dry_run: bool = False,
    emit_mlir: StrPath | None = None,
    scope: str | None = None,
    inline_below: Size | bool = None,
) -> tuple[Any, ...]:
    options: dict[str, Any] = {
        "rounding": rounding_code(round),
        "round": bool(round),
        "saturate": saturate,
        "seed": seed,
        "alignment": size_of(align, "align"),
        "canonical": canonical,
        "normalize_layout": normalize_layout,
        "share_blocks": share_blocks,
        "plain": plain,
        "skip_metadata": skip_metadata,
        "shard_size": size_of(shard_size, "shard_size"),
        "drop_metadata": drop_metadata,
        "raw_bytes": raw_bytes,
        "lossy": lossy,
        "seal": seal,
        "force": force,
        "dry_run": dry_run,
    }
    if dequantize:
        options["dequantize"] = _type_code("F32" if dequantize is True else dequantize, "dequantize")
    for key, text in (("format", format), ("scope", scope)):
        if text is not None:
            options[key] = text
    if emit_mlir is not None:
        options["emit_mlir"] = os.fsencode(emit_mlir)
    if inline_below is not None and inline_below is not False:
        options["inline_below"] = _MAX if inline_below is True else size_of(inline_below, "inline_below")
    types = _type_rules(quantize, "quantize") + _type_rules(cast, "cast")
    return options, patterns_of(include), patterns_of(exclude), list((rename or {}).items()), types


def _converted(found: dict[str, Any]) -> ConversionReport:
    for item in found["losses"]:
        item["hint"] = _hints.to_python(item["hint"])
    found["losses"] = [Loss(**item) for item in found["losses"]]
    return ConversionReport(**found)


def convert(
    source: Source | Sequence[StrPath],
    target: StrPath,
    *,
    format: str | None = None,
    include: Patterns = None,
    exclude: Patterns = None,
    rename: Mapping[str, str] | None = None,
    cast: Mapping[str, Any] | None = None,
    quantize: Mapping[str, str] | None = None,
    dequantize: Any = None,
    round: Round = False,
    saturate: bool = False,
    seed: int = 0,
    align: Size = None,
    canonical: bool = False,
    normalize_layout: bool = False,
    share_blocks: bool = False,
    plain: bool = False,
    skip_metadata: bool = False,
    shard_size: Size = None,
    drop_metadata: bool = False,
    raw_bytes: bool = False,
    lossy: bool = False,
    seal: bool = False,
    force: bool = False,
    dry_run: bool = False,
    emit_mlir: StrPath | None = None,
    scope: str | None = None,
    inline_below: Size | bool = None,
    max_header: Size = None,
    progress: Progress = None,
) -> ConversionReport:
    """Writes a model to `target`, in another format or with other names, types or layout. Files appear whole or not
    at all.

    source            a path, an open model, or a list of paths to merge
    format            "safetensors", "gguf", "irpa", "ht", "npy"; None is the format of the target's extension
    include, exclude  patterns of names of the source
    rename            patterns to new names, one * on each side: {"model.*": "*"}
    cast, quantize    patterns to types: {"*": "BF16"}, {"blk.*": "Q8_0"}. Patterns are tried in this order: exact
                      names, patterns of `quantize`, patterns of `cast`. The first one that converts the tensor is used.
                      A pattern with a wildcard that converts to a floating-point type or to an encoding skips
                      tensors of integers and booleans. A pattern with a wildcard that converts to an encoding also
                      skips encoded tensors, norms, biases, splats, tensors of one dimension and tensors whose rows
                      are not whole blocks
    dequantize        decodes block encodings: True is F32; or "F16", "BF16"
    round             allows rounding: True or "nearest_even", "toward_zero", "stochastic" (with `seed`)
    saturate          values beyond the largest finite one become the largest finite one
    align             alignment of tensor data, a power of two
    canonical         orders tensors as the format's reference writer does
    normalize_layout  makes all tensors row-major and little-endian
    share_blocks      places data so that the file system can share disk blocks with the source
    plain             writes an IRPA without dtypes, shapes and metadata
    skip_metadata     leaves out all metadata
    shard_size        splits the model into files of about this size: "4G"
    drop_metadata     keeps the metadata that the target can store and allows the loss of the rest (`skip_metadata`
                      leaves out all)
    raw_bytes         allows tensors to lose a dtype, encoding or shape that the target cannot store
    lossy             allows every loss. A loss that no option allows is Error (would_lose)
    seal              also writes the target's seal
    force             replaces an existing target; else FileExistsError
    dry_run           plans and checks, writes nothing, and lists losses instead of raising
    emit_mlir, scope, inline_below   also writes an MLIR module for IREE; inline_below=True stores all tensors in it
    """
    options = _convert_options(
        format=format, include=include, exclude=exclude, rename=rename, cast=cast, quantize=quantize,
        dequantize=dequantize, round=round, saturate=saturate, seed=seed, align=align, canonical=canonical,
        normalize_layout=normalize_layout, share_blocks=share_blocks, plain=plain, skip_metadata=skip_metadata,
        shard_size=shard_size, drop_metadata=drop_metadata, raw_bytes=raw_bytes, lossy=lossy, seal=seal, force=force,
        dry_run=dry_run, emit_mlir=emit_mlir, scope=scope, inline_below=inline_below,
    )  # fmt: skip
    if isinstance(source, (list, tuple)):
        paths = [os.fsencode(path) for path in source]
        source = _native.open_merged(Model, paths, open_options(max_header=max_header))
        with source, reporting(progress, "convert") as report:
            return _converted(_native.convert(source, os.fsencode(target), options, report))
    with _opened(source, max_header) as model, reporting(progress, "convert") as report:  # type: ignore[arg-type]
        return _converted(_native.convert(model, os.fsencode(target), options, report))


def _metadata_of(metadata: Mapping[str, Any] | Model | None) -> dict[str, tuple[Any, ...]]:
    return _native.typed_metadata(metadata) if isinstance(metadata, Model) else _metadata.normalize(metadata)


def save(
    path: StrPath,
    tensors: Mapping[str, Any],
    metadata: Mapping[str, Any] | Model | None = None,
    *,
    format: str | None = None,
    force: bool = False,
    seal: bool = False,
    progress: Progress = None,
    **options: Any,
) -> ConversionReport:
    """Writes tensors to a file, whole or not at all.

    tensors   names to arrays of numpy or torch, objects with DLPack, htensor.Tensor, or Raw for stored bytes
    metadata  keys to str, int, float, bool, lists, scalars of numpy, or Value for another type of GGUF; safetensors
              stores str only. From an open Model, all metadata is copied with its exact types.
    format    "safetensors", "gguf", "irpa", "ht", "npy"; None is the format of the extension
    force     replaces an existing file; else FileExistsError
    options   as for `convert`: cast, quantize, align, shard_size, …
    """
    _check_keywords("save", options, ("format", "progress"))
    given = _convert_options(format=format, force=force, seal=seal, **options)
    with reporting(progress, "save") as report:
        return _converted(
            _native.save(
                os.fsencode(path), _values.items_of(tensors), _metadata_of(metadata), given, report
            )
        )


def to_bytes(
    tensors: Mapping[str, Any],
    metadata: Mapping[str, Any] | Model | None = None,
    *,
    format: str = "safetensors",
    progress: Progress = None,
    **options: Any,
) -> bytes:
    """The bytes that `save` would write; `from_bytes` opens them."""
    _check_keywords("to_bytes", options, ("format", "progress"))
    given = _convert_options(format=format, **options)
    with reporting(progress, "save") as report:
        return _native.save_to_memory(_values.items_of(tensors), _metadata_of(metadata), given, report)


def diff(a: Source, b: Source, *, tolerance: float | None = None, progress: Progress = None) -> Differences:
    """Compares two models of any formats by names, types, shapes, contents and metadata.

    tolerance  compares values, across dtypes and encodings, and allows |a - b| up to it; None compares bytes
    """
    options: dict[str, Any] = {"compare_values": tolerance is not None, "tolerance": tolerance or 0.0}
    with _opened(a) as model_a, _opened(b) as model_b, reporting(progress, "diff") as report:
        found = _native.diff(model_a, model_b, options, report)
    found["differ"] = [Difference(**item) for item in found["differ"]]
    return Differences(**found)


def _metadata_of_file(path: StrPath, max_header: Size) -> dict[str, tuple[Any, ...]]:
    """The metadata of one file with its types; empty if the file cannot be opened, which the edit then reports."""
    try:
        options = open_options(allow_incomplete=True, catalog_only=True, max_header=max_header)
        with _native.open_path(Model, os.fsencode(path), options) as model:
            return _native.typed_metadata(model)
    except Error:
        return {}


def edit_metadata(
    path: StrPath,
    changes: Mapping[str, Any],
    *,
    no_grow: bool = False,
    max_header: Size = None,
    progress: Progress = None,
) -> bool:
    """Sets metadata keys of one safetensors or GGUF file, and removes the keys whose value is None. The file
    is replaced atomically; open models keep the old file. Returns whether the file changed.

    A value of numpy and a `Value` have their own type. Any other value gets the type that the key has in the file if
    the value fits: an int in range for an integer type; a float in range, or an int of at most 2**24 (F32) or 2**53
    (F64), for a float type. If it does not fit, or if the key is new, the value gets the type that `save` gives it.

    no_grow  refuses an edit whose header does not fit before the data (Error header_too_large) instead of moving the
             data
    """
    existing = _metadata_of_file(path, max_header)
    edits: dict[str, tuple[Any, ...] | None] = {}
    for key, value in changes.items():
        edits[key] = None
        if value is not None:
            edits[key] = _metadata.keep_type(existing.get(key), value, _metadata.normalize_value(key, value))
    options = {"no_grow": no_grow, "max_header": size_of(max_header, "max_header")}
    with reporting(progress, "edit") as report:
        return _native.edit_metadata(os.fsencode(path), edits, options, report)


def crc64nvme(data: Any, before: int = 0) -> int:
    """The CRC-64/NVME of a buffer; `before` is the CRC of the preceding bytes."""
    return _native.crc64nvme(data, before)


def crc64nvme_combine(first: int, second: int, second_bytes: int) -> int:
    """The CRC-64/NVME of two adjacent ranges, from the CRC of each and the size of the second."""
    return _native.crc64nvme_combine(first, second, second_bytes)


__all__ = [
    "convert", "crc64nvme", "crc64nvme_combine", "diff", "edit_metadata", "evict", "hash", "load", "prefetch", "read_seal",
    "residency", "save", "seal", "to_bytes", "validate", "verify",
]  # fmt: skip
