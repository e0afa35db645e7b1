"""`tune`: what it measures on all ranks, what it keeps, and the rules that follow."""

import math
import time

import pytest

import patallreduce as pat
from patallreduce.commands.tune import shown
from patallreduce.communicator.calls import by_rule
from patallreduce.decisions.machine import processor
from patallreduce.decisions.rules import FileRule, TuningFile, load
from patallreduce.decisions.times import Case, Method, Times, read_times
from patallreduce.tuning.measuring import COLLECTIVES, Measuring
from patallreduce.tuning.search import Search, Work
from patallreduce.tuning.session import Journal, cases_of, file_of, machine_of, tune
from tests.programs import run_module
from tests.threads import errors_on_threads, on_threads

SLOW = pat.Link(20e-6, 1e9)
HERE = {"transport": "loopback", "processors": [processor()]}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_method_that_is_searched_gives_right_results(communicators, collective):
    case = Case(collective, 3, 3, 4096, False)
    search = Search([case], SLOW)

    def measured(comm):
        return {m: Measuring(comm).seconds(case, m, 2) for m in search.prices_s[case]}

    results = on_threads(communicators(3), measured)
    assert len(results[0]) > 1
    assert results[0] == results[1] == results[2]  # of the last rank
    assert all(value > 0 for values in results[0].values() for value in values)


def test_to_find_how_a_message_is_cut_takes_no_measured_time(communicators, monkeypatch):
    def slow(*found_for, **of):
        time.sleep(1)
        return by_rule(*found_for, **of)

    monkeypatch.setattr("patallreduce.tuning.measuring.by_rule", slow)
    case = Case("all_reduce", 2, 2, 4096, False)
    [seconds, _] = on_threads(
        communicators(2), lambda comm: Measuring(comm).seconds(case, Method("ring"), 3)
    )
    assert min(seconds) < 0.5


def test_what_is_wrong_is_not_counted(communicators, monkeypatch):
    monkeypatch.setattr(Measuring, "_is_right", lambda self, *_: self._comm.rank != 1)
    case = Case("all_reduce", 2, 2, 4096, False)
    errors = errors_on_threads(
        communicators(2), lambda comm: Measuring(comm).seconds(case, Method("ring"), 1)
    )
    assert ["ring gave a wrong result" in str(error) for error in errors] == [True, True]


def test_what_was_measured_before_a_wrong_result_is_kept(communicators, monkeypatch, tmp_path):
    """Both are of one batch, after which rank 0 looks for what is next."""
    right = Measuring._is_right
    monkeypatch.setattr(
        Measuring,
        "_is_right",
        lambda self, case, tensor: case.message_bytes != 8192 and right(self, case, tensor),
    )
    works = [
        Work(Case("broadcast", 2, 2, size, False), Method("binomial_broadcast"), 3, 1e-3)
        for size in (4096, 8192)
    ]
    monkeypatch.setattr(Search, "following", lambda *_: works)

    def tuned(comm):
        journal = Journal(tmp_path / "times.jsonl", HERE) if comm.rank == 0 else None
        tune(comm, [work.case for work in works], 60, journal)

    errors = errors_on_threads(communicators(2), tuned)
    assert all("message_bytes=8192" in str(error) for error in errors)
    _, times = read_times(tmp_path / "times.jsonl")
    assert {case.message_bytes: values(times) for case in times.cases()} == {4096: 3}


def values(times):
    return sum(times.count(case, m) for case in times.cases() for m in times.means_s(case))


def test_all_ranks_tune_and_rank_0_keeps_it(communicators, tmp_path, monkeypatch):
    path = tmp_path / "times.jsonl"
    comms = communicators(3)
    machine = on_threads(comms, machine_of)[0]
    following = Search.following

    # A budget of measurements, not of seconds: what is measured does not hang on the machine.
    def tuned(measurements):
        left = iter(range(measurements))
        monkeypatch.setattr(
            Search,
            "following",
            lambda *asked: [] if next(left, None) is None else following(*asked)[:1],
        )
        on_threads(comms, of_rank)

    def of_rank(comm):
        journal = Journal(path, machine) if comm.rank == 0 else None
        tune(comm, cases_of(comm, ["all_reduce", "broadcast"], [4096, 65536]), math.inf, journal)

    tuned(12)
    _, times = read_times(path)
    assert {case.collective for case in times.cases()} == {"all_reduce", "broadcast"}
    assert {case.beside_others for case in times.cases()} == {False, True}
    lines = path.read_text().splitlines()
    assert len(lines) >= 6
    path.write_text("\n".join([*lines[:5], lines[5][:-9]]))  # as a job that was killed leaves it
    before = values(read_times(path)[1])
    tuned(3)  # goes on
    _, times = read_times(path)
    assert values(times) > before
    file = file_of(comms[0], [], read_times(path)[1], machine)
    assert all(file.rules_for(name, 3, 3) for name in ("all_reduce", "broadcast"))


