"""The tuning file of a job: found, read, and left aside where it was measured on another machine.

What is left aside is told once, on rank 0. All ranks do it or none: what they use is compared when
they meet, and the link is the same on all of them.
"""

from __future__ import annotations

import warnings

from patallreduce.communicator import environment
from patallreduce.decisions.machine import another, another_link
from patallreduce.decisions.rules import TuningFile, load
from patallreduce.pricing.link import Link


def tuning_here(transport: str, rank: int | None) -> TuningFile | None:
    """Read the file that PATALLREDUCE_TUNING_FILE names; None: there is none, or of elsewhere.

    Raises:
        OSError: It cannot be read.
        ValueError: It makes no sense; the message names file, line and what was expected.
    """
    path = environment.get("TUNING_FILE")
    if path is None:
        return None
    tuning = load(path)
    for rule in tuning.never_matching() if not rank else ():
        _warn(f"{path}, line {rule.line}: never matches: rules above it take all of its sizes")
    return _kept(tuning, another(tuning.machine, transport), rank)


def tuning_for(tuning: TuningFile | None, link: Link, rank: int | None) -> TuningFile | None:
    """The same, or None where the link between the ranks is another."""
    return tuning and _kept(tuning, another_link(tuning.machine, link), rank)


def _kept(tuning: TuningFile, difference: str, rank: int | None) -> TuningFile | None:
    if not difference:
        return tuning
    if not rank:
        _warn(f"{tuning.path} is left aside, for it was measured elsewhere: {difference}")
    return None


def _warn(text: str) -> None:
    warnings.warn(f"PATALLREDUCE_TUNING_FILE: {text}", RuntimeWarning, stacklevel=2)
