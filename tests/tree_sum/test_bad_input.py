"""What cannot be used: an error on every rank, and a communicator that goes on."""

import pytest
import torch

import patallreduce as pat
from tests.threads import errors_on_threads, on_threads

GOOD = torch.ones(3, dtype=torch.float64)


@pytest.fixture(scope="module", name="communicators")
def communicators_fixture():
    made = pat.Communicator.loopback(3, timeout_s=20, monitor=False)
    yield made
    on_threads(made, pat.Communicator.close)


def call(communicator, arguments):
    return communicator.tree_reduce(*arguments[communicator.rank])


def fails(communicators, arguments):
    errors = errors_on_threads(communicators, call, arguments)
    assert on_threads(communicators, call, [(GOOD,)] * 3) == [9.0] * 3
    return errors


@pytest.mark.parametrize(
    ("values", "error", "here", "elsewhere"),
    [
        ([1.0, 2.0], TypeError, "expected a tensor or an array, got list", "neither a tensor"),
        (torch.ones(3, dtype=torch.int64), TypeError, "got torch.int64", "not float32 or float64"),
        (torch.ones(3, dtype=torch.bfloat16), TypeError, "got torch.bfloat16", "not float32"),
        (torch.ones(()), ValueError, r"shape \(n,\) or \(n, k\), got \(\)", r"not \(n,\) or"),
        (torch.ones(2, 2, 2), ValueError, r"got \(2, 2, 2\)", r"not \(n,\) or"),
        (torch.ones(3).to_sparse(), TypeError, "layout torch.sparse_coo", "not dense CPU memory"),
        (torch.ones(3, device="meta"), TypeError, "on meta", "not dense CPU memory"),
    ],
    ids=["list", "int64", "bfloat16", "scalar", "cube", "sparse", "meta"],
)
def test_values_of_one_rank(communicators, values, error, here, elsewhere):
    errors = fails(communicators, [(GOOD,), (values,), (GOOD,)])
    with pytest.raises(error, match=f"(?s){here}.*on rank 1"):
        raise errors[1]
    for rank in (0, 2):
        with pytest.raises(ValueError, match=f"on rank {rank}: rank 1 gave values.*{elsewhere}"):
            raise errors[rank]


def test_values_of_the_only_rank():
    (communicator,) = pat.Communicator.loopback(1)
    with pytest.raises(TypeError, match="got torch.int64 on rank 0"):
        communicator.tree_sum(torch.ones(3, dtype=torch.int64))
    assert communicator.tree_sum(GOOD) == 3
    communicator.close()


def test_an_unknown_op(communicators):
    errors = fails(communicators, [(GOOD,), (GOOD, "avg"), (GOOD,)])
    with pytest.raises(ValueError, match="expected one of sum, min, max, prod, got 'avg'"):
        raise errors[1]
    with pytest.raises(ValueError, match="rank 1 gave an unknown operation"):
        raise errors[0]


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ((GOOD, "max"), "rank 0 called with sum of float64 and rank 2 with max of float64"),
        ((GOOD.float(),), "rank 2 with sum of float32"),
        ((torch.ones(3, 2, dtype=torch.float64),), "rank 2 with sum of float64 in 2 columns"),
    ],
    ids=["op", "dtype", "columns"],
)
def test_ranks_that_disagree(communicators, other, text):
    for error in fails(communicators, [(GOOD,), (GOOD,), other]):
        with pytest.raises(pat.MismatchError, match=text) as caught:
            raise error
        assert caught.value.rank == 2


def with_distribution(communicator, distributions):
    return communicator.tree_sum(GOOD, distribution=distributions[communicator.rank])


def test_a_distribution_that_is_right(communicators):
    results = on_threads(communicators, with_distribution, [[3, 3, 3]] * 3)
    assert results == [9.0] * 3


def test_a_distribution_that_does_not_add_up(communicators):
    for error in errors_on_threads(communicators, with_distribution, [[3, 4, 3]] * 3):
        with pytest.raises(ValueError, match="has 4 elements for rank 1, which gave 3"):
            raise error


def test_distributions_that_differ(communicators):
    given = [[3, 3, 3], [3, 3, 3], [3, 3, 4]]
    for error in errors_on_threads(communicators, with_distribution, given):
        with pytest.raises(pat.MismatchError, match="the distributions differ"):
            raise error


@pytest.mark.parametrize("wrong", [[3, 3], [3, 3, -3], [3, 3, 3.5]], ids=["short", "-3", "3.5"])
def test_a_distribution_of_one_rank_that_is_none(communicators, wrong):
    errors = errors_on_threads(communicators, with_distribution, [wrong, [3, 3, 3], [3, 3, 3]])
    with pytest.raises((TypeError, ValueError), match="distribution: .* on rank 0"):
        raise errors[0]
    with pytest.raises(ValueError, match="rank 0 gave a distribution that is not one count per"):
        raise errors[1]


def test_an_all_reduce_of_another_rank_is_told_apart():
    communicators = pat.Communicator.loopback(2, timeout_s=20, monitor=False)

    def run(communicator):
        if communicator.rank == 0:
            return communicator.tree_sum(GOOD)
        table = torch.zeros(8, dtype=torch.int64)  # the size of the first round's
        return communicator.all_reduce(table, algorithm="recursive_doubling", segments=1)

    for error in errors_on_threads(communicators, run):
        with pytest.raises(pat.MismatchError, match="a tree sum's table"):
            raise error
    on_threads(communicators, pat.Communicator.close)


def test_values_that_are_copied_first(communicators):
    """Views with gaps, backwards or read-only arrays, lazy negatives: the defined value."""
    import numpy as np

    array = np.arange(6.0)
    read_only = np.arange(6.0)
    read_only.flags.writeable = False
    lazy = torch.ones(6, dtype=torch.complex128).conj().imag  # -0
    for values, wanted in [
        (torch.arange(12, dtype=torch.float64)[::2], 30.0),
        (torch.arange(12, dtype=torch.float64).view(2, 6).t(), [15.0, 51.0]),
        (array, 15.0),
        (array[::-1], 15.0),
        (read_only, 15.0),
        (lazy, -0.0),
        (torch.ones(6, requires_grad=True), 6.0),
    ]:
        for result in on_threads(communicators, lambda c, v=values: c.tree_sum(v)):
            assert result.tolist() == (torch.tensor(wanted) * 3).tolist()


def test_a_closed_communicator():
    (communicator,) = pat.Communicator.loopback(1)
    communicator.close()
    with pytest.raises(pat.TransportError, match="closed"):
        communicator.tree_sum(GOOD)


def test_a_rank_that_does_not_come():
    communicators = pat.Communicator.loopback(2, timeout_s=20, monitor=False)
    with pytest.raises(pat.TransportTimeout, match="rank 1"):
        communicators[0].tree_sum(GOOD, timeout_s=1.0)
    on_threads(communicators, pat.Communicator.close)
