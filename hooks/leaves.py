"""Leaves: gradients with the same bits on any number of ranks.

A global batch is cut into L leaves, numbered 0 to L - 1. A rank owns a consecutive run of them and
goes through it leaf by leaf; sums of leaves follow one binary tree, whoever owns which leaf.

    handle = pat.register(ddp_model, leaves=12)
    for batch in loader:                      # batch[i]: this rank's i-th leaf
        optimizer.zero_grad()
        for leaf, (x, y) in zip(handle.leaves, batch, strict=True):
            loss_of(ddp_model(x), y).backward()
        optimizer.step()                      # p.grad: the mean over all L leaves

What the caller must keep equal for equal bits, whatever the number of ranks: the images of each
leaf and their order; the model's weights and mode; random numbers, which `seed` sets per leaf; the
kernels (the same torch, CPU features and number of threads); no state that one leaf hands to the
next, such as batch normalisation's running averages (refused).
"""

from collections.abc import Iterator
from typing import Any, NoReturn

import torch
from torch._C._distributed_c10d import GradBucket
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from patallreduce.communicator import Communicator
from patallreduce.leaf_exchange import LeafExchange
from patallreduce.leaf_tree import LeafTree, Node, run_of

Gradients = list[torch.Tensor]


class Leaves:
    """This rank's leaves of every iteration: iterate over it once per global batch.

    Between two leaves no backward pass may be outstanding: each leaf is one forward and one
    backward pass of the DDP model (or several, summed in order, in the last of which DDP
    synchronises). Holds at most log2(L) + 1 copies of the gradients.

    Args:
        ddp_model: The model, on CPU.
        count: L, the leaves of a global batch; the same on all ranks, at least their number.
        communicator: Of the model's process group.
        seed: With it every leaf begins with `torch.manual_seed` of seed, iteration and leaf, so
            that dropout draws alike on any number of ranks; None: left to the caller.

    Raises:
        ValueError: L differs between ranks, or is below their number.
        TypeError: The model keeps state between leaves.
    """

    def __init__(
        self,
        ddp_model: DistributedDataParallel,
        count: int,
        communicator: Communicator,
        seed: int | None = None,
    ) -> None:
        self._communicator = communicator
        self._ddp = ddp_model
        self._check(ddp_model, count)
        self.count = count
        self.mine = run_of(communicator.rank, communicator.ranks, count)
        self.seed = seed
        self.iteration = 0  # global batches that have begun
        self._parameters = [p for p in ddp_model.module.parameters() if p.requires_grad]
        self._place = {id(p): i for i, p in enumerate(self._parameters)}
        self._tree: LeafTree[Gradients] = LeafTree(_add)
        self._used: list[bool] | None = None  # by the iteration's first leaf
        self._leaf: int | None = None  # the one under way
        self._synchronised = False
        self._exchange = LeafExchange(communicator, count)

    def __len__(self) -> int:
        return len(self.mine)

    def __iter__(self) -> Iterator[int]:
        """Go through this rank's leaves of the next global batch.

        The body of the loop makes a leaf's forward and backward pass.

        Raises:
            RuntimeError: Inside another iteration; a leaf without a backward pass, or with other
                parameters than the first; gradients left from before.
        """
        if self._leaf is not None:
            self._refuse(f"leaf {self._leaf} is still under way: leaves cannot be nested")
        if any(p.grad is not None for p in self._parameters):
            self._refuse("gradients are left from before: call optimizer.zero_grad() first")
        self.iteration += 1
        self._exchange = LeafExchange(self._communicator, self.count)
        self._tree = LeafTree(_add)
        self._used = None
        synchronises = self._ddp.require_backward_grad_sync
        if not synchronises:
            self._refuse("expected leaves outside ddp_model.no_sync()")
        try:
            for leaf in self.mine:
                self._begin(leaf)
                yield leaf
                self._end(leaf)
        except GeneratorExit:
            if not (self._leaf == self.mine[-1] and self._synchronised):
                self._abort(f"left the loop over its leaves in leaf {self._leaf}")
            raise
        finally:
            self._leaf = None
            self._ddp.require_backward_grad_sync = True

    def generator(self, leaf: int) -> torch.Generator:
        """Random numbers of one leaf of this iteration, alike on any number of ranks."""
        return torch.Generator().manual_seed(_mixed(self.seed or 0, self.iteration, leaf))

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs to go on, on any number of ranks."""
        return {"leaves": self.count, "iteration": self.iteration, "seed": self.seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; ValueError if it was made with other leaves."""
        if state["leaves"] != self.count:
            raise ValueError(
                f"the checkpoint was made with {state['leaves']} leaves, this run has {self.count}:"
                " their sums differ"
            )
        self.iteration, self.seed = state["iteration"], state["seed"]

    def _check(self, ddp_model: DistributedDataParallel, count: int) -> None:
        rank, ranks = self._communicator.rank, self._communicator.ranks
        counts = torch.zeros(ranks, dtype=torch.int64)
        counts[rank] = count
        self._communicator.all_reduce(counts, algorithm="ring", segments=1)
        if len(set(counts.tolist())) > 1:
            raise ValueError(f"leaves: expected one number on all ranks, got {counts.tolist()}")
        if count < ranks:
            raise ValueError(
                f"leaves: expected at least one for each of {ranks} ranks, got {count}"
            )
        for name, module in ddp_model.module.named_modules():
            if isinstance(module, _BatchNorm) and module.track_running_stats:
                raise TypeError(
                    f"{name} ({type(module).__name__}) averages over the leaves of its own rank: "
                    "weights would depend on the number of ranks; expected track_running_stats="
                    "False or another normalisation"
                )

    def _begin(self, leaf: int) -> None:
        self._leaf = leaf
        self._synchronised = False
        self._ddp.require_backward_grad_sync = leaf == self.mine[-1]
        if self.seed is not None:
            torch.manual_seed(_mixed(self.seed, self.iteration, leaf))

    def _end(self, leaf: int) -> None:
        if leaf == self.mine[-1]:
            if not self._synchronised:
                self._refuse(f"leaf {leaf} ended without a backward pass of the DDP model")
            return
        gradients = [p.grad for p in self._parameters]
        self._note_used(leaf, [gradient is not None for gradient in gradients])
        for parameter in self._parameters:
            parameter.grad = None
        present = [
            torch.zeros_like(p) if g is None else g.detach()
            for p, g in zip(self._parameters, gradients, strict=True)
        ]
        self._tree.append(Node(leaf, 0, present))

    def _note_used(self, leaf: int, used: list[bool]) -> None:
        if not any(used):
            self._refuse(f"leaf {leaf} ended without a backward pass of the DDP model")
        if self._used is None:
            self._used = used
        elif used != self._used:
            self._refuse(f"leaf {leaf} used other parameters than leaf {self.mine[0]}")

    def submit(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start the exchange of a bucket; DDP calls it in the last leaf's backward pass."""
        if self._leaf is None:
            self._refuse("a backward pass outside a leaf: expected `for leaf in handle.leaves:`")
        self._synchronised = True
        buffer = bucket.buffer()
        places = [self._place[id(p)] for p in bucket.parameters()]
        tree: LeafTree[torch.Tensor] = LeafTree(torch.add)
        for node in self._tree.nodes:
            tree.append(node._replace(value=_like(bucket, [node.value[i] for i in places])))
        tree.append(Node(self.mine[-1], 0, buffer))
        return self._exchange.start(buffer, tree.nodes, last=bucket.is_last())

    def _refuse(self, what: str) -> NoReturn:
        """Fail here and on all ranks: the others would wait for this one."""
        self._abort(what)
        raise RuntimeError(f"rank {self._communicator.rank}: {what}")

    def _abort(self, what: str) -> None:
        self._communicator.abort(what)


def leaves_hook(leaves: Leaves, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The communication hook that `register(..., leaves=L)` gives to DDP."""
    return leaves.submit(bucket)


def _add(left: Gradients, right: Gradients) -> Gradients:
    torch._foreach_add_(left, right)
    return left


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
