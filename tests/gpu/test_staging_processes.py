"""Staged collectives between processes, over UCX, with a fake GPU in each of them."""

import ctypes
import random

import torch

import patallreduce as pat
from patallreduce import _core

COUNTS = [0, 1, 1000, 300_001]


def calls_of(ranks):
    for count in COUNTS:
        for algorithm in ("ring", "slt", "recursive_doubling"):
            arrivals_s = [float(ranks - rank) for rank in range(ranks)]
            yield (
                _core.Call(
                    count,
                    _core.Dtype.float32,
                    _core.Op.sum,
                    -1,
                    algorithm,
                    max(min(count, 5), 1),
                    arrivals_s if algorithm == "slt" else [],
                    0.0,
                ),
                count,
            )


def staged_sums(gpu):
    """The number of wrong elements; all in flight at once, contributions late at random."""
    fake = ctypes.CDLL(gpu)
    stream = ctypes.c_void_p()
    assert fake.patr_cuda_stream_create(0, ctypes.byref(stream)) == 0
    kernels = _core.CudaReduction(gpu, 0)
    wrong = 0
    with pat.Communicator(timeout_s=20, link=pat.Link(20e-6, 1e9), monitor=False) as communicator:
        rank, ranks = communicator.rank, communicator.ranks
        staging = _core.StagedCarrier(communicator.session.engine, gpu, 0, False)
        draw, started = random.Random(rank), []
        for i, (call, count) in enumerate(calls_of(ranks)):
            given = torch.arange(count) % 1000 + float(rank + i)
            home = torch.full((count,), torch.nan)
            fake.fake_sleep(stream, draw.choice([0, 0, 20]))
            addresses = home.data_ptr(), given.data_ptr()
            kernels.scale_copy(*addresses, count, "float32", 1.0, stream.value)
            ticket = staging.submit(home.data_ptr(), call, stream.value, 10.0)
            started.append((ticket, home, given))
        for i, (ticket, home, _) in enumerate(started):
            assert staging.next_done(10.0) is ticket
            staging.wait(ticket)
            base = torch.arange(len(home)) % 1000 + float(i)
            wrong += int((home != ranks * base + ranks * (ranks - 1) / 2).sum())
        staging.close(10.0)
    fake.patr_cuda_stream_destroy(0, stream)
    assert fake.fake_count() == 0
    return wrong, len(started)


def test_sums_over_ucx(processes, libraries):
    assert processes.run(2, staged_sums, libraries.gpu) == [(0, 3 * len(COUNTS))] * 2
