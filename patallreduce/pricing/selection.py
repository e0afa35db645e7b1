"""How many segments a message is cut into, and which algorithm moves it where all arrive together.

Of all-reduces `_core.Selector` says that, which knows of arrivals and of others in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from patallreduce import _core
from patallreduce.pricing.link import Link
from patallreduce.pricing.networks import Network
from patallreduce.pricing.schedules import algorithms, schedule
from patallreduce.pricing.simulation import simulate

_OF_BLOCKS = {"all_gather", "reduce_scatter"}
# Another algorithm than the usual one has to be faster by so much: models are no better.
_MARGIN = 0.1
# Of a ring, the usual one, nobody changes partners: see csrc/selection/selector.cpp.
_MOST_THAT_CHANGE_FREELY = 8  # ranks
_MOST_RANKS = 64  # whose schedules are simulated in some milliseconds


def choose_segments(
    algorithm: str,
    ranks: int,
    message_bytes: int,
    elements: int,
    link: Link,
    *,
    collective: str = "all_reduce",
) -> int:
    """How many segments a message is cut into, by the algorithm's own rule (csrc/algorithms).

    Always a multiple of the number of parts where the algorithm works on parts, at least 1, and at
    most `elements`.

    Raises:
        ScheduleError: There is no such algorithm for `collective`.
    """
    found = _core.find_algorithm(algorithm, collective)
    return found.segments(ranks, message_bytes, elements, link)


def segments_of(
    name: str,
    collective: str,
    ranks: int,
    message_bytes: int,
    elements: int,
    *,
    link: Link,
    nodes: Sequence[int] = (),
) -> int:
    """As `choose_segments`, among nodes and for blocks of ranks, too: what a call is cut into."""
    algorithm = _core.find_algorithm(name, collective)

    def segments(parts: int) -> int:
        return algorithm.segments(parts, message_bytes, elements, link)

    return rounded(segments, algorithm, collective, ranks, elements=elements, nodes=nodes)


def rounded(
    segments: Callable[[int], int],
    algorithm: _core.Algorithm,
    collective: str,
    ranks: int,
    *,
    elements: int,
    nodes: Sequence[int],
) -> int:
    """What `segments` says for so many parts, ranks or nodes, as a call can be cut."""
    if not nodes or not algorithm.by_node or algorithm.tree:  # whose ranks have to share evenly
        return in_blocks(segments(ranks), collective, ranks)
    # A node's part is cut into its ranks'.
    by_node = min(-(-segments(len(set(nodes))) // ranks) * ranks, max(elements, 1))
    return in_blocks(by_node, collective, ranks)


def in_blocks(segments: int, collective: str, ranks: int) -> int:
    """Where the data are blocks of the ranks, the blocks' borders are segments' borders."""
    return max(segments // ranks, 1) * ranks if collective in _OF_BLOCKS else segments


def prices_s(
    collective: str,
    ranks: int,
    message_bytes: int,
    elements: int,
    *,
    link: Link,
    nodes: Sequence[int] = (),
    in_flight: int = 1,
) -> dict[str, float]:
    """Seconds until the last rank is done, of the usual algorithm and all that need no times.

    Args:
        collective: As of `algorithms`.
        ranks: P, which arrive together.
        message_bytes: Of the whole tensor.
        elements: Of it; where it is blocks of the ranks, a multiple of P.
        link: Between ranks, or nodes.
        nodes: (P,) the node of each rank; (): no two share one.
        in_flight: So many all-reduces like it at once, of whose seconds each has an equal share.
    """
    usual = _core.usual_algorithm(collective).name
    planner = _core.Planner(ranks, link, node_of=nodes) if in_flight > 1 and elements else None
    network = Network.of_ports(link, ranks, nodes=nodes, shared_ports=False)
    prices_s = {}
    for name in algorithms(collective):
        algorithm = _core.find_algorithm(name, collective)
        of_arrivals = algorithm.uses_times or algorithm.dynamic  # and not of their order alone
        if name != usual and of_arrivals and not algorithm.shares_ports:
            continue
        segments = segments_of(
            name, collective, ranks, message_bytes, elements, link=link, nodes=nodes
        )
        if planner is not None:
            size = (elements, message_bytes // elements)
            keys: list[tuple[str, int, list[float], float]] = [
                (name, segments, [], 0.0)
            ] * in_flight
            together = [[0.0] * ranks] * in_flight
            if finish_s := planner.finish_s([size] * in_flight, together, keys):
                prices_s[name] = max(finish_s) / in_flight
                continue  # else so many messages would take long to simulate
        made = schedule(
            name,
            ranks,
            segments,
            collective=collective,
            nodes=nodes if nodes and algorithm.by_node else None,
            ports=(link.widths if algorithm.by_port else None) or None,
        )
        prices_s[name] = max(simulate(made, network, message_bytes).finish_s)
    return prices_s


def cheapest(
    collective: str,
    ranks: int,
    message_bytes: int,
    elements: int,
    *,
    link: Link,
    nodes: Sequence[int] = (),
) -> str:
    """The usual algorithm, unless another takes clearly less by the model; as `prices_s`."""
    usual = _core.usual_algorithm(collective).name
    if not 1 < ranks <= _MOST_RANKS or elements == 0:
        return usual
    prices = prices_s(collective, ranks, message_bytes, elements, link=link, nodes=nodes)
    best = min(prices, key=prices.__getitem__)
    changes_s = 0.0
    if collective in _OF_BLOCKS and ranks > _MOST_THAT_CHANGE_FREELY:
        changes_s = link.transfer_s(message_bytes)
    return best if prices[best] + changes_s < (1 - _MARGIN) * prices[usual] else usual
