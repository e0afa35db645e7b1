"""Sums of gradients with the same bits on every thread, whatever its floating-point mode."""

from __future__ import annotations

import torch

from patallreduce import _core
from patallreduce.communicator.tensors import dtype_of


def add(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Add `right` to `left`, in place where they lie alike in memory; return the sum.

    By the core, as all-reduces add: subnormals kept and one NaN, also where the thread's own
    arithmetic flushes (a sum may run on the caller's thread or on another, as ranks go).
    """
    if not (_fills_its_memory(left) and left.stride() == right.stride()):
        left, right = left.contiguous(), right.contiguous()
    at = left.data_ptr()
    _core.combine(at, 0, at, right.data_ptr(), left.numel(), dtype_of(left).name, "sum")
    return left


def _fills_its_memory(tensor: torch.Tensor) -> bool:
    """Whether its elements lie next to each other, in any order of dimensions."""
    return tensor.is_contiguous() or torch.empty_like(tensor).stride() == tensor.stride()
