"""Long ways, and connections that do not fill a port: what docs/performance.md says of them."""

from __future__ import annotations

from collections.abc import Iterator

from tests.figures.ports import PAGE, PAYLOAD, RIVALS
from tests.figures.records import Figure, after_s, load, mean, median, ms, one, percent

# By the words behind a latency.
PLACES = {"": "between all", "2": "between two sites", "1:shallow": "between all, short queues"}


def long_ways() -> Iterator[Figure]:
    """Limits: what a port of 200 Mbit/s has to carry, and latencies."""
    file = "long_ways.jsonl"
    message_s = (4 << 20) / (200e6 / 8 * PAYLOAD)
    cases = dict.fromkeys((r["network"], r["pause_s"], r["delay_s"]) for r in load(file))
    for network, pause_s, delay_s in cases:
        latency, _, words = network.partition("@")[2].partition(":")
        case = {"network": network, "pause_s": pause_s, "delay_s": delay_s}
        of = {name: one(file, algorithm=name, **case) for name in RIVALS}
        where = PLACES[words] + (", after 1 s" if pause_s else "")
        # Within the late rank's site, and within the other one, data are passed on in no time.
        flights = 2 - 1 / 7 if delay_s and words != "2" else 1
        flight_s = float(latency.removesuffix("ms")) / 1e3
        limit_s = (1 if delay_s else 2 * 7 / 8) * message_s + flights * flight_s
        late = "one by 0.5 s" if delay_s else "nobody"
        times = " | ".join(ms(after_s(of[rival])) for rival in RIVALS)
        latency = latency.replace("ms", " ms")
        yield Figure(
            PAGE, f"| {latency} {where} | {late} | {times} | {ms(limit_s)} |", "medians", file
        )


def training_long_ways() -> Iterator[Figure]:
    """Of each network, nobody late and one rank."""
    file = "training_long_ways.jsonl"
    behind = []
    for network, buckets, delay_s in dict.fromkeys(
        (r["network"], r["buckets"], r["delay_s"]) for r in load(file)
    ):
        latency, _, words = network.partition("@")[2].partition(":")
        late = "one by 0.3 s" if delay_s else "nobody"
        case = {"network": network, "buckets": buckets, "delay_s": delay_s}
        of = {hook: median(one(file, hook=hook, **case)["iterations_s"]) for hook in RIVALS}
        where = f"{latency.replace('ms', ' ms')} {PLACES[words]}"
        where += f", {buckets} buckets" if buckets > 1 else ""
        times = " | ".join(ms(of[hook]) for hook in RIVALS)
        yield Figure(PAGE, f"| {where} | {late} | {times} |", "medians", file)
        behind.append(of["auto"] / of["direct_exchange"])
    yield Figure(PAGE, f"is at most {percent(max(behind))} behind", "medians", file)
    case = {"network": "200mbit@50ms:2", "delay_s": 0}
    means = [
        ms(mean(one(file, hook=h, **case)["iterations_s"])) for h in ("auto", "direct_exchange")
    ]
    yield Figure(PAGE, f"the means are {' and '.join(means)}", "means", file)


def connections() -> Iterator[Figure]:
    """Of one network and size: Gloo, then each algorithm over one and four connections."""
    file = "long_ways_connections.jsonl"
    found = {
        (
            (r["network"], r["ranks"], r["bytes"]),
            r["algorithm"],
            r["environment"]["variables"]["PATALLREDUCE_CONNECTIONS"],
        ): ms(after_s(r))
        for r in load(file)
    }
    for case in dict.fromkeys(case for case, _, _ in found):
        network, ranks, size = case
        rate, _, latency = network.partition("@")
        rate = rate.replace("mbit", " Mbit/s").replace("gbit", " Gbit/s")
        times = [found[case, "gloo", "1"]]
        times += [
            found[case, algorithm, count]
            for algorithm in ("ring", "direct_exchange")
            for count in ("1", "4")
        ]
        where = f"{ranks} ranks, {rate}, {latency.replace('ms', ' ms')}, {size >> 20} MiB"
        yield Figure(PAGE, f"| {where} | {' | '.join(times)} |", "medians", file)
    case = ("1gbit@20ms", 2, 32 << 20)
    text = f"with 16 the ring of the second row takes {found[case, 'ring', '16']}"
    yield Figure(PAGE, text, "medians", file)
    file = "training_long_ways_buckets.jsonl"
    for count in ("1", "4"):
        times = " | ".join(
            ms(mean(r["iterations_s"]))
            for hook in ("gloo", "ring", "direct_exchange", "auto")
            for r in load(file)
            if (r["hook"], r["environment"]["variables"]["PATALLREDUCE_CONNECTIONS"])
            == (hook, count)
        )
        yield Figure(PAGE, f"| {count} | {times} |", "means", file)


def partners() -> Iterator[Figure]:
    """Single calls, then iterations of training, where a connection does not fill a port."""
    file = "partners.jsonl"
    transfer_s = median(r["Mbeta_s"] for r in load(file))
    yield Figure(PAGE, f"one connection alone takes {ms(transfer_s)}", "medians", file)
    for delay_s, late in ((0, "nobody"), (0.5, "one by 0.5 s")):
        times = " | ".join(
            ms(after_s(r))
            for rival in RIVALS
            for r in load(file)
            if (r["algorithm"], r["delay_s"]) == (rival, delay_s)
        )
        yield Figure(PAGE, f"| single calls | {late} | {times} |", "medians", file)
    file = "training_partners.jsonl"
    for delay_s, late in ((0, "nobody"), (0.3, "one by 0.3 s")):
        times = " | ".join(
            ms(mean(one(file, hook=hook, delay_s=delay_s)["iterations_s"]))
            for hook in ("gloo", "ring", "direct_exchange", "auto")
        )
        yield Figure(PAGE, f"| iterations, 4 buckets | {late} | {times} |", "means", file)


def barrier() -> Iterator[Figure]:
    file = "training_barrier.jsonl"
    times = {
        (hook, delay_s): ms(mean(one(file, hook=hook, delay_s=delay_s)["iterations_s"]))
        for hook in ("gloo", "auto")
        for delay_s in (0, 0.3)
    }
    text = (
        f"`auto` {times['auto', 0]} where Gloo takes {times['gloo', 0]}, with a rank late by "
        f"0.3 s {times['auto', 0.3]} where it takes {times['gloo', 0.3]}"
    )
    yield Figure("ARCHITECTURE.md", text, "means", file)


def figures() -> Iterator[Figure]:
    yield from long_ways()
    yield from training_long_ways()
    yield from connections()
    yield from partners()
    yield from barrier()
