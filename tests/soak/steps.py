"""What a soak does, step after step: drawn from a seed, so that all ranks draw the same."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch

import patallreduce as pat
from tests.communicator.reference import ALGORITHMS, DTYPES, OPS

SLOTS = 4  # communicators at a time; the first one is always of all ranks
MOST_BYTES = 4 << 20
MOST_ORDERED = 20_000  # elements that are summed in every sum order of a schedule
MOST_AT_ONCE = 20
COLLECTIVES = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter")
OF_BLOCKS = ("all_gather", "reduce_scatter")
# None: it is measured. With the slow one plans are worth while on any machine.
LINKS = (None, pat.Link(20e-6, 2e9), pat.Link(50e-6, 25e6))
LATE_S = 0.05  # at most, of one rank in training
# How often each kind of step comes.
KINDS = {"call": 30, "at_once": 30, "barrier": 8, "tree_sum": 10, "loop": 3, "train": 3, "renew": 4}


@dataclass(frozen=True)
class Case:
    """One collective: arguments as of `Communicator`, and the seed of its data.

    Args:
        slot: Of the communicator.
        collective: Of `COLLECTIVES`.
        elements: Of the tensor.
        given: Whether the algorithm's schedule is given in place of its name.
        ordered: Whether the data tells sum orders apart; else all of them give the same.
        seed: Of the data.
    """

    slot: int
    collective: str
    elements: int
    dtype: torch.dtype
    op: str
    algorithm: str | None
    segments: int | None
    arrivals_s: tuple[float, ...] | None
    root: int
    given: bool
    ordered: bool
    seed: int


@dataclass(frozen=True)
class Opening:
    """How a slot's communicator is made: on which group, with which link, with a monitor or not."""

    group: int
    link: pat.Link | None
    monitor: bool


@dataclass(frozen=True)
class Step:
    """One step of all ranks in whose communicators it is.

    Args:
        number: From 0 on.
        kind: Of `KINDS`.
        cases: Collectives: one, or some at once; of a loop the one that is repeated.
        slot: Of a barrier, a tree sum, or what is made anew.
        opening: Of what is made anew, or of a model's communicator.
        rounds: Of a loop, or iterations of training.
        late: The rank that comes late to most rounds.
        late_s: How late.
        algorithm: Of training, or a barrier; None: the usual one.
        seed: Of everything else.
    """

    number: int
    kind: str
    seed: int
    cases: tuple[Case, ...] = ()
    slot: int = 0
    opening: Opening = Opening(0, None, True)
    rounds: int = 0
    late: int = 0
    late_s: float = 0.0
    algorithm: str | None = None


def is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


class Script:
    """All steps from the first one on; `groups` and `openings`, by slot, are those of now."""

    def __init__(self, seed: int, ranks: int) -> None:
        self._seed = seed
        self._number = 0
        choose = random.Random(f"{seed}")
        half = 1 << (ranks - 1).bit_length() - 1
        sizes = [half, *(choose.randint(2, ranks) for _ in range(SLOTS))]
        self.groups = [
            list(range(ranks)),
            *(sorted(choose.sample(range(ranks), size)) for size in sizes),
        ]
        self.openings = [self._opening(choose, slot) for slot in range(SLOTS)]

    def next(self) -> Step:
        """Draw the next step, and make a slot anew if that is it."""
        number = self._number
        self._number += 1
        choose = random.Random(f"{self._seed}/{number}")
        kinds = list(KINDS)
        kind = choose.choices(kinds, list(KINDS.values()))[0]
        if number < len(kinds):  # so that short runs have all
            kind = kinds[number]
        slot = choose.randrange(SLOTS)
        step: dict[str, Any] = {
            "number": number,
            "kind": kind,
            "seed": choose.randrange(1 << 30),
            "slot": slot,
        }
        ranks = self._ranks(slot)
        if kind in ("call", "at_once"):
            at_once = choose.randint(2, MOST_AT_ONCE) if kind == "at_once" else 1
            slots = [choose.randrange(SLOTS) for _ in range(at_once)]
            step["cases"] = tuple(self._case(choose, slot) for slot in slots)
        elif kind == "barrier":
            step["algorithm"] = choose.choice([None, *pat.algorithms("barrier")])
        elif kind == "loop":
            step["cases"] = (self._looped(choose, slot),)
            step["rounds"] = choose.randint(3, 20)
            step["late"], step["late_s"] = choose.randrange(ranks), choose.uniform(0, LATE_S)
        elif kind == "train":
            even = [i for i, group in enumerate(self.groups) if is_power_of_two(len(group))]
            opening = Opening(choose.choice(even), choose.choice(LINKS), choose.random() < 0.8)
            step |= {"opening": opening, "rounds": choose.randint(3, 20)}
            step["late"] = choose.randrange(len(self.groups[opening.group]))
            step["late_s"] = choose.uniform(0, LATE_S)
            step["algorithm"] = choose.choice(["auto", "auto", *ALGORITHMS])
        elif kind == "renew":
            step["opening"] = self.openings[slot] = self._opening(choose, slot)
        return Step(**step)

    def _ranks(self, slot: int) -> int:
        return len(self.groups[self.openings[slot].group])

    def _opening(self, choose: random.Random, slot: int) -> Opening:
        group = choose.randrange(len(self.groups)) if slot else 0
        return Opening(group, choose.choice(LINKS), choose.random() < 0.8)

    def _looped(self, choose: random.Random, slot: int) -> Case:
        seed, elements = choose.randrange(1 << 30), int(2 ** choose.uniform(10, 18))
        return Case(
            *(slot, "all_reduce", elements, torch.float32, "sum", "auto"),
            **{"segments": None, "arrivals_s": None, "root": 0},
            **{"given": False, "ordered": False, "seed": seed},
        )

    def _case(self, choose: random.Random, slot: int) -> Case:
        ranks = self._ranks(slot)
        collective = choose.choices(COLLECTIVES, [6, 2, 1, 1, 1])[0]
        dtype, op = choose.choice(DTYPES), choose.choice(list(OPS))
        elements = 0 if choose.random() < 0.05 else int(2 ** choose.uniform(0, 20))
        elements = min(elements, MOST_BYTES // dtype.itemsize)
        if collective in OF_BLOCKS:
            elements -= elements % ranks
        names = sorted(pat.algorithms(collective))
        usual = ["auto"] * 4 if collective == "all_reduce" else [None]
        algorithm = choose.choice([*usual, *names])
        segments, arrivals_s = None, None
        if collective not in OF_BLOCKS and choose.random() < 0.6:
            segments = choose.randint(1, max(min(elements, 5 * ranks), 1))
        if collective in ("all_reduce", "reduce") and choose.random() < 0.4:
            arrivals_s = tuple(choose.random() for _ in range(ranks))
        fixed = algorithm not in (None, "auto", "slt_dynamic")
        given = fixed and elements >= ranks and choose.random() < 0.15
        if given:
            segments, arrivals_s = ranks, None
        floats = dtype.is_floating_point
        ordered = collective == "all_reduce" and fixed and floats and segments is not None
        ordered = (ordered and elements <= MOST_ORDERED) or algorithm == "reproducible"
        inexact = floats and not ordered and not is_power_of_two(ranks)
        if op == "avg" and (inexact or (collective == "reduce_scatter" and not floats)):
            op = "sum"
        return Case(
            *(slot, collective, elements, dtype, op, algorithm, segments, arrivals_s),
            **{"root": choose.randrange(ranks), "given": given, "ordered": ordered},
            seed=choose.randrange(1 << 30),
        )
