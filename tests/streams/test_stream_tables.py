"""Stream programs in print, in time, and drawn: what they say is what the programs do."""

import itertools
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import __main__, _core, figures
from patallreduce.stream_stages import SCRATCH, stages_of, waits
from patallreduce.stream_tables import stream_table
from patallreduce.stream_times import stream_times

ALGORITHMS = [
    (name, collective)
    for name, collective, *_ in _core.algorithms()
    if collective in {"all_reduce", "reduce", "broadcast", "all_gather"}
]
LATE = [0.0, 0.0, 0.0, 1.6]

any_programs = st.builds(
    lambda algorithm, ranks, segments, late, early_out, scales: programs_of(
        *algorithm,
        [float(rank == late) for rank in range(ranks)],
        segments,
        early_out=early_out,
        scales=scales,
    ),
    algorithm=st.sampled_from(ALGORITHMS),
    ranks=st.integers(1, 7),
    segments=st.integers(1, 9),
    late=st.integers(0, 6),
    early_out=st.booleans(),
    scales=st.booleans(),
)


def programs_of(name, collective, arrivals_s, segments, **options):
    schedule = pat.schedule(name, len(arrivals_s), segments, arrivals_s, collective=collective)
    return [_core.StreamProgram(schedule, rank, **options) for rank in range(schedule.ranks)]


def times_of(programs, arrivals_s, **model):
    model = {"queued_s": -0.5, "segment_s": 0.25, "sum_s": 0.0625} | model
    results = [program.result_stage for program in programs]
    return stream_times(list(map(stages_of, programs)), results, arrivals_s, **model)


def meet(a, b):
    return a.first < b.last and b.first < a.last


@settings(deadline=None)
@given(any_programs)
def test_a_group_waits_for_sums_that_it_sends_or_overwrites(programs):
    """And for the latest such sums, so that none before them can be missing."""
    for program in programs:
        stages = stages_of(program)
        for group, summed in waits(stages).items():
            assert summed < group
            sums, now = stages[summed].sums, stages[group]
            sends = [
                one.memory in {each.out, each.also} and meet(one, each)
                for one in now.sends
                for each in sums
            ]
            own = [one.memory == "home" for one in now.sends]  # the arrival's, before any sum
            overwrites = [
                now.region == stages[summed].region
                if one.memory == SCRATCH
                else one.memory in {each.out, each.also, each.held, each.received}
                and meet(one, each)
                for one in now.receives
                for each in sums
            ]
            onto_the_callers = [one.memory == "home" for one in now.receives]
            reasons = sends + overwrites + (own + onto_the_callers) * (summed == 0)
            assert any(reasons), (program.rank, group, summed)


@settings(deadline=None)
@given(any_programs)
def test_every_message_and_sum_is_in_the_table(programs):
    for program in programs:
        text = stream_table(program)
        stages = stages_of(program)
        assert len(re.findall(r"\d to \d", text)) == sum(len(stage.sends) for stage in stages)
        assert len(re.findall(r" from \d+ into ", text)) == sum(len(s.receives) for s in stages)
        assert text.count(" -> ") == sum(len(stage.sums) for stage in stages)
        assert text.count("RESULT") == 1
        assert len(re.findall(r"group \d", text)) == len(waits(stages))


def test_a_table_says_what_lies_where():
    """The last of a chain receives before its arrival, and keeps a copy of what it sends back."""
    text = stream_table(programs_of("slt", "all_reduce", LATE, 4, early_out=True)[3])

    lines = text.splitlines()
    assert lines[0] == "rank 3: home, scratch in 2 regions, shadow"
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines[-6:]]
    assert cells[0] == ["0", "no group", "arrival"]
    assert cells[1] == [
        *("1", "0 from 2 into scratch 0", "0: home + scratch 0 -> shadow and home", "group 2"),
    ]
    assert cells[2][:4] == ["2", "sums 1", "0 to 0 from shadow", "1 from 2 into scratch 1"]
    assert cells[4][4] == "3: home + scratch 1 -> shadow and home; RESULT"


@settings(deadline=None)
@given(any_programs, st.integers(0, 6))
def test_nothing_starts_before_what_it_waits_for(programs, late):
    arrivals_s = [3.0 * (rank == late) for rank in range(len(programs))]
    times = times_of(programs, arrivals_s)
    for program, own, arrival_s in zip(programs, times, arrivals_s, strict=True):
        stages = stages_of(program)
        groups = {one.stage: one for one in own.groups}
        sums = {one.stage: one for one in own.sums}
        assert list(groups) == list(range(1, len(stages)))
        assert list(sums) == [stage.number for stage in stages if stage.sums]
        for lane in (own.groups, own.sums):
            assert all(a.end_s <= b.start_s for a, b in itertools.pairwise(lane))
        for stage, one in sums.items():
            assert one.start_s >= (groups[stage].end_s if stage else arrival_s) >= -0.5
            assert one.start_s >= arrival_s
        for group, summed in waits(stages).items():
            assert groups[group].start_s >= (sums[summed].end_s if summed in sums else arrival_s)
        for one in own.groups:
            assert one.end_s == max(message.end_s for message in one.messages)
            assert all(message.begin_s >= one.start_s for message in one.messages)
        assert own.result_s >= arrival_s


