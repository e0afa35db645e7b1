"""A pattern of arrivals as text, for command lines: `uniform:0.1`, `one_late:0.3:5`, `trace:FILE`.

    balanced                     all together
    one_late:DELAY[:RANK]        default: the last rank
    alternating:EVEN[:ODD]       default: 0
    uniform:LONGEST
    normal:DEVIATION
    gamma:MEAN[:SHAPE]           default: 2
    bernoulli:DELAY[:PROBABILITY]    default: 0.1
    trace:FILE                   N lines of P values; draw n is line n, from the first again

Times in seconds; what they mean says `patallreduce.patterns`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from patallreduce import patterns

FIXED: dict[str, Callable[..., list[float]]] = {
    "balanced": patterns.balanced,
    "one_late": patterns.one_late,
    "alternating": patterns.alternating,
}
DRAWN: dict[str, Callable[..., list[float]]] = {
    "uniform": patterns.uniform,
    "normal": patterns.normal,
    "gamma": patterns.gamma,
    "bernoulli": patterns.bernoulli,
}
TRACE = "trace"
_SECOND = {"one_late", "alternating", "gamma", "bernoulli"}  # these take another parameter


@dataclass(frozen=True)
class Pattern:
    """A pattern before it is known for how many ranks.

    Args:
        name: One of `FIXED`, `DRAWN`, or "trace".
        parameters: What follows it in the text; the first one is a time in seconds.
        path: Of a trace.
    """

    name: str
    parameters: tuple[float, ...] = ()
    path: str = ""

    @property
    def drawn(self) -> bool:
        """Whether different draws differ."""
        return self.name in DRAWN or self.name == TRACE

    def arrivals_s(self, ranks: int, draw: int = 0, seed: patterns.Seed = 0) -> list[float]:
        """Return (P,) arrivals in seconds; raise ValueError as `patallreduce.patterns` does."""
        if self.name == TRACE:
            read = patterns.read_trace(self.path, ranks)
            return read[draw % len(read)]
        if self.name in DRAWN:
            return DRAWN[self.name](ranks, *self.parameters, seed=f"{seed} {draw}")
        if self.name == "one_late":
            delay_s, *rank = self.parameters
            return patterns.one_late(ranks, delay_s, *map(int, rank))
        return FIXED[self.name](ranks, *self.parameters)

    def draws(self, ranks: int, count: int, seed: patterns.Seed = 0) -> list[list[float]]:
        """Return `count` draws, or one where all are the same."""
        return [self.arrivals_s(ranks, n, seed) for n in range(count if self.drawn else 1)]

    def with_delay(self, delay_s: float) -> Pattern:
        """Return the same pattern with another time for its first parameter."""
        if self.name in {TRACE, "balanced"}:
            raise ValueError(f"pattern {self.name}: has no delay that could be changed")
        return replace(self, parameters=(delay_s, *self.parameters[1:]))

    def __str__(self) -> str:
        """As it is written on a command line."""
        return ":".join(
            [self.name, *map(str, self.parameters), *([self.path] if self.path else [])]
        )


def parse_pattern(text: str) -> Pattern:
    """Read a pattern as text; a missing time is 0, which a sweep replaces.

    Raises:
        ValueError: There is no such pattern, or its parameters are too many or no numbers.
    """
    name, _, rest = text.partition(":")
    name = name.replace("-", "_")
    if name == TRACE:
        if not rest:
            raise ValueError(f"pattern {text!r}: expected trace:FILE")
        return Pattern(TRACE, path=rest)
    if name not in FIXED and name not in DRAWN:
        known = ", ".join([*FIXED, *DRAWN, TRACE])
        raise ValueError(f"pattern {text!r}: expected one of {known}")
    try:
        parameters = tuple(float(word) for word in rest.split(":") if rest)
    except ValueError:
        raise ValueError(f"pattern {text!r}: expected numbers after {name}") from None
    most = 0 if name == "balanced" else 2 if name in _SECOND else 1
    if len(parameters) > most:
        raise ValueError(f"pattern {text!r}: expected at most {most} numbers after {name}")
    if name == "one_late" and len(parameters) == 2 and not parameters[1].is_integer():
        raise ValueError(f"pattern {text!r}: expected a rank, got {parameters[1]}")
    if not parameters and most:
        parameters = (0.0,)
    return Pattern(name, parameters)
