#!/usr/bin/env python3
"""Lists the tensors of a model, verifies it, and writes it as BF16.

Usage: weights.py SOURCE [TARGET]
"""

from __future__ import annotations

import sys

import htensor


def list_tensors(model: htensor.Model) -> None:
    for name, tensor in model.items():
        print(f"{name}  {tensor.type}  {list(tensor.shape)}  {tensor.nbytes} bytes")
    stats = next(iter(model.values())).stats()
    print(f"{len(model)} tensors; the first has values from {stats.min} to {stats.max}")


def check(path: str) -> None:
    try:
        print(htensor.verify(path).verdict)
    except htensor.Error as error:
        if error.code != "not_sealed":
            raise
        print(f"sealed: {htensor.seal(path).digest}")


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with htensor.open(arguments[0]) as model:
            list_tensors(model)
        check(arguments[0])
        if len(arguments) > 1:
            written = htensor.convert(arguments[0], arguments[1], cast={"*": "BF16"}, round=True, progress=True)
            print(f"wrote {written.bytes} bytes to {written.path}")
    except htensor.Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
