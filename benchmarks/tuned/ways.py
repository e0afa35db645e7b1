"""What is decided, and what it takes: an algorithm and its segments, by rules, by the model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import patallreduce as pat
from patallreduce import _core
from patallreduce.communicator.calls import by_rule
from patallreduce.decisions.rules import TuningFile
from patallreduce.decisions.times import Case, Method
from patallreduce.pricing.selection import cheapest
from patallreduce.statistics import trimmed_mean
from patallreduce.tuning.measuring import ANY_SIZE, ELEMENT_BYTES, Measuring, elements_of

# What is short takes many turns of few repeats: shared processors are slow or fast for longer than
# one turn, and so all of a turn's repeats are alike.
TURN_S, MOST_REPEATS, MOST_TURNS = 0.05, 5, 128


class Turns(NamedTuple):
    """How long a way is measured in all, or so many turns of so many repeats if that is longer."""

    seconds: float
    turns: int  # a multiple of 4
    repeats: int
    most: int = MOST_TURNS


Way = tuple[str, int]  # algorithm, segments


def text_of(way: Way) -> str:
    """Such as ring/8."""
    return "{}/{}".format(*way)


def rules_of(file: TuningFile, case: Case) -> _core.Rules:
    """Those of its collective."""
    beside = {"beside_others": case.beside_others} if case.collective == "all_reduce" else {}
    return file.rules_for(case.collective, case.ranks, case.nodes, **beside)


def by_rules(rules: _core.Rules, case: Case, comm: pat.Communicator) -> Way:
    """What the rule for its size says."""
    found = by_rule(
        rules,
        case.collective,
        elements_of(case),
        ELEMENT_BYTES,
        ranks=comm.ranks,
        nodes=comm.nodes,
        link=comm.link,
    )
    assert found is not None, f"{case} has no rule"
    return found


def way_of(case: Case, method: Method, comm: pat.Communicator) -> Way:
    """A method, as it cuts this message."""
    return by_rules(_core.Rules([(ANY_SIZE, *method)], case.collective), case, comm)


def by_model(model: _core.Selector, case: Case, comm: pat.Communicator) -> Way:
    """What a call takes where there are no rules."""
    size = (elements_of(case), ELEMENT_BYTES)
    if case.collective != "all_reduce":
        message = (case.ranks, ELEMENT_BYTES * size[0], size[0])
        name = cheapest(case.collective, *message, link=comm.link, nodes=comm.nodes)
        return way_of(case, Method(name), comm)
    if case.beside_others:
        return model.choose_beside_others(*size)[:2]
    return model.choose(*size, [0.0] * comm.ranks)[:2]


def seconds_of(measuring: Measuring, case: Case, way: Way, repeats: int) -> float:
    """The trimmed mean of so many."""
    name, segments = way
    return trimmed_mean(measuring.seconds(case, Method(name), repeats, segments=segments))


def taking_turns(
    measuring: Measuring,
    case: Case,
    ways: Iterable[Way],
    about_s: float,
    least: Turns,
) -> dict[Way, list[float]]:
    """The trimmed mean of each turn, there and back: what changes meanwhile meets all of them."""
    repeats = max(min(int(TURN_S / about_s), MOST_REPEATS), least.repeats)
    turns = max(min(int(least.seconds / (repeats * about_s)), least.most), least.turns)
    found: dict[Way, list[float]] = {way: [] for way in sorted(ways)}
    for turn in range(turns // 4 * 4):
        for way in reversed(list(found)) if turn % 2 else list(found):
            found[way].append(seconds_of(measuring, case, way, repeats))
    return found
