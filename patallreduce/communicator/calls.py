"""From what a user asks for to what the engine runs: the same on every rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import torch
import torch.distributed as dist

from patallreduce import _core
from patallreduce.arguments import nearest, refused
from patallreduce.communicator import environment
from patallreduce.pricing.link import Link
from patallreduce.pricing.schedules import algorithms
from patallreduce.pricing.selection import in_blocks, rounded, segments_of

OPS = dict(_core.Op.__members__)
Op = str | dist.ReduceOp.RedOpType  # "sum", or torch.distributed.ReduceOp.SUM, ...
_OF_TORCH = {"PRODUCT": "prod"}
_MEANT = {"mean": "avg", "average": "avg"}
_ROOTED = {"reduce", "broadcast"}


class Request(NamedTuple):
    """The arguments of one collective, its tensor replaced by what counts."""

    elements: int
    element_bytes: int
    dtype: _core.Dtype
    op: str
    algorithm: str | None  # None: the collective's usual one
    segments: int | None
    arrivals_s: Sequence[float] | None
    segment_time_s: float | None
    label: int
    collective: str = "all_reduce"
    root: int | None = None  # of a reduce or broadcast; None: 0
    beside_others: bool = False  # of its kind, in flight


REPRODUCIBLE = "reproducible"


def op_name(op: Op, rank: int, known: Iterable[str] = OPS) -> str:
    """The name of a reduction, also by torch's; ValueError unless it is a known one."""
    name = op
    if isinstance(op, dist.ReduceOp.RedOpType):
        name = _OF_TORCH.get(op.name, op.name.lower())
    if isinstance(name, str) and name in known:
        return name
    hint = nearest(_MEANT.get(name.lower(), name), known) if isinstance(name, str) else ""
    raise ValueError(refused("op", f"one of {', '.join(known)}", op, rank) + hint)


def intended(algorithm: str) -> str:
    """What is meant by an algorithm's name now.

    "auto" is the reproducible tree while `torch.use_deterministic_algorithms(True)` holds, unless
    PATALLREDUCE_ALGORITHM names another. A rank that differs gets a MismatchError.
    """
    if (
        algorithm == "auto"
        and torch.are_deterministic_algorithms_enabled()
        and forced_algorithm() is None
    ):
        return REPRODUCIBLE
    return algorithm


def forced_algorithm() -> str | None:
    """What "auto" stands for by PATALLREDUCE_ALGORITHM; ValueError if there is no such one."""
    return environment.get_name("ALGORITHM", _known("all_reduce"))


def left_open(algorithm: str, segments: int | None, arrivals_s: Sequence[float] | None) -> bool:
    """Whether the schedule is left to prediction: nothing of it was asked for."""
    return (
        intended(algorithm) == "auto"
        and segments is None
        and arrivals_s is None
        and forced_algorithm() is None
        and environment.get_count("SEGMENTS") is None
    )


def by_rule(
    rules: _core.Rules,
    collective: str,
    elements: int,
    element_bytes: int,
    *,
    ranks: int,
    nodes: Sequence[int],
    link: Link,
) -> tuple[str, int] | None:
    """Algorithm and segments by the rule for such a size; None: there is none.

    Args:
        rules: Of the collective.
        collective: As of `algorithms`.
        elements: Of the whole tensor, like element_bytes.
        element_bytes: See there.
        ranks: P.
        nodes: (P,) the node of each rank; (): no two share one.
        link: Between ranks.
    """
    if (ruled := rules.choose(ranks, elements, element_bytes, link)) is None:
        return None
    name, _ = ruled

    def segments(parts: int) -> int:
        ruled = rules.choose(parts, elements, element_bytes, link)
        assert ruled is not None
        return ruled[1]

    algorithm = _core.find_algorithm(name, collective)
    return name, rounded(segments, algorithm, collective, ranks, elements=elements, nodes=nodes)


