"""Ranks as threads, each with an engine over loopback and a StagedCarrier on a fake GPU."""

import torch

import patallreduce as pat
from patallreduce import _core
from tests.communicator.reference import assert_is_a_sum, contributions, expected
from tests.cuda.patterns import name_of
from tests.threads import each_rank

SCRATCH_BYTES = 64 << 20


class StagedRanks:
    """`count` ranks with a staging and a producing and a consuming stream each."""

    def __init__(self, libraries, count, direct, timeout_s=20.0):
        self.libraries = libraries
        self.count = count
        self.gpu = _core.CudaReduction(libraries.gpu, 0)
        self._alive = []  # tensors, which streams write to after a failure too
        hub = _core.LoopbackHub(count)
        self.engines = [
            _core.Engine(_core.Loopback(hub, rank), 20e-6, True, SCRATCH_BYTES)
            for rank in range(count)
        ]
        self.each(lambda rank: self.engines[rank].start(timeout_s))
        self.stagings = [
            _core.StagedCarrier(engine, libraries.gpu, 0, direct) for engine in self.engines
        ]
        self.producers = [libraries.new_stream() for _ in range(count)]
        self.consumers = [libraries.new_stream() for _ in range(count)]

    def each(self, function):
        """[rank] -> function(rank), all at once."""
        return each_rank(self.count, function)

    def keep(self, sums):
        self._alive.append(sums)

    def close(self, timeout_s=10.0):
        for stream in [*self.producers, *self.consumers]:
            self.libraries.end_stream(stream)
        self.each(lambda rank: self.stagings[rank].close(timeout_s))
        self.each(lambda rank: self.engines[rank].close(timeout_s))


class Sums:
    """One collective of all ranks: contributions that come late, and what has to come out."""

    def __init__(
        self, ranks, count, dtype=torch.float32, op="sum", algorithm="ring", segments=4, **options
    ):
        self._ranks = ranks
        ranks.keep(self)
        self.op = op
        self.dtype = dtype
        seed, label = options.pop("seed", 1), options.pop("label", -1)
        self.what = f"{count} of {dtype}, {op}, {algorithm}, {segments} segments, {options}"
        self.given = contributions(ranks.count, count, dtype, seed)
        # Poisoned: what is there before the contribution comes, or the result is seen, is wrong.
        self.home = [torch.full_like(part, 77) for part in self.given]
        self.seen = [torch.full_like(part, 55) for part in self.given]
        arrivals_s = options.get("arrivals_s")
        self.schedule = None
        if algorithm != "slt_dynamic":
            self.schedule = pat.schedule(algorithm, ranks.count, segments, **options)
        self.call = _core.Call(
            count,
            getattr(_core.Dtype, name_of(dtype)),
            getattr(_core.Op, op),
            label,
            algorithm,
            segments,
            list(arrivals_s) if arrivals_s else [],
            options.get("segment_time_s", 0.0),
        )

    def submit(self, rank, timeout_s=20.0, late_ms=0, stream=None):
        """Let a stream bring the contribution, `late_ms` after what it has to do before."""
        ranks = self._ranks
        producer = stream or ranks.producers[rank]
        if late_ms:
            ranks.libraries.sleep(producer, late_ms)
        home, given = self.home[rank].data_ptr(), self.given[rank].data_ptr()
        count = self.given[rank].numel()
        ranks.gpu.scale_copy(home, given, count, name_of(self.dtype), 1.0, producer)
        return ranks.stagings[rank].submit(home, self.call, producer, timeout_s)

    def take(self, rank, ticket):
        """Let another stream take the result."""
        ranks = self._ranks
        consumer = ranks.consumers[rank]
        ranks.stagings[rank].join(ticket, consumer)
        seen, home = self.seen[rank].data_ptr(), self.home[rank].data_ptr()
        count = self.given[rank].numel()
        ranks.gpu.scale_copy(seen, home, count, name_of(self.dtype), 1.0, consumer)

    def run(self, rank, **options):
        """Submit, take and see the result."""
        ticket = self.submit(rank, **options)
        self.take(rank, ticket)
        self._ranks.libraries.synchronise(self._ranks.consumers[rank])
        return ticket

    def check(self):
        """Every rank has seen a sum of the schedule, and all the same bits."""
        if self.schedule is None:  # its order is the ranks': the sums are exact in any
            total = torch.stack(self.given).sum(0, dtype=self.dtype)
            right = [total]
        else:
            right = expected(self.given, self.op, self.schedule)
        for rank, seen in enumerate(self.seen):
            assert_is_a_sum(seen, right, f"rank {rank}: {self.what}")
            as_rank_0 = seen.view(torch.uint8).equal(self.seen[0].view(torch.uint8))
            assert as_rank_0, f"ranks 0 and {rank} differ: {self.what}"
