"""What a rank's share of a schedule looks like as a stream program."""

import pytest

import patallreduce as pat
from patallreduce import Schedule, Step, _core


def programs(schedule, **options):
    return [_core.StreamProgram(schedule, rank, **options) for rank in range(schedule.ranks)]


def test_a_ring_gathers_without_a_copy():
    """Half of a ring's messages land at home; the others are summed, and nothing else is done."""
    for program in programs(pat.schedule("ring", 4)):
        arrival, *stages = program.stages
        assert arrival == (-1, -1, [], [], [])
        assert len(stages) == 6
        for _, _, sends, receives, sums in stages[:3]:
            assert [message[3] for message in sends + receives] == ["home", "scratch"]
            assert [one[2:7] for one in sums] == [("home", "", "scratch", 0, "home")]
        for _, region, sends, receives, sums in stages[3:]:
            assert [message[3] for message in sends + receives] == ["home", "home"]
            assert (region, sums) == (-1, [])
        assert program.result_stage == 6
        assert not program.shadow


def test_groups_wait_for_the_sums_they_need_and_no_others():
    """With two segments a part, the second one travels while the first one is summed."""
    program = programs(pat.schedule("ring", 4, 8))[0]

    after = [stage[0] for stage in program.stages]

    assert after[:4] == [-1, 0, 0, 1]
    assert all(sums < stage - 1 for stage, sums in enumerate(after[2:7], start=2))


def test_scratch_regions_take_turns():
    for regions in (1, 2, 3):
        for program in programs(pat.schedule("slt", 5, 9), regions=regions):
            used = [stage[1] for stage in program.stages if stage[1] >= 0]
            assert used == [n % regions for n in range(len(used))]
            assert program.regions == min(regions, len(used))


def test_a_group_does_not_overwrite_what_is_not_summed_yet():
    for program in programs(pat.schedule("slt", 5, 9), regions=2):
        last = {}
        for stage, (after, region, *_) in enumerate(program.stages):
            if region < 0:
                continue
            assert after >= last.get(region, -1)
            last[region] = stage


def test_early_out_sends_from_elsewhere_once_the_result_is_there():
    """The last of a chain has every sum first, and the way back is not its caller's business."""
    schedule = pat.schedule("slt", 4, 8, [0.0, 1.0, 2.0, 3.0])
    plain, early = (programs(schedule, early_out=early_out)[3] for early_out in (False, True))

    assert plain.result_stage == len(plain.stages) - 1
    assert early.result_stage < len(early.stages) - 1
    for _, _, sends, receives, sums in early.stages[early.result_stage + 1 :]:
        assert {message[3] for message in sends} == {"shadow"}
        assert (receives, sums) == ([], [])


def test_early_in_receives_before_the_own_contribution_is_there():
    schedule = pat.schedule("slt", 4, 8, [0.0, 1.0, 2.0, 3.0])
    for regions in (1, 2, 3):
        program = programs(schedule, regions=regions)[3]
        receives_only = next(n for n, stage in enumerate(program.stages) if stage[2])
        early = [stage[0] for stage in program.stages[1:receives_only]]

        assert early[:regions] == [-1] * min(regions, len(early))


def test_a_rank_that_only_lends_never_writes_home():
    for name in pat.algorithms(collective="reduce"):
        schedule = pat.schedule(name, 5, 5, collective="reduce")
        for rank, program in enumerate(programs(schedule, scales=True)):
            written = {sum_[2] for stage in program.stages for sum_ in stage[4]}
            written |= {sum_[3] for stage in program.stages for sum_ in stage[4]}
            written |= {message[3] for stage in program.stages for message in stage[3]}
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

    assert first.stages[0][4] == [(0, 2, "home", "", "home", -1, "", True)]
    assert second.stages[0][4] == [(2, 3, "home", "", "home", -1, "", True)]
    assert second.stages[1][4] == [(0, 2, "home", "", "scratch", 0, "home", True)]


def test_nothing_to_do():
    (program,) = programs(pat.schedule("ring", 1, 3))

    assert program.stages == [(-1, -1, [], [], [])]
    assert (program.result_stage, program.regions, program.shadow) == (0, 0, False)


def test_bad_requests_are_refused():
    schedule = pat.schedule("ring", 2)
    with pytest.raises(pat.ScheduleError, match="a rank in 0..1, got rank = 2"):
        _core.StreamProgram(schedule, 2)
    with pytest.raises(pat.ScheduleError, match="regions >= 1, got 0"):
        _core.StreamProgram(schedule, 0, regions=0)
    with pytest.raises(pat.ScheduleError, match="ports >= 1, got 0"):
        _core.StreamProgram(schedule, 0, ports=0)
