"""One round: rank processes, what is done to one of them, and what the others do."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

RANKS = 4
TIMEOUT_S = 3.0  # of every all-reduce
KILL_LIMIT_S = 2.0
LATE_LIMIT_S = 1.0  # an error may come this long after the deadline: the machine is busy
HANG_S = 20.0
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
TRANSPORTS = {"shm": {}, "tcp": {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}}
_RANK = Path(__file__).with_name("rank.py")
PHASES = ["before", "during", "after"]


@dataclasses.dataclass(frozen=True)
class Case:
    """What is done to whom."""

    signal: str
    transport: str
    phase: str
    victim: int


@dataclasses.dataclass
class Outcome:
    """What the survivors did; `detect_s` is -1 where nobody raised."""

    case: Case
    # To the last error; kill: from the signal or the call, stop: from the call.
    detect_s: float = -1.0
    hung: bool = False
    problems: list[str] = dataclasses.field(default_factory=list)


class RankProcess:
    """One rank, and the events it has told so far."""

    def __init__(self, options: dict[str, Any], environment: dict[str, str]) -> None:
        self.rank: int = options["rank"]
        self.events: dict[str, dict[str, Any]] = {}
        self.noise: list[str] = []  # lines that are no events: a library's warnings
        self._partial = b""
        # -S: no site-packages, which take longer to find than the rank to run.
        self.process = subprocess.Popen(
            [sys.executable, "-S", _RANK, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout.fileno()

    def go(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def read(self) -> bool:
        """Take what it said; False at its end."""
        said = os.read(self.output, 65536)
        *lines, self._partial = (self._partial + said).split(b"\n")
        for line in lines:
            try:
                event = json.loads(line)
                self.events[event["event"]] = event
            except (ValueError, TypeError, KeyError):
                self.noise.append(line.decode(errors="replace"))
        return bool(said)

    def end(self) -> None:
        """Make sure it is gone, stopped or not."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def wait_for(ranks: Iterable[RankProcess], event: str | None, timeout_s: float) -> bool:
    """Read until every rank has told `event`, or ended; False if the time is up first."""
    deadline_s = time.monotonic() + timeout_s
    waiting = {r.output: r for r in ranks if event is None or event not in r.events}
    while waiting:
        ready, _, _ = select.select(list(waiting), [], [], max(0, deadline_s - time.monotonic()))
        if not ready:
            return False
        for stream in ready:
            if not waiting[stream].read() or event in waiting[stream].events:
                del waiting[stream]
    return True


def shared_memory(processes: Iterable[int]) -> set[str]:
    """Shared memory left behind: SysV segments of `processes`, /dev/shm files nobody maps."""
    mine = set(map(str, processes))
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    left = {"sysv " + line.split()[1] for line in lines if line.split()[4] in mine}
    files = {str(path) for path in Path("/dev/shm").iterdir()}
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            files -= {line.split(maxsplit=5)[-1] for line in maps.read_text().splitlines()}
        except OSError:
            continue  # not ours, or gone
    return left | files


def run(case: Case, count: int = 16 << 20) -> Outcome:
    """One round. `count`: floats of the large all-reduce."""
    package, libucx = (importlib.util.find_spec(name) for name in ("patallreduce", "libucx"))
    assert package is not None
    assert package.origin is not None
    assert libucx is not None
    assert libucx.origin is not None
    options = {
        "core": str(next(Path(package.origin).parent.glob("_core*.so"))),
        "libucp": str(Path(libucx.origin).parent / "lib" / "libucp.so.0"),
        "ranks": RANKS,
        "key": random.randbytes(16).hex(),
        "phase": case.phase,
        "victim": case.victim,
        "count": count if case.phase == "during" else 100_000,
        "timeout_s": TIMEOUT_S,
        "start_timeout_s": HANG_S,
    }
    memory_before = shared_memory([])
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            RankProcess({**options, "folder": folder, "rank": rank}, TRANSPORTS[case.transport])
            for rank in range(RANKS)
        ]
        try:
            outcome = _watch(case, ranks)
        finally:
            for rank in ranks:
                rank.end()
    left = shared_memory(rank.process.pid for rank in ranks) - memory_before
    if left:
        outcome.problems.append(f"left in shared memory: {sorted(left)}")
    return outcome


def _watch(case: Case, ranks: list[RankProcess]) -> Outcome:
    outcome = Outcome(case)
    victim = ranks[case.victim]
    others = [rank for rank in ranks if rank is not victim]
    if not wait_for(ranks, "ready", HANG_S) or any("ready" not in r.events for r in ranks):
        outcome.problems.append("no start: " + "; ".join(line for r in ranks for line in r.noise))
        return outcome
    if case.phase == "before":
        for rank in others:
            rank.go()
    time.sleep(random.uniform(0.02, 0.3))
    signalled_s = time.monotonic()
    victim.process.send_signal(SIGNALS[case.signal])
    if case.phase == "after":
        time.sleep(random.uniform(0.0, 0.2))
        for rank in others:
            rank.go()
    outcome.hung = not wait_for(others, None, HANG_S)
    for rank in others:
        outcome.problems += _problems(case, rank)
        error = rank.events.get("error")
        if error:
            # A kill can be known at once, by those that still call; a stop by the call's deadline.
            since_s = error["call_s"]
            if case.signal == "kill" and (case.phase != "after" or since_s < signalled_s):
                since_s = signalled_s
            outcome.detect_s = max(outcome.detect_s, error["time_s"] - since_s)
    return outcome


def _problems(case: Case, rank: RankProcess) -> Iterator[str]:
    who = f"rank {rank.rank}"
    if rank.noise:
        yield f"{who} said {rank.noise}"
    error, closed = rank.events.get("error"), rank.events.get("closed")
    if error is None:
        yield f"{who} raised nothing; it told {list(rank.events)}"
    elif error["named"] != case.victim:
        yield f"{who} named {error['named']}: {error['what']}"
    elif case.signal == "kill" and error["kind"] != "PeerLostError":
        yield f"{who} raised {error['kind']}: {error['what']}"
    if closed is None:
        yield f"{who} did not close"
    elif closed["before"] != closed["after"]:
        yield f"{who} had {closed['before']} before and {closed['after']} after"
    try:
        status = rank.process.wait(1.0)
    except subprocess.TimeoutExpired:
        status = None
    if status != 0:
        yield f"{who} ended with status {status}"


def limit_s(case: Case) -> float:
    """How soon the last survivor must have raised."""
    return KILL_LIMIT_S if case.signal == "kill" else TIMEOUT_S + LATE_LIMIT_S


def cases(rounds: int) -> Iterator[Case]:
    """Go through everything, each rank in turn."""
    every = itertools.product(range(RANKS), PHASES, TRANSPORTS, SIGNALS)
    for victim, phase, transport, what in itertools.islice(itertools.cycle(every), rounds):
        yield Case(what, transport, phase, victim)
