"""Saves and loads torch tensors and modules: the drop-in for `safetensors.torch`.

    from htensor.safetensors.torch import load_file, load_model, save_file, save_model

    save_file(module.state_dict(), "model.safetensors")
    module.load_state_dict(load_file("model.safetensors"))

A file stores every tensor once, without aliases. `save_file` therefore refuses tensors that share memory, and
`save_model` and `load_model` keep one name of each group.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch

from ._arrays import TorchArrays
from ._dtypes import STORED_NAMES
from ._reader import safe_open
from ._writer import TensorSpec, copy_of, parse, serialize, serialize_file

_TYPES = {stored: getattr(torch, name) for name, stored in STORED_NAMES.items() if hasattr(torch, name)}
_SIZE = {dtype: torch.empty(0, dtype=dtype).element_size() for dtype in _TYPES.values()}


def save(tensors: dict[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file with these tensors, which must be dense and contiguous.

    ValueError for other tensors, RuntimeError for tensors that share memory.
    """
    specs, owners = _specs(tensors)
    return serialize(specs, metadata=metadata)


def save_file(
    tensors: dict[str, torch.Tensor],
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes the bytes of `save` to a file, which appears whole or not at all.

    The tensors must not change during the call.
    """
    specs, owners = _specs(tensors)
    serialize_file(specs, filename, metadata=metadata)


def load(data: bytes) -> dict[str, torch.Tensor]:
    """Copies of the tensors of a safetensors file in memory, on the CPU."""
    arrays = TorchArrays()
    return {tensor.name: arrays.view(copy_of(tensor), tensor) for tensor in parse(data)}


def load_file(
    filename: str | os.PathLike[str], device: str | int = "cpu", *, backend: str = "mmap"
) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file on a device, in the order of their data.

    On the CPU, with the backend "mmap", the tensors are private pages of the file; with "pread", every tensor has
    memory of its own: see `safe_open`.
    """
    with safe_open(filename, framework="pt", device=device, backend=backend) as file:
        return file.get_tensors()


def save_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Writes the state of a module. A group of tensors that share memory is stored once, under one name.

    The metadata of the file maps each other name of the group to the stored name. `force_contiguous` copies
    tensors that are not contiguous; without it, they are a ValueError.
    """
    state = model.state_dict()
    entries = dict(metadata or {})
    for stored, removed in _remove_duplicate_names(state).items():
        for name in removed:
            entries.setdefault(name, stored)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    try:
        save_file(state, filename, metadata=entries if entries or metadata is not None else None)
    except ValueError as error:
        raise ValueError(
            f"{error} Or use save_model(..., force_contiguous=True), which changes the layout in the file only."
        ) from error


def load_model(
    model: torch.nn.Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: str | int = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[set[str], list[str]]:
    """Copies the tensors of a file into a module.

    Returns the missing names and the unexpected names. If tensors of the module share memory, the file needs only
    one name of the group: that of a tensor that covers all of this memory. The other names of the group are not
    missing, and are unexpected if the file has them, too. A name that the module lacks is also unexpected. With
    `strict`, any missing or unexpected name raises RuntimeError.
    """
    state = load_file(filename, device=device, backend=backend)
    duplicates = _remove_duplicate_names(model.state_dict(), preferred_names=state.keys())
    lacking, unexpected = model.load_state_dict(state, strict=False)
    missing = set(lacking)
    for removed in duplicates.values():
        for name in removed:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        if missing:
            lines.append(f"    Missing key(s) in state_dict: {_quoted(missing)}")
        if unexpected:
            lines.append(f"    Unexpected key(s) in state_dict: {_quoted(unexpected)}")
        raise RuntimeError("\n".join(lines))
    return missing, unexpected


def storage_ptr(tensor: torch.Tensor) -> int:
    """The address of the tensor's storage; 0 for tensors without memory."""
    try:
        return int(_storage(tensor).data_ptr())
    except (NotImplementedError, RuntimeError):
        return 0


def storage_size(tensor: torch.Tensor) -> int:
    """The number of bytes of the tensor's storage."""
    try:
        return int(_storage(tensor).nbytes())
    except NotImplementedError:
        return tensor.nelement() * tensor.element_size()


def _storage(tensor: Any) -> Any:
    # torch 1 lacks untyped_storage, and raises NotImplementedError for the storage of a meta tensor.
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names))


