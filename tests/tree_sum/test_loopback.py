"""The same bits on any number of ranks, with the ranks as threads."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from tests.threads import on_threads
from tests.tree_sum.reference import COMBINE, DISTRIBUTIONS, bits, elements, factors, tree

RANKS = [1, 2, 3, 4, 5, 7, 8, 16]
NEUTRAL = {"sum": 0.0, "prod": 1.0, "min": float("inf"), "max": -float("inf")}


@pytest.fixture(scope="module", name="communicators_of")
def communicators_of_fixture():
    made = {ranks: pat.Communicator.loopback(ranks, monitor=False) for ranks in RANKS}
    yield made.__getitem__
    for communicators in made.values():
        on_threads(communicators, pat.Communicator.close)


@functools.cache
def case(count, dtype=torch.float64, op="sum"):
    values = (factors if op == "prod" else elements)(count, dtype, seed=count)
    wanted = tree(values, op) if count else torch.tensor(NEUTRAL[op], dtype=dtype)
    return values, wanted


def assert_same_bits(communicators, cases, op="sum"):
    """`cases`: (values, wanted, counts); every rank gets the wanted bits in every one."""

    def run(communicator):
        return [
            communicator.tree_reduce(values.split(counts)[communicator.rank], op)
            for values, _, counts in cases
        ]

    for results in on_threads(communicators, run):
        for result, (values, wanted, counts) in zip(results, cases, strict=True):
            assert torch.equal(bits(result), bits(wanted)), (tuple(values.shape), op, counts)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("ranks", RANKS)
def test_every_small_number_of_elements(communicators_of, ranks, distribution):
    deal = DISTRIBUTIONS[distribution]
    cases = [(*case(count), deal(count, ranks)) for count in range(258)]
    assert_same_bits(communicators_of(ranks), cases)


@pytest.mark.parametrize("ranks", RANKS)
def test_a_million_elements(communicators_of, ranks):
    cases = [(*case(10**6), deal(10**6, ranks)) for deal in DISTRIBUTIONS.values()]
    assert_same_bits(communicators_of(ranks), cases)


@pytest.mark.parametrize("op", COMBINE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_every_op_and_dtype(communicators_of, dtype, op):
    for ranks in (1, 2, 5):
        cases = [
            (*case(count, dtype, op), DISTRIBUTIONS["upper"](count, ranks))
            for count in (0, 1, 2, 3, 31, 257, 5001)
        ]
        assert_same_bits(communicators_of(ranks), cases, op)


@given(st.lists(st.one_of(st.just(0), st.integers(0, 70)), min_size=5, max_size=5), st.integers(0))
@settings(max_examples=100)
def test_any_distribution(communicators_of, counts, seed):
    """Also the second time, when the counts are known, and with the columns of a matrix."""
    values = elements(sum(counts), seed=seed % 2**32)
    wanted = tree(values) if len(values) else torch.tensor(0.0, dtype=torch.float64)
    wide = torch.stack([values, -values, values.abs()], dim=1)
    wanted_wide = tree(wide) if len(wide) else torch.zeros(3, dtype=torch.float64)
    cases = [(values, wanted, counts), (values, wanted, counts), (wide, wanted_wide, counts)]
    assert_same_bits(communicators_of(5), cases)


@given(st.lists(st.integers(0, 40), min_size=2, max_size=12))
@settings(max_examples=30)
def test_counts_that_move_from_call_to_call(communicators_of, sizes):
    """Some ranks keep their count while others do not: nobody may take old places for new ones."""
    cases = []
    for i, size in enumerate(sizes):
        counts = [7, size, 7 if i % 2 else size]
        values = elements(sum(counts), seed=i)
        cases.append((values, tree(values), counts))
    assert_same_bits(communicators_of(3), cases)


def test_one_round_once_the_counts_are_known():
    communicators = pat.Communicator.loopback(2, monitor=False)
    rounds = []
    for values in (torch.ones(10), torch.ones(10), torch.ones(10), torch.ones(11)):
        results = on_threads(communicators, pat.Communicator.tree_sum, values)
        assert [float(result) for result in results] == [2 * len(values)] * 2
        rounds.append(communicators[0].session.tree_reducer.rounds)
    assert rounds == [2, 3, 4, 6]
    on_threads(communicators, pat.Communicator.close)


def test_a_wide_table_takes_another_schedule(communicators_of):
    """300 KB of roots: no longer one small message."""
    values = elements(1000, columns=4000)
    cases = [(values, tree(values), DISTRIBUTIONS["lower"](1000, 3))]
    assert_same_bits(communicators_of(3), cases)


def test_tree_sums_and_all_reduces_take_turns(communicators_of):
    def run(communicator):
        for i in range(20):
            assert communicator.tree_sum(torch.full((i,), 1.0)).item() == 4 * i
            tensor = torch.tensor([communicator.rank])
            communicator.all_reduce(tensor)
            assert tensor.item() == 6

    on_threads(communicators_of(4), run)


def test_special_values_have_defined_bits(communicators_of):
    nan_bits = 0x7FF8000000000000
    payload = torch.tensor([-(2**51) + 12345]).view(torch.float64)  # a negative quiet NaN
    infinity = torch.tensor([float("inf")], dtype=torch.float64)
    tiny = torch.tensor([5e-324], dtype=torch.float64)
    zero = torch.tensor([-0.0], dtype=torch.float64)
    cases = [
        ([payload, payload], nan_bits),
        ([payload, zero], nan_bits),
        ([infinity, -infinity], nan_bits),
        ([infinity, tiny], 0x7FF0000000000000),
        ([tiny, tiny], 2),
        ([zero, zero], -(2**63)),
        ([zero, zero[:0]], -(2**63)),
        ([payload[:0], payload], nan_bits),
    ]
    for parts, wanted in cases:
        for result in on_threads(communicators_of(2), lambda c, p=parts: c.tree_sum(p[c.rank])):
            assert bits(result).item() == wanted


def test_flush_to_zero_of_a_thread_changes_nothing(communicators_of):
    """torch.set_flush_denormal is per thread; afterwards the thread has it as before."""
    values = torch.full((1000,), 5e-324, dtype=torch.float64)

    def run(communicator):
        if communicator.rank == 0 and not torch.set_flush_denormal(True):
            return None
        try:
            summed = communicator.tree_sum(values)
            return bits(summed).item(), bits(values[:1] + values[:1]).item()
        finally:
            torch.set_flush_denormal(False)

    flushing, plain = on_threads(communicators_of(2), run)
    assert plain == (2000, 2)
    if flushing is not None:
        assert flushing == (2000, 0)
