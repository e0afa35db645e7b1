"""Why a rank is late, in jobs made up with noise: every cause is named, and where none is, none."""

import dataclasses
import itertools
import math

import pytest

import patallreduce as pat
from patallreduce.records.files import save_iterations
from patallreduce.records.iterations import FORWARD, EdgeRecord
from tests.records import jobs

SINCE, LATE_FOR = 10, 40
NAN = math.nan
UNKNOWN = (NAN,) * 4


def job(ranks=4, late_rank=2, late_for=LATE_FOR, **how):
    how = {"since": SINCE, "seed": 7 * late_rank + ranks, **how}
    made = jobs.iterations(ranks, late_rank=late_rank, **how)
    return list(itertools.islice(made, how["since"] + late_for))


def findings(iterations):
    return pat.straggler_report(iterations).findings


@pytest.mark.parametrize("ranks", [4, 8])
@pytest.mark.parametrize("part", [0.2, 1.0])
@pytest.mark.parametrize("phase", jobs.PHASES_S)
def test_every_cause_is_named_on_every_rank(phase, part, ranks):
    longer_s = part * jobs.ITERATION_S
    quarter = phase if "quarter" in phase else ""
    for rank in range(ranks):
        (found,) = findings(job(ranks, rank, longer_s={phase: longer_s}))
        assert found.rank == rank
        assert SINCE - 2 <= found.since <= SINCE  # it may stall before
        assert (found.cause, found.part) == ("backward" if quarter else phase, quarter)
        assert found.late_s == pytest.approx(longer_s, rel=0.1)
        assert found.longer_s == pytest.approx(longer_s, rel=0.1)
        assert found.share > 0.9
        assert found.costs_s == pytest.approx(longer_s, rel=0.4)  # others stall, too


@pytest.mark.parametrize("ranks", [4, 8])
def test_no_rank_is_blamed_in_ten_thousand_balanced_iterations(ranks):
    made = list(itertools.islice(jobs.iterations(ranks), 10_000))
    for last in range(50, len(made) + 1, 25):
        assert findings(made[last - 50 : last]) == ()
    assert findings(made) == ()


def test_a_rank_that_is_slow_in_everything_has_two_causes_and_no_part():
    slow = {phase: usual_s / 2 for phase, usual_s in jobs.PHASES_S.items() if phase != "input"}
    backward, forward = findings(job(longer_s=slow))

    assert (backward.cause, backward.part) == ("backward", "")
    assert (forward.cause, forward.part) == ("forward", "")
    assert backward.share == pytest.approx(2 / 3, abs=0.05)
    assert forward.share == pytest.approx(1 / 3, abs=0.05)


def test_what_a_rank_makes_up_for_takes_nothing_from_a_share():
    (found,) = findings(job(longer_s={"forward": 0.02, "schedule": -0.01}))

    assert found.cause == "forward"
    assert found.late_s == pytest.approx(0.01, rel=0.1)
    assert found.longer_s == pytest.approx(0.02, rel=0.1)
    assert found.share == pytest.approx(1, abs=0.1)


def test_of_two_ranks_the_late_one_is_compared_with_the_other():
    (found,) = findings(job(2, 1, longer_s={"forward": 0.02}))

    assert found.longer_s == pytest.approx(0.02, rel=0.1)


def test_of_two_late_ranks_neither_alone_costs_what_both_do():
    def later(iteration, rank, by_s):
        """A rank's arrival, and only that."""
        arrival_s = [s + by_s * (r == rank) for r, s in enumerate(iteration.arrival_s)]
        (bucket,) = iteration.buckets
        buckets = (dataclasses.replace(bucket, arrival_s=tuple(arrival_s)),)
        return dataclasses.replace(iteration, buckets=buckets)

    one = job(8, 2, 60, longer_s={"last quarter": 0.050}, noise=0.001, stalls=0.0)
    later_one, earlier_one = findings([later(i, 5, 0.045 * (i.iteration >= SINCE)) for i in one])

    assert (later_one.rank, earlier_one.rank) == (2, 5)
    assert later_one.costs_s == pytest.approx(0.005, rel=0.1)
    assert earlier_one.costs_s == 0


@pytest.mark.parametrize("since", [0, SINCE])
@pytest.mark.parametrize("ranks", [4, 8])
def test_a_rank_that_is_late_by_far_is_named_within_ten_iterations(ranks, since):
    for rank, phase in itertools.product(range(ranks), ["input", "forward", "third quarter"]):
        late = {"late_rank": rank, "since": since, "longer_s": {phase: 0.2}}
        (found,) = findings(job(ranks, late_for=10, **late))
        assert found.rank == rank
        assert (found.cause, found.part) in [(phase, ""), ("backward", phase)]


@pytest.mark.parametrize("others_late_s", [0.0, 0.03])
def test_who_is_late_but_costs_next_to_nothing_is_not_named(others_late_s):
    """Others arrive later still, in turns: who is late every time by less keeps nobody waiting."""

    def later(iteration):
        arrival_s = list(iteration.arrival_s)
        arrival_s[[0, 1, 3, 4, 5, 6, 7][iteration.iteration % 7]] += others_late_s
        (bucket,) = iteration.buckets
        buckets = (dataclasses.replace(bucket, arrival_s=tuple(arrival_s)),)
        return dataclasses.replace(iteration, buckets=buckets)

    small = job(8, 2, 120, longer_s={"forward": 0.004}, noise=0.001, stalls=0.0)
    found = findings([later(iteration) for iteration in small])
    assert [finding.rank for finding in found] == ([] if others_late_s else [2])


