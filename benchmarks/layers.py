"""What do the layer callbacks cost an iteration?  Prints one JSON line per model.

    python -m benchmarks.layers --parameters 10 1000

Two equal DDP models in a group of one take turns, one of them with `Layers` and a listener that
does nothing. The parameters are tiny, so that nothing hides the callbacks, and both models have
the same communication hook, which leaves the bucket as it is; one calls `Layers.bucket` in it.

Times are processor time of the thread that runs the model (all callbacks run on it), so other
processes count little. `added` is the median of the differences within one turn.
"""

from __future__ import annotations

import json
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import HashStore
from torch.nn.parallel import DistributedDataParallel

from benchmarks.lab.arguments import command_line
from benchmarks.lab.environment import processor
from patallreduce.hooks.layers import Layers

ELEMENTS = 8  # of a parameter
BUCKET_CAP_MB = 25  # DDP's default


class Products(nn.Module):
    """One small multiplication per parameter."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.factors = nn.ParameterList(
            [nn.Parameter(torch.ones(ELEMENTS)) for _ in range(parameters)]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply `x` by all of them."""
        for factor in self.factors:
            x = x * factor
        return x


class Silent:
    """Listens and does nothing."""

    def start(self, at_s: float) -> None:
        """Of an iteration."""

    def edge(self, fraction: float, at_s: float) -> None:
        """Of an iteration."""


class Model:
    """A DDP model, watched or not."""

    def __init__(self, parameters: int, *, watched: bool) -> None:
        self.ddp = DistributedDataParallel(Products(parameters), bucket_cap_mb=BUCKET_CAP_MB)
        self.layers = Layers(self.ddp, Silent()) if watched else None
        layers = self.layers

        def hook(state: object, bucket):  # type: ignore[no-untyped-def]
            if layers is not None:
                layers.bucket(bucket.index(), bucket.parameters(), bucket.is_last())
            future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        self.ddp.register_comm_hook(None, hook)

    def iteration_s(self, x: torch.Tensor) -> float:
        """Processor time of a forward and a backward pass."""
        start_s = time.thread_time()
        self.ddp(x).sum().backward()
        return time.thread_time() - start_s


def measure(parameters: int, turns: int) -> dict[str, object]:
    """Let the two models take turns."""
    plain, watched = (Model(parameters, watched=watched) for watched in (False, True))
    x = torch.ones(ELEMENTS)
    for _ in range(10):  # buckets are rebuilt after the first
        plain.iteration_s(x)
        watched.iteration_s(x)
    pairs = [(plain.iteration_s(x), watched.iteration_s(x)) for _ in range(turns)]
    added_s = statistics.median(with_s - without_s for without_s, with_s in pairs)
    return {
        "parameters": parameters,
        "plain_us": round(1e6 * statistics.median(p for p, _ in pairs), 1),
        "watched_us": round(1e6 * statistics.median(w for _, w in pairs), 1),
        "added_us": round(1e6 * added_s, 1),
        "added_us_per_parameter": round(1e6 * added_s / parameters, 2),
        "turns": turns,
    }


def main() -> None:
    """Measure every chosen size."""
    parser = command_line("layers", __doc__)
    parser.add_argument("--parameters", nargs="+", type=int, default=[10, 100, 1000])
    parser.add_argument("--turns", type=int, default=300)
    options = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    where = {"processor": processor(), "torch_version": torch.__version__}
    for parameters in options.parameters:
        print(json.dumps({**measure(parameters, options.turns), **where}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
