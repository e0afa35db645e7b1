"""One rank of `benchmarks.failures`: a process that uses the core alone, so it starts in 0.1 s.

It is told what to do on its command line (JSON), says one JSON line per event on its output, and
goes on when a line comes on its input. Addresses are exchanged through files.
"""

from __future__ import annotations

import array
import contextlib
import importlib.util
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any


def load_core(path: str) -> Any:
    """Load the extension module without its package, which would import torch."""
    spec = importlib.util.spec_from_file_location("patallreduce._core", path)
    assert spec is not None
    assert spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    return core


def share(folder: Path, key: str, rank: int, ranks: int, value: bytes) -> list[bytes]:
    """Give `value`, get every rank's."""
    partial = folder / f"{rank}.partial"
    partial.write_bytes(value)
    partial.rename(folder / f"{rank}.{key}")
    values = []
    for peer in range(ranks):
        path = folder / f"{peer}.{key}"
        while not path.exists():
            time.sleep(0.002)
        values.append(path.read_bytes())
    return values


def resources() -> dict[str, Any]:
    """Count what a closed communicator must have given back."""
    descriptors = []
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            descriptors.append(os.readlink(f"/proc/self/fd/{entry}").split(":")[0])
    return {
        "descriptors": sorted(d for d in descriptors if not d.startswith("/proc")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def say(event: str, **details: Any) -> None:
    """Tell the harness."""
    print(json.dumps({"event": event, "time_s": time.monotonic(), **details}), flush=True)


class Rank:
    """An engine over UCX and the memory it reduces."""

    def __init__(self, core: Any, options: dict[str, Any]) -> None:
        self.core = core
        self.options = options
        rank, ranks = options["rank"], options["ranks"]
        ucx = core.Ucx(options["libucp"], rank, ranks, bytes.fromhex(options["key"]))
        folder = Path(options["folder"])
        ucx.connect(share(folder, "address", rank, ranks, ucx.address()))
        reads = share(folder, "reads", rank, ranks, bytes(ucx.readable()))
        ucx.set_direct([peer for peer in ucx.readable() if rank in reads[peer]])
        self.engine = core.Engine(ucx, 20e-6, True, 512 << 20)
        self.engine.start(options["start_timeout_s"])
        self.call_s = 0.0

    def all_reduce(self, count: int) -> None:
        """Reduce `count` floats and check the sum."""
        data = array.array("f", bytes(4 * count))
        data[0] = data[-1] = self.options["rank"] + 1
        call = self.core.Call(
            count, self.core.Dtype.float32, self.core.Op.sum, -1, "ring", 16, [], 0.0
        )
        self.call_s = time.monotonic()
        self.engine.wait(self.engine.begin(data.buffer_info()[0], call, self.options["timeout_s"]))
        expected = self.options["ranks"] * (self.options["ranks"] + 1) / 2
        assert data[0] == data[-1] == expected, f"wrong sum: {data[0]}, {data[-1]}"


def live(rank: Rank, phase: str, is_victim: bool) -> None:
    """Reduce until the victim's end breaks it; the victim ends within."""
    rank.all_reduce(1000)
    say("ready")
    if phase == "during":
        while True:
            rank.all_reduce(rank.options["count"])
    sys.stdin.readline()
    if is_victim:
        threading.Event().wait()
    rank.all_reduce(rank.options["count"])


def main() -> None:
    """Be one rank."""
    options = json.loads(sys.argv[1])
    core = load_core(options["core"])
    core.ucx_library(options["libucp"])
    before = resources()
    rank = Rank(core, options)
    try:
        live(rank, options["phase"], options["rank"] == options["victim"])
    except core.TransportError as error:
        say(
            "error",
            kind=type(error).__name__,
            named=error.rank,
            what=str(error),
            call_s=rank.call_s,
        )
    else:
        say("no error")
    started_s = time.monotonic()
    rank.engine.close(5.0)
    say("closed", before=before, after=resources(), took_s=time.monotonic() - started_s)


if __name__ == "__main__":
    main()
