"""The same bits between processes, over UCX."""

import pytest
import torch

import patallreduce as pat
from tests.processes import LINK
from tests.tree_sum.reference import DISTRIBUTIONS, bits, elements, tree


def tree_sums(counts_of_elements):
    """On this rank: the bits of each sum, under every distribution."""
    found = []
    with pat.Communicator(timeout_s=30, link=LINK, monitor=False) as communicator:
        for count in counts_of_elements:
            values = elements(count, seed=count)
            for deal in DISTRIBUTIONS.values():
                counts = deal(count, communicator.ranks)
                part = values.split(counts)[communicator.rank]
                summed = communicator.tree_sum(part, distribution=counts)
                found.append(bits(summed).item())
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_the_bits_of_the_tree(processes, ranks):
    sizes = [0, 1, 2, 3, 5, 8, 17, 100, 256, 257, 10_007, 10**6]
    zero = torch.tensor(0.0, dtype=torch.float64)
    sums = [tree(elements(count, seed=count)) if count else zero for count in sizes]
    wanted = [bits(summed).item() for summed in sums for _ in DISTRIBUTIONS]
    assert processes.run(ranks, tree_sums, sizes) == [wanted] * ranks


def raise_on_all():
    rank = torch.distributed.get_rank()
    with pat.Communicator(timeout_s=30, link=LINK, monitor=False) as communicator:
        values = torch.ones(3) if rank != 1 else torch.ones(3, dtype=torch.int32)
        with pytest.raises((TypeError, ValueError), match="rank 1"):
            communicator.tree_sum(values)
        return float(communicator.tree_sum(torch.ones(3)))


def test_an_error_on_all_ranks(processes):
    assert processes.run(3, raise_on_all) == [9.0] * 3
