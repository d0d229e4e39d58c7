"""H-Tensor opens model weights of any size without reading their data; verifies, converts and writes them.

    import htensor

    model = htensor.open("model.safetensors")     # reads only the header; GGUF, IRPA, NPY, shards and folders, too
    for name, tensor in model.items():            # in file order
        print(name, tensor.type, tensor.shape)
    weights = model["blk.0.attn_q.weight"]        # a Tensor; nothing is read yet
    weights.numpy()                               # in place: zero copy, read-only
    weights[:4, ::2], weights.to("float32")       # only these elements; any type or encoding as float32

Functions take a path (anything that os.fspath accepts) or an open Model; `validate`, `read_seal` and
`edit_metadata` take only a path:

    open, from_bytes, from_fd      a Model
    load, prefetch, evict, residency   memory and the page cache
    seal, verify, hash, validate   integrity
    convert, save, to_bytes, diff, edit_metadata   writing and comparing

Errors are htensor.Error with code, rule, path, tensor, offset and hint. NotFoundError is also a KeyError, and
FileError an OSError. Long calls release the GIL, take progress=True or a callable, and stop on
KeyboardInterrupt without leaving a partial file. Only values of tensors need numpy; torch and ml_dtypes are
optional.
"""

from ._errors import Error, FileError, NotFoundError, OutOfMemoryError
from ._metadata import Value
from ._model import Model, from_bytes, from_fd, open
from ._native import cpu_features as _cpu_features
from ._native import version as _version
from ._operations import (
    convert,
    crc64nvme,
    crc64nvme_combine,
    diff,
    edit_metadata,
    evict,
    hash,
    load,
    prefetch,
    read_seal,
    residency,
    save,
    seal,
    to_bytes,
    validate,
    verify,
)
from ._results import (
    BadRange,
    ConversionReport,
    Diagnosis,
    Difference,
    Differences,
    Hashes,
    LoadReport,
    Loss,
    Residency,
    Seal,
    Stats,
    Verification,
)
from ._tensor import Tensor
from ._values import Raw

__version__: str = _version()


def cpu_features() -> "list[str]":
    """The names of the CPU features that the library uses beyond the baseline."""
    return _cpu_features().split()


__all__ = [
    "BadRange", "ConversionReport", "Diagnosis", "Difference", "Differences", "Error", "FileError", "Hashes", "LoadReport", "Loss",
    "Model", "NotFoundError", "OutOfMemoryError", "Raw", "Residency", "Seal", "Stats", "Tensor", "Value", "Verification",
    "convert", "cpu_features", "crc64nvme", "crc64nvme_combine", "diff", "edit_metadata", "evict", "from_bytes", "from_fd",
    "hash", "load", "open", "prefetch", "read_seal", "residency", "save", "seal", "to_bytes", "validate", "verify",
]  # fmt: skip

for _function in (open, from_bytes, from_fd, convert, crc64nvme, crc64nvme_combine, diff, edit_metadata, evict, hash, load,
                  prefetch, read_seal, residency, save, seal, to_bytes, validate, verify, Value):  # fmt: skip
    _function.__module__ = __name__
del _function
