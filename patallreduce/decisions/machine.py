"""What tells one machine from another, as far as decisions depend on it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from patallreduce.decisions.times import Machine
from patallreduce.pricing.link import Link

_MOST_OTHER_BANDWIDTH = 2.0


def processor() -> str:
    """The name of this host's processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def another(machine: Machine, transport: str) -> str:
    """In what this host differs from those of `machine`; "" where it does not."""
    processors = machine.get("processors")
    if isinstance(processors, list) and processor() not in processors:
        return f"expected a processor of {', '.join(map(str, processors))}, got {processor()}"
    if machine.get("transport") != transport:
        return f"expected transport {machine.get('transport')}, got {transport}"
    return ""


def another_link(machine: Machine, link: Link) -> str:
    """In what the link differs; "" where it is about the same."""
    measured = machine.get("link")
    if not isinstance(measured, Mapping) or not isinstance(measured.get("bytes_per_s"), float):
        return ""
    share = link.bytes_per_s / measured["bytes_per_s"]
    if 1 / _MOST_OTHER_BANDWIDTH <= share <= _MOST_OTHER_BANDWIDTH:
        return ""
    return (
        f"expected a link of about {measured['bytes_per_s'] / 1e6:.3g} MB/s, measured "
        f"{link.bytes_per_s / 1e6:.3g}"
    )
