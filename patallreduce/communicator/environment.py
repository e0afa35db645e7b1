"""Settings from the environment: `PATALLREDUCE_*`, below arguments and above defaults."""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Callable, Iterable

from patallreduce import _core
from patallreduce.arguments import nearest, refused

# Name after the prefix -> what it sets. Build-time names are listed so that they pass.
VARIABLES = {
    "ALGORITHM": 'algorithm that "auto" stands for, e.g. ring',
    "CLOCK_SKEW_S": "for tests: seconds added to this rank's clock in its progress reports",
    "CONNECTIONS": "TCP connections with each rank, 1 to 16 (default 1), for long ways",
    "MONITOR": "0: no progress monitor, nothing is predicted; 1: as without",
    "NODES": "0: ranks of one host are treated as if each had a port of its own; 1: as without",
    "POSTMORTEM": "a folder: what each rank knew when its communicator failed is written there",
    "SCRATCH_BYTES": "private memory for collectives in flight, bytes (default 536870912)",
    "SEGMENTS": "segments per message, instead of the rule's choice",
    "SECRET": "what all ranks know and strangers do not, 16 bytes or more: see SECURITY.md",
    "SECRET_FILE": "a file with that secret",
    "SOCKET_IFNAME": "network device for UCX, as UCX_NET_DEVICES",
    "SPIN_S": "seconds an idle engine spins before it sleeps (over sockets: callers only)",
    "TIMEOUT_S": "deadline of every collective, seconds (default 300)",
    "TUNING_FILE": "rules that `python -m patallreduce tune` measured, for what is left to auto",
    "TRANSPORT": "transport that transport='auto' stands for",
    "UCX": "wheel, system, or the path of libucp.so.0",
    "VECTOR": "portable, avx2 or avx512: the most that reductions may use",
    "BUILD_JOBS": "build: compilers at once",
    "NVCC": "build: nvcc that compiles the GPU kernels, instead of the one found",
    "UCX_HOME": "build: UCX installation whose headers are used",
    "WERROR": "build: 1 makes compiler warnings errors",
    "WITH_CUDA": "build: 1 fails without nvcc, 0 builds no GPU kernels",
}
_PREFIX = "PATALLREDUCE_"
_MOST = {"CONNECTIONS": 16}


def get(name: str) -> str | None:
    """The value of `PATALLREDUCE_<name>`, None if unset or empty."""
    assert name in VARIABLES
    return os.environ.get(_PREFIX + name) or None


def get_float(name: str) -> float | None:
    """As `get`, as a number >= 0; ValueError names variable and value."""
    return _number(name, "a number >= 0", lambda value: value >= 0)


def get_seconds(name: str) -> float | None:
    """As `get`, as seconds > 0; ValueError likewise."""
    return _number(name, "seconds > 0", lambda value: value > 0)


def get_count(name: str) -> int | None:
    """As `get`, as a whole number >= 1, of connections <= 16; ValueError likewise."""
    most = _MOST.get(name, math.inf)
    expected = "a whole number >= 1" if most == math.inf else f"a whole number from 1 to {most}"
    value = _number(name, expected, lambda value: 1 <= value <= most and value.is_integer())
    return None if value is None else int(value)


def get_flag(name: str) -> bool | None:
    """As `get`, 0 or 1 as a truth; ValueError likewise."""
    text = get(name)
    if text not in (None, "0", "1"):
        raise _refused(name, "0 or 1", text)
    return None if text is None else text == "1"


def get_name(name: str, known: Iterable[str]) -> str | None:
    """As `get`, one of the known names; ValueError likewise."""
    text, known = get(name), list(known)
    if text is not None and text not in known:
        raise _refused(name, f"one of {', '.join(known)}", text, nearest(text, known))
    return text


def warn_unknown() -> None:
    """Warn of every `PATALLREDUCE_*` variable that means nothing: most likely a typing error."""
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in VARIABLES:
            known = ", ".join(_PREFIX + variable for variable in VARIABLES)
            warnings.warn(f"unknown environment variable {name}; known: {known}", stacklevel=3)


_NUMBERS: dict[str, Callable[[str], object]] = {
    "CLOCK_SKEW_S": get_float,
    "CONNECTIONS": get_count,
    "MONITOR": get_flag,
    "SCRATCH_BYTES": get_count,
    "SEGMENTS": get_count,
    "SPIN_S": get_float,
    "TIMEOUT_S": get_seconds,
}


def check() -> None:
    """Raise what is wrong with those that are read later, while other ranks wait."""
    for name, read in _NUMBERS.items():
        read(name)
    _core.vector_level()


def _number(name: str, expected: str, fits: Callable[[float], bool]) -> float | None:
    text = get(name)
    if text is None:
        return None
    with contextlib.suppress(ValueError):
        value = float(text)
        if fits(value) and math.isfinite(value):
            return value
    raise _refused(name, expected, text)


def _refused(name: str, expected: str, got: str | None, more: str = "") -> ValueError:
    return ValueError(refused(_PREFIX + name, expected, got) + more)
