"""What ranks do on a GPU (tests/cuda/rank_bodies.py), tried on threads over fake libraries."""

from pathlib import Path

import pytest
import torch.distributed as dist

from tests.cuda import rank_bodies
from tests.cuda.patterns import DTYPES, OPS
from tests.cuda.rank_bodies import VICTIM, Call, Rank
from tests.gpu.communicators import CPU, GpuRanks

ROOT = Path(__file__).parents[2]


@pytest.fixture(name="run")
def run_fixture(libraries):
    """`run(3, body)`: what each rank met."""

    def run(ranks, body, **options):
        gpus, store = GpuRanks(libraries, ranks), dist.HashStore()
        try:
            met = gpus.each(lambda c: body(Rank(c.rank, ranks, c, store, CPU), **options))
        finally:
            gpus.close()
        for one in met:
            if isinstance(one, Exception):
                raise one
        return met

    return run


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_sums(run, ranks):
    met = run(ranks, rank_bodies.sums, seed=ranks)

    assert [one["wrong"] for one in met] == [[]] * ranks
    assert met[0]["calls"] > 50
    assert len({one["digest"] for one in met}) == 1


def test_endurance(run):
    for one in run(2, rank_bodies.endurance, iterations=400):
        assert one["right"]
        assert rank_bodies.growth(one, 400) == {}


def test_a_silent_rank(run, monkeypatch):
    monkeypatch.setattr(rank_bodies, "DEADLINE_S", 0.3)

    met = run(3, rank_bodies.silent)

    assert met.pop(VICTIM) == {}
    for one in met:
        first, again = one["first"], one["again"]
        assert (first["raised"], first["named"]) == ("TransportTimeout", VICTIM)
        assert 0.3 <= first["took_s"] < 5.0
        assert again["raised"] is not None


def parity():
    return rank_bodies.parity(Rank(dist.get_rank(), 2, None, None, CPU), steps=20)


def test_parity_of_cpu_tensors(processes):
    first, second = processes.run(2, parity)

    assert first["apart"] < 1e-5
    assert first["digest"] == second["digest"]


def test_processes_on_the_processor(monkeypatch):
    """What a GPU's tests do with processes, all but the GPU."""
    monkeypatch.chdir(ROOT)

    met, results = rank_bodies.run_processes(3, "killed", 40.0, transport="ucx", device="cpu")

    rank_bodies.assert_gone(met, results, "killed")
    assert met[0]["first"]["raised"] == "PeerLostError"


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_wrong_elements_are_found(op, dtype):
    """A right result, then one element off, then one outside written to."""
    call = Call(Rank(0, 4, None, None, CPU), dtype, op, 100, seed=5)
    call.bucket.copy_(call.expected()[0].to(dtype))
    assert call.wrong() == 0
    call.bucket[7] += 1
    assert call.wrong() == 1
    call.arena[3] = 1
    call.arena[-3] = 1
    assert call.wrong() == 3
