"""Schedules in print: CLV16's Table 2, and that no message is lost in a table."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce import Schedule, Step

# The cells are CLV16's but for the slips that tests/algorithms/test_clairvoyant.py names. The paper
# counts rounds from 1, says I and O for recv and send and an upside-down T for a dot, and no "=".
TABLE_2 = """\
clairvoyant reduce, ranks 4, segments 4
(peer,segment) by round; = replaces what is held
rank        0      1      2       3       4
0     recv  (1,0)  (2,0)  (1,1)=  (2,2)=  (1,3)=
      send  (1,1)  (2,2)  (1,3)   .       .
1     recv  (0,1)  (3,1)  (0,3)   (3,3)   .
      send  (0,0)  (3,2)  (0,1)   .       (0,3)
2     recv  (3,0)  (0,2)  (3,2)   .       .
      send  (3,1)  (0,0)  (3,3)   (0,2)   .
3     recv  (2,1)  (1,2)  (2,3)   .       .
      send  (2,0)  (1,1)  (2,2)   (1,3)   ."""


def test_table_2():
    assert str(pat.schedule("clairvoyant", 4, 4, collective="reduce")) == TABLE_2


def test_the_command_prints_it(command):
    words = "schedule clairvoyant --ranks 4 --segments 4"
    assert command(*words.split()) == (0, TABLE_2 + "\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("schedule prr --arrivals 0 0 0 9 --segment-time 1", "prr all_reduce, ranks 4, segments 4"),
        ("schedule flat_reduce --root 2 --ranks 3 --listing", "  1: recv_reduce <- 1 segment 0"),
        # Who has a narrow port sums nothing, and a host gets each of the other's segments once.
        (
            "schedule direct_exchange --ranks 3 --segments 3 --ports 1 1 0.5",
            "2     recv  .      .      .      (1,2)=  (0,0)=  .       (0,1)=",
        ),
        (
            "schedule slt --ranks 4 --segments 1 --nodes 0 0 1 1",
            "2     recv  .      (1,0)  .      .       (3,0)=",
        ),
    ],
)
def test_the_command_takes_what_a_schedule_depends_on(command, words, said):
    status, printed = command(*words.split())
    assert status == 0
    assert said in printed


def test_the_command_names_what_it_does_not_know(command):
    status, said = command("schedule", "rnig")
    assert status == 2
    assert "unknown algorithm 'rnig'; known: binary_broadcast" in said


def rows_of(printed):
    """(rank, verb) -> {round: cell}, read back from the lines."""
    rows, rank = {}, -1
    for line in printed.splitlines()[2:]:
        if not line:
            continue
        if line.startswith("rank"):
            starts = {m.start(): int(m.group()) for m in re.finditer(r"\d+", line)}
            continue
        rank = int(line[:6]) if line[:6].strip() else rank
        row = rows.setdefault((rank, line[6:10]), {})
        row.update({starts[m.start() + 10]: m.group() for m in re.finditer(r"[(]\S+", line[10:])})
    return rows


def cell(step):
    last = "" if step.last == step.first + 1 else f"-{step.last - 1}"
    return f"({step.peer},{step.first}{last})" + ("=" if step.verb == "recv" else "")


ALGORITHMS = [
    (a.name, a.collective)
    for a in pat._core.algorithms()
    if a.collective not in ("all_to_all", "shift")
]


@given(
    algorithm=st.sampled_from(ALGORITHMS),
    ranks=st.integers(1, 12),
    segments=st.integers(1, 14),
    late=st.integers(0, 11),
)
def test_every_step_stands_in_its_rows_once(algorithm, ranks, segments, late):
    name, collective = algorithm
    arrivals_s = [float(rank == late) for rank in range(ranks)]
    schedule = pat.schedule(name, ranks, segments, arrivals_s, collective=collective)
    printed = str(schedule)
    for line in printed.splitlines():
        assert len(line) <= 100 or len(line[10:].split()) == 1, "one long cell is not broken"
    rows = rows_of(printed)
    has_rounds = all(step.round >= 0 for rank in range(ranks) for step in schedule.steps(rank))
    for rank in range(ranks):
        for verb, is_sent in [("send", True), ("recv", False)]:
            steps = [s for s in schedule.steps(rank) if (s.verb == "send") == is_sent]
            shown = rows[rank, verb]
            assert sorted(map(cell, steps)) == sorted(
                re.findall(r"[(][^(]+", "".join(shown.values()))
            )
            if has_rounds:
                assert {step.round for step in steps} == set(shown)


@given(
    algorithm=st.sampled_from(["slt", "prr", "two_tree", "binomial_all_reduce"]),
    ranks=st.integers(2, 8),
    segments=st.integers(1, 8),
)
def test_a_schedule_without_rounds_gets_those_of_one_message_at_a_time(algorithm, ranks, segments):
    """Both ends of a message stand in one round, and no port has two in it."""
    rows = rows_of(str(pat.schedule(algorithm, ranks, segments)))
    seen = 0
    for (rank, verb), row in rows.items():
        for round_, text in row.items():
            peer, segment = re.fullmatch(r"[(](\d+),([\d-]+)[)]=?", text).groups()
            other = rows[int(peer), "recv" if verb == "send" else "send"][round_]
            assert other.rstrip("=") == f"({rank},{segment})"
            seen += 1
    assert seen


def test_a_chain_is_as_many_rounds_as_hops_and_segments():
    """slt: P - 1 hops there and back, and a round for each further segment."""
    lines = str(pat.schedule("slt", 2, 3)).splitlines()
    assert lines[2:] == [
        "rank        0      1       2       3",
        "0     recv  .      (1,0)=  (1,1)=  (1,2)=",
        "      send  (1,0)  (1,1)   (1,2)   .",
        "1     recv  (0,0)  (0,1)   (0,2)   .",
        "      send  .      (0,0)   (0,1)   (0,2)",
    ]


def test_wide_tables_continue_below():
    printed = str(pat.schedule("ring", 8))
    assert printed.count("\nrank ") == 2
    assert printed.count("\n\n") == 1


def test_a_wrong_schedule_is_listed_instead():
    wrong = Schedule.from_steps([[Step("recv", 1, 0, 1)], []], 1)
    assert str(wrong) == wrong.listing()
    assert "  0: recv <- 1 segment 0" in str(wrong)
