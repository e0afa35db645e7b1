"""Ranks as threads, each with an executor over fake libraries, and what their sums should be."""

import torch

from patallreduce import _core
from tests.cuda.patterns import name_of
from tests.threads import each_rank


class Ranks:
    """`count` ranks with an executor and a producing and a consuming stream each."""

    def __init__(self, libraries, count, timeout_s=20.0):
        self.libraries = libraries
        self.count = count
        self.lanes = _core.lanes_for(count)
        self.unique_ids = [_core.nccl_unique_id(libraries.nccl) for _ in range(self.lanes)]
        self.gpu = _core.CudaReduction(libraries.gpu, 0)
        self._alive = []  # buckets, which streams write to after a failure too
        self.executors = self.each(
            lambda rank: _core.StreamExecutor(
                libraries.gpu, libraries.nccl, 0, rank, count, self.unique_ids, timeout_s
            )
        )
        self.producers = [libraries.new_stream() for _ in range(count)]
        self.consumers = [libraries.new_stream() for _ in range(count)]

    def each(self, function):
        """[rank] -> function(rank), all at once."""
        return each_rank(self.count, function)

    def keep(self, bucket):
        self._alive.append(bucket)

    def close(self, timeout_s=10.0):
        self.each(lambda rank: self.executors[rank].close(timeout_s))
        for stream in [*self.producers, *self.consumers]:
            self.libraries.end_stream(stream)


class Bucket:
    """One collective of all ranks: contributions that come late, and what has to come out."""

    def __init__(self, schedule, count, dtype, op, seed, lanes=1, **options):
        self.schedule = schedule
        self.op = op
        self.dtype = dtype
        scales = op == "avg" and dtype.is_floating_point
        draw = torch.Generator().manual_seed(seed)
        shape = (schedule.ranks, count)
        if dtype.is_floating_point:
            self.given = torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype)
        else:
            self.given = torch.randint(0, 100, shape, generator=draw).to(dtype)
        lanes = min(lanes, _core.lanes_for(schedule.ranks))
        self.home = torch.full_like(self.given, 77)
        self.seen = torch.full_like(self.given, 77)
        self.programs = [
            _core.StreamProgram(schedule, rank, scales=scales, lanes=lanes, **options)
            for rank in range(schedule.ranks)
        ]

    def submit(self, ranks, rank, timeout_s=20.0):
        """Let one stream bring the contribution, late, and another one take the result."""
        ranks.keep(self)
        producer, consumer = ranks.producers[rank], ranks.consumers[rank]
        dtype, count = name_of(self.dtype), self.given.shape[1]
        home = self.home[rank].data_ptr()
        given, seen = self.given[rank].data_ptr(), self.seen[rank].data_ptr()
        ranks.gpu.scale_copy(home, given, count, dtype, 1.0, producer)
        executor = ranks.executors[rank]
        ticket = executor.submit(
            self.programs[rank], home, count, dtype, self.op, producer, timeout_s
        )
        executor.join(ticket, consumer)
        ranks.gpu.scale_copy(seen, home, count, dtype, 1.0, consumer)
        return ticket

    def segments(self):
        """(index, slice) of each segment: so small that none begins at a cache line."""
        count, segments = self.given.shape[1], self.schedule.segments
        assert count // segments < 16
        for s in range(segments):
            yield s, slice(count * s // segments, count * (s + 1) // segments)

    def expected(self):
        """[rank] -> what is at home in the end, by the schedule's own sums."""
        ranks, orders = self.schedule.ranks, self.schedule.sum_orders()
        given = self.given
        if self.op == "avg" and self.dtype.is_floating_point:
            wide = torch.promote_types(self.dtype, torch.float32)
            given = (given.to(wide) * torch.tensor(1.0 / ranks, dtype=wide)).to(self.dtype)
        combine = {
            "sum": torch.add,
            "avg": torch.add,
            "min": torch.minimum,
            "max": torch.maximum,
            "prod": torch.mul,
        }[self.op]
        result = torch.empty_like(self.given)
        for s, part in self.segments():
            known = {}

            def value(order, part=part, known=known):
                if isinstance(order, int):
                    return given[order, part]
                if order not in known:
                    known[order] = combine(value(order[0]), value(order[1]))
                return known[order]

            for rank in range(ranks):
                result[rank, part] = value(orders[rank][s])
        if self.op == "avg" and not self.dtype.is_floating_point:
            result = torch.div(result, ranks, rounding_mode="trunc")
        if self.schedule.collective == "reduce":  # the others only lend theirs
            lent = [rank for rank in range(ranks) if rank != self.schedule.root]
            result[lent] = self.given[lent]
        return result
