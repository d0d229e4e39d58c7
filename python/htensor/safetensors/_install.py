"""Replaces the `safetensors` package with the drop-in, for programs that cannot be edited. Below, the reference is the
replaced package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType
from typing import Any

_PACKAGE = "safetensors"
_OURS = "htensor.safetensors"
# Names of the native module of the reference. It has the classes, and some programs import them from there.
_NATIVE_MODULES = ("_safetensors_rust", "safetensors_rust")


def replace_package() -> None:
    """Implements `htensor.safetensors.install`."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]
        sys.meta_path.insert(0, _Finder())
    package = importlib.import_module(_PACKAGE)
    # Code that finds the class by module and name, such as pickle, expects the module of the reference.
    package.SafetensorError.__module__ = f"{_PACKAGE}.{_NATIVE_MODULES[0]}"
    for framework in ("numpy", "torch"):
        # A module whose framework is not imported yet is imported at first use: importing torch takes seconds.
        if framework in sys.modules:
            importlib.import_module(f"{_PACKAGE}.{framework}")


class _Finder(DistributionFinder):
    """Finds our modules for `safetensors` and its modules, and provides the version of its distribution."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = fullname.partition(".")
        if package != _PACKAGE:
            return None
        ours = _OURS if not module or module in _NATIVE_MODULES else f"{_OURS}.{module}"
        return ModuleSpec(fullname, _Alias(ours), is_package=not module)

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        return [_Installed()] if context is None or context.name == _PACKAGE else []


class _Alias(Loader):
    """Loads one of our modules under a name of the reference."""

    def __init__(self, ours: str) -> None:
        self._ours = ours

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        try:
            module = importlib.import_module(self._ours)
        except ModuleNotFoundError as error:
            if error.name != self._ours:
                raise
            raise ImportError(f"htensor.safetensors has no {spec.name}: use numpy or torch", name=spec.name)
        # The import system overwrites the spec, which exec_module restores.
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _Installed(Distribution):
    def read_text(self, filename: str) -> str | None:
        version = importlib.import_module(_OURS).__version__
        return f"Name: {_PACKAGE}\nVersion: {version}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{_PACKAGE} is part of htensor")
