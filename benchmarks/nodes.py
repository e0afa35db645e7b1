"""What is won where the ranks of a host stay together?  Simulated; prints one JSON line per case.

    python -m benchmarks.nodes --out out/nodes

N hosts, each with several ranks behind one port, whose memory is as good as free beside it. All
schedules are told when ranks arrive. *after*: from the last arrival to the last result, in units
of M*beta, which is the message's time through a port. Arrivals:

    together   of all ranks
    rank       one is late by 3 M*beta, the others come within the first M*beta, at random
    host       all ranks of one host are late so
    half       every second rank is late by M*beta
    random     within the first M*beta
    trace      those of a real job with sequences of uneven length (benchmarks/traces, SE), many of
               its iterations side by side where there are more ranks; the mean over 3

The largest case is a cluster as it is rented: 64 hosts of 8 GPUs, 25 Gbit/s, 1 GiB of gradients; of
its trace, what a day of training saves is said, too, with the trace's own iteration times.
"""

from __future__ import annotations

import itertools
import json
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import patallreduce as pat
from benchmarks import traces
from benchmarks.lab.arguments import command_line
from benchmarks.lab.plan import Record, write_records
from patallreduce.pictures.figures import figure, save
from patallreduce.pricing.bucket import WITHIN_NODE
from patallreduce.pricing.selection import choose_segments

TRACE, TRACED = "SE", 3  # iterations
WAYS = ("ring", "slt", "prr")
DAY_S = 86400


