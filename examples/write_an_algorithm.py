"""Write an all-reduce of your own: ten lines of steps, proved, priced beside a ring, and run.

    python examples/write_an_algorithm.py --ranks 8

The algorithm: every rank is the hub of one segment. All ranks send it their part of that segment;
it sums them up and sends everybody the result.

    segment 0:   1, 2, 3 -> 0      recv_reduce, in this order
                 0 -> 1, 2, 3      recv
    segment 1:   2, 3, 0 -> 1      and so on: every port always has one message to send
                 1 -> 2, 3, 0      and one to receive

    messages   2(P-1) parts sent by every rank, 2(P-1)/P of the data: as many as in a ring
    depth      2: in a ring each of the 2(P-1) messages waits for the one before it, and pays its
               whole latency; here they follow each other through the port

So it wins where latency counts, and is no worse while ranks arrive together. A late rank costs it
more than a ring where bandwidth counts: the hubs' messages then meet at its port in turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

import patallreduce as pat
from patallreduce import Step

LINK = pat.Link(latency_s=20e-6, bytes_per_s=25e6)  # 200 Mbit/s
SIZES_BYTES = {"1 KiB": 2**10, "64 KiB": 2**16, "4 MiB": 2**22}
LATE_S = 0.05


def hubs(ranks: int) -> pat.Schedule:
    """Make the schedule: every rank's steps, in the order in which it would do them."""
    steps = []
    for me in range(ranks):
        collect, tell = [], []
        for distance in range(1, ranks):
            there, back = (me + distance) % ranks, (me - distance) % ranks
            collect.append(Step("send", there, there, there + 1))
            collect.append(Step("recv_reduce", back, me, me + 1))
            tell.append(Step("send", there, me, me + 1))
            tell.append(Step("recv", back, back, back + 1))
        steps.append(collect + tell)
    return pat.Schedule.from_steps(steps, segments=ranks, algorithm="hubs")


def run(schedule: pat.Schedule, buckets: Sequence[torch.Tensor]) -> None:
    """All-reduce one bucket per rank by it, in place; the ranks are threads of this process.

    Between processes it is the same call, on the communicator that each of them makes by
    `pat.Communicator()`.
    """
    communicators = pat.Communicator.loopback(schedule.ranks, monitor=False)

    def reduce(communicator: pat.Communicator) -> None:
        with communicator:
            communicator.all_reduce(buckets[communicator.rank], schedule=schedule)

    with ThreadPoolExecutor(schedule.ranks) as threads:
        list(threads.map(reduce, communicators))


def price_ms(schedule: pat.Schedule, size_bytes: int, arrivals_s: Sequence[float]) -> float:
    """Simulate it; milliseconds from the last rank's arrival until all have the result."""
    return 1e3 * pat.simulate(schedule, LINK, size_bytes, arrivals_s).after_last_arrival_s


def prices(ranks: int) -> dict[tuple[str, str], tuple[float, float]]:
    """Price hubs and ring, by size and pattern of arrivals, in milliseconds."""
    patterns = {
        "together": pat.patterns.balanced(ranks),
        f"one late by {LATE_S * 1e3:g} ms": pat.patterns.one_late(ranks, LATE_S),
    }
    both = hubs(ranks), pat.schedule("ring", ranks)
    return {
        (size, pattern): (
            price_ms(both[0], size_bytes, arrivals_s),
            price_ms(both[1], size_bytes, arrivals_s),
        )
        for size, size_bytes in SIZES_BYTES.items()
        for pattern, arrivals_s in patterns.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="A new all-reduce, proved, priced and run.")
    parser.add_argument("--ranks", type=int, default=8)
    ranks = parser.parse_args().ranks

    schedule = hubs(ranks)
    pat.verify(schedule)
    print(f"{schedule!r}: no deadlock, every contribution once, the same sum on all ranks\n")
    print(hubs(3))

    print("\nafter the last arrival, simulated at 200 Mbit/s and 20 us [ms]")
    print(f"{'bucket':>8}  {'arrivals':<20} {'hubs':>9} {'ring':>9}")
    for (size, pattern), (mine_ms, ring_ms) in prices(ranks).items():
        print(f"{size:>8}  {pattern:<20} {mine_ms:9.3f} {ring_ms:9.3f}")

    generator = torch.Generator().manual_seed(0)
    # Integers, so that any order of adding them gives the same floats as torch's.
    buckets = [torch.randint(100, (100_000,), generator=generator).float() for _ in range(ranks)]
    expected = torch.stack(buckets).sum(0)
    run(schedule, buckets)
    wrong = sum(int(bucket.ne(expected).sum()) for bucket in buckets)
    print(f"\nrun on {ranks} ranks with {len(expected)} values each: ", end="")
    print(f"{wrong} WRONG sums" if wrong else "every rank has torch's sums")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
