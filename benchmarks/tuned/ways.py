"""What is decided, and what it takes: an algorithm and its segments, by rules, by the model."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import patallreduce as pat
from patallreduce import _core
from patallreduce.communicator.calls import by_rule
from patallreduce.decisions.rules import TuningFile
from patallreduce.decisions.times import Case, Method
from patallreduce.pricing.selection import cheapest
from patallreduce.tuning.measuring import ANY_SIZE, ELEMENT_BYTES, Measuring, elements_of

LONG_S = 0.05  # of the repeats of what is short

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


def seconds_of(
    measuring: Measuring, case: Case, way: Way, about_s: float, repeats: int
) -> list[float]:
    """Measure it so many times, or more if it is short."""
    name, segments = way
    repeats = min(max(int(LONG_S / about_s), repeats), 200)
    return measuring.seconds(case, Method(name), repeats, segments=segments)


def taking_turns(
    measuring: Measuring,
    case: Case,
    ways: Iterable[Way],
    about_s: float,
    *,
    repeats: int,
    turns: int,
) -> dict[Way, list[float]]:
    """The median of each turn, there and back: what changes meanwhile meets all of them."""
    found: dict[Way, list[float]] = {way: [] for way in sorted(ways)}
    for turn in range(turns):
        for way in reversed(list(found)) if turn % 2 else list(found):
            seconds = seconds_of(measuring, case, way, about_s, repeats)
            found[way].append(statistics.median(seconds))
    return found