@dataclass(frozen=True)
class Cluster:
    """So many hosts of so many ranks, and what they reduce."""

    hosts: int
    ranks_per_host: int
    port: pat.Link
    message_bytes: int

    @property
    def nodes(self) -> list[int]:
        """(P,) the host of each rank."""
        return [host for host in range(self.hosts) for _ in range(self.ranks_per_host)]

    @property
    def network(self) -> pat.Network:
        """What messages take."""
        ranks = self.hosts * self.ranks_per_host
        return pat.Network.of_ports(
            self.port, ranks, nodes=self.nodes, within_node=WITHIN_NODE, shared_ports=False
        )

    @property
    def transfer_s(self) -> float:
        """M*beta."""
        return self.port.transfer_s(self.message_bytes)

    def after_s(self, way: str, nodes: Sequence[int] | None, arrivals_s: Sequence[float]) -> float:
        """From the last arrival to the last result, with nodes in the schedule or without."""
        ranks = len(arrivals_s)
        ids = ranks if nodes is None else self.hosts
        segments = choose_segments(way, ids, self.message_bytes, self.message_bytes // 4, self.port)
        segments = -(-segments // ranks) * ranks
        segment_time_s = self.port.latency_s + self.transfer_s / ids
        schedule = pat.schedule(
            way,
            ranks,
            segments,
            None if way == "ring" else arrivals_s,
            nodes=nodes,
            segment_time_s=segment_time_s if way == "prr" else 0.0,
        )
        return pat.simulate(
            schedule, self.network, self.message_bytes, arrivals_s
        ).after_last_arrival_s

    def bound_s(self, arrivals_s: Sequence[float]) -> float:
        """What no all-reduce can beat, as `after_s`."""
        bound = pat.lower_bound(self.network, self.message_bytes, arrivals_s)
        return bound.last_finish_s - max(arrivals_s)


CLUSTERS = (
    Cluster(2, 4, pat.Link(50e-6, 25e6), 4 << 20),
    Cluster(4, 4, pat.Link(50e-6, 25e6), 4 << 20),
    Cluster(64, 8, pat.Link(20e-6, 25e9 / 8), 1 << 30),
)


def arrivals_s(name: str, cluster: Cluster) -> Iterator[list[float]]:
    """When ranks arrive, in each iteration."""
    draw, unit_s, nodes = random.Random(5), cluster.transfer_s, cluster.nodes
    ranks = len(nodes)
    spread_s = [unit_s * draw.random() for _ in nodes]
    late = ranks // 2 + 1
    if name == "together":
        yield [0.0] * ranks
    elif name == "rank":
        yield [3 * unit_s if rank == late else at_s for rank, at_s in enumerate(spread_s)]
    elif name == "host":
        yield [
            3 * unit_s + at_s if node == nodes[late] else at_s
            for node, at_s in zip(nodes, spread_s, strict=True)
        ]
    elif name == "half":
        yield [unit_s * (rank % 2) for rank in range(ranks)]
    elif name == "random":
        yield spread_s
    else:
        every = [i.arrivals_s for of in traces.read(TRACE).values() for i in of]
        side_by_side = -(-ranks // len(every[0]))
        for first in range(TRACED):
            of = (every[(first + n) % len(every)] for n in range(side_by_side))
            yield list(itertools.chain.from_iterable(of))[:ranks]


PATTERNS = ("together", "rank", "host", "half", "random", "trace")


def measure(cluster: Cluster, name: str) -> Record:
    """One cluster under one pattern."""
    every_s = list(arrivals_s(name, cluster))
    after_s = {
        f"{way} by {what}": statistics.fmean(cluster.after_s(way, nodes, s) for s in every_s)
        for way in WAYS
        for what, nodes in (("rank", None), ("host", cluster.nodes))
    }
    after_s["bound"] = statistics.fmean(map(cluster.bound_s, every_s))
    return {
        "hosts": cluster.hosts,
        "ranks_per_host": cluster.ranks_per_host,
        "message_bytes": cluster.message_bytes,
        "port_bytes_per_s": cluster.port.bytes_per_s,
        "arrivals": name,
        "after": {way: seconds / cluster.transfer_s for way, seconds in after_s.items()},
        "iteration_s": statistics.fmean(map(max, every_s)) if name == "trace" else None,
        "transfer_s": cluster.transfer_s,
    }


def saved_s(record: Record, way: str, than: str) -> float:
    """Seconds of a day that one way saves over another, in a job with the trace's iterations."""
    of, other = (
        record["iteration_s"] + record["after"][name] * record["transfer_s"] for name in (way, than)
    )
    return float(DAY_S * (1 - of / other))


def draw(records: Sequence[Record], path: Path) -> None:
    """A panel per cluster: bars of each way, per pattern, and the bound."""
    clusters = list(dict.fromkeys((r["hosts"], r["ranks_per_host"]) for r in records))
    ways = [name for name in records[0]["after"] if name != "bound"]
    picture = figure(11.0, 3.0 * len(clusters))
    for panel, cluster in zip(
        picture.subplots(len(clusters), 1, squeeze=False)[:, 0], clusters, strict=True
    ):
        rows = [r for r in records if (r["hosts"], r["ranks_per_host"]) == cluster]
        for number, way in enumerate(ways):
            at = [n + (number - 2.5) / 7 for n in range(len(rows))]
            colour = f"C{number // 2}"
            panel.bar(
                at,
                [r["after"][way] for r in rows],
                1 / 7,
                label=way,
                color=colour if way.endswith("host") else "none",
                edgecolor=colour,
            )
        for n, row in enumerate(rows):
            bound = row["after"]["bound"]
            panel.hlines(bound, n - 0.45, n + 0.45, color="black", label="" if n else "bound")
        panel.set_xticks(range(len(rows)), [r["arrivals"] for r in rows])
        panel.set_ylim(0, 6)
        panel.set_ylabel("after / M*beta")
        panel.set_title(f"{cluster[0]} hosts of {cluster[1]} ranks")
    picture.axes[0].legend(ncols=4, fontsize=8)
    save(picture, path)


def main() -> None:
    """Simulate all cases; print, keep and draw them."""
    parser = command_line("nodes", __doc__)
    parser.add_argument("--out", type=Path, default=Path("out/nodes"), help="folder (%(default)s)")
    options = parser.parse_args()
    records = []
    for cluster, name in itertools.product(CLUSTERS, PATTERNS):
        records.append(measure(cluster, name))
        print(json.dumps(records[-1]), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    write_records(options.out / "nodes_simulated.jsonl", records)
    draw(records, options.out / "nodes_simulated.png")


if __name__ == "__main__":
    main()
