"""Translates hints of the library to Python.

The library words its hints for its command-line program ("use --shard-size") and for C. The hints of all errors and
losses pass through this module, which replaces options and C identifiers with keywords and functions of Python.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Options of the program without a value, and the keywords for them.
_FLAGS = {
    "canonical": "canonical",
    "drop-metadata": "drop_metadata",
    "force": "force",
    "lossy": "lossy",
    "no-grow": "no_grow",
    "plain": "plain",
    "raw-bytes": "raw_bytes",
    "round": "round",
    "normalize-layout": "normalize_layout",
}
# Options of the program with a value, and the keywords for them.
_VALUES = {
    "algorithm": "algorithm",
    "align": "align",
    "cast": "cast",
    "dequantize": "dequantize",
    "emit-mlir": "emit_mlir",
    "exclude": "exclude",
    "max-header": "max_header",
    "max-splat": "max_splat",
    "quantize": "quantize",
    "rename": "rename",
    "shard-size": "shard_size",
    "to": "format",
    "tolerance": "tolerance",
}


def _option(match: re.Match[str]) -> str:
    name, value = match.group(1), match.group(2)
    if name in _FLAGS:
        return f"{_FLAGS[name]}=True{' ' + value if value else ''}"
    if name not in _VALUES:
        return match.group(0)
    return f"{_VALUES[name]}={value or ''}"


# Applied in this order. A pattern that matches a complete command line also matches the backticks around the
# command line.
_RULES: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"; `htensor ls` lists all of them", ""),
    (r"`htensor ls --headers-only` lists", "`htensor.open(path, allow_incomplete=True)` lists"),
    (r"`htensor ls`", "`list(model)`"),
    (r"`?htensor meta (\w+) set (\S+) (\w+)`?", r"`htensor.edit_metadata(\1, {'\2': \3})`"),
    (r"`?htensor meta (\w+) rm ([\w.]+)`?", r"`htensor.edit_metadata(\1, {'\2': None})`"),
    (r"`?htensor meta (\w+)`?", r"`htensor.open(\1).metadata`"),
    (r"export one tensor with `htensor export`", "choose one tensor with include="),
    (r"`htensor verify`", "`htensor.verify(path, check=False)`"),
    (r"`htensor seal --force`", "`htensor.seal(path, force=True)`"),
    (r"`htensor (seal|convert)`", r"`htensor.\1`"),
    (r"`?htensor convert (\w+) (\S+?\.irpa)`", r'`htensor.convert(\1, "\2")`'),
    (r"`?htensor convert (?:SRC DST )?--rename A=B`?", "`htensor.convert(source, target, rename={A: B})`"),
    (r"`?htensor convert (--exclude NAME|--canonical|--normalize-layout)`?", r"`htensor.convert(source, target, \1)`"),
    (r"--algorithm (\w+)", r"algorithm='\1'"),
    (r"--rename OLD=NEW", "rename={OLD: NEW}"),
    (r"--rename '([^'=]+)=([^'=]+)'", r"rename={'\1': '\2'}"),
    (r"--filter ('[^']+')", r"include=\1"),
    (r"--type chooses", "htensor.Value chooses"),
    (r"with --type\b", "with htensor.Value"),
    (r"(?<![\w'-])--([a-z][a-z-]*)(?: (\d+|SIZE|NAME)\b)?", _option),
    (r"\bHT_ACCESS_COPY\b", "copy=True"),
    (r"\bht_tensor_to_dlpack_versioned\b", "max_version=(1, 0)"),
    (r"\bht_tensor_read\b", "Tensor.to"),
    (r"\bht_tensor_copy_to\b", "Tensor.copy_to"),
    (r"use a value of ht_type\b", "use a name such as 'F32' or 'Q8_0'"),
    (r"\bHT_F32\b", "'F32'"),
    (r", and NULL for the strides", ""),
]
_COMPILED = [(re.compile(pattern), replacement) for pattern, replacement in _RULES]


def to_python(hint: str) -> str:
    """The hint with keywords and functions of Python."""
    for pattern, replacement in _COMPILED:
        hint = pattern.sub(replacement, hint)
    return hint


def message_to_python(message: str) -> str:
    """The message of an error for Python. Names in a message may look like options, so only the two messages about
    `--rename` are translated."""
    return re.sub(r"^--rename '(.*)' matches (no tensor|only tensors that an earlier )(?:--rename matches)?$",
                  lambda m: f"rename pattern '{m[1]}' matches {m[2]}" + ("pattern matches" if "only" in m[2] else ""),
                  message, flags=re.DOTALL)  # fmt: skip
