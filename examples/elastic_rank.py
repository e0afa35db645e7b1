"""One rank of a training run that may have any number of ranks, for `elastic_reproducible.py`.

What a script needs for weights that do not depend on the number of ranks is all in `train`: a
`LeafSampler` to deal the images, `register(..., leaves=L)`, the loop over `handle.leaves`, and a
checkpoint with the leaves' state instead of random numbers of ranks. The rest, clipping and the
scaler of mixed precision among it, stays as it is in any DDP script.
"""

import json
import random
import time
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from images import Images, as_input
from network import build_network, test_accuracy
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD

import patallreduce as pat
from patallreduce.ending import end_rank

TIMEOUT_S = 120.0
SEED = 0  # of the weights, the images' order and each leaf's random numbers


@dataclass(frozen=True)
class Settings:
    """What all runs share."""

    leaves: int
    leaf_size: int
    epochs: int
    iterations: int  # of an epoch, at most
    late_s: float  # in every iteration a rank drawn by lot is up to this late
    amp: bool
    clip: bool
    out: Path


@dataclass(frozen=True)
class Run:
    """One training on some number of ranks; by leaves, or as DDP does it by itself."""

    name: str
    ranks: int
    by_leaves: bool
    settings: Settings
    from_epoch: int = 0  # others than 0: from the checkpoint
    save_after: int | None = None  # epochs done when it writes its checkpoint

    @property
    def folder(self) -> Path:
        """Where it leaves its results."""
        kind = "leaves" if self.by_leaves else "plain"
        return self.settings.out / kind / self.name.replace(" ", "_")

    @property
    def checkpoint(self) -> Path:
        """Where one run leaves off and another goes on."""
        return self.settings.out / "middle.pt"


@dataclass(frozen=True)
class Result:
    """What all ranks of a run ended with."""

    fingerprints: dict[int, str]  # by epoch
    accuracy: float

    @classmethod
    def of(cls, run: Run) -> "Result":
        """Read what a run has left."""
        held = json.loads((run.folder / "result.json").read_text())
        return cls({int(epoch): f for epoch, f in held["fingerprints"].items()}, held["accuracy"])


def start(process: int, run: Run, images: Images) -> None:
    """Be a rank of the run, in a process of its own; the first process need not be rank 0."""
    torch.set_num_threads(1)  # the number of threads may change the bits, so keep it
    rank = random.Random(str(run.folder)).sample(range(run.ranks), run.ranks)[process]
    dist.init_process_group(
        "gloo",
        init_method=f"file://{(run.folder / 'store').resolve()}",
        rank=rank,
        world_size=run.ranks,
        timeout=timedelta(seconds=TIMEOUT_S),
    )
    result = train(run, images)
    if rank == 0:
        (run.folder / "result.json").write_text(json.dumps(vars(result)))
    dist.barrier()
    dist.destroy_process_group()
    end_rank()


def train(run: Run, images: Images) -> Result:
    """Train as one rank of the process group."""
    settings = run.settings
    torch.manual_seed(SEED)
    network = build_network()
    optimizer = SGD(network.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", enabled=settings.amp)
    ddp = DistributedDataParallel(network)
    sampler = pat.LeafSampler(
        len(images.train_labels),
        leaves=settings.leaves,
        leaf_size=settings.leaf_size,
        rank=dist.get_rank(),
        ranks=run.ranks,
        seed=SEED,
    )
    states: dict[str, Any] = {"model": network, "optimizer": optimizer, "scaler": scaler}
    handle = None
    if run.by_leaves:
        handle = pat.register(ddp, leaves=settings.leaves, leaf_seed=SEED, timeout_s=TIMEOUT_S)
        states["leaves"] = handle.leaves
    if run.from_epoch:
        saved = torch.load(run.checkpoint, weights_only=True)
        for name, state in states.items():
            state.load_state_dict(saved[name])

    passes = Passes(run, ddp, images)
    fingerprints = {}
    for epoch in range(run.from_epoch, settings.epochs):
        sampler.set_epoch(epoch)
        dealt = iter(sampler)  # this rank's leaves, one global batch's after the other's
        each = len(sampler) // sampler.iterations
        for iteration in range(min(settings.iterations, sampler.iterations)):
            optimizer.zero_grad()
            batch = islice(dealt, each)
            late_s = passes.late_s(epoch, iteration)
            if handle is not None:
                for leaf, chosen in zip(handle.leaves, batch, strict=True):
                    last = leaf == handle.leaves.mine[-1]
                    scaler.scale(passes.mean_loss(chosen, late_s if last else 0.0)).backward()
            else:
                chosen = [*chain.from_iterable(batch)]
                scaler.scale(passes.share_of_loss(chosen, late_s)).backward()
            if settings.clip:
                scaler.unscale_(optimizer)
                clip_grad_norm_(network.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
        fingerprints[epoch] = same_on_all_ranks(pat.fingerprint(network))
        if epoch + 1 == run.save_after and dist.get_rank() == 0:
            torch.save({name: state.state_dict() for name, state in states.items()}, run.checkpoint)
    if handle is not None:
        handle.close()
    return Result(fingerprints, test_accuracy(network, images))


class Passes:
    """Forward passes of one rank, some of them late."""

    def __init__(self, run: Run, ddp: DistributedDataParallel, images: Images) -> None:
        self._run = run
        self._ddp = ddp
        self._images = images

    def late_s(self, epoch: int, iteration: int) -> float:
        """By how much this rank is late: drawn alike on all ranks, and anew in every run."""
        lot = random.Random(f"{self._run.folder} {epoch} {iteration}")
        late_rank = lot.randrange(self._run.ranks)
        late_s = lot.uniform(0, self._run.settings.late_s)
        return late_s if late_rank == dist.get_rank() else 0.0

    def mean_loss(self, chosen: list[int], late_s: float = 0.0) -> Tensor:
        """Of the images of a leaf; the mean over leaves is patallreduce's."""
        return self._loss(chosen, late_s) / len(chosen)

    def share_of_loss(self, chosen: list[int], late_s: float = 0.0) -> Tensor:
        """Of a rank's images; the mean over ranks, which is DDP's, is that of the global batch."""
        global_batch = self._run.settings.leaves * self._run.settings.leaf_size
        return self._loss(chosen, late_s) * (self._run.ranks / global_batch)

    def _loss(self, chosen: list[int], late_s: float) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self._run.settings.amp):
            scores = self._ddp(as_input(self._images.train_pixels[chosen]))
            loss = cross_entropy(scores, self._images.train_labels[chosen], reduction="sum")
        time.sleep(late_s)
        return loss


def same_on_all_ranks(fingerprint: str) -> str:
    """Return it, if every rank has the same weights; they have in any DDP training."""
    held: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(held, fingerprint)
    if len(set(held)) > 1:
        raise RuntimeError(f"ranks have different weights: {held}")
    return fingerprint
