"""The link between ranks, measured by shifts that an engine runs (algorithms/shift/shift.cpp)."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from patallreduce import _core
from patallreduce.communicator.burst_meter import measure_burst
from patallreduce.communicator.calls import OPS
from patallreduce.communicator.port_meter import measure_ports, pair_rate
from patallreduce.communicator.tensors import dtype_of
from patallreduce.pricing.link import (
    LONG_S,
    Link,
    measure,
    measure_change_share,
    measure_partners,
    measure_port_share,
)
from patallreduce.statistics import trimmed_mean

_PORT_BYTES = 1 << 20  # what rested ports let through at once does not count beside it
_MOST_BYTES = 64 << 20
_REPEATS, _RESTED_REPEATS = 3, 7
_MOST_ROUNDS, _ROUNDS_S = 24, 0.05
_ALIGNED_BYTES = 64  # segments are cut there
_NOTHING = torch.zeros(0, dtype=torch.uint8)
_MOST_PROCESSORS = 1024  # of a host
# Of a latency in shared memory, what a message keeps processors from others. Less for another to
# the same rank, more for one to each; by this the model's choices were the best.
_SHARED_MEMORY_PORT_SHARE = 0.1
_SUMMED_BYTES = 16 << 20  # more than caches hold, as of gradients
_MOST_AT_ONCE = 64  # more ranks never send to all others at once (selection/schedules.h)


class LinkMeter:
    """Measures the link of an engine's ranks. All its methods are collective.

    Args:
        engine: Runs the shifts.
        rank: This rank.
        ranks: Number of ranks P.
        timeout_s: Deadline of each collective.
        nodes: (P,) the node of each rank; (): no two share one. Otherwise the link between nodes is
            measured, each with one of its ranks.
        ports: Whether messages go through any. In shared memory there are none: the processors
            that ranks share move them.
    """

    def __init__(
        self,
        engine: _core.Engine,
        rank: int,
        ranks: int,
        timeout_s: float,
        nodes: Sequence[int] = (),
        *,
        ports: bool = True,
    ) -> None:
        self._engine = engine
        self._rank = rank
        self._ranks = ranks
        self._timeout_s = timeout_s
        self._nodes = nodes
        self._ports = ports
        self._message = _NOTHING

    def measure(self, dtype: torch.dtype, *, with_port_share: bool = False) -> Link:
        """Return the link, the same on all ranks; of one rank, only its sums are measured.

        Without `with_port_share` the link has the default one, unless it is a long one: there most
        of the latency is the wire's, and ports are free meanwhile.
        """
        if self._ranks == 1:
            return Link(1e-6, 1e9, _reduce_bytes_per_s(dtype))
        try:
            link = self._measure(dtype)
            if self._ports:
                link = self._with_partners(self._with_ports(link))
            else:
                link = self._with_processors(link)
            if with_port_share or link.latency_s >= LONG_S:
                link = replace(link, port_share=measure_port_share(link, self._round_s))
            if not self._ports:
                return link
            link = self._with_changes(link)
            return replace(link, burst_bytes=measure_burst(link, partial(self._rested_s, link)))
        finally:
            self._message = _NOTHING

    def measure_within_node(self, dtype: torch.dtype) -> Link | None:
        """Return the link within rank 0's node, the same on all ranks; None: it is alone there."""
        mates = [rank for rank, node in enumerate(self._nodes) if node == self._nodes[0]]
        if len(mates) < 2:
            return None
        among = [rank if rank in mates else 0 for rank in range(self._ranks)]
        meter = LinkMeter(self._engine, self._rank, self._ranks, self._timeout_s, among)
        link = meter._measure(dtype)
        return replace(link, port_share=measure_port_share(link, meter._round_s))

    def _measure(self, dtype: torch.dtype) -> Link:
        self._round_s(1024)  # connections stand and caches are warm after this
        seconds_per_byte = self._over_ranks(1 / _reduce_bytes_per_s(dtype), "max")
        # In shared memory the model chose worse by many rounds (ARCHITECTURE.md).
        ways = (self._round_s, self._hop_s) if self._ports else (self._usual_round_s, None)
        return measure(ways[0], 1 / seconds_per_byte, ways[1])

    def _round_s(self, block_bytes: int, pieces: int = 1) -> float:
        """Seconds of one round of a shift.

        What ranks exchanged last, the mean of the shift before, lets them start it together, but
        not to the microsecond. One that starts later waits for nobody and gets what the others sent
        meanwhile; one that starts earlier waits as much longer: the mean over the ranks is right.
        """
        return self._shift_s(block_bytes, _core.metering_shift(self._ranks, pieces, self._nodes))

    def _hop_s(self) -> float:
        """Of many rounds of empty messages: what the call takes besides counts for nothing."""
        return self._shift_s(1, _core.metering_long_shift(self._ranks, self._nodes))

    def _shift_s(
        self, block_bytes: int, shift: tuple[_core.ScheduleKey, int, int, list[int]]
    ) -> float:
        key, blocks, rounds, taking_part = shift
        message = self._zeros(blocks * block_bytes)
        start_s = time.monotonic()
        self._run(message, "max", key)
        took_s = time.monotonic() - start_s if self._rank in taking_part else 0.0
        return self._over_ranks(took_s / rounds, "avg") * self._ranks / len(taking_part)

    def _usual_round_s(self, block_bytes: int) -> float:
        """The trimmed mean of some rounds: of ranks that share processors the shortest has luck."""
        seconds: list[float] = []
        while len(seconds) < _MOST_ROUNDS and sum(seconds) < _ROUNDS_S:
            seconds.append(self._round_s(block_bytes))
        return trimmed_mean(seconds)

    def _with_ports(self, link: Link) -> Link:
        """The same where all ports are alike; else that of the narrowest, with all ports."""
        port_bytes = int(min(max(_PORT_BYTES, 4 * link.latency_s * link.bytes_per_s), _MOST_BYTES))
        _, _, nodes = _core.metering_neighbours(list(range(self._ranks)), self._nodes)

        def pair_rates(order: Sequence[int]) -> list[float]:
            # The long ones first: on a long way they open the connections' windows for the others.
            long_s, short_s = (
                self._neighbours_s([nodes[node] for node in order], size)
                for size in (port_bytes, port_bytes // 4)
            )
            return [
                pair_rate(port_bytes, long, short, link.latency_s)
                for long, short in zip(long_s, short_s, strict=True)
            ]

        found = measure_ports(pair_rates, len(nodes))
        if not found:
            return link
        narrowest = min(found)
        return replace(
            link,
            bytes_per_s=narrowest,
            transfers_s=tuple(
                (size, seconds * link.bytes_per_s / narrowest) for size, seconds in link.transfers_s
            ),
            ports=tuple(rate / narrowest for rate in found),
        )

    def _with_partners(self, link: Link) -> Link:
        """The same; where ranks share ports, or ports differ, one partner is taken to fill one."""
        if link.ports or self._nodes or not 2 < self._ranks <= _MOST_AT_ONCE:
            return link
        return replace(link, partners=measure_partners(link, self._ranks, self._swap_s))

    def _with_changes(self, link: Link) -> Link:
        """The same; over long ways, too: latencies may be long since processors are few."""
        if self._nodes or not 2 < self._ranks <= _MOST_AT_ONCE:
            return link
        change_share = measure_change_share(link, self._ranks, self._swap_s, self._round_s)
        return replace(link, change_share=change_share)

    def _with_processors(self, link: Link) -> Link:
        """The same, of a message that has them for itself; all ranks are busy while one is sent."""
        usable = torch.zeros(_MOST_PROCESSORS, dtype=torch.float64)
        usable[[n for n in os.sched_getaffinity(0) if n < _MOST_PROCESSORS]] = 1.0
        self._run(usable, "max", _core.table_key(usable.nbytes, self._ranks))
        processors = max(int(usable.sum()), 1)
        faster = max(self._ranks / processors, 1.0)
        return replace(
            link,
            bytes_per_s=link.bytes_per_s * faster,
            transfers_s=tuple((size, seconds / faster) for size, seconds in link.transfers_s),
            port_share=_SHARED_MEMORY_PORT_SHARE,
            processors=processors,
        )

    def _swap_s(self, block_bytes: int) -> float:
        """Seconds until every rank has a block of every other one; the mean, as of a round."""
        alike_bytes = -(-block_bytes // _ALIGNED_BYTES) * _ALIGNED_BYTES  # all blocks
        message = self._zeros(2 * self._ranks * alike_bytes)
        start_s = time.monotonic()
        self._run(message, "max", _core.swap_key(self._ranks))
        return self._over_ranks(time.monotonic() - start_s, "avg")

    def _rested_s(self, link: Link, block_bytes: int) -> float:
        """Seconds of one round, of ports that had a rest: the median of some."""
        key, blocks, nodes = _core.metering_neighbours(list(range(self._ranks)), self._nodes)
        seconds = []
        for _ in range(_RESTED_REPEATS):
            time.sleep(block_bytes / link.bytes_per_s)
            for _ in range(2):  # ranks start together, as of neighbours
                self._over_ranks(0.0, "max")
            seconds.append(self._shift_s(block_bytes, (key, blocks, 1, nodes)))
        return statistics.median(seconds)

    def _neighbours_s(self, order: Sequence[int], block_bytes: int) -> list[float]:
        """Seconds until each of these ranks has a block of the one before it: the median of some.

        The table of these seconds lets ranks start together again, exchanged twice: who comes last
        to the first exchange leaves it first, a latency before the others. Yet one that starts
        later than the rank before it waits less, so the least would be too little.
        """
        places = [float(self._ranks)] * self._ranks
        for place, rank in enumerate(order):
            places[rank] = float(place)
        key, blocks, _ = _core.metering_neighbours(places, self._nodes)
        message = self._zeros(blocks * block_bytes)
        all_s = []
        for _ in range(_REPEATS):
            start_s = time.monotonic()
            self._run(message, "max", key)
            took_s = torch.zeros(self._ranks, dtype=torch.float64)
            took_s[self._rank] = time.monotonic() - start_s
            for op in ("sum", "max"):
                self._run(took_s, op, _core.table_key(took_s.nbytes, self._ranks))
            all_s.append(took_s)
        median_s = torch.stack(all_s).median(dim=0).values
        return [float(median_s[rank]) for rank in order]

    def _zeros(self, count: int) -> torch.Tensor:
        """Zeros, which stay zeros. Fresh memory for each message costs more than to move it."""
        if self._message.numel() < count:
            self._message = torch.zeros(count, dtype=torch.uint8)
        return self._message[:count]

    def _over_ranks(self, value: float, op: str) -> float:
        values = torch.full((1,), value, dtype=torch.float64)
        self._run(values, op, _core.table_key(values.nbytes, self._ranks))
        return float(values[0])

    def _run(self, tensor: torch.Tensor, op: str, key: _core.ScheduleKey) -> None:
        call = _core.Call.of_key(tensor.numel(), dtype_of(tensor), OPS[op], key)
        self._engine.wait(self._engine.begin(tensor.data_ptr(), call, self._timeout_s))


def _reduce_bytes_per_s(dtype: torch.dtype) -> float:
    received, held = (torch.ones(_SUMMED_BYTES // dtype.itemsize, dtype=dtype) for _ in range(2))
    fastest_s = float("inf")
    for _ in range(3):
        start_s = time.thread_time()  # others may have its processor meanwhile
        out = received.data_ptr()
        _core.combine(
            out, 0, out, held.data_ptr(), received.numel(), dtype_of(held).name, "sum", 1.0
        )
        fastest_s = min(fastest_s, time.thread_time() - start_s)
    return _SUMMED_BYTES / fastest_s
