"""What a tree reduction takes, and how a rank that was given something else tells the others.

A rank that simply raised would leave the others waiting until their deadline. So it takes part in
the exchange without values, and all ranks raise.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Protocol

import torch

from patallreduce import _core
from patallreduce.communicator.calls import Op, op_name

_OPS = {name: op for name, op in _core.Op.__members__.items() if name != "avg"}
_DTYPES = {torch.float32: _core.Dtype.float32, torch.float64: _core.Dtype.float64}


class Array(Protocol):
    """An array as numpy's; numpy itself is not needed."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Where and what its elements are."""


Values = torch.Tensor | Array


class _Refusal(IntEnum):
    """Indices into `_core.TREE_REFUSALS`, the words in which the other ranks hear of it."""

    NO_ARRAY = 1
    DTYPE = 2
    SHAPE = 3
    MEMORY = 4
    OP = 5
    DISTRIBUTION = 6


class _RefusedError(Exception):
    def __init__(self, reason: _Refusal, error: Exception) -> None:
        super().__init__(error)
        self.reason = reason
        self.error = error


def tree_reduce(
    reducer: _core.TreeReducer,
    values: Values,
    op: Op,
    distribution: Sequence[int] | None,
    *,
    rank: int,
    ranks: int,
    timeout_s: float,
) -> torch.Tensor:
    """The body of `Communicator.tree_reduce`, which says everything."""
    try:
        tensor = _usable(values, rank)
        try:
            native_op = _OPS[op_name(op, rank, _OPS)]
        except ValueError as error:
            raise _RefusedError(_Refusal.OP, error) from None
        counts = [] if distribution is None else _usable_counts(distribution, rank, ranks)
    except _RefusedError as refused:
        reducer.refuse(refused.reason, timeout_s)
        raise refused.error from None
    flat = tensor.dim() == 1
    result = torch.empty(tensor.shape[1:], dtype=tensor.dtype)
    reducer.reduce(
        tensor.data_ptr(),
        tensor.shape[0],
        -1 if flat else tensor.shape[1],
        _DTYPES[tensor.dtype],
        native_op,
        result.data_ptr(),
        counts,
        timeout_s,
    )
    return result


def _usable(values: Values, rank: int) -> torch.Tensor:
    """The values as a contiguous tensor of a shape, dtype and place that the core takes."""
    where = f"on rank {rank}"
    tensor = values if isinstance(values, torch.Tensor) else _from_array(values, where)
    if tensor.layout != torch.strided or tensor.is_nested or tensor.device.type != "cpu":
        raise _RefusedError(
            _Refusal.MEMORY,
            TypeError(
                f"values: expected dense ones on the CPU, got layout {tensor.layout} on "
                f"{tensor.device} {where}"
            ),
        )
    if tensor.dtype not in _DTYPES:
        raise _RefusedError(
            _Refusal.DTYPE,
            TypeError(f"values: expected float32 or float64, got {tensor.dtype} {where}"),
        )
    if tensor.dim() not in {1, 2}:
        raise _RefusedError(
            _Refusal.SHAPE,
            ValueError(f"values: expected shape (n,) or (n, k), got {tuple(tensor.shape)} {where}"),
        )
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return tensor.contiguous()


def _from_array(values: Any, where: str) -> torch.Tensor:
    if not hasattr(values, "__array_interface__"):
        raise _RefusedError(
            _Refusal.NO_ARRAY,
            TypeError(
                f"values: expected a tensor or an array, got {type(values).__name__} {where}"
            ),
        )
    # torch shares neither read-only memory, without a warning, nor memory that runs backwards.
    read_only = values.__array_interface__["data"][1]
    if read_only or any(stride < 0 for stride in values.strides):
        values = values.copy()
    try:
        return torch.as_tensor(values)
    except TypeError as error:  # a dtype that torch does not have
        raise _RefusedError(
            _Refusal.DTYPE, TypeError(f"values: expected float32 or float64 {where}: {error}")
        ) from None


def _usable_counts(distribution: Sequence[int], rank: int, ranks: int) -> list[int]:
    try:
        counts = [operator.index(count) for count in distribution]
    except TypeError as error:
        raise _RefusedError(
            _Refusal.DISTRIBUTION, TypeError(f"distribution: {error} on rank {rank}")
        ) from None
    if len(counts) != ranks or not all(0 <= count < 2**63 for count in counts):
        raise _RefusedError(
            _Refusal.DISTRIBUTION,
            ValueError(
                f"distribution: expected {ranks} counts >= 0, one per rank, got {counts} "
                f"on rank {rank}"
            ),
        )
    return counts
