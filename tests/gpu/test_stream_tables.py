"""Stream programs in print, in time, and drawn: what they say is what the programs do."""

import itertools
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import __main__, _core
from patallreduce.gpu.stages import SCRATCH, SUMS, Item, results_of, stages_of, waits
from patallreduce.gpu.tables import stream_table
from patallreduce.gpu.times import stream_times
from patallreduce.pictures import figures

ALGORITHMS = [
    (algorithm.name, algorithm.collective)
    for algorithm in _core.algorithms()
    if algorithm.collective in {"all_reduce", "reduce", "broadcast", "all_gather"}
]
LATE = [0.0, 0.0, 0.0, 1.6]
DRAWN = {"lanes": 2, "regions": 4, "early_out": True}  # as the command makes them for LATE

any_programs = st.builds(
    lambda algorithm, ranks, segments, late, lanes, early_out, scales: programs_of(
        *algorithm,
        [float(rank == late) for rank in range(ranks)],
        segments,
        lanes=lanes,
        regions=2 * lanes,
        early_out=early_out,
        scales=scales,
    ),
    algorithm=st.sampled_from(ALGORITHMS),
    ranks=st.integers(1, 7),
    segments=st.integers(1, 9),
    late=st.integers(0, 6),
    lanes=st.integers(1, 3),
    early_out=st.booleans(),
    scales=st.booleans(),
)


def programs_of(name, collective, arrivals_s, segments, **options):
    schedule = pat.schedule(name, len(arrivals_s), segments, arrivals_s, collective=collective)
    return [_core.StreamProgram(schedule, rank, **options) for rank in range(schedule.ranks)]


def times_of(programs, arrivals_s, **model):
    model = {"queued_s": -0.5, "segment_s": 0.25, "sum_s": 0.0625} | model
    results = list(map(results_of, programs))
    return stream_times(list(map(stages_of, programs)), results, arrivals_s, **model)


def meet(a, b):
    return a.first < b.last and b.first < a.last


def uses_of(stages, item):
    """(memory, first, last, writes, region) of what a group, or the sums, of a stage touch."""
    stage = stages[item.stage]
    if item.lane == SUMS:
        for one in stage.sums:
            for memory, writes in [
                (one.out, True),
                (one.also, True),
                (one.received, False),
                (one.held, False),
            ]:
                yield memory, one.first, one.last, writes, stage.region
        if item.stage == 0:  # the arrival: all of home is the caller's until then
            yield "home", 0, 10**6, True, -1
        return
    (group,) = (one for one in stage.groups if one.lane == item.lane)
    for one in group.sends:
        yield one.memory, one.first, one.last, False, stage.region
    for one in group.receives:
        yield one.memory, one.first, one.last, True, stage.region


def collide(stages, a, b):
    """Whether one writes what the other touches. Messages in one region of scratch lie apart."""
    for memory, first, last, writes, region in uses_of(stages, a):
        for other, begin, end, also_writes, its_region in uses_of(stages, b):
            if not memory or memory != other or not (writes or also_writes):
                continue
            if memory == SCRATCH:
                if region == its_region and SUMS in {a.lane, b.lane}:
                    return True
            elif first < end and begin < last:
                return True
    return False


@settings(max_examples=60)
@given(any_programs)
def test_whatever_collides_is_ordered_and_nothing_waits_for_nothing(programs):
    """By a stream or by events, also in a roundabout way; and no event is queued for no reason."""
    for program in programs:
        stages = stages_of(program)
        awaited = waits(stages)
        items = [
            item
            for stage in stages
            for item in [
                *(Item(group.lane, stage.number) for group in stage.groups),
                Item(SUMS, stage.number),
            ]
        ]
        before, last = {}, {}  # item -> all that is over when it starts; stream -> its last item
        for item in items:
            direct = [*awaited.get(item, ()), *([last[item.lane]] if item.lane in last else [])]
            before[item] = set(direct).union(*(before[one] for one in direct))
            last[item.lane] = item
        for n, item in enumerate(items):
            for earlier in items[:n]:
                if collide(stages, earlier, item):
                    assert earlier in before[item], (program.rank, earlier, item)
            for one in awaited.get(item, ()):
                assert collide(stages, one, item), (program.rank, one, item)


@given(any_programs)
def test_every_message_and_sum_is_in_the_table(programs):
    for program in programs:
        text = stream_table(program)
        stages = stages_of(program)
        assert len(re.findall(r"\d to \d", text)) == sum(len(stage.sends) for stage in stages)
        assert len(re.findall(r" from \d+ into ", text)) == sum(len(s.receives) for s in stages)
        assert text.count(" -> ") == sum(len(stage.sums) for stage in stages)
        assert text.count("RESULT") == 1
        named = [
            waiter
            for waiter, awaited in waits(stages).items()
            for one in awaited
            if waiter.lane != SUMS or one.stage < waiter.stage
        ]
        assert len(re.findall(r"group \d", text)) >= len(named)


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


