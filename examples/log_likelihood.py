"""A hill climb decided by a sum: plain, its path depends on the number of ranks; here it does not.

    python examples/log_likelihood.py
    python examples/log_likelihood.py --ranks 1 2 3 4 8 --sites 20000 --steps 800

Phylogenetic programs search for the tree under which the observed sites are likeliest. They change
the tree a little and keep the change if the log-likelihood, a sum over all sites, has grown. The
sites are spread over the ranks. Added rank by rank the sum is rounded differently on 4 ranks than
on 8, and near the top, where changes gain as little as rounding takes, one other decision is
enough: from there on the searches go different ways. With `tree_sum` they are one search.

Here a site is a number drawn from a mixture of two normal distributions, and the search is for the
mixture's means and weight, with smaller and smaller steps. The ranks are threads of this process.

Source: Stelz, "Core-Count Independent Reproducible Reduce", bachelor's thesis, KIT (2022), chapter
1; Darriba, Flouri, Stamatakis, Mol. Biol. Evol. 35 (2018), 1037-1046, found it in RAxML-NG.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

import patallreduce as pat

FIRST_STEP, LAST_STEP = 0.3, 1e-9
START = torch.tensor([-0.5, 0.5, 0.0], dtype=torch.float64)  # two means, the weight's logit

Sum = Callable[[pat.Communicator, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Path:
    """One search: which changes were kept, and where it ended."""

    decisions: str  # a character per step: + kept, - not
    parameters: tuple[float, ...]
    log_likelihood: float


def plain_sum(communicator: pat.Communicator, values: torch.Tensor) -> torch.Tensor:
    """Each rank adds what it has, then the ranks' sums are added."""
    total = values.sum().reshape(1)
    communicator.all_reduce(total, algorithm="recursive_doubling", segments=1)
    return total[0]


def tree_sum(communicator: pat.Communicator, values: torch.Tensor) -> torch.Tensor:
    """The same bits on any number of ranks."""
    return communicator.tree_sum(values)


SUMS: dict[str, Sum] = {"plain": plain_sum, "tree_sum": tree_sum}


def observed(sites: int) -> torch.Tensor:
    """Draw the sites: (sites,) float64, the same in every run."""
    generator = torch.Generator().manual_seed(1)
    second = torch.rand(sites, generator=generator, dtype=torch.float64) < 0.35
    noise = torch.randn(sites, generator=generator, dtype=torch.float64)
    return noise + torch.where(second, 2.0, -1.0)


def per_site(parameters: torch.Tensor, sites: torch.Tensor) -> torch.Tensor:
    """Compute the log-likelihood of every site, up to a constant.

    numpy computes it value by value. torch.logaddexp takes vectors of them, and on some processors
    rounds those left over otherwise: a site's bits would depend on where it lies.
    """
    first, second, logit = parameters
    of_first = torch.nn.functional.logsigmoid(-logit) - (sites - first) ** 2 / 2
    of_second = torch.nn.functional.logsigmoid(logit) - (sites - second) ** 2 / 2
    return torch.from_numpy(np.logaddexp(of_first.numpy(), of_second.numpy()))


def climb(communicator: pat.Communicator, sites: torch.Tensor, steps: int, add: Sum) -> Path:
    """Search; `sites` are this rank's. Every rank proposes and decides alike."""
    proposals = torch.Generator().manual_seed(2)
    parameters = START
    best = add(communicator, per_site(parameters, sites))
    decisions = []
    for step in range(steps):
        size = FIRST_STEP * (LAST_STEP / FIRST_STEP) ** (step / steps)
        change = size * torch.randn(3, generator=proposals, dtype=torch.float64)
        value = add(communicator, per_site(parameters + change, sites))
        kept = bool(value > best)
        decisions.append("+" if kept else "-")
        if kept:
            parameters, best = parameters + change, value
    return Path("".join(decisions), tuple(parameters.tolist()), float(best))


def search(ranks: int, sites: int, steps: int, add: Sum) -> Path:
    """Run one search on that many ranks."""
    parts = observed(sites).split(pat.distributions.even_upper(sites, ranks))
    communicators = pat.Communicator.loopback(ranks, monitor=False)

    def run(communicator: pat.Communicator) -> Path:
        with communicator:
            return climb(communicator, parts[communicator.rank].clone(), steps, add)

    with ThreadPoolExecutor(ranks) as threads:
        paths = list(threads.map(run, communicators))
    if any(path != paths[0] for path in paths):
        raise RuntimeError("ranks of one search went different ways")
    return paths[0]


def parted(path: Path, other: Path) -> str:
    """Say where two searches part."""
    pairs = zip(path.decisions, other.decisions, strict=True)
    step = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    return "never" if step is None else f"step {step}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--sites", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{options.sites} sites, {options.steps} proposals; a search keeps what raises the sum.\n"
    )
    print(f"{'sum':9} {'ranks':>5} {'kept':>5}  {'parts from the first at':24} log-likelihood")
    for name, add in SUMS.items():
        first: Path | None = None
        paths = set()
        for ranks in options.ranks:
            path = search(ranks, options.sites, options.steps, add)
            first = first or path
            paths.add(path)
            kept = path.decisions.count("+")
            at = parted(path, first)
            print(f"{name:9} {ranks:5} {kept:5}  {at:24} {path.log_likelihood!r}")
        print(f"{name}: {len(paths)} different searches on {len(options.ranks)} numbers of ranks\n")


if __name__ == "__main__":
    main()
