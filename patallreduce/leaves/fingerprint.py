"""A fingerprint of weights: equal exactly if every bit is equal."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterable, Mapping

import torch
from torch.nn.parallel import DistributedDataParallel


def fingerprint(
    weights: torch.nn.Module | Mapping[str, torch.Tensor] | Iterable[torch.Tensor],
) -> str:
    """Hash the bits of all parameters and buffers, to compare runs or ranks.

    Names, dtypes, shapes and bits count, in the order of `state_dict`; devices, strides and
    `requires_grad` do not. +0 and -0 differ, and so do NaNs of different bits. Bytes are hashed as
    they lie in memory: fingerprints of machines with another byte order do not compare.

    Args:
        weights: A module: the tensors of its `state_dict()`, so without non-persistent buffers and
            extra state. A DistributedDataParallel counts as the module in it. Or a mapping of
            names to tensors, such as a checkpoint's, or any number of tensors, whose names are
            their numbers.

    Returns:
        64 hexadecimal digits (SHA-256).

    Raises:
        TypeError: something is neither, or a tensor is not dense or has no data; it is named.
    """
    if isinstance(weights, DistributedDataParallel):
        weights = weights.module
    if isinstance(weights, torch.nn.Module):
        state = weights.state_dict()
        weights = {name: value for name, value in state.items() if torch.is_tensor(value)}
    elif isinstance(weights, torch.Tensor):
        weights = [weights]
    if not isinstance(weights, Mapping):
        weights = {str(number): tensor for number, tensor in enumerate(weights)}
    digest = hashlib.sha256()
    for name, tensor in weights.items():
        _add(digest, name, tensor)
    return digest.hexdigest()


def _add(digest: hashlib._Hash, name: str, tensor: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        raise TypeError(
            f"{name}: expected a dense tensor with data, got layout {tensor.layout} "
            f"on device {tensor.device}"
        )
    # The repr of the name ends where it ends, so no two different lists of tensors hash alike.
    digest.update(f"{name!r} {tensor.dtype} {list(tensor.shape)}\n".encode())
    held = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if held.nbytes:
        digest.update((ctypes.c_char * held.nbytes).from_address(held.data_ptr()))
