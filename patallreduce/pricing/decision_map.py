"""Where which algorithm wins: ranks x bytes x delay, every cell a comparison of all algorithms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patallreduce.pricing.bucket import Bucket
from patallreduce.pricing.comparison import MEASURES, compare
from patallreduce.pricing.pattern_text import Pattern
from patallreduce.pricing.schedules import SAFE
from patallreduce.text.table import text_table
from patallreduce.text.units import bytes_text, ms_text


@dataclass(frozen=True)
class Delay:
    """How late: in seconds, or in times of one transfer of the whole message (M * beta)."""

    value: float
    in_transfers: bool = False

    def seconds(self, bucket: Bucket) -> float:
        """Return it in seconds for this bucket."""
        unit_s = bucket.link.transfer_s(bucket.message_bytes) if self.in_transfers else 1.0
        return self.value * unit_s

    def __str__(self) -> str:
        """As `parse_delay` reads it."""
        return f"{self.value:g}{'x' if self.in_transfers else ''}"


def parse_delay(text: str) -> Delay:
    """Read "0.3", seconds, or "0.5x", times of a transfer; raise ValueError unless >= 0."""
    try:
        delay = Delay(float(text.removesuffix("x")), text.endswith("x"))
    except ValueError:
        delay = Delay(-1)
    if not 0 <= delay.value < math.inf:
        raise ValueError(f"{text!r}: expected a delay >= 0, e.g. 0.3 (seconds) or 0.5x (transfers)")
    return delay


@dataclass(frozen=True)
class Cell:
    """Who wins one case.

    Args:
        ranks: P.
        message_bytes: Of the whole bucket.
        delay: As asked for.
        winner: The cheapest algorithm; the ring where that is no half percent cheaper.
        price_s: Its measure.
        ring_s: That of the ring, the algorithm for ranks that arrive together.
    """

    ranks: int
    message_bytes: int
    delay: Delay
    winner: str
    price_s: float
    ring_s: float

    @property
    def gain(self) -> float:
        """What the ring takes more, as a part of the winner's price: 0 where the ring wins."""
        return self.ring_s / self.price_s - 1 if self.price_s > 0 else 0.0


_TIE = 0.005  # of the price: no model is that good


def sweep(
    bucket: Bucket,
    pattern: Pattern,
    ranks: Sequence[int],
    sizes_bytes: Sequence[int],
    delays: Sequence[Delay],
    *,
    by: str = "average",
    draws: int = 1,
    seed: int = 0,
) -> Iterator[Cell]:
    """Compare all algorithms in every case, the delays innermost.

    Args:
        bucket: Its link, ranks per node, segments and foresight hold for all cases.
        pattern: Its first parameter is replaced by each delay.
        ranks: Numbers of ranks.
        sizes_bytes: Sizes of the bucket.
        delays: How late.
        by: One of `comparison.MEASURES`.
        draws: Of a random pattern; the medians count.
        seed: Of the draws.

    Raises:
        ScheduleError, ValueError: What `compare` and the pattern say.
    """
    for of in ranks:
        for message_bytes in sizes_bytes:
            case = replace(bucket, ranks=of, message_bytes=message_bytes)
            for delay in delays:
                late = pattern.with_delay(delay.seconds(case))
                prices, _ = compare(case, late.draws(of, draws, seed), by=by)
                costs_s = {p.algorithm: getattr(p, MEASURES[by]) for p in prices}
                ring_s = costs_s[SAFE]
                winner = prices[0].algorithm
                if not ring_s > costs_s[winner] * (1 + _TIE):
                    winner = SAFE
                yield Cell(of, message_bytes, delay, winner, costs_s[winner], ring_s)


def map_tables(cells: Sequence[Cell]) -> str:
    """Write a decision map as tables, one for every number of ranks: who wins, at what price."""
    texts = []
    for ranks in dict.fromkeys(cell.ranks for cell in cells):
        here = [cell for cell in cells if cell.ranks == ranks]
        sizes_bytes = list(dict.fromkeys(cell.message_bytes for cell in here))
        rows = [
            [str(delay), *(_text(cell) for cell in here if cell.delay == delay)]
            for delay in dict.fromkeys(cell.delay for cell in here)
        ]
        table = text_table(["delay", *map(bytes_text, sizes_bytes)], rows)
        texts.append(f"{ranks} ranks: winner, its ms, what the ring takes more\n{table}")
    return "\n\n".join(texts)


def _text(cell: Cell) -> str:
    gain = f" +{cell.gain:.0%}" if cell.winner != SAFE else ""
    return f"{cell.winner} {ms_text(cell.price_s)}{gain}"
