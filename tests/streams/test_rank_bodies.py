"""What ranks do on a GPU (tests/cuda/rank_bodies.py), tried on threads over played libraries."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

from patallreduce.stream_communicator import StreamCommunicator
from tests.cuda import rank_bodies
from tests.cuda.patterns import DTYPES, OPS
from tests.cuda.rank_bodies import VICTIM, Call, Rank

CPU = torch.device("cpu")


@pytest.fixture(name="run")
def run_fixture(libraries):
    """`run(3, body)`: what each rank met."""

    def run(ranks, body, **options):
        store = dist.HashStore()

        def one_rank(rank):
            paths = {"kernels": libraries.gpu, "nccl": libraries.nccl}
            communicator = StreamCommunicator(store, rank, ranks, CPU, timeout_s=20.0, **paths)
            try:
                return body(Rank(rank, ranks, communicator, store, CPU), **options)
            finally:
                communicator.close()

        with ThreadPoolExecutor(ranks) as threads:
            return list(threads.map(one_rank, range(ranks)))

    return run


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_sums(run, ranks):
    met = run(ranks, rank_bodies.sums, seed=ranks)

    assert [one["wrong"] for one in met] == [[]] * ranks
    assert met[0]["calls"] > 50
    assert len({one["digest"] for one in met}) == 1


def test_endurance(run):
    for one in run(2, rank_bodies.endurance, iterations=200):
        assert one["right"]
        assert rank_bodies.growth(one, 200) == {}


def test_a_silent_rank(run, monkeypatch):
    monkeypatch.setattr(rank_bodies, "DEADLINE_S", 0.3)

    met = run(3, rank_bodies.silent)

    assert met.pop(VICTIM) == {}
    for one in met:
        assert one["first"]["raised"] == "TransportTimeout"
        assert "did not end within 0.3 s" in one["first"]["text"]
        assert 0.3 <= one["first"]["took_s"] < 5.0
        assert one["again"]["text"] == one["first"]["text"]


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
