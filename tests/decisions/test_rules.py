"""Tuning files: from times to rules, what of them counts, and files that make no sense."""

import json
import math
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import patallreduce as pat
from patallreduce.decisions.fit import fitted
from patallreduce.decisions.rules import FileRule, TuningFile, load
from patallreduce.decisions.times import Case, Method, Times, header_of, line_of, read_times

LINK = pat.Link(50e-6, 25e6, 5e9)
MACHINE = {"transport": "loopback", "processors": ["any"]}


def case(size, ranks=8, collective="all_reduce", beside_others=False):
    return Case(collective, ranks, ranks, size, beside_others)


def times_of(**seconds_by_size):
    """_1024={"ring": 1.0}: seconds of each method."""
    times = Times()
    for size, methods in seconds_by_size.items():
        for name, seconds in methods.items():
            times.add(case(int(size[1:])), Method(name), [seconds])
    return times


def chosen(file, size, ranks=8, **where):
    return file.rules_for("all_reduce", ranks, ranks, **where).choose(ranks, size // 4, 4, LINK)


def alike(case):
    """A model to which all are the same."""
    del case
    return dict.fromkeys(map(Method, ("ring", "recursive_doubling", "rabenseifner")), 1.0)


def test_every_size_gets_what_was_fastest_there():
    file = fitted(
        times_of(
            _1024={"ring": 3.0, "recursive_doubling": 1.0, "rabenseifner": 4.0},
            _65536={"ring": 2.0, "recursive_doubling": 3.0, "rabenseifner": 4.0},
            _4194304={"ring": 5.0, "recursive_doubling": 8.0, "rabenseifner": 4.0},
        ),
        MACHINE,
        alike,
    )
    # Where both lines cross, from 3 times as long to 1.5 times; two sizes to an octave.
    share = math.log(3) / (math.log(3) + math.log(1.5))
    border, last = (rule.message_bytes[1] for rule in file.rules[:2])
    assert border == pytest.approx(1024 ** (1 - share) * 65536**share, rel=0.5)
    assert 131072 < last < 4194304
    assert [rule.message_bytes for rule in file.rules] == [
        (0, border), (border + 1, last), (last + 1, math.inf),
    ]  # fmt: skip
    assert [chosen(file, size)[0] for size in (4, border, border + 4, 1 << 22, 1 << 34)] == [
        "recursive_doubling", "recursive_doubling", "ring", "rabenseifner", "rabenseifner",
    ]  # fmt: skip
    assert chosen(file, 1024, ranks=4) is None
    assert chosen(file, 1024, beside_others=True) is None


def test_between_two_sizes_the_model_tells_what_is_fastest():
    """Chains are the fastest at neither end; the model knows where between them."""
    times = times_of(
        _4096={"ring": 4.0, "recursive_doubling": 1.0, "rabenseifner": 2.0},
        _65536={"ring": 4.0, "recursive_doubling": 16.0, "rabenseifner": 4.5},
    )

    def prices(of):  # as measured at the ends; of one dips in the middle
        size = of.message_bytes
        return {
            Method("ring"): 4.0,
            Method("recursive_doubling"): size / 4096,
            Method("rabenseifner"): 2.0 if size < 40000 else 4.5,
        }

    file = fitted(times, MACHINE, prices)
    assert [rule.method.algorithm for rule in file.rules] == [
        "recursive_doubling", "rabenseifner", "ring",
    ]  # fmt: skip
    assert chosen(file, 24576)[0] == "rabenseifner"


def test_sizes_that_were_not_measured_go_by_the_model():
    times = times_of(_1024={"ring": 3.0, "recursive_doubling": 1.0})
    prices = {
        case(1024): {Method("ring"): 1.0, Method("recursive_doubling"): 2.0},
        case(4194304): {Method("ring"): 2.0, Method("rabenseifner"): 1.0},
    }
    file = fitted(times, MACHINE, prices.__getitem__, prices)
    assert [(rule.method.algorithm, rule.measured) for rule in file.rules] == [
        ("recursive_doubling", True), ("rabenseifner", False),
    ]  # fmt: skip
    assert [json.loads(line)["source"] for line in rule_lines(file)] == ["measured", "model"]


def rule_lines(file):
    return [line.rstrip(",") for line in file.text().splitlines() if line.startswith('  {"coll')]


def test_what_is_as_fast_stays_as_it_is():
    file = fitted(
        times_of(
            _1024={"ring": 1.0, "rabenseifner": 2.0},
            _65536={"ring": 1.02, "rabenseifner": 1.0},
            _4194304={"ring": 1.1, "rabenseifner": 1.0},
        ),
        MACHINE,
        alike,
    )
    assert [rule.method.algorithm for rule in file.rules] == ["ring", "rabenseifner"]


@pytest.mark.parametrize(("cut_s", "segment_bytes"), [(0.97, 0), (0.8, 4096)])
def test_a_cut_has_to_win_more_than_a_tie(cut_s, segment_bytes):
    times = Times()
    for _ in range(200):
        times.add(case(65536), Method("ring", 4096), [cut_s])
        times.add(case(65536), Method("ring"), [1.0])
    [rule] = fitted(times, MACHINE, alike).rules
    assert rule.method == Method("ring", segment_bytes)


def test_torch_s_own_is_no_choice():
    file = fitted(
        times_of(_1024={"gloo": 1.0, "ring": 2.0}), MACHINE, lambda _: {Method("ring"): 1.0}
    )
    assert [rule.method for rule in file.rules] == [Method("ring")]


def test_a_segment_s_bytes_become_a_number_of_segments():
    file = TuningFile(MACHINE, (rule("ring", segment_bytes=32 << 10),))
    assert chosen(file, 1 << 20) == ("ring", 32)
    assert chosen(file, (1 << 20) - 4) == ("ring", 32)  # a multiple of the parts
    assert chosen(file, 4) == ("ring", 1)
    assert chosen(file, 0) is None


def rule(algorithm, sizes=(0, math.inf), ranks=(1, math.inf), segment_bytes=0, beside=False):
    method = Method(algorithm, segment_bytes)
    return FileRule("all_reduce", ranks, (1, math.inf), sizes, beside, method)


def test_the_first_rule_that_matches_counts_and_gaps_have_none():
    file = TuningFile(
        MACHINE,
        (
            rule("slt", (1000, 1999)),
            rule("ring", (0, 3999), ranks=(8, 8)),
            rule("rabenseifner", (8000, math.inf)),
        ),
    )
    told = {size: chosen(file, size) for size in (996, 1000, 1996, 2000, 3996, 4000, 7996, 8000)}
    assert [found and found[0] for found in told.values()] == [
        "ring", "slt", "slt", "ring", "ring", None, None, "rabenseifner",
    ]  # fmt: skip
    assert chosen(file, 996, ranks=4) is None


SOME = [rule("ring"), rule("slt"), rule("rabenseifner", segment_bytes=4096)]


@given(
    st.lists(
        st.tuples(st.sampled_from(SOME), st.integers(0, 60), st.integers(0, 60) | st.none()),
        max_size=6,
    ),
    st.integers(0, 70),
)
def test_rules_by_size_are_the_file_read_from_its_top(told, size):
    rules = [
        rule(one.method.algorithm, (min(a, b), max(a, b)), segment_bytes=one.method.segment_bytes)
        if (b := last) is not None
        else rule(one.method.algorithm, (a, math.inf), segment_bytes=one.method.segment_bytes)
        for one, a, last in told
    ]
    file = TuningFile(MACHINE, tuple(rules))
    first = next((r for r in rules if r.message_bytes[0] <= size <= r.message_bytes[1]), None)
    found = file.rules_for("all_reduce", 8, 8).choose(8, size, 1, LINK)
    expected = first.method.algorithm if first is not None and size > 0 else None
    assert (found and found[0]) == expected
    for never in file.never_matching():
        above = rules[: next(n for n, one in enumerate(rules) if one is never)]
        assert all(
            any(r.message_bytes[0] <= s <= r.message_bytes[1] for r in above)
            for s in range(int(never.message_bytes[0]), 62)
            if s <= never.message_bytes[1]
        )


def test_a_file_comes_back(tmp_path):
    file = TuningFile(
        MACHINE,
        (rule("slt", (0, 4095), ranks=(2, 8), segment_bytes=512), rule("ring", beside=True)),
    )
    file.save(tmp_path / "tuning.json")
    again = load(tmp_path / "tuning.json")
    assert again == file
    assert again.digest() == file.digest()
    assert [r.line for r in again.rules] == [12, 13]
    json.loads((tmp_path / "tuning.json").read_text())


def schema():
    path = files("patallreduce.decisions") / "tuning.schema.json"
    return Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def test_the_schema_takes_what_is_written():
    Draft202012Validator.check_schema(schema().schema)
    for ranks in ((2, 8), (1, math.inf)):
        text = TuningFile(MACHINE, (rule("slt", (0, 4095), ranks=ranks), rule("ring"))).text()
        schema().validate(json.loads(text))


@pytest.mark.parametrize(
    ("name", "value"),
    [("ranks", [1]), ("bytes", ["inf", 1]), ("bytes", [0, -1]), ("in_flight", "two"), ("more", 1)],
)
def test_what_the_schema_refuses_is_refused(tmp_path, name, value):
    entry = json.loads(TuningFile(MACHINE, (rule("ring"),)).text())
    entry["rules"][0][name] = value
    assert not schema().is_valid(entry)
    (tmp_path / "tuning.json").write_text(json.dumps(entry))
    with pytest.raises(ValueError, match=r"tuning.json, line 1: "):
        load(tmp_path / "tuning.json")


def edited(tmp_path, edit):
    TuningFile(MACHINE, (rule("slt", (0, 4095)), rule("ring"))).save(tmp_path / "tuning.json")
    text = edit((tmp_path / "tuning.json").read_text())
    (tmp_path / "tuning.json").write_text(text)
    return tmp_path / "tuning.json"


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (lambda text: text[:-40], r"line \d+: expected JSON of a whole tuning file"),
        (lambda text: "[]", 'expected a tuning file, with "patallreduce": "tuning"'),
        (lambda text: text.replace('"version": 1', '"version": 2'), "expected version 1, got 2"),
        (lambda text: text.replace("slt", "stl"), r"line 12: algorithm: .* did you mean 'slt'"),
        (lambda text: text.replace("slt", "slt_dynamic"), "line 12: .*known beforehand"),
        (lambda text: text.replace("all_reduce", "reduce_all"), "line 12: collective: expected"),
        (lambda text: text.replace("[0, 4095]", "[4095, 0]"), "line 12: bytes: expected"),
        (lambda text: text.replace("[0, 4095]", "4095"), "line 12: bytes: expected"),
        (lambda text: text.replace('"one"', '"two"', 1), "line 12: in_flight: expected"),
        (lambda text: text.replace('"segment_bytes": 0', '"segment_bytes": 0.5'), "segment_bytes"),
        (lambda text: text.replace('"segment_bytes"', '"segments"', 1), "line 12: rule: expected"),
        (lambda text: text.replace('"machine"', '"host"'), "machine: expected an object"),
        (lambda text: text.replace('"rules"', '"rulez"'), "rules: expected a list"),
    ],
)
def test_files_that_make_no_sense(tmp_path, edit, text):
    path = edited(tmp_path, edit)
    with pytest.raises(ValueError, match=text) as told:
        load(path)
    assert str(path) in str(told.value)


