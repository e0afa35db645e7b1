"""The driver's side of a benchmark: a plan is given to ranks, which write what they measure.

The ranks' side is rank.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from .environment import environment
from .launch import RankFailedError, RankTimeoutError
from .loopback import Loopback
from .namespaces import available, enter_user_namespace
from .network import Network, parse_rate
from .openmpi import run_openmpi

Plan = dict[str, Any]
Record = dict[str, Any]
SHARED_MEMORY = "shm"


def make_network(ranks: int, rate: str) -> Network | Loopback:
    """Make the network that `rate` describes, entering a user namespace if that is needed.

    `rate` is one for all ports or one per port, with commas; "/4" behind it: 4 ranks share a port;
    then "@25ms": latency between any two ports, or "@25ms:2", between two sites; then ":warm":
    connections that have rested go on as fast as before; ":shallow": queues as short as without
    latency; ":64KiB": a connection has no larger window.
    """
    if rate in {"none", SHARED_MEMORY}:
        return Loopback(ranks)
    rate, _, latency = rate.partition("@")
    latency, *rest = latency.split(":")
    windows = [word for word in rest if word.endswith("iB")]
    sites = ":".join(word for word in rest if word not in {"warm", "shallow", *windows})
    rates, _, ranks_per_node = rate.partition("/")
    rates_bit_s = [parse_rate(part) for part in rates.split(",")]
    if not available():
        raise SystemExit(f"no emulated network here: {available().reason}")
    enter_user_namespace()
    return Network(
        ranks,
        rates_bit_s[0] if len(rates_bit_s) == 1 else rates_bit_s,
        ranks_per_node=int(ranks_per_node or 1),
        latency_s=float(latency.removesuffix("ms") or 0) / 1e3,
        sites=int(sites or 1),
        slow_start_after_idle="warm" not in rest,
        window_bytes=_bytes(windows),
        shallow="shallow" in rest,
    )


def _bytes(sizes: list[str]) -> int:
    if not sizes:
        return 0
    from patallreduce.text.units import parse_bytes  # with torch, which takes a second to import

    return sum(map(parse_bytes, sizes))


def end_on_sigterm() -> None:
    """Leave through Python's own clean-up when asked to end, as on Ctrl-C."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def make_plan(options: argparse.Namespace, results: str, **more: Any) -> Plan:
    """Make a plan of the command line, and the folder of its results."""
    options.out.mkdir(parents=True, exist_ok=True)
    return {
        **{name: value for name, value in vars(options).items() if name != "out"},
        "shared_memory": options.network in {"none", SHARED_MEMORY},
        "results": str((options.out / results).resolve()),
        "environment": environment(),
        **more,
    }


def run_plan(
    plan: Plan,
    ranks: list[int],
    worker: str,
    begin: Callable[[Network | Loopback], None] = lambda _: None,
) -> list[Record]:
    """Let the worker measure the plan with each number of ranks; return what it recorded.

    `begin` is called with each network before its ranks start.
    """
    results = Path(plan["results"])
    # Before the file is emptied: inside a user namespace the program starts again from the top.
    networks = (make_network(number, plan["network"]) for number in ranks)
    for index, network in enumerate(networks):
        if index == 0:
            results.write_text("", encoding="utf-8")
        with network, fresh_starts(plan):
            begin(network)
            command = [sys.executable, "-m", worker, json.dumps(plan)]
            try:
                if "openmpi" in plan.get("algorithms", ()):
                    run_openmpi(network, command, timeout_s=plan["timeout_s"], show="rank0")
                else:
                    network.run(command, timeout_s=plan["timeout_s"], show="rank0")
            except (RankFailedError, RankTimeoutError) as error:
                raise SystemExit(str(error)) from None
    return read_records(results)


def starts_file(plan: Plan) -> str:
    """Where ranks agree on starts, which is not over the network that they measure."""
    return f"{plan['results']}.starts"


@contextlib.contextmanager
def fresh_starts(plan: Plan) -> Iterator[None]:
    """Have no such file before ranks start, and none after they have ended."""
    file = Path(starts_file(plan))
    file.unlink(missing_ok=True)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def read_records(path: Path) -> list[Record]:
    """Read JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
