import math

import pytest
import torch

import patallreduce as pat
from patallreduce import _core
from patallreduce.pricing.selection import choose_segments
from tests.threads import on_threads


def sent_segments(schedule, rank):
    return sum(s.last - s.first for s in schedule.steps(rank) if s.verb == "send")


@pytest.mark.parametrize("segments", [1, 3, 16])
@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_powers_of_two_exchange_everything_in_every_round(ranks, segments):
    """log2 P rounds, and in each of them every rank sends the whole data once."""
    schedule = pat.schedule("recursive_doubling", ranks, segments)
    for rank in range(ranks):
        assert {s.round for s in schedule.steps(rank)} == set(range(int(math.log2(ranks))))
        assert sent_segments(schedule, rank) == math.log2(ranks) * segments


@pytest.mark.parametrize("ranks", [3, 5, 6, 7, 9, 17])
def test_ranks_over_the_power_send_and_take_once(ranks):
    exchanging = 2 ** int(math.log2(ranks))
    schedule = pat.schedule("recursive_doubling", ranks, 2)
    for rank in range(exchanging, ranks):
        verbs = [(s.verb, s.peer) for s in schedule.steps(rank)]
        assert verbs == [("send", rank - exchanging)] * 2 + [("recv", rank - exchanging)] * 2
    rounds = {s.round for rank in range(ranks) for s in schedule.steps(rank)}
    assert rounds == set(range(int(math.log2(ranks)) + 2))


def test_sums_are_a_balanced_tree(unordered):
    orders = pat.schedule("recursive_doubling", 6, 1).sum_orders()
    tree = unordered((((0, 4), (1, 5)), (2, 3)))
    assert {unordered(order) for row in orders for order in row} == {tree}


@pytest.mark.parametrize("op", ["sum", "avg", "min", "max", "prod"])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str
)
def test_operand_order_changes_no_bit(dtype, op):
    """Pairs of ranks add a + b and b + a: zeros of both signs, subnormals, infinities, roundings.

    One NaN among the operands is compared to the bit; of two NaNs a sum may keep either.
    """
    limits = torch.finfo(dtype)
    values = [0.0, limits.smallest_normal * 0.75, 1.0, 1 + limits.eps, limits.eps / 2, limits.max]
    values += [limits.max / 2, math.inf]
    values = torch.tensor([*values, *(-value for value in values), math.nan], dtype=torch.float64)
    values = values.to(dtype)
    first, second = values.repeat_interleave(len(values)), values.repeat(len(values))
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]

    communicators = pat.Communicator.loopback(2)
    tensors = [first.clone(), second.clone()]
    on_threads(
        communicators,
        lambda c: c.all_reduce(tensors[c.rank], op, algorithm="recursive_doubling"),
    )
    on_threads(communicators, pat.Communicator.close)

    assert torch.equal(tensors[0].view(integers), tensors[1].view(integers))


def test_one_of_a_thousand_ranks_costs_log_ranks_steps():
    assert len(_core.generate_steps("recursive_doubling", 100, 1000, 1)) == 2 * 9 + 2


def test_messages_that_fit_the_cache_are_not_cut():
    link = pat.Link(20e-6, 1e9)
    chosen = [
        choose_segments("recursive_doubling", 8, message_bytes, message_bytes // 4, link)
        for message_bytes in (4, 1024, 512 * 1024, 8 << 20)
    ]
    assert chosen == [1, 1, 1, 16]
    shared = pat.Link(20e-6, 1e9, processors=2)
    assert choose_segments("recursive_doubling", 8, 8 << 20, 2 << 20, shared) == 4
