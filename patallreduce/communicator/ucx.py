"""Which UCX to open: the PyPI wheel's, the system's, or a given one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from patallreduce import _core
from patallreduce.communicator import environment


def library_path() -> str:
    """Path or name of libucp, as `PATALLREDUCE_UCX` says: wheel (default), system, or a path."""
    choice = environment.get("UCX") or "wheel"
    if choice == "system":
        return "libucp.so.0"
    if choice != "wheel":
        return choice
    spec = importlib.util.find_spec("libucx")
    if spec is None or spec.origin is None:
        raise _core.TransportError(
            "UCX is absent: `pip install 'libucx-cu13>=1.19,<1.22'`, or set "
            "PATALLREDUCE_UCX=system for the system's (Debian: libucx0)"
        )
    return str(Path(spec.origin).parent / "lib" / "libucp.so.0")
