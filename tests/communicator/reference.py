"""What a collective must give, to the bit: torch's operations in the sum order of its schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

import patallreduce as pat
from patallreduce._core import find_algorithm

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.int64,
    torch.uint8,
]
OPS = {
    "sum": torch.add,
    "avg": torch.add,
    "min": torch.minimum,
    "max": torch.maximum,
    "prod": torch.mul,
}
ALGORITHMS = sorted(pat.algorithms())


def contributions(ranks: int, count: int, dtype: torch.dtype, seed: int = 0) -> list[torch.Tensor]:
    """Random elements for every rank; integers over their whole range, so that sums wrap."""
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        first = torch.randn(count, generator=generator).to(dtype)
    else:
        limits = torch.iinfo(dtype)
        first = torch.randint(limits.min, limits.max, (count,), generator=generator, dtype=dtype)
    # A million fresh elements per rank would take longer than reducing them.
    return [first.roll(rank * (count // max(ranks, 1) + 1)) for rank in range(ranks)]


def leaves(order: Any) -> Iterator[int]:
    if isinstance(order, int):
        yield order
    else:
        for part in order:
            yield from leaves(part)


def expected(parts: list[torch.Tensor], op: str, schedule: pat.Schedule) -> list[torch.Tensor]:
    """The whole message summed in each of the sum orders that the schedule gives its segments."""
    ranks, dtype = len(parts), parts[0].dtype
    if op == "avg" and dtype.is_floating_point:
        parts = [part * (1 / ranks) for part in parts]

    def evaluate(order: Any) -> torch.Tensor:
        if isinstance(order, int):
            return parts[order]
        return OPS[op](evaluate(order[0]), evaluate(order[1]))

    results = []
    for order in sorted(set(schedule.sum_orders()[schedule.root]), key=repr):
        assert sorted(leaves(order)) == list(range(ranks))
        result = evaluate(order)
        if op == "avg" and not dtype.is_floating_point:
            result = torch.div(result, ranks, rounding_mode="trunc")
        results.append(result)
        if not dtype.is_floating_point:
            break  # integers wrap: every order gives the same
    return results


def times_s(algorithm: str, segments: int, tau_s: float, data: torch.Tensor, link: Any) -> Any:
    """What the algorithm's schedule depends on besides arrivals; `link`: of a communicator."""
    if algorithm != "clairvoyant":
        return {"segment_time_s": tau_s}
    found = find_algorithm(algorithm, "all_reduce")
    return found.times(1, segments, data.nbytes, False, None, lambda: link)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers: equality of these is equality of bits."""
    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.view(widths[tensor.element_size()])


def assert_is_a_sum(actual: torch.Tensor, candidates: list[torch.Tensor], case: str) -> None:
    """Every element has the bits of one of the schedule's sum orders."""
    right = torch.zeros(actual.shape, dtype=torch.bool)
    for candidate in candidates:
        assert candidate.dtype == actual.dtype
        right |= bits(actual) == bits(candidate)
    wrong = (~right).nonzero()
    assert wrong.numel() == 0, (
        f"{case}: {wrong.numel()} of {actual.numel()} elements, the first at {wrong[0].item()}: "
        f"{actual[wrong[0]]}, expected one of {[c[wrong[0]].item() for c in candidates]}"
    )