@pytest.mark.parametrize(("longer_s", "late_for"), [(0.02, 7), (0.003, 14)])
def test_a_few_late_iterations_may_be_chance(longer_s, late_for):
    few = job(late_for=late_for, longer_s={"input": longer_s})

    assert findings(few) == ()
    assert "rank 2 is late by" in str(pat.straggler_report(few))  # all the same


def test_the_sentence_names_rank_cause_share_part_and_cost():
    quiet = job(longer_s={"second quarter": 0.203}, noise=0.0, stalls=0.0)
    sentence = (
        "rank 2 is late by 203.0 ms since iteration 10: its backward pass takes 203.0 ms longer "
        "than the others' (100 % of it; second quarter); the others wait 203.0 ms per iteration"
    )

    assert [str(found) for found in findings(quiet)] == [sentence]
    assert sentence in str(pat.straggler_report(quiet)).splitlines()


def without_progress(iteration):
    return dataclasses.replace(iteration, progress=())


def without_finish(iteration):
    return dataclasses.replace(iteration, finish_s=UNKNOWN)


def without_start(iteration):
    return dataclasses.replace(iteration, start_s=UNKNOWN)


def with_half_known(iteration):
    half = iteration.progress[2]
    return dataclasses.replace(iteration, progress=(iteration.progress[0], half))


@pytest.mark.parametrize(
    ("known", "phase", "cause", "part"),
    [
        (without_progress, "forward", "computation", ""),
        (without_progress, "last quarter", "computation", ""),
        (without_finish, "schedule", "start", ""),
        (without_finish, "input", "start", ""),
        (with_half_known, "second quarter", "backward", "first half"),
        (with_half_known, "third quarter", "backward", "second half"),
    ],
)
def test_what_is_not_known_is_not_told_apart(known, phase, cause, part):
    (found,) = findings([known(i) for i in job(longer_s={phase: 0.05})])

    assert (found.cause, found.part) == (cause, part)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ({"waited": 0.3}, "it had to wait for 30 % of the processor time that it wanted"),
        ({"throttled": 0.4}, "its control group's quota was used up in 40 % of the periods"),
        ({"stolen": 0.25}, "25 % of its processors' time was taken by other guests"),
        ({"faults_per_s": 500.0}, "it read 500 pages per second from disk"),
        ({"waited": 0.3, "stolen": 0.2}, "that it wanted and 20 % of its processors' time was"),
    ],
)
def test_a_busy_host_is_told_beside_what_it_makes_longer(host, said):
    def told(iteration):
        """Ranks tell now and then, each in its own iterations."""
        teller = iteration.iteration % 4
        values = {
            name: tuple(
                (value if rank == 2 else 0.02) if rank == teller else NAN for rank in range(4)
            )
            for name, value in host.items()
        }
        return dataclasses.replace(iteration, host=values)

    (found,) = findings([told(i) for i in job(longer_s={"forward": 0.05})])
    assert said in found.host
    assert f"; its host is busy: {found.host}; the others wait" in str(found)
    (other,) = findings([told(i) for i in job(late_rank=1, longer_s={"forward": 0.05})])
    assert other.host == ""
    (waiting,) = findings([told(i) for i in job(longer_s={"input": 0.05})])
    assert waiting.host == ""


def test_where_starts_are_not_known_there_is_no_cause():
    assert findings([without_start(i) for i in job(longer_s={"forward": 0.05})]) == ()


def test_edges_outside_of_ddp_say_nothing_of_a_forward_pass():
    plain = [dataclasses.replace(i, model=0) for i in job(longer_s={"forward": 0.05})]

    assert [found.cause for found in findings(plain)] == ["computation"]


def test_an_edge_that_some_iterations_lack_is_no_hindrance():
    made = job(longer_s={"forward": 0.05})
    some = [without_progress(i) if i.iteration % 3 == 0 else i for i in made]

    assert [found.cause for found in findings(some)] == ["forward"]


def test_an_edge_that_few_iterations_have_says_nothing_of_the_others():
    def misleading(iteration):
        """All end the forward pass at once, it seems."""
        edges = [(FORWARD, 0.001), (0.4, 0.002)]
        progress = [EdgeRecord(f, tuple(s + by_s for s in iteration.start_s)) for f, by_s in edges]
        return dataclasses.replace(iteration, progress=(*progress, *iteration.progress[1:]))

    made = job(longer_s={"forward": 0.05})
    few = [misleading(i) if 20 <= i.iteration < 23 else i for i in made]

    assert [found.cause for found in findings(few)] == ["forward"]


def test_an_edge_of_one_rank_alone_bounds_no_phase():
    def with_own(iteration):
        own = EdgeRecord(0.4, (NAN, NAN, iteration.arrival_s[2] - 1e-3, NAN))
        progress = (iteration.progress[0], own, *iteration.progress[1:])
        return dataclasses.replace(iteration, progress=progress)

    (found,) = findings([with_own(i) for i in job(longer_s={"second quarter": 0.05})])
    assert (found.cause, found.part) == ("backward", "second quarter")


def test_records_of_earlier_versions_load(tmp_path):
    path = tmp_path / "old.jsonl"
    save_iterations(path, map(without_progress, job(longer_s={"forward": 0.05})))
    path.write_text(path.read_text().replace(', "progress": [], "host": {}', ""))
    assert "progress" not in path.read_text()
    assert "host" not in path.read_text()

    assert [found.cause for found in findings(pat.load_iterations(path))] == ["computation"]
