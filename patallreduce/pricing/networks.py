"""Networks: links that differ between ranks, and nodes whose ranks share one; kept as files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from patallreduce import _core, arguments
from patallreduce.arguments import refused
from patallreduce.pricing.link import Link
from patallreduce.pricing.models import LogGP, Model, PLogP
from patallreduce.text.files import parse_json, read_text
from patallreduce.text.units import rate_text


@dataclass(frozen=True)
class Network:
    """Links that differ between ranks, and nodes whose ranks share an uplink.

    A message between two ranks costs what the slower of both links asks for, term by term. Both
    ports are busy with it at once, and it waits for both: a port that is late to receive holds up
    what its sender has to send behind it.

    Args:
        links: One for every rank (a `Link`, `LogGP` or `PLogP`), or (P,) of them by rank.
        nodes: (P,) node of each rank, >= 0. None: no two ranks share one.
        within_node: Link between ranks of one node. None: their own.
        uplink_bytes_per_s: Bandwidth that a node's ranks share to other nodes, each direction: of
            every node, or one by number of the node. None: unlimited.
        shared_ports: Messages of different pairs of ranks share the ports, or uplinks, that they
            have in common evenly, as TCP connections do, of port and uplink the slower one; only
            those of one pair take turns. A port has as many partners as the first link. False: all
            take turns.
        burst_bytes: What a port that has rested lets through at once, each direction, as the first
            link prices it. 0: as that link has it.
        call_s: What a call costs a rank's processor after its arrival, before its first step, >= 0:
            waking up, agreeing on the schedule.
        posted_before_arrival: A rank's receives are posted before it arrives, as this package's
            executor does. False: a message leaves when its receiver has arrived (rendezvous).

    Raises:
        TypeError: A value is of another kind.
        ValueError: There are not as many links as nodes.
        ScheduleError: When it is used, values that are not one per rank or out of range, or links
            whose `processors` differ, or have any where there are nodes.

    Source: single port, full duplex: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005), section 3.
    """

    links: Model | Sequence[Model]
    nodes: Sequence[int] | None = None
    within_node: Model | None = None
    uplink_bytes_per_s: float | Sequence[float] | None = None
    shared_ports: bool = False
    burst_bytes: float = 0.0
    call_s: float = 0.0
    posted_before_arrival: bool = True

    def __post_init__(self) -> None:
        links = self.links if isinstance(self.links, Sequence) else (self.links,)
        for link in links if self.within_node is None else (*links, self.within_node):
            if not isinstance(link, (Link, LogGP, PLogP)):
                raise TypeError(refused("network.links", "a Link, LogGP or PLogP", link))
        if self.nodes is not None:
            for rank, node in enumerate(self.nodes):
                arguments.whole(f"network.nodes[{rank}]", node)
            if isinstance(self.links, Sequence) and len(links) != len(self.nodes):
                expected = f"{len(links)} of them, as many as links"
                raise ValueError(refused("network.nodes", expected, self.nodes))
        if isinstance(self.uplink_bytes_per_s, Sequence):
            arguments.numbers("network.uplink_bytes_per_s", self.uplink_bytes_per_s)
        elif self.uplink_bytes_per_s is not None:
            arguments.number("network.uplink_bytes_per_s", self.uplink_bytes_per_s)
        for name in ("burst_bytes", "call_s"):
            arguments.number(f"network.{name}", getattr(self, name))
        for name in ("shared_ports", "posted_before_arrival"):
            arguments.flag(f"network.{name}", getattr(self, name))

    @classmethod
    def of_ports(
        cls,
        link: Link,
        ranks: int,
        *,
        nodes: Sequence[int] = (),
        within_node: Model | None = None,
        shared_ports: bool = True,
    ) -> Network:
        """A network of alike ranks behind ports: those of `link`, of every rank or every node.

        Args:
            link: Between ranks, or between nodes.
            ranks: P.
            nodes: (P,) node of each rank; (): no two share one.
            within_node: As of the network, like shared_ports.
            shared_ports: See there.
        """
        numbers = {node: number for number, node in enumerate(dict.fromkeys(nodes))}
        node_of = [numbers[node] for node in nodes]
        by_port = link.by_port() or [link] * (len(numbers) or ranks)
        if not node_of:
            return cls(tuple(by_port), shared_ports=shared_ports)
        return cls(
            tuple(by_port[node] for node in node_of),
            nodes=tuple(node_of),
            within_node=within_node,
            uplink_bytes_per_s=tuple(port.bytes_per_s * port.partners for port in by_port),
            shared_ports=shared_ports,
        )

    @property
    def link(self) -> Link:
        """What a communicator plans with, the link between nodes with the ports of all.

        Raises:
            TypeError: Not every rank has a Link.
        """
        links = self.links if isinstance(self.links, Sequence) else (self.links,)
        of = [link for link in links if isinstance(link, Link)]
        if len(of) != len(links) or not of:
            raise TypeError(refused("network.links", "a Link for every rank", self.links))
        by_node = list(dict(zip(self.nodes or range(len(of)), of, strict=False)).values())
        narrowest = min(by_node, key=lambda link: link.bytes_per_s)
        ports = tuple(link.bytes_per_s / narrowest.bytes_per_s for link in by_node)
        return replace(narrowest, ports=ports if len(set(ports)) > 1 else ())

    def save(self, path: str | Path) -> None:
        """Write it to a file of JSON, which `load` reads."""
        entry = {"patallreduce": "network", "version": _VERSION, **asdict(self)}
        entry["links"] = _encoded(self.links)
        entry["within_node"] = None if self.within_node is None else _encoded(self.within_node)
        Path(path).write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Network:
        """Read what `save` wrote.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is no network, of another version, or a value is missing or impossible;
                the message names the file.
        """
        text = read_text(path)
        try:
            entry = parse_json(text)
            if not isinstance(entry, dict) or entry.pop("patallreduce", None) != "network":
                raise ValueError("expected a network that Network.save wrote")
            if (version := entry.pop("version", None)) != _VERSION:
                raise ValueError(f"expected version {_VERSION}, got {version!r}")
            entry["links"] = _decoded(entry["links"])
            if entry["within_node"] is not None:
                entry["within_node"] = _decoded(entry["within_node"])
            return cls(**{name: frozen(value) for name, value in entry.items()})
        except (ValueError, TypeError, KeyError) as error:
            what = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{path}: {what}") from None

    def __str__(self) -> str:
        """A line for each class of links: whose they are, rate, latency, sums; which are slow."""
        alone = "rank" if self.nodes is None else "node"
        lines = []
        if self.nodes is not None:
            lines = [f"{len(self.nodes)} ranks on {len(set(self.nodes))} nodes, which share ports"]
        if self.within_node is not None:
            lines.append(f"{'within a node':<16} {_text(self.within_node)}")
        if not isinstance(self.links, Sequence):
            return "\n".join([*lines, f"{'every ' + alone:<16} {_text(self.links)}"])
        whose: dict[Model, dict[int, None]] = {}
        for number, link in zip(self.nodes or range(len(self.links)), self.links, strict=True):
            whose.setdefault(link, {})[number] = None
        widest = max((link.bytes_per_s for link in whose if isinstance(link, Link)), default=0.0)
        for link, numbers in whose.items():
            line = f"{alone + ' ' + _ranges(list(numbers)):<16} {_text(link)}"
            if isinstance(link, Link) and link.bytes_per_s < widest:
                line += f"; slow, {link.bytes_per_s / widest:.2g} of the widest"
            lines.append(line)
        return "\n".join(lines)


_VERSION = 1
_MODELS = {kind.__name__: kind for kind in (Link, LogGP, PLogP)}


def _ranges(numbers: Sequence[int]) -> str:
    """Write ascending numbers as "0 to 3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _text(model: Model) -> str:
    if not isinstance(model, Link):
        return repr(model)
    sums = rate_text(model.reduce_bytes_per_s)
    rate = rate_text(model.bytes_per_s)
    if model.partners > 1:
        rate += (
            f" between two ranks, {rate_text(model.bytes_per_s * model.partners)} from one to all"
        )
    burst = f", {model.burst_bytes / 1024:.3g} KiB at once" if model.burst_bytes else ""
    processors = f", processors: {model.processors}" if model.processors else ""
    return f"{rate}{processors}{burst}, {model.latency_s * 1e6:.3g} us; sums {sums}"


