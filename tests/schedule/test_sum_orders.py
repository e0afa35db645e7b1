"""The verifier's symbolic run against the plain interpreter, and against orders on paper."""

import random

import pytest

import patallreduce as pat
from patallreduce import Schedule, Step

CASES = [
    (name, ranks, segments)
    for name in pat.algorithms()
    for ranks in (1, 2, 3, 4, 5)
    for segments in (1, 2, ranks, 2 * ranks + 1)
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_interpreter_finds_the_same_orders(case, interpret, judge, canonical_order):
    name, ranks, segments = case
    draw = random.Random(str(case))
    for seed in range(3):
        arrivals_s = [draw.choice([0.0, 1.0, 2.5]) for _ in range(ranks)]
        tau_s = draw.choice([0.0, 1.0])
        schedule = pat.schedule(name, ranks, segments, arrivals_s, segment_time_s=tau_s)

        expected = interpret(schedule, seed)

        found = [[canonical_order(order) for order in row] for row in schedule.sum_orders()]
        assert found == expected
        assert judge(schedule, seed + 1)  # another timing, the same sums


def test_ring_sums_part_j_from_rank_j_on(canonical_order):
    orders = pat.schedule("ring", 4).sum_orders()
    assert [canonical_order(order) for order in orders[2]] == [
        canonical_order(order)
        for order in [
            (((0, 1), 2), 3),
            (((1, 2), 3), 0),
            (((2, 3), 0), 1),
            (((3, 0), 1), 2),
        ]
    ]


def test_slt_sums_every_segment_in_arrival_order(canonical_order):
    orders = pat.schedule("slt", 4, 6, [0.0, 3.0, 0.0, 2.0]).sum_orders()
    assert {canonical_order(order) for row in orders for order in row} == {
        canonical_order((((0, 2), 3), 1))
    }


def test_operand_order_is_one_sum_but_association_is_another():
    """Two ranks may add (0+1) and (1+0); three may not add (0+1)+2 and 0+(1+2)."""
    exchange = [[Step("send", 1 - r, 0, 1), Step("recv_reduce", 1 - r, 0, 1)] for r in (0, 1)]
    pat.verify(Schedule.from_steps(exchange, 1))

    def all_to_all(order):
        return [
            [Step("send", peer, 0, 1) for peer in range(3) if peer != rank]
            + [Step("recv_reduce", peer, 0, 1) for peer in order[rank]]
            for rank in range(3)
        ]

    with pytest.raises(pat.ScheduleError, match=r"rank 2 step 3 .* summed as .* on rank 0 as"):
        # Ranks 0 and 1 make (0+1)+2, rank 2 makes (2+0)+1.
        pat.verify(Schedule.from_steps(all_to_all([[1, 2], [0, 2], [0, 1]]), 1))
