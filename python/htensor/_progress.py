"""Progress of long calls: a callable of the user, or a bar in a terminal or a notebook."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Union

    #: True shows a bar; a callable is called with (done_bytes, total_bytes). Its exceptions cancel the call.
    Progress = Union[bool, Callable[[int, int], object], None]


def size_text(count: float) -> str:
    """A size as text: 1.5 GiB."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            break
        count /= 1024
    else:
        unit = "TiB"
    return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"


def _text(label: str, done: int, total: int, seconds: float, width: int = 24) -> str:
    part = done / total if total else 1.0
    filled = int(width * part)
    rate = f", {size_text(done / seconds)}/s" if seconds > 0.2 and done else ""
    bar = "#" * filled + "-" * (width - filled)
    return f"{label} [{bar}] {part:4.0%} of {size_text(total)}{rate}"


def _notebook_display() -> Any:
    """A function that shows HTML in a notebook; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import HTML, display  # type: ignore[import]

    handle = display(HTML(""), display_id=True)
    return lambda html: handle.update(HTML(html))


class Bar:
    """Shows progress on stderr if it is a terminal, or in the output of a notebook; erased at the end."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._show_html = _notebook_display()
        stderr = sys.stderr
        is_open = stderr is not None and not getattr(stderr, "closed", False)
        self._terminal = self._show_html is None and is_open and stderr.isatty()
        self._shown = False

    def __call__(self, done: int, total: int, seconds: float) -> None:
        # Short calls show no bar.
        if seconds < 0.3 and not self._shown:
            return
        text = _text(self._label, done, total, seconds)
        if self._show_html:
            self._show_html(f'<progress max="{max(total, 1)}" value="{done}"></progress> {text}')
            self._shown = True
        elif self._terminal:
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
            self._shown = True

    def close(self) -> None:
        if not self._shown:
            return
        if self._show_html:
            self._show_html("")
        else:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class reporting:
    """`with reporting(progress, label) as report`: the callback for the extension, or None."""

    def __init__(self, progress: Progress, label: str) -> None:
        self._bar: Bar | None = None
        self._report: Callable[[int, int, float], object] | None = None
        if callable(progress):
            function = progress
            self._report = lambda done, total, seconds: function(done, total)
        elif progress:
            self._bar = self._report = Bar(label)

    def __enter__(self) -> Callable[[int, int, float], object] | None:
        return self._report

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.close()
