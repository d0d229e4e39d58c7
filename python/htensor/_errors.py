"""The exceptions. `from_native` chooses the class by the error code of the C library."""

from __future__ import annotations

import errno as _errno

from . import _hints

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._results import Verification


class Error(Exception):
    """A call of htensor failed.

    code     the kind of failure, such as "truncated": the ht_status of htensor.h in lower case, without HT_
    rule     the name of the broken rule, which stays the same between releases
    message  what is wrong
    hint     how to fix it, or None
    path     the file, or None
    tensor   the name of the tensor, or None
    offset   where the error starts in the file, or None
    """

    code: str
    rule: str | None
    message: str
    hint: str | None
    path: str | None
    tensor: str | None
    offset: int | None
    #: The report of `verify`, if `verify` raised the error.
    verification: Verification | None = None

    def __init__(
        self,
        message: str,
        *,
        code: str = "internal",
        rule: str | None = None,
        hint: str | None = None,
        path: str | None = None,
        tensor: str | None = None,
        offset: int | None = None,
        errno: int = 0,
        verification: Verification | None = None,
    ) -> None:
        if isinstance(self, OSError):
            OSError.__init__(self, errno, message, path)
        else:
            super().__init__(message)
        self.code, self.rule, self.message, self.hint = code, rule, message, hint
        self.path, self.tensor, self.offset = path, tensor, offset
        self.verification = verification

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        text = f"{text} [{self.code}]"
        return f"{text}\nhint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {
            "code": self.code,
            "rule": self.rule,
            "hint": self.hint,
            "path": self.path,
            "tensor": self.tensor,
            "offset": self.offset,
            "errno": getattr(self, "errno", 0),
            "verification": self.verification,
        }
        return make_error, (self.message, facts)


class NotFoundError(Error, KeyError):
    """A tensor, a metadata key or a format does not exist, a folder has no model, or a pattern matches no name."""


class FileError(Error, OSError):
    """A file cannot be opened, read or written. `errno` is the error of the system call; if no call failed, it
    depends on `code`. The exception is also an instance of the OSError subclass for that errno, such as
    FileNotFoundError."""


class OutOfMemoryError(Error, MemoryError):
    """Memory is exhausted."""


# The errno of a file error that no system call reported.
_FILE_CODES = {
    "open_failed": _errno.EIO,
    "read_failed": _errno.EIO,
    "map_failed": _errno.EIO,
    "unmap_failed": _errno.EIO,
    "write_failed": _errno.EIO,
    "no_space": _errno.ENOSPC,
    "already_exists": _errno.EEXIST,
    "not_regular_file": _errno.EINVAL,
    "missing_shard": _errno.ENOENT,
    "network_failed": _errno.EIO,
    "access_denied": _errno.EACCES,
}

_file_classes: dict[type[OSError], type[Error]] = {OSError: FileError}


def _file_class(errno: int) -> type[Error]:
    """A class derived from FileError and from the OSError subclass for the errno."""
    base = type(OSError(errno, ""))
    if base not in _file_classes:
        names = {"__doc__": FileError.__doc__, "__module__": FileError.__module__}
        _file_classes[base] = type("FileError", (FileError, base), names)
    return _file_classes[base]


def make_error(message: str, facts: dict[str, Any]) -> Error:
    """The exception of the class for `facts["code"]`."""
    code = facts["code"]
    if code == "not_found":
        return NotFoundError(message, **facts)
    if code == "out_of_memory":
        return OutOfMemoryError(message, **facts)
    if code in _FILE_CODES:
        facts["errno"] = facts["errno"] or _FILE_CODES[code]
        return _file_class(facts["errno"])(message, **facts)
    return Error(message, **facts)


def from_native(
    code: str, rule: str, message: str, hint: str, path: str, tensor: str, offset: int, errno: int
) -> Error:
    """The exception for an error of the C library, in which an empty text means that a fact is unknown."""
    facts = {
        "code": code,
        "rule": rule or None,
        "hint": _hints.to_python(hint) or None,
        "path": path or None,
        "tensor": tensor or None,
        "offset": offset if offset >= 0 else None,
        "errno": errno,
    }
    return make_error(_hints.message_to_python(message) or code.replace("_", " "), facts)


for _class in (Error, NotFoundError, FileError, OutOfMemoryError):
    _class.__module__ = "htensor"
