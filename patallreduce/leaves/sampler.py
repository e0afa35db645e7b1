"""Deals the elements of global batches to leaves: the same to each leaf on any number of ranks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import Sampler

from patallreduce.leaves.tree import run_of


class LeafSampler(Sampler[list[int]]):
    """Indices of leaf after leaf of this rank: for `DataLoader(dataset, batch_sampler=...)`.

    The dataset is shuffled by seed and epoch and cut into global batches of `leaves * leaf_size`;
    what is left over at the end of an epoch waits for another epoch's shuffle. Every global batch
    gives a rank as many batches as it owns leaves, in their order.

    Args:
        size: Elements of the dataset.
        leaves: L, the leaves of a global batch.
        leaf_size: Elements of each.
        rank: This rank.
        ranks: P.
        seed: Of the shuffles; None: the dataset's own order.

    Raises:
        ValueError: The dataset is smaller than a global batch, or ranks than leaves.
    """

    def __init__(
        self,
        size: int,
        *,
        leaves: int,
        leaf_size: int,
        rank: int,
        ranks: int,
        seed: int | None = 0,
    ) -> None:
        if not 1 <= ranks <= leaves or not 0 <= rank < ranks:
            raise ValueError(f"expected 0 <= rank < ranks <= leaves, got {rank}, {ranks}, {leaves}")
        if leaf_size < 1 or size < leaves * leaf_size:
            raise ValueError(
                f"expected leaf_size >= 1 and at least one global batch, got {size} elements for "
                f"{leaves} leaves of {leaf_size}"
            )
        self._size = size
        self._global_batch = leaves * leaf_size
        self._leaf_size = leaf_size
        self._mine = run_of(rank, ranks, leaves)
        self._seed = seed
        self._epoch = 0

    @property
    def iterations(self) -> int:
        """Global batches of an epoch."""
        return self._size // self._global_batch

    def set_epoch(self, epoch: int) -> None:
        """Choose the shuffle; call before each epoch, as with a DistributedSampler."""
        self._epoch = epoch

    def __len__(self) -> int:
        return self.iterations * len(self._mine)

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.arange(self._size)
        if self._seed is not None:
            generator = torch.Generator().manual_seed(self._seed + self._epoch)
            order = torch.randperm(self._size, generator=generator)
        for iteration in range(self.iterations):
            for leaf in self._mine:
                first = iteration * self._global_batch + leaf * self._leaf_size
                yield order[first : first + self._leaf_size].tolist()
