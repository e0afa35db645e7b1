"""What each collective has to end with: the verifier against a plain rule on an interpreted run."""

import random

import pytest

import patallreduce as pat
from patallreduce import Schedule, Step
from tests.schedule.conftest import WrongScheduleError, contributions
from tests.schedule.test_mutations import MUTATIONS, duplicate_message, refusal

COLLECTIVES = ["reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"]


def owner(segment, ranks, segments):
    return next(r for r in range(ranks) if segment < (r + 1) * segments // ranks)


def is_right(collective, held, root):
    """Whether held[rank][segment], sum orders, are what `collective` promises."""
    ranks, segments = len(held), len(held[0])
    everybody = list(range(ranks))
    for rank, row in enumerate(held):
        for s, order in enumerate(row):
            block = owner(s, ranks, segments)
            if (collective == "reduce" and rank != root) or (
                collective == "reduce_scatter" and rank != block
            ):
                continue
            found = contributions(order)
            due = {"all_gather": [block], "broadcast": [root]}.get(collective, everybody)
            if collective == "barrier":
                found = sorted(set(found))
            if found != due:
                return False
    return True


@pytest.mark.parametrize("mutate", MUTATIONS)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_refuses_exactly_the_wrong_mutants(collective, mutate, interpret):
    draw = random.Random(f"{collective} {mutate.__name__}")
    refused = 0
    for name in pat.algorithms(collective):
        for _ in range(12):
            ranks = draw.choice([2, 3, 4])
            segments, root = draw.choice([ranks, ranks + 1]), draw.randrange(ranks)
            schedule = pat.schedule(name, ranks, segments, collective=collective, root=root)
            steps = [schedule.steps(rank) for rank in range(ranks)]
            mutate(steps, segments, draw)
            mutant = Schedule.from_steps(steps, segments, collective=collective, root=root)

            why = refusal(mutant)

            try:
                right = is_right(collective, interpret(mutant), root)
            except WrongScheduleError:
                right = False
            assert (why is None) == right, (name, why, mutant)
            refused += why is not None
    harmless = mutate is duplicate_message and collective in {"all_gather", "broadcast", "barrier"}
    assert (refused == 0) == harmless, "to hear or copy something twice changes nothing"


def said(steps, segments, collective, **options):
    with pytest.raises(pat.ScheduleError) as caught:
        pat.verify(Schedule.from_steps(steps, segments, collective=collective, **options))
    return str(caught.value)


def test_names_whose_data_a_broadcast_lacks():
    chain = [[Step("send", 1, 0, 1)], [Step("recv", 0, 0, 1)], []]
    assert said(chain, 1, "broadcast") == (
        "rank 2 (no step writes segment 0): in segment 0 expected the contribution of rank 0, got "
        "that of rank 2"
    )


def test_a_sum_is_no_copy():
    steps = [[Step("send", 1, 0, 1)], [Step("recv_reduce", 0, 0, 1)]]
    assert "expected the contribution of rank 0, got a sum" in said(steps, 1, "broadcast")


def test_a_reduce_scatter_asks_each_rank_for_its_block_alone():
    steps = [
        [Step("send", 1, 1, 2), Step("recv_reduce", 1, 0, 1)],
        [Step("send", 0, 0, 1), Step("recv_reduce", 0, 1, 2)],
    ]
    pat.verify(Schedule.from_steps(steps, 2, collective="reduce_scatter"))
    assert "segment 1 the contribution of rank 1 is missing" in said(steps, 2, "all_reduce")


def test_a_barrier_may_hear_of_a_rank_twice_but_must_of_all():
    def round_trip(times):
        one = [[Step("send", 1 - r, 0, 1), Step("recv_reduce", 1 - r, 0, 1)] for r in (0, 1)]
        return [own * times for own in one]

    pat.verify(Schedule.from_steps(round_trip(1), 1, collective="barrier"))
    pat.verify(Schedule.from_steps(round_trip(40), 1, collective="barrier"))
    assert said([[], []], 1, "barrier") == (
        "rank 0 (no step writes segment 0): in segment 0 the contribution of rank 1 is missing"
    )