def _encoded(links: Model | Sequence[Model]) -> Any:
    if isinstance(links, Sequence):
        return [_encoded(link) for link in links]
    return {"model": type(links).__name__, **asdict(links)}


def _decoded(entry: Any) -> Any:
    if isinstance(entry, list):
        return tuple(map(_decoded, entry))
    if not isinstance(entry, Mapping) or entry.get("model") not in _MODELS:
        raise ValueError(refused("links", f"a model of {', '.join(_MODELS)}", entry))
    values = {name: _numbers(name, value) for name, value in entry.items() if name != "model"}
    return _MODELS[entry["model"]](**values)


def _numbers(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_numbers(name, one) for one in value)
    if type(value) not in (int, float):
        raise ValueError(refused(name, "a number, or a list of numbers", value))
    return value


def frozen(value: Any) -> Any:
    """What JSON has as lists, as tuples."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def native(network: Model | Network) -> _core.Network:
    """The network as the core takes it."""
    if isinstance(network, Link) and network.shares_ports:
        network = Network(network.by_port() or network, shared_ports=True)
    if not isinstance(network, Network):
        network = Network(network)
    result = _core.Network()
    added: dict[Model, int] = {}

    def add(model: Model) -> int:
        if model not in added:
            added[model] = len(added)
            _add(result, model)
        return added[model]

    if isinstance(network.links, (Link, LogGP, PLogP)):
        add(network.links)
    else:
        result.model_of = [add(model) for model in network.links]
    if network.nodes is not None:
        result.node_of = list(network.nodes)
    if network.within_node is not None:
        result.within_node = add(network.within_node)
    if (uplinks := network.uplink_bytes_per_s) is not None:
        nodes = 1 + max(network.nodes or [0])
        result.uplink_bytes_per_s = uplinks if isinstance(uplinks, Sequence) else [uplinks] * nodes
    result.burst_bytes = network.burst_bytes
    result.call_s = network.call_s
    result.shared_ports = network.shared_ports
    result.posted_before_arrival = network.posted_before_arrival
    return result


def _add(network: _core.Network, model: Model) -> None:
    if isinstance(model, Link):
        network.add_hockney(model)
    elif isinstance(model, LogGP):
        network.add_loggp(
            model.latency_s,
            model.overhead_s,
            model.gap_s,
            model.gap_per_byte_s,
            model.reduce_bytes_per_s,
        )
    else:
        network.add_plogp(
            model.latency_s,
            model.gap_s,
            model.send_overhead_s,
            model.receive_overhead_s,
            model.reduce_bytes_per_s,
        )
