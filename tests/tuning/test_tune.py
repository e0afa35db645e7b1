"""`tune`: what it measures, in which order, what it keeps, and that jobs go by it."""

import math
import os

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat
from patallreduce.commands.tune import shown
from patallreduce.decisions.fit import fitted
from patallreduce.decisions.machine import processor
from patallreduce.decisions.rules import FileRule, TuningFile, load
from patallreduce.decisions.times import Case, Method, Times, read_times
from patallreduce.tuning.measuring import COLLECTIVES, Measuring
from patallreduce.tuning.search import Search
from patallreduce.tuning.session import Journal, cases_of, file_of, machine_of, tune
from tests.processes import RankFailure
from tests.programs import run_module
from tests.threads import errors_on_threads, on_threads

SLOW = pat.Link(20e-6, 1e9)
HERE = {"transport": "loopback", "processors": [processor()]}


@pytest.fixture
def communicators():
    """Make those of so many ranks, in this process; closed at the end."""
    made = []

    def make(ranks):
        made.extend(comms := pat.Communicator.loopback(ranks))
        return comms

    yield make
    for comm in made:
        comm.close()


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


def test_what_is_wrong_is_not_counted(communicators, monkeypatch):
    monkeypatch.setattr(Measuring, "_is_right", lambda self, *_: self._comm.rank != 1)
    case = Case("all_reduce", 2, 2, 4096, False)
    errors = errors_on_threads(
        communicators(2), lambda comm: Measuring(comm).seconds(case, Method("ring"), 1)
    )
    assert ["ring gave a wrong result" in str(error) for error in errors] == [True, True]


def case_of(size):
    return Case("all_reduce", 4, 4, size, False)


def told(search, times, seconds=math.inf):
    work = search.following(times, seconds)
    return work and (work.case.message_bytes, work.method)


def test_the_fastest_by_the_model_come_first_then_cuts_then_what_is_as_fast():
    sizes = (4096, 1 << 22)
    search = Search(map(case_of, sizes), SLOW)
    times = Times()
    firsts = []
    for _ in sizes:
        firsts.append(search.following(times, math.inf))
        times.add(firsts[-1].case, firsts[-1].method, [1e-3])
    assert {work.case.message_bytes for work in firsts} == set(sizes)
    for work in firsts:
        assert work.method == next(iter(search.prices_s[work.case]))
    # All others were measured, too, and are far slower.
    for case, prices_s in search.prices_s.items():
        for method in list(prices_s)[1:]:
            times.add(case, method, [1.0])
    size, cut = told(search, times)
    assert cut.segment_bytes > 0
    assert cut.algorithm == next(m for m in times.medians_s(case_of(size))).algorithm
    while (found := told(search, times))[1] not in times.medians_s(case_of(found[0])):
        times.add(case_of(found[0]), found[1], [1.001e-3])
    size, again = found  # now those again that are as fast
    assert times.medians_s(case_of(size))[again] <= 1.01e-3


def test_what_takes_longer_than_is_left_is_not_begun():
    search = Search(map(case_of, (4096, 1 << 28)), SLOW)
    assert told(search, Times(), 0.1)[0] == 4096
    assert told(search, Times(), 1e-9) is None


def values(times):
    return sum(times.count(case, m) for case in times.cases() for m in times.medians_s(case))


def test_all_ranks_tune_and_rank_0_keeps_it(communicators, tmp_path):
    path = tmp_path / "times.jsonl"
    comms = communicators(3)
    machine = on_threads(comms, machine_of)[0]

    def tuned(comm, budget_s):
        journal = Journal(path, machine) if comm.rank == 0 else None
        tune(comm, cases_of(comm, ["all_reduce", "broadcast"], [4096, 65536]), budget_s, journal)

    on_threads(comms, tuned, 3.0)
    _, times = read_times(path)
    assert {case.collective for case in times.cases()} == {"all_reduce", "broadcast"}
    assert {case.beside_others for case in times.cases()} == {False, True}
    lines = path.read_text().splitlines()
    assert len(lines) >= 6
    path.write_text("\n".join([*lines[:5], lines[5][:-9]]))  # as a job that was killed leaves it
    before = values(read_times(path)[1])
    on_threads(comms, tuned, 1.0)  # goes on
    _, times = read_times(path)
    assert values(times) > before
    file = fitted(read_times(path)[1], machine)
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
        tune(comm, cases, 1.0, journal)

    on_threads(comms, tuned)
    file = file_of(comms[0], cases, read_times(tmp_path / "times.jsonl")[1], HERE)
    assert [(rule.measured, rule.beside_others) for rule in file.rules] == [
        (True, False), (False, False),
    ]  # fmt: skip
    assert "not: by the model" in shown(file)


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


def saved(tmp_path, monkeypatch, *rules, machine=HERE):
    path = tmp_path / "tuning.json"
    TuningFile(machine, rules).save(path)
    monkeypatch.setenv("PATALLREDUCE_TUNING_FILE", str(path))
    return path


def rule(collective, algorithm, segment_bytes=0, sizes=(0, math.inf), beside=False):
    everywhere = (1, math.inf)
    method = Method(algorithm, segment_bytes)
    return FileRule(collective, everywhere, everywhere, sizes, beside, method)


def ran(comm, call):
    tensor = torch.ones(1 << 14) * (comm.rank + 1)
    call(comm, tensor)
    return comm.stats()[-1]["call"]


