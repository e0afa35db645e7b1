"""Which algorithm and how many segments: pure functions of the message, the ranks and the link."""

from __future__ import annotations

import math
from collections.abc import Callable

from patallreduce import _core
from patallreduce.pricing.link import Link

# A segment should still be in a core's cache when it is summed and sent on.
_CACHE_BYTES = 512 * 1024
# Below this, cutting costs more than it hides on any network.
_LEAST_BYTES = 8 * 1024
# Pipelines: Hockney's best number of segments is sqrt(stages * M * beta / latency); TUNE07, Table
# 5.1. A level of a binary tree counts once: it takes two messages, but so does every segment.
_STAGES: dict[str, Callable[[int], float]] = {
    "slt": lambda ranks: 4 * max(ranks - 2, 1),
    "slt_dynamic": lambda ranks: 4 * max(ranks - 2, 1),
    "two_tree": lambda ranks: 2 * math.log2(ranks),
    "clairvoyant": lambda ranks: math.log2(ranks) - 1,
    "chain_reduce": lambda ranks: max(ranks - 2, 1),
    "chain_broadcast": lambda ranks: max(ranks - 2, 1),
    "k_chain_reduce": lambda ranks: math.ceil((ranks - 1) / 4) / min(4, ranks - 1),
    "binary_reduce": lambda ranks: max(math.log2(ranks) - 1, 1),
    "in_order_binary_reduce": lambda ranks: max(math.log2(ranks) - 1, 1),
    "binary_broadcast": lambda ranks: max(math.log2(ranks) - 1, 1),
    "split_binary_broadcast": lambda ranks: max(math.log2(ranks) - 1, 1),
}
_WHOLE = {
    *("recursive_doubling", "binomial_all_reduce", "flat_reduce", "binomial_reduce"),
    *("local_redirect_reduce", "flat_broadcast", "binomial_broadcast"),
}


def new_selector(ranks: int, link: Link) -> _core.Selector:
    """A selector that prices on this link; for one thread."""
    return _core.Selector(
        ranks,
        link.latency_s,
        link.bytes_per_s,
        link.reduce_bytes_per_s,
        link.transfers_s,
        link.port_share,
    )


def round_s(segments: int, message_bytes: int, link: Link) -> float:
    """Seconds to transfer and sum one segment: a round of Clairvoyant.

    Source: CLV16, section 5.4: d = alpha + B * (beta + gamma) for a segment of B bytes.
    """
    moving_s = link.transfer_s(message_bytes // segments)
    return link.latency_s + moving_s + sum_time_s(segments, message_bytes, link)


def sum_time_s(segments: int, message_bytes: int, link: Link) -> float:
    """Seconds to sum one segment."""
    return message_bytes // segments / link.reduce_bytes_per_s


def choose_segments(
    algorithm: str,
    ranks: int,
    message_bytes: int,
    elements: int,
    link: Link,
    *,
    collective: str = "all_reduce",
) -> int:
    """How many segments a message is cut into.

    * A chain (slt, slt_dynamic): twice sqrt((P - 2) * M * beta / latency). The root is Hockney's
      optimum, where the time to fill the pipeline equals the latencies of all segments; but
      consecutive messages overlap most of their latency, and what a segment really costs is nearer
      to a quarter of it (8 ranks, 4 MiB, 200 Mbit/s: 128 to 256 segments were best, the root says
      75). Source: TUNE07, section 4.
    * A ring (ring, prr): a part of M / P is cut while a segment's transfer is longer than 50
      latencies, at most 8 times: two segments hide the latency of a round, and each one more costs
      about a latency (shared memory, P = 2, 4 MiB: 2, 4, 8, 16 segments: 510, 520, 551, 592 us).
    * Pipelines (chains, binary trees): Hockney's optimum.
    * Whole messages (recursive_doubling, binomial and flat trees): 1, while the message fits the
      cache. A binomial tree gains nothing from segments (TUNE07, section 4.3.4).
    * Two trees (two_tree): sqrt(2 * log2(P) * M * beta / latency), as for a pipeline of 4 log2 P
      stages that takes two messages a segment.
    * Slices of slices (radix_k): its parts, cut for the cache only.
    * Halves of halves (rabenseifner): the parts of its largest block, the largest power of two
      that is <= P, cut for the cache only: messages in pieces let a balanced call overlap sums
      with transfers, but get into each other's way once a rank is late (simulated, P = 8, 4 MiB,
      1 GB/s, 1, 2, 4, 8 pieces: 8.2, 7.8, 7.5, 7.6 ms; 2 ms late 10.0, 10.4, 11.6, 11.8).
    * The tree (reproducible): as a ring for a power of two. Otherwise just so finely that the
      largest left subtree, whose ranks are a power of two, shares evenly, at most 8 times
      (simulated, 4 MiB, 200 Mbit/s, 1, 2, 4, 8 cuts: P = 5 1.37, 1.37, 1.19, 1.22 times a ring;
      P = 6 1.50, 1.15, 1.22, 1.19; P = 12 1.27, 1.09, 1.09, 1.09).
    * Rounds (clairvoyant): sqrt((log2 P - 1) * M * (beta + gamma) / latency), where the first
      segment's log2 P rounds cost as much as the others' latencies. Source: CLV16, section 5.2.
    * Pieces of segments (clairvoyant as an all-reduce): it makes messages of runs of segments, as
      many as suit the arrivals. At least 16 for each rank, so that the runs are equal within a
      sixteenth, and as many as a chain would like, in whole multiples of P.
    * All: small enough for the cache, not smaller than is worth a message.

    Always a multiple of the number of parts where the algorithm works on parts, at least 1, and at
    most `elements`.
    """
    if ranks == 1 or elements == 0:
        return 1
    transfer_s = link.transfer_s(message_bytes)
    if algorithm == "clairvoyant" and collective == "all_reduce":
        chain = choose_segments("slt", ranks, message_bytes, elements, link)
        return max(1, min(ranks * max(math.ceil(chain / ranks), 16), elements))
    if algorithm in _STAGES:
        moving_s = transfer_s
        if algorithm == "clairvoyant":
            moving_s += message_bytes / link.reduce_bytes_per_s
        wanted = math.sqrt(max(_STAGES[algorithm](ranks), 0) * moving_s / link.latency_s)
        wanted = max(wanted, message_bytes / _CACHE_BYTES)
        most = max(message_bytes // _LEAST_BYTES, 1)
        return max(1, min(round(wanted), most, elements))
    if algorithm in _WHOLE:
        return max(1, min(math.ceil(message_bytes / _CACHE_BYTES), elements))
    halving = algorithm.startswith(("rabenseifner", "radix_k"))
    parts = 2 ** (ranks.bit_length() - 1) if algorithm.startswith("rabenseifner") else ranks
    if algorithm.startswith("radix_k"):
        while (3**20 * 2**40) % parts:  # as in csrc/algorithms/radix.h
            parts -= 1
    part_bytes = message_bytes / parts
    cuts = 1.0 if halving else min(transfer_s / parts / link.latency_s / 50, 8.0)
    if algorithm == "reproducible":
        left = 2 ** ((ranks - 1).bit_length() - 1)  # ranks
        even = left // math.gcd(left, ranks)  # 1 for a power of two
        cuts = min(even, 8) if even > 1 else cuts
    if part_bytes > 4 * _CACHE_BYTES:  # a part that fits the cache as a whole needs no cuts
        cuts = max(cuts, part_bytes / _CACHE_BYTES)
    cuts = min(cuts, part_bytes / _LEAST_BYTES)
    return max(1, min(parts * max(round(cuts), 1), elements))
