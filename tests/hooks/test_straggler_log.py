"""The log of rank 0: every finding once, again after an end, and never at the job's cost."""

import itertools
import threading
import time
import weakref

import pytest

from patallreduce.hooks import straggler_log
from patallreduce.records.stragglers import straggler_report
from tests.records import jobs

LATE = 2


def findings(**longer_s):
    made = jobs.iterations(4, late_rank=LATE, longer_s=longer_s)
    return straggler_report(list(itertools.islice(made, 40))).findings


def warnings(caplog):
    """What was logged since the last call."""
    messages = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return messages


def test_a_finding_is_told_once(caplog):
    told = straggler_log.tell(findings(forward=0.02), straggler_log.Told())
    (sentence,) = warnings(caplog)
    assert sentence.startswith(f"patallreduce: rank {LATE} is late by ")
    assert "its forward pass takes" in sentence

    told = straggler_log.tell(findings(forward=0.03), told)
    assert warnings(caplog) == []

    told = straggler_log.tell(findings(forward=0.02, input=0.02), told)
    (sentence,) = warnings(caplog)
    assert "from its last sum to its next forward pass" in sentence


def test_it_is_told_again_when_the_rank_was_on_time_in_between(caplog):
    told = straggler_log.tell(findings(forward=0.02), straggler_log.Told())
    told = straggler_log.tell((), told)
    straggler_log.tell(findings(forward=0.02), told)
    assert len(warnings(caplog)) == 2


class Job:
    """A communicator as far as the log asks it."""

    def __init__(self):
        self.usable = True
        self.looks = []  # when, and at how many iterations
        self.looked = threading.Event()

    def iterations(self, loop, newest):
        self.looks.append((time.monotonic(), newest))
        self.looked.set()
        made = jobs.iterations(4, late_rank=LATE, longer_s={"forward": 0.02})
        return list(itertools.islice(made, newest))


def end_of(ended, watching):
    """Wait until nobody watches."""
    ended.set()
    watching.join(10)
    return not watching.is_alive()


def started(job, every_s):
    before = set(threading.enumerate())
    ended = straggler_log.watch(job, 1, every_s)
    (watching,) = set(threading.enumerate()) - before
    return ended, watching


def test_it_takes_a_thousandth_of_a_core_at_most():
    job = Job()
    ended, watching = started(job, 0.01)
    assert job.looked.wait(10)
    began_s = time.monotonic()
    time.sleep(1)  # a look takes ten milliseconds or more, so the next is ten seconds off
    assert [newest for at_s, newest in job.looks if at_s < began_s + 1] == [128]
    assert end_of(ended, watching)


@pytest.mark.parametrize("how", ["closed", "collected"])
def test_it_ends_with_the_communicator(how, monkeypatch):
    monkeypatch.setattr(straggler_log, "_SHARE", 1e9)
    job = Job()
    looked, collected = job.looked, weakref.ref(job)
    _, watching = started(job, 0.01)
    assert looked.wait(10)
    if how == "closed":
        job.usable = False
    else:
        del job
    watching.join(10)
    assert not watching.is_alive()
    assert how == "closed" or collected() is None
