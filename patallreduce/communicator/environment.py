"""Settings from the environment: `PATALLREDUCE_*`, below arguments and above defaults."""

from __future__ import annotations

import os
import warnings

# Name after the prefix -> what it sets. Build-time names are listed so that they pass.
VARIABLES = {
    "ALGORITHM": 'algorithm that "auto" stands for, e.g. ring',
    "CLOCK_SKEW_S": "for tests: seconds added to this rank's clock in its progress reports",
    "MONITOR": "0: no progress monitor, nothing is predicted",
    "POSTMORTEM": "a folder: what each rank knew when its communicator failed is written there",
    "SCRATCH_BYTES": "private memory for collectives in flight, bytes (default 536870912)",
    "SEGMENTS": "segments per message, instead of the rule's choice",
    "SECRET": "what all ranks know and strangers do not, 16 bytes or more: see SECURITY.md",
    "SECRET_FILE": "a file with that secret",
    "SOCKET_IFNAME": "network device for UCX, as UCX_NET_DEVICES",
    "SPIN_S": "seconds an idle engine spins before it sleeps (over sockets: callers only)",
    "TIMEOUT_S": "deadline of every collective, seconds (default 300)",
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


def get(name: str) -> str | None:
    """The value of `PATALLREDUCE_<name>`, None if unset or empty."""
    assert name in VARIABLES
    return os.environ.get(_PREFIX + name) or None


def get_float(name: str) -> float | None:
    """As `get`, as a number >= 0; ValueError names variable and value."""
    text = get(name)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(f"{_PREFIX}{name}: expected a number >= 0, got {text!r}")
    return value


def warn_unknown() -> None:
    """Warn of every `PATALLREDUCE_*` variable that means nothing: most likely a typing error."""
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in VARIABLES:
            known = ", ".join(_PREFIX + variable for variable in VARIABLES)
            warnings.warn(f"unknown environment variable {name}; known: {known}", stacklevel=3)
