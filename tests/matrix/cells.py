"""Which faults, when, over what, on whom; and what has to come of each, said beforehand.

A cell is one run of three ranks. One of them, the victim, has a fault at one moment of a small
program (ranks.py): three all-reduces, or a few iterations of training.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

RANKS = 3
TIMEOUT_S = 2.0  # usually
KILL_LIMIT_S = 2.0
SLACK_S = 1.5  # after a deadline: several cells share the processors
HOLD_S = 0.7  # of a short stop
STOP_S = TIMEOUT_S + 2.5  # of a long one
BRIEF_S = 0.5  # of what happens to a link briefly
LIMIT_S = 40.0  # of a rank
SMALL = 10_000  # elements of the usual call

# mixed: the last rank shares no memory with the others; network: nobody does, and each rank has a
# port of a switch.
TRANSPORTS = ("shm", "tcp", "mixed", "network")
LATE = ("nobody", "victim", "other")  # for the call in which it happens

# Moments: making the communicator; before the call in which the others are; in a large one; once
# the last result is there; in close(); anywhere in training with DDP, plans and a monitor.
START, BEFORE, DURING, AFTER, CLOSING, TRAINING = (
    "start",
    "before",
    "during",
    "after",
    "closing",
    "training",
)

LINKS = ("unplug", "unplug_briefly", "throttle", "throttle_briefly")
MISMATCHES = ("shape", "dtype", "op", "algorithm", "segments", "collective")
MOMENTS = {
    "none": (AFTER, TRAINING),
    "kill": (START, BEFORE, DURING, AFTER, CLOSING, TRAINING),
    "kill_with_child": (BEFORE, DURING, TRAINING),  # a forked child lives on
    "exit": (START, BEFORE, DURING, AFTER, TRAINING),  # at once, with status 3
    "stop": (START, BEFORE, DURING, AFTER, TRAINING),  # beyond the deadline
    "hold": (START, BEFORE, DURING, AFTER, CLOSING, TRAINING),  # stopped, but not so long
    "raise": (BEFORE, AFTER, TRAINING),
    "raise_in_optimizer": (TRAINING,),
    "interrupt": (BEFORE, DURING, TRAINING),
    "leave": (BEFORE,),  # closes without the calls that the others make
    "cut": (BEFORE, DURING),  # its sockets are shut down
    "unplug": (START, BEFORE, DURING, CLOSING, TRAINING),  # its port of the switch
    "unplug_briefly": (START, BEFORE, DURING, CLOSING, TRAINING),
    "throttle": (START, BEFORE, DURING, TRAINING),  # its port, to a hundredth of its rate
    "throttle_briefly": (DURING, TRAINING),
    "no_descriptors": (START,),
    "shm_full": (START, BEFORE, DURING, TRAINING),  # its /dev/shm
    "clock_ahead": (START, TRAINING),  # the monotonic one, by days, since it started
    **dict.fromkeys(MISMATCHES, (BEFORE,)),
}


@dataclass(frozen=True)
class Cell:
    """One run.

    Args:
        fault: Of `MOMENTS`.
        moment: When.
        transport: Of `TRANSPORTS`.
        victim: The rank that has the fault.
        late: Who comes 0.2 s late to the call, of `LATE`.
    """

    fault: str
    moment: str
    transport: str
    victim: int
    late: str

    @property
    def timeout_s(self) -> float:
        """Of its calls, and of making the communicator."""
        # TCP sends anew after ever longer pauses: it comes back long after the link has.
        return 4 * TIMEOUT_S if self.fault.endswith("_briefly") else TIMEOUT_S

    def __str__(self) -> str:
        return "-".join(
            [self.fault, self.moment, self.transport, f"rank{self.victim}", f"{self.late}_late"]
        )


@dataclass(frozen=True)
class Promise:
    """What the ranks other than the victim meet.

    Args:
        errors: One of these classes on all of them; "": no error.
        names_victim: Whether the error has the victim's rank.
        within_s: The last error, after the fault.
        victim: What the victim itself meets, if it lives.
        alike: Whether their errors have the same text.
    """

    errors: tuple[str, ...] = ("",)
    names_victim: bool = True
    within_s: float = TIMEOUT_S + SLACK_S
    victim: tuple[str, ...] = ("",)
    alike: bool = True


_ONE_OF_TWO = Promise(  # of those that differ, the first that somebody compared
    ("MismatchError",), names_victim=False, within_s=KILL_LIMIT_S, victim=("MismatchError",)
)
_LOST = Promise(("PeerLostError",), within_s=KILL_LIMIT_S)
_TOLD = Promise(("TransportError",), within_s=KILL_LIMIT_S)
_SILENT = Promise(("TransportTimeout",))
_DONE_OR_LOST = Promise(("", "PeerLostError"), within_s=KILL_LIMIT_S)  # all have their results
# Woken up, it is told what the others made of it, or that they are gone.
_WOKEN = ("TransportTimeout", "PeerLostError", "TransportError")
_CUT = ("PeerLostError", "TransportTimeout")
_UNREACHED = ("TransportError", *_CUT)
_OWN = ("ZeroDivisionError",)

# By fault and moment, or by fault alone. Any other: nothing, on any rank.
_PROMISES: dict[str | tuple[str, str], Promise] = {
    **dict.fromkeys(MISMATCHES, _ONE_OF_TWO),
    **dict.fromkeys(("kill", "kill_with_child", "exit", "leave"), _LOST),
    ("stop", START): replace(_SILENT, victim=("", *_WOKEN)),
    **dict.fromkeys([("kill", AFTER), ("kill", CLOSING), ("exit", AFTER)], _DONE_OR_LOST),
    "stop": replace(_SILENT, victim=_WOKEN),
    ("stop", AFTER): Promise(("", "TransportTimeout"), within_s=30, victim=("", *_WOKEN)),
    "raise": replace(_TOLD, victim=_OWN),
    ("raise", AFTER): replace(_TOLD, errors=("", "TransportError"), victim=_OWN),
    # The process ends, and closes its communicator.
    ("raise", TRAINING): replace(_LOST, victim=_OWN),
    "raise_in_optimizer": replace(_LOST, victim=_OWN),
    "interrupt": replace(_TOLD, victim=("KeyboardInterrupt",)),
    # In a backward pass, or between two of them.
    ("interrupt", TRAINING): replace(
        _TOLD, errors=("TransportError", "PeerLostError"), victim=("KeyboardInterrupt",)
    ),
    # Its connections to both others end: to each side the other one is lost.
    "cut": Promise(_CUT, names_victim=False, victim=_CUT, alike=False),
    # The others agree among themselves; nothing passes between them and the victim.
    "unplug": Promise(_CUT, victim=_CUT),
    # Without a network it cannot be reached, if the kernel has noticed by then.
    ("unplug", START): Promise(_UNREACHED, victim=_UNREACHED),
    ("unplug_briefly", START): Promise(("", "TransportError"), victim=("", "TransportError")),
    # All have their results, or wait for what the victim had still to send.
    ("unplug", CLOSING): Promise(("", *_CUT), victim=("", *_CUT)),
    # A small call takes 0.1 s then, a large one much more than its time; and so does what ranks
    # tell each other behind it.
    ("throttle", DURING): replace(
        _SILENT, names_victim=False, victim=("TransportTimeout",), alike=False
    ),
    "no_descriptors": Promise(("TransportError",), victim=("TransportError",)),
}


def promise(cell: Cell) -> Promise:
    """What has to come of a cell."""
    nothing = Promise(within_s=30)
    if cell.fault == "cut" and cell.transport == "shm":  # no socket is in its way
        return nothing
    return _PROMISES.get((cell.fault, cell.moment)) or _PROMISES.get(cell.fault, nothing)


def cells() -> Iterator[Cell]:
    """All of them, each fault at each of its moments."""
    for fault, moments in MOMENTS.items():
        for moment, transport, victim in itertools.product(
            moments, _transports(fault), range(RANKS)
        ):
            for late in _late(moment, transport):
                yield Cell(fault, moment, transport, victim, late)


def _transports(fault: str) -> tuple[str, ...]:
    if fault in LINKS:
        return ("network",)
    return ("shm", "mixed") if fault == "shm_full" else TRANSPORTS


def _late(moment: str, transport: str) -> tuple[str, ...]:
    if moment not in (BEFORE, DURING):
        return LATE[:1]
    return LATE[:2] if transport == "network" else LATE
