"""The exception of the drop-in."""

from __future__ import annotations

from typing import Any

from htensor import Error


class SafetensorError(Error):
    """Raised where the `safetensors` package raises its SafetensorError.

    The text equals the text of that package, if it has one for the case. `code`, `rule`, `hint`,
    `path`, `tensor` and `offset` are as for every `htensor.Error`.
    """

    def __init__(self, *args: Any, cause: Error | None = None, code: str = "bad_state", **facts: Any) -> None:
        """Takes code, rule, hint, path, tensor and offset from `cause`; `facts`, keywords of `Error`,
        override them."""
        given: dict[str, Any] = {"code": code}
        if cause is not None:
            given.update((name, getattr(cause, name)) for name in ("code", "rule", "hint", "path", "tensor", "offset"))
        super().__init__(str(args[0]) if args else "", **{**given, **facts})
        self.args = args

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # `install` sets the module of the class to that of `safetensors`, which may be missing in the process
        # that unpickles.
        make = _make if type(self) is SafetensorError else type(self)
        return make, self.args, self.__dict__


def _make(*args: Any) -> SafetensorError:
    return SafetensorError(*args)


# Tracebacks show the public name.
SafetensorError.__module__ = "htensor.safetensors"
