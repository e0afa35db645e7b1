"""From reports to schedules: a late rank is found without a hint, wherever its clock stands."""

import math
import time

import pytest
import torch

import patallreduce as pat
from tests.threads import on_threads

pytestmark = pytest.mark.alone  # it measures times

RANKS = 4
# M * beta of 4,000 floats: 8 ms; the late rank is later by three of them.
LINK = pat.Link(50e-6, 2e6)
ELEMENTS, LATE_S = 4000, 0.05


def loop(communicator, late_ranks, compute_s=0.005):
    """One all-reduce per entry of `late_ranks`; what ran, and the iterations as seen here."""
    for late_rank in late_ranks:
        late = communicator.rank == late_rank
        for fraction in (0.25, 0.5, 0.75):
            time.sleep((compute_s + late * LATE_S) / 4)
            communicator.edge(fraction)
        time.sleep((compute_s + late * LATE_S) / 4)
        tensor = torch.full((ELEMENTS,), float(communicator.rank))
        communicator.all_reduce(tensor)
        assert tensor.eq(sum(range(communicator.ranks))).all()
    time.sleep(0.05)  # for the last reports
    return [s["schedule"] for s in communicator.stats()], communicator.iterations()


def expected_last(schedule):
    """The rank a schedule was made for as the last to arrive; None if it looks at no arrivals."""
    if "arrivals_s [" not in schedule:
        return None
    arrivals_s = schedule.partition("arrivals_s [")[2].partition("]")[0].split(", ")
    return max(range(len(arrivals_s)), key=lambda rank: float(arrivals_s[rank]))


def run(late_ranks, **arguments):
    communicators = pat.Communicator.loopback(RANKS, timeout_s=20, link=LINK, **arguments)
    try:
        return on_threads(communicators, loop, late_ranks)
    finally:
        on_threads(communicators, pat.Communicator.close)


def assert_learned(seen, late_ranks, first):
    """From call `first` on most schedules have the late rank last; all ranks ran the same."""
    schedules = [schedules for schedules, _ in seen]
    assert all(others == schedules[0] for others in schedules)
    lasts = [expected_last(schedule) for schedule in schedules[0]]
    dynamic = [schedule.startswith("slt_dynamic") for schedule in schedules[0]]  # never wrong
    hits = [d or last == late for d, last, late in zip(dynamic, lasts, late_ranks, strict=True)]
    hits = hits[first:]
    # A busy machine delays others now and then.
    assert sum(hits) > len(hits) / 2, f"late {late_ranks}, expected last {lasts}"


def test_a_late_rank_is_learned_within_three_iterations():
    seen = run([2] * 12)
    assert_learned(seen, [2] * 12, 3)
    iterations = seen[0][1]
    assert [record.iteration for record in iterations] == list(range(12))
    assert sum(record.last_rank == 2 for record in iterations) > 6
    assert sum(record.predicted_last_rank == 2 for record in iterations[3:]) > 4
    for record in iterations[:-1]:  # results are told with the next start
        assert not any(map(math.isnan, record.arrival_s + record.finish_s))
        assert all(elapsed_s > 0 for elapsed_s in record.elapsed_s)
    for rank, (_, own) in enumerate(seen[1:], start=1):  # others know themselves alone
        assert math.isnan(own[5].arrival_s[0])
        assert math.isclose(own[5].arrival_s[rank], iterations[5].arrival_s[rank], abs_tol=0.1)


def test_a_late_rank_that_moves_is_learned_again():
    late_ranks = [1] * 8 + [3] * 16
    seen = run(late_ranks)
    assert_learned([(schedules[:8], None) for schedules, _ in seen], late_ranks[:8], 3)
    assert_learned([(schedules[8:], None) for schedules, _ in seen], late_ranks[8:], 3)


@pytest.mark.parametrize("skews_s", [[0, 7.5, -3.25, 1000], [-50, 0, 0, 0]])
def test_clocks_that_differ_by_seconds_change_nothing(skews_s):
    seen = run([2] * 10, clock_skews_s=skews_s)
    assert_learned(seen, [2] * 10, 3)
    for record in seen[0][1]:
        assert max(record.arrival_s) - min(record.arrival_s) < 1.0
    for record in seen[0][1][1:]:  # whose starts are told
        for start_s, arrival_s in zip(record.start_s, record.arrival_s, strict=True):
            assert 0 <= arrival_s - start_s < 1.0


def test_without_a_monitor_nothing_is_planned():
    for schedules, iterations in run([2] * 4, monitor=False):
        assert iterations == []
        assert all(schedule.startswith("ring") for schedule in schedules)


def test_messages_that_are_not_worth_a_plan_need_none():
    communicators = pat.Communicator.loopback(RANKS, timeout_s=20, link=LINK)
    communicators[0].session.monitor.close(1)  # nobody decides
    on_threads(communicators, lambda c: c.all_reduce(torch.ones(999)))  # just under 2 ms
    assert not any(s["planned"] for c in communicators for s in c.stats())
    on_threads(communicators, pat.Communicator.close)


def test_many_calls_may_be_in_flight():
    """Each is an iteration; a rank may be as far ahead of another as it likes."""
    communicators = pat.Communicator.loopback(3, timeout_s=20, link=LINK)

    def submit(communicator):
        tensors = [torch.full((1500,), float(i + communicator.rank)) for i in range(100)]
        works = []
        for tensor in tensors:
            works.append(communicator.all_reduce(tensor, async_op=True))
            if communicator.rank == 2:
                time.sleep(1e-3)
        for i, (work, tensor) in enumerate(zip(works, tensors, strict=True)):
            work.wait()
            assert tensor.eq(3 * i + 3).all()
        return [s["schedule"] for s in communicator.stats()]

    first, second, third = on_threads(communicators, submit)
    assert first == second == third
    on_threads(communicators, pat.Communicator.close)


@pytest.mark.parametrize("fraction", [1, -0.5, 1.5, math.nan, math.inf])
def test_an_edge_outside_of_0_to_1_is_refused(fraction):
    (communicator,) = pat.Communicator.loopback(1)
    with pytest.raises(ValueError, match=r"fraction: expected a number within \[0, 1\), got "):
        communicator.edge(fraction)
    communicator.close()


def test_edges_of_a_closed_communicator_are_refused_and_without_monitor_ignored():
    communicators = pat.Communicator.loopback(2, timeout_s=10, monitor=False)
    for communicator in communicators:
        communicator.edge(0.5)
        communicator.edge(0.5)
    on_threads(communicators, pat.Communicator.close)
    with pytest.raises(pat.TransportError, match="closed"):
        communicators[0].edge(0.5)
