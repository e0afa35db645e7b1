"""Which tensors a collective takes, and what it says of the others."""

from __future__ import annotations

import torch

from patallreduce import _core

_DTYPES = {
    getattr(torch, name): member
    for name, member in _core.Dtype.__members__.items()
    if hasattr(torch, name)
}


def dtype_of(tensor: torch.Tensor) -> _core.Dtype:
    """The core's dtype of a checked tensor."""
    return _DTYPES[tensor.dtype]


def check_tensor(tensor: torch.Tensor, rank: int) -> None:
    """Raise TypeError or ValueError for a tensor that cannot be reduced in place."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(
            f"tensor: expected a torch.Tensor, got {type(tensor).__name__} on rank {rank}"
        )
    if tensor.layout != torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else tensor.layout
        raise TypeError(
            f"tensor: expected a dense tensor, got layout {layout} on rank {rank}; "
            "sparse gradients cannot be all-reduced in place (for an Embedding: sparse=False)"
        )
    if not (tensor.is_cpu or tensor.is_cuda):
        raise TypeError(
            f"tensor: expected a CPU or CUDA tensor, got device {tensor.device} on rank {rank}"
        )
    if tensor.dtype not in _DTYPES:
        known = ", ".join(_core.Dtype.__members__)
        hint = "; use torch.view_as_real for complex" if tensor.is_complex() else ""
        raise TypeError(
            f"tensor: expected a dtype of {known}, got {tensor.dtype} on rank {rank}{hint}"
        )
    if not tensor.is_contiguous():
        raise ValueError(
            f"tensor: expected a contiguous tensor, got shape {tuple(tensor.shape)} with strides "
            f"{tensor.stride()} on rank {rank}"
        )
    if tensor.is_neg():
        # Its memory holds the negatives of its elements: min, max and prod would go wrong.
        raise ValueError(
            f"tensor: expected one as in memory, got a lazily negated view on rank {rank}; "
            "use resolve_neg()"
        )
