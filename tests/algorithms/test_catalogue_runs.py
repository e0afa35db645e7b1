"""The algorithms of every collective but all_reduce, run by the executor, ranks as threads.

All-reduces are run to the bit by tests/communicator.
"""

import pytest
import torch

import patallreduce as pat
from patallreduce import _core
from patallreduce.communicator.tensors import dtype_of
from tests.threads import on_threads

SUM = _core.Op.__members__["sum"]
OTHERS = ["reduce", "reduce_scatter", "broadcast", "all_gather", "barrier"]


def run_all(ranks, elements, names, segments):
    """[name][rank] -> the tensor as it was when the call returned; root is rank 0."""
    communicators = pat.Communicator.loopback(ranks, monitor=False)
    results = {name: [None] * ranks for name in names}

    def run(communicator):
        rank = communicator.rank
        for name in names:
            tensor = contribution(rank, elements)
            root = 0 if name in pat.algorithms("reduce") else -1
            call = _core.Call(elements, dtype_of(tensor), SUM, -1, name, segments, [], 0.0, root)
            communicator.session.submit(tensor, call).get_future().wait()
            results[name][rank] = tensor.clone()

    on_threads(communicators, run)
    on_threads(communicators, pat.Communicator.close)
    return results


def contribution(rank, elements):
    """Integers, so that every sum order gives the same."""
    return torch.arange(elements, dtype=torch.float64) + 1000.0 * (rank + 1) ** 2


@pytest.mark.parametrize("elements_per_segment", [1, 3000])
@pytest.mark.parametrize("ranks", range(1, 10))
def test_right_results(ranks, elements_per_segment):
    blocks, segments = ranks, 2 * ranks
    elements = segments * elements_per_segment
    names = [name for of in OTHERS for name in pat.algorithms(of)]
    results = run_all(ranks, elements, names, segments)

    given = torch.stack([contribution(rank, elements) for rank in range(ranks)])
    total = given.sum(0)
    gathered = given.view(ranks, blocks, -1)[range(ranks), range(ranks)].flatten()
    for name in pat.algorithms("reduce"):
        assert results[name][0].equal(total), name
    for rank in range(ranks):
        own = slice(rank * elements // ranks, (rank + 1) * elements // ranks)
        for name in pat.algorithms("reduce_scatter"):
            assert results[name][rank][own].equal(total[own]), (name, rank)
        for name in pat.algorithms("all_gather"):
            assert results[name][rank].equal(gathered), (name, rank)
        for name in pat.algorithms("broadcast"):
            assert results[name][rank].equal(given[0]), (name, rank)