def _end_ptr(tensor: torch.Tensor) -> int:
    """The address after the last element."""
    if tensor.nelement() == 0:
        return tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr() + (last + 1) * tensor.element_size()


def _is_complete(tensor: torch.Tensor) -> bool:
    """Whether the tensor covers its whole storage."""
    return (
        tensor.data_ptr() == storage_ptr(tensor)
        and tensor.nelement() * tensor.element_size() == storage_size(tensor)
    )


def _find_shared_tensors(state_dict: dict[str, torch.Tensor]) -> list[set[str]]:
    """Sets of names whose tensors overlap in memory, directly or through other tensors. A tensor without
    overlap is a set of one name.

    Tensors without memory are left out.
    """
    storages: dict[Any, list[str]] = defaultdict(list)
    for name, tensor in state_dict.items():
        if tensor.device.type != "meta" and storage_ptr(tensor) and storage_size(tensor):
            storages[tensor.device, storage_ptr(tensor), storage_size(tensor)].append(name)
    return [group for names in storages.values() for group in _overlapping(names, state_dict)]


def _overlapping(names: list[str], state_dict: dict[str, torch.Tensor]) -> list[set[str]]:
    spans = sorted((state_dict[name].data_ptr(), _end_ptr(state_dict[name]), name) for name in names)
    groups: list[set[str]] = []
    end = 0
    for start, stop, name in spans:
        if groups and start < end:
            groups[-1].add(name)
        else:
            groups.append({name})
        end = max(end, stop)
    return groups


def _remove_duplicate_names(
    state_dict: dict[str, torch.Tensor],
    *,
    preferred_names: Iterable[str] | None = None,
    discard_names: Iterable[str] | None = None,
) -> dict[str, list[str]]:
    """Maps the kept name of each group of tensors that share memory to the removed names of the group.

    The kept tensor covers its whole storage; RuntimeError if no tensor of a group does. If several do, names
    in `preferred_names` come first, then names that are not in `discard_names`, then the others; the first
    name in alphabetical order wins.
    """
    preferred, discarded = set(preferred_names or ()), set(discard_names or ())
    removed: dict[str, list[str]] = {}
    for group in _find_shared_tensors(state_dict):
        complete = {name for name in group if _is_complete(state_dict[name])}
        if not complete:
            raise RuntimeError(
                f"no tensor of {sorted(group)} covers the memory that they share. Refusing to save/load the model"
                " since you could be storing much more memory than needed."
                " hint: clone the tensors first"
            )
        stored = min(complete & preferred or complete - discarded or complete)
        others = sorted(group - {stored})
        if others:
            removed[stored] = others
    return removed


def _check(tensors: dict[str, torch.Tensor]) -> None:
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}")
    sparse = [name for name, tensor in tensors.items() if tensor.layout != torch.strided]
    if sparse:
        raise ValueError(
            f"You are trying to save a sparse tensors: `{sparse}` which this library does not support."
            " You can make it a dense tensor before saving with `.to_dense()` but be aware this might"
            " make a much larger file than needed."
        )
    shared = [group for group in _find_shared_tensors(tensors) if len(group) > 1]
    if shared:
        raise RuntimeError(
            "Some tensors share memory, this will lead to duplicate memory on disk and potential differences when"
            f" loading them again: {shared}. hint: save the module with save_model, or clone the tensors"
        )


def _specs(tensors: dict[str, torch.Tensor]) -> tuple[dict[str, TensorSpec], list[torch.Tensor]]:
    """A spec for each tensor, and the tensors whose memory the specs point to, to keep while the specs are used."""
    _check(tensors)
    specs, owners = {}, []
    for name, tensor in tensors.items():
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        if not tensor.is_contiguous():
            raise ValueError(
                f"tensor `{name}` is not contiguous: its strides are {tensor.stride()}."
                " hint: call .contiguous() on it, or save only the tensor of which it is a view."
            )
        host = tensor.to("cpu")
        owners.append(host)
        specs[name] = TensorSpec(
            dtype=str(host.dtype).rpartition(".")[2],
            shape=tensor.shape,
            data_ptr=host.data_ptr(),
            data_len=host.nelement() * host.element_size(),
        )
    return specs, owners