def test_a_rule_below_one_that_takes_all_never_matches(tmp_path):
    path = edited(tmp_path, lambda text: text.replace("[0, 4095]", '[0, "inf"]'))
    assert [r.line for r in load(path).never_matching()] == [13]


def test_times_come_back_and_a_line_that_was_cut_off_is_left_out(tmp_path):
    path = tmp_path / "times.jsonl"
    lines = [header_of(MACHINE), line_of(case(1024), Method("ring", 256), [1.0, 2.0, 4.0])]
    path.write_text("\n".join([*lines, lines[1][:30]]))
    machine, times = read_times(path)
    assert machine == MACHINE
    assert list(times.lines()) == lines[1:]
    assert times.means_s(case(1024)) == {Method("ring", 256): 2.0}


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], "an empty one"),
        (['{"a": 1}', "{}"], "line 1: .*a file that `tune` wrote"),
        ([header_of(MACHINE), "{}", "{}"], "line 2: .*no 'collective'"),
        ([header_of(MACHINE), line_of(case(4), Method("ring"), [0.0])], "line 2: .*numbers > 0"),
    ],
)
def test_times_that_make_no_sense(tmp_path, lines, text):
    (tmp_path / "times.jsonl").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=text):
        read_times(tmp_path / "times.jsonl")
