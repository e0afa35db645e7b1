"""What a finding is: who is late, why, and what it costs, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from patallreduce.text.units import tenths_text

Cause = Literal["schedule", "input", "forward", "backward", "computation", "start"]

_SENTENCES: dict[Cause, str] = {
    "schedule": "the all-reduce before gives it its result {longer} ms after the others",
    "input": "from its last sum to its next forward pass (input, optimizer) it takes {longer} ms "
    "longer than the others",
    "forward": "its forward pass takes {longer} ms longer than the others'",
    "backward": "its backward pass takes {longer} ms longer than the others'",
    "computation": "its computation takes {longer} ms longer than the others'",
    "start": "it starts {longer} ms after the others",
}


@dataclass(frozen=True)
class Finding:
    """One cause of a rank's lateness, which is not by chance; `str` makes it a sentence.

    Args:
        rank: Who is late.
        since: Number of the iteration since when.
        late_s: By how much, median since then.
        cause: "schedule": it has the last sum later than the others; "input": between its last sum
            and its forward pass; "forward", "backward"; where the end of the forward pass is not
            known, both together: "computation"; where the last sum is not known: "start".
        longer_s: By how much that takes longer than the median of the others, median since then.
        share: `longer_s` as a part of all that takes this rank longer.
        part: Of the backward pass, by its gradients, where most of `longer_s` is: "second quarter",
            "first half"; "" where no part has most of it, or none is known.
        host: Beside a longer forward or backward pass: how this rank's host is busier than those of
            the others; "" if it is not.
        costs_s: What the others wait for this rank alone, whatever its causes: by how much sooner
            the last rank would have arrived without this one, mean since then.
        won_s: What plans win of an iteration, of all its ranks together; NaN: not measured.
    """

    rank: int
    since: int
    late_s: float
    cause: Cause
    longer_s: float
    share: float
    part: str
    host: str
    costs_s: float
    won_s: float

    def __str__(self) -> str:
        why = _SENTENCES[self.cause].format(longer=tenths_text(self.longer_s))
        of_it = f"{self.share:.0%}".replace("%", " % of it") + (self.part and f"; {self.part}")
        host = self.host and f"; its host is busy: {self.host}"
        late_ms, costs_ms = tenths_text(self.late_s), tenths_text(self.costs_s)
        return (
            f"rank {self.rank} is late by {late_ms} ms since iteration {self.since}: {why} "
            f"({of_it}){host}; the others wait {costs_ms} ms per iteration"
        )
