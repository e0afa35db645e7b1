"""Leaves: gradients with the same bits on any number of ranks.

A global batch is cut into L leaves, numbered 0 to L - 1. A rank owns a consecutive run of them and
goes through it leaf by leaf; sums of leaves follow one binary tree, whoever owns which leaf.

    handle = pat.register(ddp_model, leaves=12)
    for batch in loader:                      # batch[i]: this rank's i-th leaf
        optimizer.zero_grad()
        for leaf, (x, y) in zip(handle.leaves, batch, strict=True):
            loss_of(ddp_model(x), y).backward()
        optimizer.step()                      # p.grad: the mean over all L leaves

What the caller must keep equal for equal bits, whatever the number of ranks:

* the elements of each leaf and their order (`patallreduce.LeafSampler` deals them);
* the model's weights, mode and buffers: no state that one leaf hands to the next. Batch
  normalisation's running averages are such, and refused;
* random numbers: `seed` sets torch's at the start of every leaf, `generator(leaf)` gives more;
* the kernels: the same torch, vector instructions and number of threads. Ranks compare these when
  they register, and a resumed run with its checkpoint; a difference is a warning, for it need not
  change a bit.

All leaves have to use the same parameters: where a rank's last leaf leaves one out that an earlier
leaf of it used, DDP raises in the backward pass.
"""

import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

import torch
from torch._C._distributed_c10d import GradBucket
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from patallreduce.arguments import whole
from patallreduce.communicator.communicator import Communicator
from patallreduce.hooks.backward import Backward
from patallreduce.hooks.callbacks import ModuleCallback
from patallreduce.leaves.exchange import LeafExchange
from patallreduce.leaves.kernels import Kernels
from patallreduce.leaves.sums import add
from patallreduce.leaves.tree import LeafTree, Node, run_of
from patallreduce.pricing.schedules import SAFE

Gradients = list[torch.Tensor]

_NOT_YET: Any = 0


