"""What Open MPI decides unless told otherwise: the rules that came out of TUNE07's measurements.

Source: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c as of 2007, measured on Grig, with Myrinet.
"""

from __future__ import annotations

from patallreduce.decisions.times import Method

KIB = 1 << 10


def fixed(collective: str, ranks: int, message_bytes: int) -> Method:
    """The method, by our name for its algorithm; the bytes are those of the whole tensor."""
    return {
        "all_reduce": _all_reduce,
        "broadcast": _broadcast,
        "reduce": _reduce,
        "all_gather": _all_gather,
        "reduce_scatter": _reduce_scatter,
    }[collective](ranks, message_bytes)


def _all_reduce(ranks: int, message_bytes: int) -> Method:
    if message_bytes < 10000:
        return Method("recursive_doubling")
    return Method("ring", KIB * KIB if message_bytes > ranks * KIB * KIB else 0)


def _broadcast(ranks: int, message_bytes: int) -> Method:
    if message_bytes < 2048:
        return Method("binomial_broadcast")
    if message_bytes < 370728:
        return Method("split_binary_broadcast", KIB)
    wide = ranks >= 1.6134e-6 * message_bytes + 2.1102
    if wide and ranks < 13:
        return Method("split_binary_broadcast", 8 * KIB)
    borders = {  # ranks below them, by bytes of a segment
        128 * KIB: 1.6134e-6 * message_bytes + 2.1102,
        64 * KIB: 2.3679e-6 * message_bytes + 1.1787,
        16 * KIB: 3.2118e-6 * message_bytes + 8.7936,
    }
    segment_bytes = next((size for size, most in borders.items() if ranks < most), 8 * KIB)
    return Method("chain_broadcast", segment_bytes)


def _reduce(ranks: int, message_bytes: int) -> Method:
    if message_bytes < (20480 if ranks < 8 else 2048):
        few = "flat_reduce" if message_bytes < 512 else "binomial_reduce"
        return Method(few if ranks < 8 else "binary_reduce")
    kib = message_bytes / KIB
    if ranks > 0.6016 * kib + 1.3496:
        return Method("binary_reduce", KIB)
    if ranks > 0.0410 * kib + 9.7128:
        return Method("chain_reduce", KIB)
    large = ranks <= min(0.0422 * kib + 1.1614, 0.0033 * kib + 1.6761)
    return Method("chain_reduce", (64 if large else 32) * KIB)


def _all_gather(ranks: int, message_bytes: int) -> Method:
    if ranks == 2:
        return Method("pairwise_all_gather")
    if message_bytes < 50000:
        power_of_two = ranks & (ranks - 1) == 0
        return Method("recursive_doubling_all_gather" if power_of_two else "bruck_all_gather")
    return Method("ring_all_gather" if ranks % 2 else "neighbour_exchange_all_gather")


def _reduce_scatter(ranks: int, message_bytes: int) -> Method:
    power_of_two = ranks & (ranks - 1) == 0
    small = message_bytes <= 12 * KIB or (message_bytes <= 256 * KIB and power_of_two)
    if small or ranks >= 0.0012 * message_bytes + 8:
        return Method("recursive_halving_reduce_scatter")
    return Method("ring_reduce_scatter")