@settings(deadline=None)
@given(any_programs)
def test_a_message_moves_at_the_same_time_at_both_ends(programs):
    times = times_of(programs, [float(program.rank) for program in programs])
    moved = {True: [], False: []}
    for rank, own in enumerate(times):
        for group in own.groups:
            for one in group.messages:
                peer, ends = one.transfer.peer, (one.begin_s, one.end_s)
                pair = (rank, peer) if one.sends else (peer, rank)
                moved[one.sends].append((pair, one.transfer.first, one.transfer.last, ends))
    assert sorted(moved[True]) == sorted(moved[False])


def test_a_balanced_ring_takes_what_its_formula_says():
    """2 (P - 1) messages of a segment each, and P - 1 sums between them."""
    for own in times_of(programs_of("ring", "all_reduce", [0.0] * 4, 4), [0.0] * 4):
        assert own.result_s == 6 * 0.25 + 3 * 0.0625


def test_programs_of_two_schedules_do_not_fit():
    four, eight = (programs_of("ring", "all_reduce", [0.0] * 2, n) for n in (4, 8))
    with pytest.raises(ValueError, match="rank 0 sends rank 1 other messages"):
        times_of([four[0], eight[1]], [0.0, 0.0])


def command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["patallreduce", "schedule", *map(str, words)])
    __main__.main()


def test_the_command_prints_one_rank_or_all(monkeypatch, capsys):
    words = ["slt", "--segments", 8, "--arrivals", *LATE, "--streams"]
    command(monkeypatch, *words)
    whole = capsys.readouterr().out
    assert [f"rank {rank}: " in whole for rank in range(4)] == [True] * 4
    assert "the host queues" in whole.lower()

    command(monkeypatch, *words, "--rank", 2)
    part = capsys.readouterr().out
    assert [f"rank {rank}: " in part for rank in range(4)] == [False, False, True, False]
    assert part.split("\n\n")[1] in whole


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rank", 1], "--rank and --out: only with --streams"),
        (["--out", "x.png"], "--rank and --out: only with --streams"),
        (["--streams", "--rank", 4], "expected one of 0..3, got 4"),
        (["--streams", "--listing"], "not allowed with"),
    ],
)
def test_the_command_refuses_what_means_nothing(monkeypatch, capsys, words, message):
    with pytest.raises(SystemExit):
        command(monkeypatch, "ring", *words)
    assert message in capsys.readouterr().err


class TestPicture:
    @pytest.fixture(autouse=True)
    def saved(self, monkeypatch):
        pytest.importorskip("matplotlib")
        shown = []
        monkeypatch.setattr(figures, "save", lambda figure, _: shown.append(figure))
        return shown

    def panel(self, saved, monkeypatch, *words):
        command(monkeypatch, *words, "--streams", "--out", "never written.png")
        return saved[-1].axes[0]

    def arrows(self, panel):
        return {patch.get_gid(): patch for patch in panel.patches if patch.get_gid()}

    def test_every_event_is_an_arrow(self, saved, monkeypatch):
        panel = self.panel(saved, monkeypatch, "slt", "--segments", 4, "--arrivals", *LATE)

        arrows = self.arrows(panel)
        for rank, program in enumerate(programs_of("slt", "all_reduce", LATE, 4, early_out=True)):
            stages = stages_of(program)
            assert f"rank {rank}: result" in arrows
            drawn = {
                (int(m[1]), int(m[2]))
                for m in (re.match(rf"rank {rank}: sums (\d+) -> group (\d+)", a) for a in arrows)
                if m
            }
            assert drawn == {(summed, group) for group, summed in waits(stages).items()}
            for stage in stages[1:]:
                there = f"rank {rank}: group {stage.number} -> sums {stage.number}" in arrows
                assert there == bool(stage.sums)

    def test_no_arrow_points_back_in_time(self, saved, monkeypatch):
        for name in ("slt", "prr", "ring", "two_tree"):
            panel = self.panel(saved, monkeypatch, name, "--segments", 8, "--arrivals", *LATE)
            for what, arrow in self.arrows(panel).items():
                begin, end = arrow._posA_posB
                assert end[0] >= begin[0], what

    def test_it_says_what_was_summed_before_the_last_arrival(self, saved, monkeypatch):
        panel = self.panel(saved, monkeypatch, "slt", "--segments", 4, "--arrivals", *LATE)

        programs = programs_of("slt", "all_reduce", LATE, 4, early_out=True)
        times = times_of(programs, LATE, queued_s=-0.25)
        over = sum(one.end_s <= 1.6 for own in times[:3] for one in own.sums)
        assert over > 0
        texts = [text.get_text() for text in panel.texts]
        assert f"rank 3 arrives last; {over} stages are summed already" in texts
        assert texts.count("queues all") == texts.count("backward") == 4
        assert "nothing measured" in panel.get_xlabel()

    def test_one_rank_alone(self, saved, monkeypatch):
        panel = self.panel(saved, monkeypatch, "slt", "--arrivals", *LATE, "--rank", 3)
        assert [label.get_text() for label in panel.get_yticklabels()] == [
            *("rank 3   host", "caller's", "messages", "sums")
        ]

    def test_too_many_boxes_are_refused(self, capsys, monkeypatch):
        with pytest.raises(SystemExit):
            command(
                monkeypatch, "slt", "--ranks", 8, "--segments", 900, "--streams", "--out", "x.png"
            )
        assert "expected 1 to 3000 groups and sums to draw" in capsys.readouterr().err
