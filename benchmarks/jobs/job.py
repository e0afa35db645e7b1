"""One job, iteration after iteration, on simulated ports (`_core.simulate_together`)."""

from __future__ import annotations

from collections.abc import Callable

from patallreduce import _core

from .cells import ELEMENT_BYTES, Cell

# (algorithm, segments, arrivals_s, segment_time_s) by bucket.
Key = tuple[str, int, list[float], float]
Arrivals = list[list[float]]  # seconds by bucket and rank

_MOST_PREPARED = 200


class Job:
    """Runs a cell's iterations.

    Args:
        cell: What runs.
        turn: Which of a port's ready sends leaves next, as of `_core.simulate_together`.
        underpriced: An algorithm whose transfers take twice what a planner thinks.
    """

    def __init__(self, cell: Cell, turn: str = "first_ready", underpriced: str = "") -> None:
        self.cell = cell
        self._turn = turn
        self._underpriced = underpriced
        self.sizes = [(cell.bucket_elements, ELEMENT_BYTES)] * cell.buckets
        self._message_bytes = cell.bucket_elements * ELEMENT_BYTES
        self._prepared: dict[tuple[str, int, tuple[float, ...], float], _core.Simulation] = {}
        self._busy: tuple[list[float], list[float]] = ([], [])
        self.free_s = [0.0] * cell.ranks
        selector = _core.Selector(cell.ranks, cell.link)
        if cell.buckets > 1:
            own = selector.choose_beside_others(cell.bucket_elements, ELEMENT_BYTES)
        else:
            own = selector.choose(cell.bucket_elements, ELEMENT_BYTES, [0.0] * cell.ranks)
        self.own: list[Key] = [own[:4]] * cell.buckets  # what calls take without a plan

    def fixed(self, name: str, arrivals_s: Arrivals) -> list[Key]:
        """Every bucket by one algorithm, which is told the real arrivals.

        Chains have one order of the ranks, that of the last bucket's arrivals; as `slt_by_bucket`,
        each bucket its own.
        """
        by_bucket = name != "slt"
        name = name.removesuffix("_by_bucket")
        algorithm = _core.find_algorithm(name, "all_reduce")
        segments = algorithm.segments(
            self.cell.ranks, self._message_bytes, self.cell.bucket_elements, self.cell.link
        )
        link = self.cell.link
        half_s = (link.latency_s + link.transfer_s(self._message_bytes) / self.cell.ranks) / 2
        keys: list[Key] = []
        for row in arrivals_s:
            first_s = min(row)
            hints = [float(round((at_s - first_s) / half_s)) for at_s in row]
            if name == "clairvoyant":
                segment_time_s = link.latency_s + link.transfer_s(self._message_bytes // segments)
                keys.append((name, segments, [at_s - first_s for at_s in row], segment_time_s))
                continue
            order = row if by_bucket else arrivals_s[-1]
            keys.append((name, segments, hints if algorithm.uses_times else order, 2.0))
        return keys

    def arrivals_s(self, compute_s: list[float]) -> Arrivals:
        """When each bucket of the next iteration is ready on each rank."""
        shares = [1 / 3 + 2 / 3 * (b + 1) / self.cell.buckets for b in range(self.cell.buckets)]
        return [
            [free_s + c * share for free_s, c in zip(self.free_s, compute_s, strict=True)]
            for share in shares
        ]

    def reduce(self, keys: list[Key], arrivals_s: Arrivals) -> list[list[float]]:
        """Reduce one iteration's buckets; return (buckets, P) finishes."""
        zero_s = min(map(min, arrivals_s))
        collectives, orders = [], []
        for key, row in zip(keys, arrivals_s, strict=True):
            order, begins_s = self._places(key, [at_s - zero_s for at_s in row])
            takes_bytes = self._message_bytes * (2 if key[0] == self._underpriced else 1)
            collectives.append((self._simulation(key), takes_bytes, order, begins_s, 1))
            orders.append(order)
        sends_s, receives_s = ([at_s - zero_s for at_s in times_s] for times_s in self._busy)
        shared = any(_core.find_algorithm(key[0], "all_reduce").shares_ports for key in keys)
        by_place_s, busy = _core.simulate_together(
            collectives, self.cell.link, (sends_s, receives_s), self._turn, shared
        )
        self._busy = ([s + zero_s for s in busy[0]], [s + zero_s for s in busy[1]])
        finish_s = []
        for order, row in zip(orders, by_place_s, strict=True):
            by_rank_s = [0.0] * self.cell.ranks
            for place, at_s in enumerate(row):
                by_rank_s[order[place] if order else place] = at_s + zero_s
            finish_s.append(by_rank_s)
        self.free_s = [max(row[rank] for row in finish_s) for rank in range(self.cell.ranks)]
        if self.cell.barrier:
            self.free_s = [max(self.free_s)] * self.cell.ranks
        return finish_s

    def _simulation(self, key: Key) -> _core.Simulation:
        name, segments, hints, segment_time_s = key
        if name in ("slt", "slt_dynamic"):
            name, hints = "slt", []  # in the order of the ranks, which take other places
        timed = _core.find_algorithm(name, "all_reduce").uses_times
        known = (name, segments, tuple(hints if timed else ()), segment_time_s)
        if known not in self._prepared:
            if len(self._prepared) == _MOST_PREPARED:
                self._prepared.clear()
            schedule = _core.generate(
                name, self.cell.ranks, segments, known[2], segment_time_s=segment_time_s
            )
            self._prepared[known] = _core.Simulation(schedule)
        return self._prepared[known]

    def _places(self, key: Key, begins_s: list[float]) -> tuple[list[int], list[float]]:
        name, _, hints, _ = key
        ranks = range(self.cell.ranks)
        if name == "slt":
            order = sorted(ranks, key=(hints or [0.0] * self.cell.ranks).__getitem__)
            return order, [begins_s[rank] for rank in order]
        if name != "slt_dynamic":
            return [], begins_s
        order = sorted(ranks, key=begins_s.__getitem__)
        row = [begins_s[rank] for rank in order]
        # Who is next is known two messages after it has arrived; the last, after the one before.
        for place in range(len(row) - 1):
            told_s = begins_s[order[min(place + 1, len(row) - 2)]] + 2 * self.cell.latency_s
            row[place] = max(row[place], told_s)
        return order, row


def fixed(name: str, job: Job, arrivals_s: Arrivals) -> list[Key]:
    """Every bucket by one algorithm: a policy."""
    return job.fixed(name, arrivals_s)


def ends_s(
    cell: Cell,
    computes_s: list[list[float]],
    policy: Callable[[Job, Arrivals], list[Key]],
    turn: str = "first_ready",
) -> list[float]:
    """When each iteration's last rank has its last result."""
    job = Job(cell, turn)
    ends = []
    for compute_s in computes_s:
        arrivals_s = job.arrivals_s(compute_s)
        job.reduce(policy(job, arrivals_s), arrivals_s)
        ends.append(max(job.free_s))
    return ends


def pace_s(ends: list[float], settled: int) -> float:
    """Mean seconds of an iteration, the first `settled` left out."""
    return (ends[-1] - ends[settled - 1]) / (len(ends) - settled)
