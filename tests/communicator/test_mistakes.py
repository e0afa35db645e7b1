"""Every row of the table of mistakes: the class, the words, on which ranks, and how fast."""

import functools
import math
import os
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import patallreduce as pat
from patallreduce._core import CudaError
from tests.communicator.mistakes import BETWEEN, LOCAL, MEETING, TAKEN, Mistake
from tests.threads import on_threads

DEADLINE_S = 20
LINK = pat.Link(20e-6, 1e6)  # so slow that 9000 elements are planned


def evaluated(written, rank, **names):
    names |= {"pat": pat, "torch": torch, "dist": dist, "timedelta": timedelta, "rank": rank}
    return eval(written, {"x": torch.ones(5), "nan": math.nan, "inf": math.inf, **names})


def ids(rows):
    return [f"{row.written} {row.environment or ''}" for row in rows]


class Told(NamedTuple):
    """An error, of which not every class can be pickled."""

    classes: list[str]
    text: str
    seconds: float


def told(call):
    start_s = time.monotonic()
    try:
        call()
    except Exception as error:
        classes = [kind.__name__ for kind in type(error).__mro__]
        return Told(classes, str(error), time.monotonic() - start_s)
    return None


def check(row, answer):
    assert answer is not None, f"{row.written} is accepted"
    assert row.error.__name__ in answer.classes, answer
    assert re.search(row.words, answer.text), answer
    assert answer.seconds < row.within_s < DEADLINE_S


def check_alike(row, answers):
    """Errors between ranks are the same on all of them."""
    assert len({answer.text for answer in answers}) == 1 or not issubclass(
        row.error, pat.TransportError
    )


@pytest.fixture(name="pair", scope="module")
def pair_fixture():
    communicators = pat.Communicator.loopback(2, timeout_s=DEADLINE_S)
    yield communicators
    on_threads(communicators, pat.Communicator.close)


def assert_works(communicators):
    tensors = [torch.ones(5) for _ in communicators]
    on_threads(communicators, lambda c: c.all_reduce(tensors[c.rank]))
    assert all(tensor.eq(len(communicators)).all() for tensor in tensors)


@pytest.mark.parametrize("row", LOCAL, ids=ids(LOCAL))
@pytest.mark.filterwarnings("ignore:.*(beta|prototype)")  # torch's, of odd tensors
def test_a_mistake_of_one_rank_is_told_at_once_and_breaks_nothing(pair, row):
    answer = told(lambda: evaluated(row.written, 1, comm=pair[1]))
    check(row, answer)
    assert "on rank 1" in answer.text
    assert_works(pair)


@pytest.mark.parametrize("written", TAKEN)
def test_what_is_no_mistake(pair, written):
    assert on_threads(pair, lambda c: bool(evaluated(written, c.rank, comm=c))) == [True, True]


@pytest.mark.parametrize("row", BETWEEN, ids=ids(BETWEEN))
def test_what_ranks_write_differently_is_told_to_both(row):
    communicators = pat.Communicator.loopback(2, timeout_s=DEADLINE_S, link=LINK)
    answers = on_threads(
        communicators, lambda c: told(lambda: evaluated(row.written, c.rank, comm=c))
    )
    for answer in answers:
        check(row, answer)
    check_alike(row, answers)
    on_threads(communicators, pat.Communicator.close)


def model():
    return DistributedDataParallel(torch.nn.Linear(4, 4))


def register(*args, **arguments):
    """As `patallreduce.register`, but the link need not be measured."""
    return pat.register(*args, link=LINK, **arguments)


def train(**arguments):
    ddp_model = model()
    register(ddp_model, algorithm="ring", **arguments)
    ddp_model(torch.ones(4)).sum().backward()


def other_release():
    release = f"0.{dist.get_rank()}"
    with mock.patch("patallreduce.communicator.settings.version", lambda _: release):
        pat.Communicator(timeout_s=DEADLINE_S)


def other_size(folder):
    """A group that its ranks made of different sizes; torch would find out later."""
    rank = dist.get_rank()
    dist.destroy_process_group()
    store = dist.FileStore(str(Path(folder) / "store"), 2)
    dist.init_process_group("fake", store=store, rank=rank, world_size=2 + rank)
    pat.Communicator(timeout_s=DEADLINE_S)


def meet(part, folder):
    """What this rank is told of each row; a communicator works after those where ranks differ."""
    rank = dist.get_rank()
    names = {"model": model, "register": register, "train": train, "other_release": other_release}
    names["other_size"] = lambda: other_size(folder)
    if part == "registering":
        model()  # the first one takes seconds
    answers = []
    for row in MEETING[part]:
        variables = {"TIMEOUT_S": str(DEADLINE_S), **(row.environment if rank in row.where else {})}
        variables = {f"PATALLREDUCE_{name}": value for name, value in variables.items()}
        dist.barrier()
        with mock.patch.dict(os.environ, variables):
            answers.append(told(functools.partial(evaluated, row.written, rank, **names)))
        if row.error is pat.MismatchError and row.written != "other_size()":  # the last one
            dist.barrier()
            with pat.Communicator(timeout_s=DEADLINE_S, link=LINK) as communicator:
                communicator.barrier()
    return answers


@pytest.mark.parametrize("part", MEETING)
def test_processes_are_told_before_their_deadline(processes, part, tmp_path):
    of_ranks = processes.run(2, meet, part, str(tmp_path))
    for row, *answers in zip(MEETING[part], *of_ranks, strict=True):
        if row.error is CudaError and torch.cuda.is_available():
            continue  # no mistake here
        its = [answers[rank] for rank in row.ranks]
        for answer in its:
            check(row, answer)
        check_alike(row, its)


def errs_alone(culprit, written):
    """One rank errs, the others hear why; all meet afterwards."""
    rank = dist.get_rank()
    names = {"model": model, "register": register, "alone": rank == culprit}
    model()  # the first one takes seconds
    dist.barrier()
    answer = told(functools.partial(evaluated, written, rank, **names))
    dist.barrier()
    with pat.Communicator(timeout_s=DEADLINE_S, link=LINK) as communicator:
        communicator.barrier()
    return answer


@pytest.mark.parametrize("culprit", [0, 2])
@pytest.mark.parametrize(
    ("written", "words"),
    [
        (
            f"pat.Communicator(timeout_s='30' if alone else {DEADLINE_S})",
            "TypeError: timeout_s: .*got '30'",
        ),
        (
            f"register(model(), segments='4' if alone else 4, timeout_s={DEADLINE_S})",
            "TypeError: segments: .*got '4'",
        ),
    ],
)
def test_a_mistake_of_one_rank_is_told_to_those_who_wait(processes, culprit, written, words):
    answers = processes.run(3, errs_alone, culprit, written)
    its = Mistake(written, TypeError, words.removeprefix("TypeError: "))
    check(its, answers.pop(culprit))
    theirs = Mistake(written, pat.TransportError, f"rank {culprit} made no communicator: {words}")
    for answer in answers:
        check(theirs, answer)


def corrects_itself():
    """A mistake that is corrected at once is nobody's business."""
    if dist.get_rank() == 1:
        with pytest.raises(TypeError):
            pat.Communicator(timeout_s="30")
        time.sleep(0.2)  # the other one waits meanwhile
    with pat.Communicator(timeout_s=DEADLINE_S, link=LINK) as communicator:
        communicator.barrier()


def test_a_mistake_that_is_corrected_at_once_is_forgotten(processes):
    processes.run(2, corrects_itself)
