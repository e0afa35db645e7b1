"""One wrong version of the sources."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One change of the sources that some test has to notice.

    Args:
        name: What is wrong then.
        file: From the top of the repository.
        right: What stands there, exactly once.
        wrong: What the mutant has instead.
    """

    name: str
    file: str
    right: str
    wrong: str
