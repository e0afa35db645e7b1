"""What has to be equal on all ranks of a communicator, compared when they meet.

A difference would show later, as an error about something else: connections that one side lacks
end at the deadline, measurements that one side makes differ from the other's first collective.
"""

from __future__ import annotations

from importlib.metadata import version

from patallreduce import _core
from patallreduce.arguments import nearest, refused
from patallreduce.communicator import environment
from patallreduce.communicator.calls import forced_algorithm
from patallreduce.communicator.gpus import TRANSPORTS
from patallreduce.decisions.rules import TuningFile
from patallreduce.pricing.link import Link
from patallreduce.pricing.networks import Network

Settings = dict[str, str]  # name -> value as text, in the order of comparison


def checked_transport(transport: str, rank: int | None) -> str:
    """A known transport; of "auto" what PATALLREDUCE_TRANSPORT says."""
    if transport == "auto":
        transport = environment.get_name("TRANSPORT", TRANSPORTS) or "auto"
    if transport not in TRANSPORTS:
        hint = nearest(transport, TRANSPORTS) if isinstance(transport, str) else ""
        raise ValueError(
            refused("transport", f"one of {', '.join(TRANSPORTS)}", transport, rank)
            + (hint or "; ranks as threads are made by Communicator.loopback")
        )
    return transport


def checked_link(link: Link | Network | None, rank: int | None = None) -> Link | None:
    """What a communicator plans with: a Link, or that of a Network; TypeError for others."""
    if isinstance(link, Network):
        return link.link
    if not isinstance(link, Link | None):
        raise TypeError(refused("link", "a Link, a Network, or None", link, rank))
    return link


def settings_here(
    transport: str, *, monitor: bool, link: Link | None, tuning: TuningFile | None
) -> Settings:
    """This rank's settings; the arguments are those of `Communicator`.

    Raises:
        ValueError: A variable of the environment has an impossible value.
    """
    return {
        "release of patallreduce": version("patallreduce"),
        "transport (or PATALLREDUCE_TRANSPORT)": repr(transport),
        "monitor (or PATALLREDUCE_MONITOR)": repr(monitor),
        "link": repr(link),
        "rules by PATALLREDUCE_TUNING_FILE": "none" if tuning is None else tuning.digest(),
        "PATALLREDUCE_NODES": repr(environment.get_flag("NODES") is not False),
        "PATALLREDUCE_ALGORITHM": repr(forced_algorithm()),
        "PATALLREDUCE_SEGMENTS": repr(environment.get_count("SEGMENTS")),
    }


def compare(first: Settings, theirs: Settings, rank: int) -> None:
    """Raise a MismatchError if those of `rank` differ from rank 0's."""
    for name, value in first.items():
        if theirs.get(name) != value:
            error = _core.MismatchError(
                f"{name}: expected the same on all ranks, got {value} on rank 0 and "
                f"{theirs.get(name)} on rank {rank}"
            )
            error.rank = rank
            raise error