def settle(
    request: Request,
    rank: int,
    ranks: int,
    link: Callable[[], Link],
    selector: Callable[[], _core.Selector],
    *,
    nodes: Sequence[int] = (),
    unnamed: Callable[[], tuple[str, int | None]] | None = None,
) -> _core.Call:
    """Check a request and fill in what it leaves open.

    Args:
        request: As given on this rank.
        rank: This rank, for error messages.
        ranks: P.
        link: Gives the link; only called when something depends on it, since that may measure it.
        selector: Gives what "auto" asks; called under the same rule.
        nodes: (P,) the node of each rank; (): no two share one.
        unnamed: Gives algorithm and segments, None: by its rule, where no algorithm is named and
            nothing is known of the arrivals. None: the collective's usual one.

    Raises:
        ScheduleError, ValueError: what `Communicator.all_reduce` and `reduce` say.
    """
    root = _root(request, rank, ranks)
    hints = _hints(request.arrivals_s, rank, ranks)
    elements = request.elements
    message_bytes = elements * request.element_bytes
    name = request.algorithm or _core.usual_algorithm(request.collective).name
    segments, segment_time_s = request.segments, request.segment_time_s
    forced = environment.get_count("SEGMENTS") or 0
    if name == "auto" and request.collective == "all_reduce":
        name = forced_algorithm() or ""
        if not name:
            name, best, in_class, best_time_s = _chosen(request, hints or [0.0] * ranks, selector())
            if segments is None and not forced:
                # Arrivals of the pattern class: alike patterns share one compiled schedule.
                segments, segment_time_s, hints = best, best_time_s, in_class
    elif request.algorithm is None and unnamed is not None and not hints:
        name, found = unnamed()
        segments = segments if segments is not None or forced else found
    known = _known(request.collective)
    if name not in known:
        raise _core.ScheduleError(
            refused("algorithm", f"one of {', '.join(known)}", name, rank) + nearest(name, known)
        )
    algorithm = _core.find_algorithm(name, request.collective)
    ports = link().widths if algorithm.by_port else []
    if ports and nodes:  # one for each node, in the order of their first ranks
        numbers = {node: number for number, node in enumerate(dict.fromkeys(nodes))}
        ports = [ports[numbers[node]] for node in nodes]
    nodes = nodes if algorithm.by_node else ()
    if segments is None and forced:
        segments = in_blocks(min(forced, max(elements, 1)), request.collective, ranks)
    elif segments is None:
        size = (message_bytes, elements)
        segments = segments_of(name, request.collective, ranks, *size, link=link(), nodes=nodes)
    elif not 1 <= segments <= max(elements, 1):
        raise _core.ScheduleError(
            f"segments: expected 1 to {max(elements, 1)} (the elements), got {segments} "
            f"on rank {rank}"
        )
    alike = len(set(hints)) <= 1
    parts = len(set(nodes)) or ranks
    times = algorithm.times(parts, segments, message_bytes, alike, segment_time_s, link)
    return _core.Call(
        elements,
        request.dtype,
        OPS[request.op],
        request.label,
        name,
        segments,
        hints,
        root=root,
        node_of=nodes,
        ports=ports,
        **times,
    )


def _chosen(
    request: Request, arrivals_s: Sequence[float], selector: _core.Selector
) -> tuple[str, int, list[float], float]:
    """Algorithm, segments, arrivals of the pattern class, and segment time, of "auto"."""
    size = (request.elements, request.element_bytes)
    if request.beside_others and request.arrivals_s is None:
        return selector.choose_beside_others(*size)[:4]
    return selector.choose(*size, arrivals_s)[:4]


def _root(request: Request, rank: int, ranks: int) -> int:
    if request.collective not in _ROOTED:
        return -1
    root = request.root or 0
    if not 0 <= root < ranks:
        raise _core.ScheduleError(f"root: expected 0 to {ranks - 1}, got {root} on rank {rank}")
    return root


@cache
def _known(collective: str) -> tuple[str, ...]:
    return tuple(algorithms(collective))


def _hints(arrivals_s: Sequence[float] | None, rank: int, ranks: int) -> list[float]:
    if arrivals_s is None:
        return []
    hints = list(arrivals_s)
    if len(hints) != ranks:
        raise _core.ScheduleError(
            f"arrivals_s: expected {ranks} times, one per rank, got {len(hints)} on rank {rank}"
        )
    for of_rank, arrival_s in enumerate(hints):
        if not 0 <= arrival_s < float("inf"):
            raise _core.ScheduleError(
                f"arrivals_s: expected seconds >= 0, got {arrival_s} for rank {of_rank} "
                f"on rank {rank}"
            )
    return hints