class Leaves:
    """This rank's leaves of every iteration: iterate over it once per global batch.

    Each leaf is one forward and one backward pass of the DDP model. Any number of passes inside
    `ddp_model.no_sync()` may precede it; their gradients add up as in DDP. Holds at most
    2 log2(n) + 1 sums of gradients, n being this rank's leaves, and log2(n) + 1 if n is a power of
    two that divides L; unless all ranks have as many and a power of two, the exchange
    (`patallreduce.leaves.exchange`) holds its subtrees twice more, sent and received. All of this
    memory is released with the last leaf.

    Args:
        ddp_model: The model, on CPU.
        count: L, the leaves of a global batch; the same on all ranks, at least their number.
        communicator: Of the model's process group.
        seed: With it every leaf begins with `torch.manual_seed` of seed, iteration and leaf, so
            that dropout draws alike on any number of ranks; None: left to the caller.

    Raises:
        ValueError: L differs between ranks, or is below their number.
        TypeError: The model keeps state between leaves; L or the seed is no integer.
    """

    def __init__(
        self,
        ddp_model: DistributedDataParallel,
        count: int,
        communicator: Communicator,
        seed: int | None = None,
    ) -> None:
        self._communicator = communicator
        self._session = communicator.session
        self._ddp = ddp_model
        self._check(ddp_model, count, seed)
        self.count = count
        self.mine = run_of(communicator.rank, communicator.ranks, count)
        self.seed = seed
        self.iteration = 0  # global batches that have begun
        self._kernels = Kernels.here()
        self._kernels.compare(communicator)
        self._parameters = [p for p in ddp_model.module.parameters() if p.requires_grad]
        self._position = {id(p): i for i, p in enumerate(self._parameters)}
        self._tree: LeafTree[Gradients] = LeafTree(_add)
        self._leaf: int | None = None  # the one under way
        self._passes = 0  # of it, forward, outside no_sync()
        self._exchange = LeafExchange(communicator, count)
        self._backward = Backward(communicator.session, ddp_model)
        self._removed = False
        self._counting = ddp_model.register_forward_pre_hook(ModuleCallback(self._count_pass))

    def remove(self) -> None:
        """Let go of the model, and leave no hook behind. Idempotent."""
        if not self._removed:
            self._removed = True
            self._ddp.require_backward_grad_sync = True
        self._counting.remove()
        self._backward.remove()

    def __len__(self) -> int:
        return len(self.mine)

    def __iter__(self) -> Iterator[int]:
        """Go through this rank's leaves of the next global batch.

        The body of the loop makes a leaf's forward and backward pass.

        Raises:
            RuntimeError: Inside another iteration; a leaf without a backward pass, or given twice;
                gradients left from before. All ranks raise: the communicator ends.
        """
        if self._leaf is not None:
            self._refuse(f"leaf {self._leaf} is still under way: leaves cannot be nested")
        if any(p.grad is not None for p in self._parameters):
            self._refuse("gradients are left from before: call optimizer.zero_grad() first")
        self.iteration += 1
        self._exchange = LeafExchange(self._communicator, self.count)
        self._tree = LeafTree(_add)
        if not self._ddp.require_backward_grad_sync:
            self._refuse("expected leaves outside ddp_model.no_sync()")
        try:
            for leaf in self.mine:
                self._begin(leaf)
                yield leaf
                self._end(leaf)
        except GeneratorExit:
            if not self._exchange.complete:
                self._session.abort(f"left the loop over its leaves in leaf {self._leaf}")
            raise
        finally:
            self._leaf = None
            self._tree = LeafTree(_add)
            if not self._removed:  # a loop that failed can end late
                self._ddp.require_backward_grad_sync = True

    def generator(self, leaf: int) -> torch.Generator:
        """Random numbers of one leaf of this iteration, alike on any number of ranks."""
        return torch.Generator().manual_seed(_mixed(self.seed or 0, self.iteration, leaf))

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs to go on, on any number of ranks."""
        return {
            "leaves": self.count,
            "iteration": self.iteration,
            "seed": self.seed,
            "kernels": dict(self._kernels.values),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint.

        Raises:
            ValueError: it was made with another number of leaves.

        Warns of kernels that are not those of the run that made it.
        """
        if state["leaves"] != self.count:
            raise ValueError(
                f"the checkpoint was made with {state['leaves']} leaves, this run has {self.count}:"
                " their sums differ"
            )
        differing = self._kernels.differing(state["kernels"])
        if differing:
            warnings.warn(
                f"rank {self._communicator.rank}: the checkpoint was made with {differing}: "
                "weights may differ from the run that made it",
                RuntimeWarning,
                stacklevel=2,
            )
        self.iteration, self.seed = state["iteration"], state["seed"]

    def _check(self, ddp_model: DistributedDataParallel, count: int, seed: int | None) -> None:
        rank, ranks = self._communicator.rank, self._communicator.ranks
        counts = torch.zeros(ranks, dtype=torch.int64)
        counts[rank] = count if isinstance(count, int) else -1  # the others wait for a number
        self._communicator.all_reduce(counts, algorithm=SAFE, segments=1)
        whole("leaves", count, rank)
        whole("leaf_seed", seed or 0, rank)
        if len(set(counts.tolist())) > 1:
            raise ValueError(f"leaves: expected one number on all ranks, got {counts.tolist()}")
        if count < ranks:
            raise ValueError(
                f"leaves: expected at least one for each of {ranks} ranks, got {count}"
            )
        for name, module in ddp_model.module.named_modules():
            if isinstance(module, torch.nn.SyncBatchNorm):
                raise TypeError(
                    f"{name} (SyncBatchNorm) averages over all ranks at once, not over leaves: "
                    "weights would depend on the number of ranks"
                )
            if isinstance(module, _BatchNorm) and module.track_running_stats:
                raise TypeError(
                    f"{name} ({type(module).__name__}) averages over the leaves of its own rank: "
                    "weights would depend on the number of ranks; expected track_running_stats="
                    "False or another normalisation"
                )

    def _begin(self, leaf: int) -> None:
        self._leaf = leaf
        self._passes = 0
        # 0, not False: tells it from no_sync().
        self._ddp.require_backward_grad_sync = leaf == self.mine[-1] or _NOT_YET
        if self.seed is not None:
            torch.manual_seed(_mixed(self.seed, self.iteration, leaf))

    def _count_pass(self, _model: DistributedDataParallel) -> None:
        in_no_sync = self._ddp.require_backward_grad_sync is False
        if self._leaf is None or in_no_sync or not torch.is_grad_enabled():
            return
        self._passes += 1
        if self._passes > 1:
            self._refuse(
                f"leaf {self._leaf} is given twice: expected one pass of the DDP model for each "
                "leaf, and others inside ddp_model.no_sync()"
            )

    def _end(self, leaf: int) -> None:
        gradients = [p.grad for p in self._parameters]
        last = leaf == self.mine[-1]
        handed_over = self._exchange.complete or not last
        if self._passes != 1 or not handed_over or all(g is None for g in gradients):
            self._refuse(f"leaf {leaf} ended without a backward pass of the DDP model")
        if last:
            return
        for parameter in self._parameters:
            parameter.grad = None
        present = [
            torch.zeros_like(p) if g is None else g.detach()
            for p, g in zip(self._parameters, gradients, strict=True)
        ]
        self._tree.append(Node(leaf, 0, present))

    def submit(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start the exchange of a bucket, which DDP has in the last leaf's backward pass."""
        if self._leaf is None:
            self._refuse("a backward pass outside a leaf: expected `for leaf in handle.leaves:`")
        buffer = bucket.buffer()
        positions = [self._position[id(p)] for p in bucket.parameters()]
        tree: LeafTree[torch.Tensor] = LeafTree(add)
        for node in self._tree.nodes:
            flat = _like(bucket, [node.value[i] for i in positions])
            tree.append(Node(node.first, node.height, flat))
        tree.append(Node(self.mine[-1], 0, buffer))
        with self._backward.ends_whole():
            mean = self._exchange.start(buffer, tree.nodes, last=bucket.is_last())
        self._backward.add(mean, first=bucket.index() == 0, last=bucket.is_last())
        return mean.future

    def _refuse(self, what: str) -> NoReturn:
        """Fail here and on all ranks: the others would wait for this one."""
        self._session.abort(what)
        raise RuntimeError(f"rank {self._communicator.rank}: {what}")


def _add(left: Gradients, right: Gradients) -> Gradients:
    return [add(a, b) for a, b in zip(left, right, strict=True)]


def _like(bucket: GradBucket, gradients: Gradients) -> torch.Tensor:
    """Flatten gradients as DDP has flattened those of the bucket."""
    buffer = bucket.buffer()
    flat = torch.zeros_like(buffer)
    for gradient, view in zip(gradients, bucket.gradients(), strict=True):
        offset = view.storage_offset() - buffer.storage_offset()
        flat.as_strided(view.size(), view.stride(), offset).copy_(gradient)
    return flat


def _mixed(seed: int, iteration: int, leaf: int) -> int:
    """One seed of three numbers (splitmix64), so that neighbours draw differently."""
    value = seed
    for number in (iteration, leaf):
        value = (value * 0x9E3779B97F4A7C15 + number + 1) & 0xFFFFFFFFFFFFFFFF
        value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        value = ((value ^ value >> 27) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        value ^= value >> 31
    return value >> 1