def test_times_of_other_sizes_are_kept_and_gone_on_with(communicators, tmp_path):
    comms = communicators(2)
    machine = on_threads(comms, machine_of)[0]

    def tuned(comm, size):
        journal = Journal(tmp_path / "times.jsonl", machine) if comm.rank == 0 else None
        tune(comm, cases_of(comm, ["broadcast"], [size]), 0.3, journal)

    for size in (4096, 65536):
        on_threads(comms, tuned, size)
    _, times = read_times(tmp_path / "times.jsonl")
    assert [case.message_bytes for case in times.cases()] == [4096, 65536]


def test_what_the_budget_does_not_reach_goes_by_the_model(communicators, tmp_path):
    comms = communicators(2)
    cases = [Case("all_reduce", 2, 2, size, False) for size in (4096, 1 << 33)]
    cases.append(Case("all_reduce", 2, 2, 1 << 33, True))  # of which the model knows nothing

    def tuned(comm):
        journal = Journal(tmp_path / "times.jsonl", HERE) if comm.rank == 0 else None
        tune(comm, cases, 3.0, journal)

    on_threads(comms, tuned)
    file = file_of(comms[0], cases, read_times(tmp_path / "times.jsonl")[1], HERE)
    assert not any(rule.beside_others for rule in file.rules)
    assert any(rule.measured for rule in file.rules)
    assert not file.rules[-1].measured
    assert "not: by the model" in shown(file)


def test_what_a_call_takes_is_shown_and_why():
    times = Times()
    for size in (4096, 65536, 1 << 20):
        for method, seconds in ((Method("ring"), size * 1e-7), (Method("two_tree"), size * 2e-7)):
            times.add(Case("all_reduce", 2, 2, size, False), method, [seconds])
    everything = ("all_reduce", (2.0, 2.0), (2.0, 2.0), (0.0, math.inf), False)
    rules = (FileRule(*everything, Method("ring")), FileRule(*everything, Method("two_tree")))
    row = shown(TuningFile(HERE, rules), times, [5000]).splitlines()[-1]
    assert "5000B" in row
    assert "4KiB: 0.410 ms; two_tree 0.819" in row
    assert "64KiB: 6.554 ms; two_tree" in shown(TuningFile(HERE, rules), times)


def test_too_short_a_budget_and_times_of_another_machine(communicators, tmp_path):
    path = tmp_path / "times.jsonl"
    comms = communicators(2)

    def tuned(comm):
        journal = Journal(path, HERE) if comm.rank == 0 else None
        tune(comm, cases_of(comm, ["all_reduce"], [1 << 20]), 1e-9, journal)

    error, _ = errors_on_threads(comms, tuned)
    assert "budget: expected time for one measurement, got 1e-09 s" in str(error)
    with pytest.raises(ValueError, match="expected times of this machine, got processors"):
        Journal(path, {**HERE, "processors": ["another"]})


@pytest.mark.long
def test_the_command_tunes_a_job_and_shows_its_file(tmp_path, command):
    out = tmp_path / "tuning.json"
    ended = run_module(
        "torch.distributed.run",
        *("--standalone", "--nproc-per-node", "2", "-m", "patallreduce", "tune"),
        *("--budget", "3", "--out", str(out), "--bytes", "4KiB", "256KiB"),
        limit_s=120,
    )
    assert ended.returncode == 0, ended.stdout
    file = load(out)
    assert file.rules_for("all_reduce", 2, 2)
    assert "all_reduce of 4KiB: " in ended.stdout
    assert "gloo" in (tmp_path / "tuning.jsonl").read_text()
    times = tmp_path / "tuning.jsonl"
    status, told = command("tune", "--show", out, "--times", times)
    assert status == 0
    assert file.rules[0].method.algorithm in told


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "expected RANK, WORLD_SIZE"),
        (("--budget", "0"), "--budget: expected seconds > 0"),
        (("--show", "none.json"), "none.json"),
    ],
)
def test_what_cannot_be_tuned_is_said(command, arguments, text):
    """Before anything is measured."""
    status, said = command("tune", *arguments)
    assert status == 2
    assert text in said


def test_one_rank_has_nothing_to_tune(monkeypatch, command):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1"}.items():
        monkeypatch.setenv(name, value)
    status, said = command("tune")
    assert status == 2
    assert "expected 2 ranks or more, got 1" in said
