"""What a rank's share of a schedule looks like as a stream program."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import patallreduce as pat
from patallreduce import Schedule, Step, _core
from patallreduce.gpu.stages import Item, stages_of


def programs(schedule, **options):
    return [_core.StreamProgram(schedule, rank, **options) for rank in range(schedule.ranks)]


def test_a_ring_gathers_without_a_copy():
    """Half of a ring's messages land at home; the others are summed, and nothing else is done."""
    for program in programs(pat.schedule("ring", 4)):
        arrival, *stages = stages_of(program)
        assert program.stages[0] == (-1, [], [], [])
        assert (arrival.groups, arrival.sums) == ((), ())
        assert len(stages) == 6
        for (_, _, _, rows), stage in zip(program.stages[1:4], stages[:3], strict=True):
            assert [one.memory for one in stage.sends + stage.receives] == ["home", "scratch"]
            assert [one[2:7] for one in rows] == [("home", "", "scratch", 0, "home")]
        for stage in stages[3:]:
            assert [one.memory for one in stage.sends + stage.receives] == ["home", "home"]
            assert (stage.region, stage.sums) == (-1, ())
        assert program.result_stage == 6
        assert not program.shadow


def test_groups_wait_for_the_sums_they_need_and_no_others():
    """With two segments a part, the second one travels while the first one is summed."""
    program = programs(pat.schedule("ring", 4, 8))[0]

    awaited = [stage.groups[0].awaited_sums for stage in stages_of(program)[1:]]

    assert awaited[:3] == [0, 0, 1]
    assert all(sums < stage - 1 for stage, sums in enumerate(awaited[1:6], start=2))


def test_scratch_regions_take_turns():
    for regions in (1, 2, 3):
        for program in programs(pat.schedule("slt", 5, 9), regions=regions):
            used = [stage.region for stage in stages_of(program) if stage.region >= 0]
            assert used == [n % regions for n in range(len(used))]
            assert program.regions == min(regions, len(used))


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_group_does_not_overwrite_what_is_not_summed_yet(lanes):
    for program in programs(pat.schedule("slt", 5, 9), regions=2, lanes=lanes):
        last = {}
        for stage in stages_of(program):
            for group in stage.groups:
                if any(one.memory == "scratch" for one in group.receives):
                    assert group.awaited_sums >= last.get(stage.region, -1)
            if stage.region >= 0:
                last[stage.region] = stage.number


def test_early_out_sends_from_elsewhere_once_the_result_is_there():
    """The last of a chain has every sum first, and the way back is not its caller's business."""
    schedule = pat.schedule("slt", 4, 8, [0.0, 1.0, 2.0, 3.0])
    plain, early = (programs(schedule, early_out=early_out)[3] for early_out in (False, True))

    assert plain.result_stage == len(plain.stages) - 1
    assert early.result_stage < len(early.stages) - 1
    for stage in stages_of(early)[early.result_stage + 1 :]:
        assert {one.memory for one in stage.sends} == {"shadow"}
        assert (stage.receives, stage.sums) == ([], ())


def test_early_in_receives_before_the_own_contribution_is_there():
    schedule = pat.schedule("slt", 4, 8, [0.0, 1.0, 2.0, 3.0])
    for regions in (1, 2, 3):
        stages = stages_of(programs(schedule, regions=regions)[3])
        receives_only = next(stage.number for stage in stages if stage.sends)
        early = [stage.groups[0].awaited_sums for stage in stages[1:receives_only]]

        assert early[:regions] == [-1] * min(regions, len(early))


def received_before_the_arrival(program):
    """How many messages a rank can receive before it arrives, and how many it receives at all.

    A group waits for the arrival if it waits for sums, if the group before it in its lane does, or
    one of another lane that it waits for.
    """
    runs, stuck, came, asked = set(), set(), 0, 0
    for stage in stages_of(program):
        for group in stage.groups:
            free = group.awaited_sums < 0 and group.lane not in stuck
            if free and all(item in runs for item in group.awaited_groups):
                runs.add(Item(group.lane, stage.number))
                came += len(group.receives)
            else:
                stuck.add(group.lane)
            asked += len(group.receives)
    return came, asked


@pytest.mark.parametrize("ranks", range(2, 10))
@pytest.mark.parametrize("segments", [1, 4, 16])
def test_with_lanes_the_late_rank_of_a_chain_receives_everything_before_it_arrives(ranks, segments):
    arrivals_s = [0.0] * (ranks - 1) + [1.0]
    schedule = pat.schedule("slt", ranks, segments, arrivals_s)
    options = {"early_out": True, "regions": max(2, segments)}
    lanes = _core.lanes_for(ranks)

    one = _core.StreamProgram(schedule, ranks - 1, **options)
    more = _core.StreamProgram(schedule, ranks - 1, lanes=lanes, **options)

    assert received_before_the_arrival(one) == (1, segments)
    assert received_before_the_arrival(more) == (segments, segments)
    assert more.regions == segments


def test_a_rank_that_only_lends_never_writes_home():
    for name in pat.algorithms(collective="reduce"):
        schedule = pat.schedule(name, 5, 5, collective="reduce")
        for rank, program in enumerate(programs(schedule, scales=True)):
            stages = stages_of(program)
            written = {
                memory for stage in stages for one in stage.sums for memory in (one.out, one.also)
            }
            written |= {one.memory for stage in stages for one in stage.receives}
            assert ("home" in written) == (rank == schedule.root), name


def test_only_what_is_sent_as_it_came_is_scaled_beforehand():
    schedule = Schedule.from_steps(
        [
            [Step("send", 1, 0, 2), Step("recv", 1, 0, 3)],
            [Step("recv_reduce", 0, 0, 2), Step("send", 0, 0, 3)],
        ],
        3,
    )
    first, second = programs(schedule, scales=True)

    assert first.stages[0][3] == [(0, 2, "home", "", "home", -1, "", True)]
    assert second.stages[0][3] == [(2, 3, "home", "", "home", -1, "", True)]
    assert second.stages[1][3] == [(0, 2, "home", "", "scratch", 0, "home", True)]


def test_nothing_to_do():
    (program,) = programs(pat.schedule("ring", 1, 3))

    assert program.stages == [(-1, [], [], [])]
    assert (program.result_stage, program.regions, program.shadow) == (0, 0, False)


def test_bad_requests_are_refused():
    schedule = pat.schedule("ring", 2)
    with pytest.raises(pat.ScheduleError, match="a rank in 0..1, got rank = 2"):
        _core.StreamProgram(schedule, 2)
    with pytest.raises(pat.ScheduleError, match="regions >= 1, got 0"):
        _core.StreamProgram(schedule, 0, regions=0)
    with pytest.raises(pat.ScheduleError, match="lanes >= 1, got 0"):
        _core.StreamProgram(schedule, 0, lanes=0)
    with pytest.raises(pat.ScheduleError, match="ports >= 1, got 0"):
        _core.StreamProgram(schedule, 0, ports=0)


def test_programs_are_made_in_several_threads_at_once():
    """Each makes so many, of so little, that two are noted by Python's side at a time."""
    schedule = pat.schedule("ring", 1, 1)

    def make(_):
        return [_core.StreamProgram(schedule, 0) for _ in range(500)]

    with ThreadPoolExecutor(4) as threads:
        made = [program for some in threads.map(make, range(40)) for program in some]

    assert len({id(program) for program in made}) == 20000
