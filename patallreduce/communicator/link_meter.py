"""The link between ranks, measured by the rings that an engine runs."""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from patallreduce import _core
from patallreduce.communicator.calls import OPS
from patallreduce.communicator.tensors import dtype_of
from patallreduce.pricing.link import Link, measure, measure_port_share


class LinkMeter:
    """Measures the link of an engine's ranks. All its methods are collective.

    Args:
        engine: Runs the rings.
        ranks: Number of ranks P.
        timeout_s: Deadline of each ring.
    """

    def __init__(self, engine: _core.Engine, ranks: int, timeout_s: float) -> None:
        self._engine = engine
        self._ranks = ranks
        self._timeout_s = timeout_s

    def measure(self, dtype: torch.dtype, *, with_port_share: bool = False) -> Link:
        """Return the link, the same on all ranks; of one rank, only its sums are measured.

        Without `with_port_share` the link has the default one.
        """
        seconds_per_byte = 1 / _reduce_bytes_per_s(dtype)
        if self._ranks == 1:
            return Link(1e-6, 1e9, 1 / seconds_per_byte)
        self._ring_s(1024)  # connections stand and caches are warm after this
        link = measure(self._ranks, self._ring_s, 1 / self._of_the_slowest(seconds_per_byte))
        if not with_port_share:
            return link
        return replace(link, port_share=measure_port_share(self._ranks, link, self._ring_s))

    def _ring_s(self, message_bytes: int, segments: int | None = None) -> float:
        """Seconds of one ring on the slowest rank, default: of one segment per rank."""
        message = torch.zeros(message_bytes, dtype=torch.uint8)
        self._ring(torch.zeros(self._ranks), "sum")  # start together
        start_s = time.monotonic()
        self._ring(message, "max", segments)
        return self._of_the_slowest(time.monotonic() - start_s)

    def _of_the_slowest(self, seconds: float) -> float:
        longest_s = torch.full((self._ranks,), seconds, dtype=torch.float64)
        self._ring(longest_s, "max")
        return float(longest_s[0])

    def _ring(self, tensor: torch.Tensor, op: str, segments: int | None = None) -> None:
        key = _core.metering_key(segments or self._ranks)
        call = _core.Call.of_key(tensor.numel(), dtype_of(tensor), OPS[op], key)
        self._engine.wait(self._engine.begin(tensor.data_ptr(), call, self._timeout_s))


def _reduce_bytes_per_s(dtype: torch.dtype) -> float:
    received, held = torch.zeros(2**18, dtype=dtype), torch.zeros(2**18, dtype=dtype)
    received_bytes = received.numel() * received.element_size()
    fastest_s = float("inf")
    for _ in range(3):
        start_s = time.monotonic()
        out = received.data_ptr()
        _core.combine(
            out, 0, out, held.data_ptr(), received.numel(), dtype_of(held).name, "sum", 1.0
        )
        fastest_s = min(fastest_s, time.monotonic() - start_s)
    return received_bytes / fastest_s