CALLS = {
    "all_reduce": lambda comm, tensor: comm.all_reduce(tensor),
    "reduce": lambda comm, tensor: comm.reduce(tensor, 0),
    "broadcast": lambda comm, tensor: comm.broadcast(tensor, 0),
    "all_gather": lambda comm, tensor: comm.all_gather(tensor),
    "reduce_scatter": lambda comm, tensor: comm.reduce_scatter(tensor),
}


@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [
        ("all_reduce", "two_tree"),
        ("reduce", "chain_reduce"),
        ("broadcast", "chain_broadcast"),
        ("all_gather", "bruck_all_gather"),
        ("reduce_scatter", "recursive_halving_reduce_scatter"),
    ],
)
def test_calls_go_by_the_file(tmp_path, monkeypatch, communicators, collective, algorithm):
    saved(tmp_path, monkeypatch, rule(collective, algorithm))
    comms = communicators(4)
    assert all(algorithm in call for call in on_threads(comms, ran, CALLS[collective]))
    # What is asked for, and the environment, come before.
    named = pat.algorithms(collective)
    other = next(name for name in named if name not in (algorithm, "slt_dynamic", "prr"))
    asked = {
        "all_reduce": lambda comm, tensor: comm.all_reduce(tensor, algorithm=other),
        "reduce": lambda comm, tensor: comm.reduce(tensor, 0, algorithm=other),
        "broadcast": lambda comm, tensor: comm.broadcast(tensor, 0, other),
        "all_gather": lambda comm, tensor: comm.all_gather(tensor, other),
        "reduce_scatter": lambda comm, tensor: comm.reduce_scatter(tensor, algorithm=other),
    }[collective]
    assert all(other in call for call in on_threads(comms, ran, asked))


def test_the_file_says_how_finely_to_cut(tmp_path, monkeypatch, communicators):
    saved(tmp_path, monkeypatch, rule("all_reduce", "ring", segment_bytes=4096))
    calls = on_threads(communicators(4), ran, CALLS["all_reduce"])
    assert all("16 segments" in call for call in calls)
    assert all(
        "8 segments" in call
        for call in on_threads(
            communicators(4), ran, lambda comm, tensor: comm.all_reduce(tensor, segments=8)
        )
    )


def test_the_environment_comes_before_the_file(tmp_path, monkeypatch, communicators):
    saved(tmp_path, monkeypatch, rule("all_reduce", "two_tree"))
    monkeypatch.setenv("PATALLREDUCE_ALGORITHM", "rabenseifner")
    calls = on_threads(communicators(4), ran, CALLS["all_reduce"])
    assert all("rabenseifner" in call for call in calls)


def test_arrivals_that_are_known_come_before_the_file(tmp_path, monkeypatch, communicators):
    saved(tmp_path, monkeypatch, rule("all_reduce", "two_tree"))
    calls = on_threads(
        communicators(4),
        ran,
        lambda comm, tensor: comm.all_reduce(tensor, arrivals_s=[0, 0, 0, 1.0]),
    )
    assert not any("two_tree" in call for call in calls)


@pytest.mark.parametrize(
    ("machine", "text"),
    [
        ({**HERE, "processors": ["another"]}, "expected a processor of another"),
        ({**HERE, "transport": "ucx"}, "expected transport ucx, got loopback"),
        ({**HERE, "link": {"latency_s": 1e-5, "bytes_per_s": 1e6}}, "a link of about 1 MB/s"),
    ],
)
def test_a_file_of_another_machine_is_left_aside(tmp_path, monkeypatch, machine, text):
    saved(tmp_path, monkeypatch, rule("all_reduce", "two_tree"), machine=machine)
    with pytest.warns(RuntimeWarning, match=text):
        comms = pat.Communicator.loopback(2)
    assert not any("two_tree" in call for call in on_threads(comms, ran, CALLS["all_reduce"]))
    for comm in comms:
        comm.close()


def test_a_file_that_makes_no_sense_is_an_error(tmp_path, monkeypatch):
    path = saved(tmp_path, monkeypatch, rule("all_reduce", "two_tree"))
    path.write_text(path.read_text().replace("two_tree", "three_tree"))
    with pytest.raises(ValueError, match="line .*did you mean 'two_tree'"):
        pat.Communicator.loopback(2)
    monkeypatch.setenv("PATALLREDUCE_TUNING_FILE", str(tmp_path / "none.json"))
    with pytest.raises(OSError, match="none.json"):
        pat.Communicator.loopback(2)


def test_a_rule_that_never_matches_is_told(tmp_path, monkeypatch):
    saved(tmp_path, monkeypatch, rule("all_reduce", "ring"), rule("all_reduce", "slt"))
    with pytest.warns(RuntimeWarning, match="never matches"):
        pat.Communicator.loopback(1)[0].close()


def create_with_own_file(folder):
    rank = dist.get_rank()
    path = f"{folder}/{rank}.json"
    everywhere, method = (1, math.inf), Method("two_tree" if rank else "ring")
    rules = (FileRule("all_reduce", everywhere, everywhere, (0, math.inf), False, method),)
    TuningFile({"transport": "ucx", "processors": [processor()]}, rules).save(path)
    os.environ["PATALLREDUCE_TUNING_FILE"] = path
    try:
        pat.Communicator(timeout_s=20).close()
    finally:
        del os.environ["PATALLREDUCE_TUNING_FILE"]


def test_ranks_with_different_files_do_not_start(processes, tmp_path):
    outcomes = processes.outcomes(2, create_with_own_file, str(tmp_path))
    for outcome in outcomes:
        assert isinstance(outcome, RankFailure)
        assert "rules by PATALLREDUCE_TUNING_FILE: expected the same on all ranks" in str(
            outcome.error
        )


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
