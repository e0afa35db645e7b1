"""Ranks that end in some way: `endings.py FOLDER NAME ...` forks them and prints what each met.

One process imports torch once for all endings; its forks are ranks that exit as any program does.
Rank 1 is the one that ends; one JSON line per ending: how long it took, and of each rank what it
raised, whom that named, its exit status.
"""

import gc
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

import patallreduce as pat

RANKS = 3
ENDING = 1  # this rank


def communicator():
    # With a link given no collective is spent on measuring it: the counts told are the caller's.
    return pat.Communicator(timeout_s=20, link=pat.Link(20e-6, 1e9))


def tensor(count=1000):
    return torch.ones(count)


def sums_until_an_error(comm):
    while True:
        summed = tensor(1_000_000)
        comm.all_reduce(summed)
        assert (summed == RANKS).all()


def killed(rank):
    with communicator() as comm:
        comm.all_reduce(tensor())
        if rank == ENDING:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
        sums_until_an_error(comm)


def interrupted(rank):
    """Rank 2 has not called when rank 1 is interrupted in its call."""
    comm = communicator()
    comm.all_reduce(tensor())
    if rank == ENDING:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    if rank == 2:
        time.sleep(1)
    comm.all_reduce(tensor())


def raised(rank):
    with communicator() as comm:
        comm.all_reduce(tensor())
        if rank == ENDING:
            raise ZeroDivisionError("of its own")
        comm.all_reduce(tensor())


def left(rank):
    with communicator() as comm:
        comm.all_reduce(tensor())
        if rank != ENDING:
            comm.all_reduce(tensor())


def left_one_by_one(rank):
    with communicator() as comm:
        comm.all_reduce(tensor(1_000_000))
        time.sleep(0.3 * rank)


def left_pending(rank):
    """Closing waits for what was started, also what no thread has taken up yet."""
    with communicator() as comm:
        tensors = [tensor(10_000) for _ in range(20)]
        works = [comm.all_reduce(t, async_op=True) for t in tensors]
    for work, summed in zip(works, tensors, strict=True):
        assert work.get_future().wait() is summed
        assert (summed == RANKS).all()


def left_owing(rank):
    """Rank 2 is stopped, for longer than closing usually takes, before it is sent the result."""
    processes = [0] * RANKS
    dist.all_gather_object(processes, os.getpid())
    with communicator() as comm:
        summed = tensor(1_000_000)
        if rank == ENDING:
            time.sleep(0.5)
            os.kill(processes[2], signal.SIGSTOP)
            threading.Timer(7, os.kill, (processes[2], signal.SIGCONT)).start()
        comm.all_reduce(summed, algorithm="slt", arrivals_s=[0.0, 10.0, 1.0])
        assert (summed == RANKS).all()


def unclosed(rank):
    global kept  # noqa: PLW0603 (alive until the interpreter ends)
    kept = communicator()
    kept.all_reduce(tensor(), async_op=True).wait()


def failed_unclosed(rank):
    """Nobody closes after the error."""
    global kept  # noqa: PLW0603
    kept = communicator()
    kept.all_reduce(tensor())
    if rank == ENDING:
        os._exit(3)
    sums_until_an_error(kept)


def be(name, rank, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS
    )
    met = {}
    try:
        globals()[name](rank)
    except BaseException as error:
        met = {
            "raised": type(error).__name__,
            "named": getattr(error, "rank", None),
            "text": str(error),
        }
    (folder / f"{rank}.json").write_text(json.dumps(met))


def end(name, folder):
    """Fork the ranks; what each met, or None in a fork, which has to exit as it would anyway."""
    folder.mkdir()
    processes = []
    for rank in range(RANKS):
        process = os.fork()
        if process == 0:
            be(name, rank, folder)
            return None
        processes.append(process)
    ranks = []
    for rank, process in enumerate(processes):
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        report = folder / f"{rank}.json"
        met = json.loads(report.read_text()) if report.exists() else {}
        ranks.append({"rank": rank, "status": status, **met})
    return ranks


def main():
    gc.freeze()  # looking through all that is imported takes a rank longer than its ending
    for name in sys.argv[2:]:
        started_s = time.monotonic()
        if (ranks := end(name, Path(sys.argv[1]) / name)) is None:
            return
        line = {"name": name, "took_s": time.monotonic() - started_s, "ranks": ranks}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
