"""The trace: valid JSON of the Trace Event Format, whose events lie where the records say."""

import itertools
import json
import math
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

import patallreduce as pat
from patallreduce.records.iterations import BucketRecord, Iteration
from tests.records.made_up import iterations

NAN = math.nan


def written(tmp_path, records):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    path = tmp_path / "trace.json"
    pat.write_trace(path, records)
    return json.loads(path.read_text(), parse_constant=refuse)


def of_phase(trace, phase):
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def spans(trace, name):
    """(rank, first, last) in microseconds."""
    return [
        (event["pid"], event["ts"], event["ts"] + event["dur"])
        for event in of_phase(trace, "X")
        if event["name"] == name
    ]


def test_each_rank_is_a_process_with_its_rows(tmp_path, make_iteration):
    trace = written(tmp_path, [make_iteration(0, (2.0, 5.0, 3.0))])

    named = defaultdict(list)
    for event in of_phase(trace, "M"):
        if "name" in event["args"]:
            named[event["pid"], event["name"]].append(event["args"]["name"])
    for rank in range(3):
        assert named[rank, "process_name"] == [f"rank {rank}"]
        assert named[rank, "thread_name"] == [
            "computation",
            "prediction",
            "all-reduce",
            "buckets",
        ]


def test_events_lie_where_the_records_say(tmp_path, make_iteration):
    """Rank 1 arrives 3 s after rank 0; both have the sum a second later; time begins at 0."""
    trace = written(tmp_path, [make_iteration(4, (2.0, 5.0), at_s=1e5, predicted_s=(2.5, 5.0))])

    assert trace["otherData"]["zero_s"] == 1e5
    assert spans(trace, "computation") == [(0, 0, 2_000_000), (1, 0, 5_000_000)]
    assert spans(trace, "waiting") == [(0, 2_000_000, 5_000_000)]
    assert spans(trace, "communication") == [(0, 5_000_000, 6_000_000), (1, 5_000_000, 6_000_000)]
    assert spans(trace, "bucket 0") == [(0, 2_000_000, 6_000_000), (1, 5_000_000, 6_000_000)]
    instants = {(e["name"], e["pid"]): e for e in of_phase(trace, "i")}
    assert instants["predicted arrival", 0]["ts"] == 2_500_000
    assert instants["predicted arrival", 0]["args"]["error_ms"] == 500.0
    assert instants["plan decided", 0]["ts"] == 500_000
    assert {e["args"]["iteration"] for e in of_phase(trace, "X") if e["name"] == "waiting"} == {4}


def test_an_arrow_leads_from_the_last_rank_to_each_that_waited(tmp_path, make_iteration):
    trace = written(tmp_path, [make_iteration(n, (2.0, 5.0, 3.0), at_s=10.0 * n) for n in (0, 1)])

    starts, ends = of_phase(trace, "s"), of_phase(trace, "f")
    assert [event["pid"] for event in starts] == [1] * 4
    assert sorted(event["pid"] for event in ends) == [0, 0, 2, 2]
    assert sorted(e["id"] for e in starts) == sorted(e["id"] for e in ends)
    assert len({event["id"] for event in starts}) == 4
    for event in [*starts, *ends]:
        enclosing = [
            e
            for e in of_phase(trace, "X")
            if (e["pid"], e["tid"]) == (event["pid"], event["tid"])
            and e["ts"] <= event["ts"] < e["ts"] + e["dur"]
        ]
        wanted = "computation" if event["ph"] == "s" else "communication"
        assert [e["name"] for e in enclosing] == [wanted]


def test_a_rank_that_knows_only_itself_shows_what_it_knows(tmp_path, make_iteration):
    trace = written(tmp_path, [make_iteration(0, (NAN, 5.0), start_s=(NAN, 1.0))])

    assert spans(trace, "computation") == [(1, 500_000, 4_500_000)]  # 0 is when it was decided
    assert spans(trace, "waiting") == []
    assert of_phase(trace, "s") == []


def test_no_iterations_are_an_empty_trace(tmp_path):
    assert written(tmp_path, [])["traceEvents"] == []


@settings(max_examples=50)
@given(st.lists(iterations(), max_size=4))
def test_any_records_give_a_sorted_trace_without_misplaced_events(tmp_path_factory, records):
    trace = written(tmp_path_factory.mktemp("trace"), records)
    events = [event for event in trace["traceEvents"] if event["ph"] != "M"]

    assert [e["ts"] for e in events] == sorted(e["ts"] for e in events)
    for event in events:
        assert isinstance(event["ts"], int)
        assert event["ts"] >= 0
        assert event.get("dur", 0) >= 0
        assert event["tid"] > 0  # thread 0 is special to Perfetto
    processes = defaultdict(set)
    for event in trace["traceEvents"]:
        processes[event["tid"]].add(event["pid"])
    assert all(len(of_row) == 1 for of_row in processes.values())  # Perfetto names rows by tid
    held = {event["tid"] for event in events if event["ph"] in "sf"}
    assert not held & {event["tid"] for event in events if event["ph"] == "i"}


@settings(max_examples=50)
@given(st.lists(st.tuples(*[st.floats(0.0, 3.0)] * 6), min_size=1, max_size=6))
def test_events_of_one_row_do_not_overlap(tmp_path_factory, times):
    """Perfetto drops events that overlap another of their row without lying inside it."""
    records = []
    for n, (start_0, start_1, *arrivals) in enumerate(times):
        starts = (10.0 * n + start_0, 10.0 * n + start_1)
        buckets = tuple(
            BucketRecord(k, 1, "ring", 2, (NAN, NAN), arrival, (10.0 * n + 8.0 + k,) * 2, False)
            for k, arrival in enumerate(
                tuple(10.0 * n + 3.0 + a for a in arrivals[2 * k : 2 * k + 2]) for k in range(2)
            )
        )
        records.append(Iteration(0, n, starts, NAN, 0, (10.0 * n + 9.0,) * 2, buckets))
    trace = written(tmp_path_factory.mktemp("trace"), records)

    rows = defaultdict(list)
    for event in of_phase(trace, "X"):
        rows[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans_of_row in rows.values():
        for (_, end), (start, _) in itertools.pairwise(spans_of_row):
            assert end <= start
    assert sum(e["name"].startswith("bucket") for e in of_phase(trace, "X")) == 4 * len(times)
