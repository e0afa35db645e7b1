"""Is a rank late by chance?  An answer that needs no assumption of how times are distributed.

Bet on the rank in each iteration, at odds that are fair if it is like the other ranks, whatever
came before, or that are worse than fair: what the bets have made of 1 is large where it is not like
them. Of bets that begin anew with every iteration, one has made E or more in no more than one
iteration of E (Shiryaev and Roberts), so E = 10^7 lets a job run for ten million iterations, on the
mean, until a given rank is blamed that is like the others; until any of P is, for a P-th of these
at least. (Who is slower for some iterations on end is not like the others in these: noise that
lasts counts as lateness.)

Three bet on places, with a sixth of the 1 each. If ranks are alike, each is last, last but one, ...
with the same probability, 1 / P, however heavy the tails of their times are. The bet is that the
rank is one of k late ones; k = 1, 2, ..., P / 2 share the stake, each half of what the one before
has. Of the stake a part is kept, so that an iteration on time does not ruin: a quarter, a half or
three quarters. The first is quick where the rank is nearly always late, the others are sure where
it often is not.

The fourth bets on a gap, and is quicker where the rank is late by much; a tenth is kept.

    all the others                           this rank
      * **  *       |                           *
    --+-------------+-----------------------------> arrival
    first       first + h      h: half of what this rank was behind the first, an iteration ago

The bet is that the others arrive within h of the first, and this rank does not. How likely is that
if ranks are alike, and independent of each other? Another rank is the first with the probability
(P - 1) / P. Then each of the P - 1 that are left is within h of it with the same probability p,
whatever that is: the rank alone is not with p^(P - 2) * (1 - p), which no p makes larger than
p = (P - 2) / (P - 1) does. So the bet may pay P * (1 + 1 / (P - 2))^(P - 2): 9 with 4 ranks, nearly
e * P with many, but 2 with 2.

Ranks may be alike and not independent, as where one of them stalls in every iteration, drawn by
lot. There a gap is no rarer than a place, and one rank can be drawn often enough to be blamed: with
4 ranks, once one is drawn, eight more times on end, which has the probability 4^-8.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable

from patallreduce.records.iterations import Iteration

_SHARES = (1 / 6, 1 / 6, 1 / 6, 1 / 2)
_KEPT = (1 / 4, 1 / 2, 3 / 4, 1 / 10)
CERTAIN = math.log(1e7)


def evidence(iterations: Iterable[Iteration], rank: int) -> float:
    """Return the logarithm of what the bets on a rank make of 1; all arrivals must be known.

    It is beyond `CERTAIN` after 32 iterations of 2 ranks in which it is last, 18 of 4, 12 of 8. If
    it is so by a gap, each time, these are 28, 9 and 7.
    """
    gained = [0.0] * len(_SHARES)
    for before, iteration in itertools.pairwise([None, *iterations]):
        if iteration is None:
            continue
        # An equal arrival counts as a later one.
        later = sum(time_s >= iteration.arrival_s[rank] for time_s in iteration.arrival_s) - 1
        odds = [_place_odds(iteration.ranks, later)] * 3 + [_gap_odds(before, iteration, rank)]
        gained = [
            # Who has lost begins anew.
            max(of, 0.0) + math.log(kept + (1 - kept) * paid)
            for of, kept, paid in zip(gained, _KEPT, odds, strict=True)
        ]
    most = max(gained)
    made = sum(share * math.exp(of - most) for share, of in zip(_SHARES, gained, strict=True))
    return most + math.log(made)


@functools.cache
def _place_odds(ranks: int, later: int) -> float:
    """What a stake of 1 pays on a rank after which so many come; its mean over the ranks is 1."""
    most = max(ranks // 2, 1)
    stakes = {late: 2.0**-late for late in range(1, most + 1)}
    paid = sum(stake * ranks / late for late, stake in stakes.items() if later < late)
    return paid / sum(stakes.values())


def _gap_odds(before: Iteration | None, iteration: Iteration, rank: int) -> float:
    """What a stake of 1 pays on a rank that alone comes after the gap; its mean is at most 1."""
    if before is None:
        return 1.0  # no bet
    behind_s = before.arrival_s[rank] - min(before.arrival_s)
    until_s = min(iteration.arrival_s) + behind_s / 2
    if [r for r, time_s in enumerate(iteration.arrival_s) if time_s > until_s] != [rank]:
        return 0.0
    left = iteration.ranks - 2
    return iteration.ranks * (1 + 1 / left) ** left if left > 0 else iteration.ranks
