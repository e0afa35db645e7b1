"""Where NCCL is; `_core` opens it at the first collective of a GPU tensor."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def library_path() -> str:
    """NCCL's library: the one torch has loaded, else the wheel's, else what the loader finds."""
    with Path("/proc/self/maps").open(encoding="ascii", errors="replace") as maps:
        for line in maps:
            if "/libnccl.so" in line:
                return line.split(maxsplit=5)[5].rstrip()
    try:
        wheel = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        wheel = None
    for folder in (wheel.submodule_search_locations or []) if wheel else []:
        library = Path(folder) / "lib" / "libnccl.so.2"
        if library.exists():
            return str(library)
    return "libnccl.so.2"