@given(any_programs, st.integers(0, 6))
def test_nothing_starts_before_what_it_waits_for(programs, late):
    arrivals_s = [3.0 * (rank == late) for rank in range(len(programs))]
    times = times_of(programs, arrivals_s)
    for program, own, arrival_s in zip(programs, times, arrivals_s, strict=True):
        stages = stages_of(program)
        groups = {one.item: one for one in own.groups}
        sums = {Item(SUMS, one.stage): one for one in own.sums}
        made = [Item(group.lane, stage.number) for stage in stages for group in stage.groups]
        assert sorted(groups) == sorted(made)
        assert [one.stage for one in own.sums] == [s.number for s in stages if s.sums]
        streams = [[one for one in own.groups if one.item.lane == n] for n in range(3)]
        for stream in (*streams, own.sums):
            assert all(a.end_s <= b.start_s for a, b in itertools.pairwise(stream))
        assert all(one.start_s >= arrival_s for one in own.sums)
        pieces = groups | sums
        for waiter, awaited in waits(stages).items():
            for one in awaited:
                over_s = pieces[one].end_s if one in pieces else arrival_s
                assert pieces[waiter].start_s >= over_s
        for one in own.groups:
            assert one.end_s == max(message.end_s for message in one.messages)
            assert all(message.begin_s >= one.start_s for message in one.messages)
        assert own.result_s >= arrival_s


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
        (["--rank", 1], "--rank, --lanes and --out: only with --streams"),
        (["--out", "x.png"], "--rank, --lanes and --out: only with --streams"),
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
        for rank, program in enumerate(programs_of("slt", "all_reduce", LATE, 4, **DRAWN)):
            assert f"rank {rank}: result" in arrows
            drawn = {
                (m[1], m[2])
                for m in (re.match(rf"rank {rank}: (\w+ \w+) -> (\w+ \w+)", a) for a in arrows)
                if m
            }
            assert drawn == {
                (self.name(one), self.name(waiter))
                for waiter, awaited in waits(stages_of(program)).items()
                for one in awaited
            }

    def name(self, item):
        if item.lane == SUMS:
            return f"sums {item.stage}"
        return f"group {item.stage}{'ab'[item.lane]}"

    def test_no_arrow_points_back_in_time(self, saved, monkeypatch):
        for name in ("slt", "prr", "ring", "two_tree"):
            panel = self.panel(saved, monkeypatch, name, "--segments", 8, "--arrivals", *LATE)
            for what, arrow in self.arrows(panel).items():
                begin, end = arrow._posA_posB
                assert end[0] >= begin[0], what

    def test_it_says_what_was_summed_before_the_last_arrival(self, saved, monkeypatch):
        panel = self.panel(saved, monkeypatch, "slt", "--segments", 4, "--arrivals", *LATE)

        programs = programs_of("slt", "all_reduce", LATE, 4, **DRAWN)
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
            *("rank 3   host", "caller's", "messages a", "messages b", "sums")
        ]
        panel = self.panel(saved, monkeypatch, "slt", "--arrivals", *LATE, "--lanes", 1)
        rows = [label.get_text() for label in panel.get_yticklabels()]
        assert rows[4:8] == ["rank 1   host", "caller's", "messages", "sums"]

    def test_with_lanes_the_late_rank_only_sums_and_sends(self):
        """Of all ranks S + P - 2 message times are left, as the paper says, and a sum.

        With one lane it still receives all but the first segment.
        """
        late = [0.0, 0.0, 0.0, 2.0]
        for options, before, own_s, all_s in [
            (DRAWN, 4, 4 * 0.0625, 0.0625 + 6 * 0.25),
            ({"early_out": True}, 1, 4 * 0.0625 + 3 * 0.25, 4 * 0.0625 + 6 * 0.25),
        ]:
            programs = programs_of("slt", "all_reduce", late, 4, **options)
            times = times_of(programs, late)
            received = [
                one.end_s for group in times[3].groups for one in group.messages if not one.sends
            ]
            assert sum(end_s <= 2.0 for end_s in received) == before
            assert times[3].result_s == 2.0 + own_s
            assert max(own.result_s for own in times) == 2.0 + all_s

    def test_too_many_boxes_are_refused(self, capsys, monkeypatch):
        with pytest.raises(SystemExit):
            command(
                monkeypatch, "slt", "--ranks", 8, "--segments", 300, "--streams", "--out", "x.png"
            )
        assert "expected 1 to 3000 groups and sums to draw" in capsys.readouterr().err
