"""From each rank's subtrees to the sum of all leaves on every rank.

Where each rank has one subtree, all of one height, the rest of the tree is that of the ranks: an
all-reduce by it. Otherwise every rank holds one slice of the message: it gets that slice of all
subtrees, sums them up the tree, and gives the result to all. A rank of k subtrees sends
k M (P - 1) / P bytes, then M (P - 1) / P.

Beside the caller's sums, a bucket of M bytes then takes 2 k M while it is under way.

Source: BTR22 sums one number; slices with a holder each are what makes a ring of it.
"""

from __future__ import annotations

import threading

import torch

from patallreduce import _core
from patallreduce.communicator.calls import REPRODUCIBLE
from patallreduce.communicator.communicator import Communicator
from patallreduce.communicator.tensors import dtype_of
from patallreduce.communicator.tickets import Ticket
from patallreduce.leaves.sums import add
from patallreduce.leaves.tree import LeafTree, Node, maximal_subtrees, run_of

_SLICE_BYTES = 64  # the engine cuts at cache lines


class LeafExchange:
    """The exchanges of one backward pass, bucket by bucket.

    Sums of slices begin when the last bucket has been handed over, and go in order of buckets:
    ranks number their collectives, so all must start them in the same order.

    Args:
        communicator: Of the model.
        leaves: L of all ranks.
    """

    def __init__(self, communicator: Communicator, leaves: int) -> None:
        self._communicator = communicator
        ranks = communicator.ranks
        self._subtrees = [maximal_subtrees(run_of(rank, ranks, leaves)) for rank in range(ranks)]
        self._most = max(map(len, self._subtrees))
        heights = {height for subtrees in self._subtrees for _, height in subtrees}
        self._one_each = self._most == len(heights) == 1
        self._leaves = leaves
        self._lock = threading.Lock()
        self._buckets: list[ExchangedMean] = []
        self._begun = 0  # buckets whose sums have begun
        self._complete = False

    @property
    def complete(self) -> bool:
        """Whether the last bucket has been handed over."""
        return self._complete

    def start(
        self, buffer: torch.Tensor, nodes: list[Node[torch.Tensor]], *, last: bool
    ) -> BucketMean:
        """Hand a bucket over: its (elements,) buffer, and this rank's subtrees of it."""
        if self._one_each:
            self._complete = last
            return ReducedMean(self._communicator, self._leaves, buffer, nodes[0].value)
        bucket = ExchangedMean(self._communicator, self._subtrees, self._most, self._leaves, buffer)
        with self._lock:
            self._buckets.append(bucket)
            self._complete = last
            received = bucket.exchange(nodes)
        received.add_done_callback(lambda _: self._received(bucket))
        if last:
            self._advance()
        return bucket

    def _received(self, bucket: ExchangedMean) -> None:
        bucket.ready = True
        self._advance()

    def _advance(self) -> None:
        with self._lock:
            while self._complete and self._begun < len(self._buckets):
                bucket = self._buckets[self._begun]
                if not bucket.ready:
                    return
                self._begun += 1
                bucket.sum_and_spread()


class BucketMean:
    """A bucket under way. `future`: its value is the buffer, holding the mean over all leaves."""

    def __init__(self, communicator: Communicator, leaves: int, buffer: torch.Tensor) -> None:
        self._communicator = communicator
        self._leaves = leaves
        self._buffer = buffer
        self._ticket: Ticket | None = None  # of the collective under way
        self._error: Exception | None = None
        self._over = threading.Event()
        self._done: torch.futures.Future[None] = torch.futures.Future()
        self.future: torch.futures.Future[torch.Tensor] = self._done.then(self._result)

    def wait(self) -> None:
        """Wait for the mean; on the main thread signals are handled. Raises what went wrong."""
        self._over.wait()
        if self._error is not None:
            raise self._error

    def _result(self, _done: torch.futures.Future[None]) -> torch.Tensor:
        if self._error is not None:
            raise self._error
        return self._buffer

    def _check(self) -> None:
        assert self._ticket is not None
        self._ticket.check()

    def _scale(self, total: torch.Tensor, mean: torch.Tensor) -> None:
        name = dtype_of(mean).name
        at, number = mean.data_ptr(), mean.numel()
        _core.scale_copy(at, total.data_ptr(), number, name, 1 / self._leaves)

    def _end(self, error: Exception | None) -> None:
        self._error = error
        self._over.set()
        self._done.set_result(None)


class ReducedMean(BucketMean):
    """One whose ranks' `total` each is all they have: summed by the tree over the ranks."""

    def __init__(
        self, communicator: Communicator, leaves: int, buffer: torch.Tensor, total: torch.Tensor
    ) -> None:
        super().__init__(communicator, leaves, buffer)
        work = communicator.all_reduce(total, algorithm=REPRODUCIBLE, async_op=True)
        assert work is not None
        self._ticket = work.ticket
        work.get_future().add_done_callback(lambda _: self._finish(total))

    def _finish(self, total: torch.Tensor) -> None:
        try:
            self._check()
            self._scale(total, self._buffer)
        except Exception as error:
            self._end(error)
        else:
            self._end(None)


class ExchangedMean(BucketMean):
    """One whose subtrees go to the holders of slices; the sums go back to all ranks."""

    def __init__(
        self,
        communicator: Communicator,
        subtrees: list[list[tuple[int, int]]],
        most: int,
        leaves: int,
        buffer: torch.Tensor,
    ) -> None:
        super().__init__(communicator, leaves, buffer)
        self._subtrees = subtrees
        self.ready = False  # all pieces have been received, or the exchange failed
        grain = _SLICE_BYTES // buffer.element_size()
        ranks = communicator.ranks
        self._slice = max(-(-buffer.numel() // (ranks * grain)), 1) * grain
        # [sent or received, to or from rank, subtree, element]
        self._pieces = buffer.new_zeros((2, ranks, most, self._slice))

    def exchange(self, nodes: list[Node[torch.Tensor]]) -> torch.futures.Future[torch.Tensor]:
        """Start to give all ranks their slices of this rank's subtrees, and to take theirs."""
        rank, ranks = self._communicator.rank, self._communicator.ranks
        expected = self._subtrees[rank]
        assert [(node.first, node.height) for node in nodes] == expected
        padded = self._buffer.new_zeros(ranks * self._slice)
        for number, node in enumerate(nodes):
            padded[: self._buffer.numel()] = node.value
            self._pieces[0, :, number] = padded.view(ranks, self._slice)
        self._pieces[1, rank] = self._pieces[0, rank]
        return self._submit(self._pieces, _core.swap_key(ranks))

    def sum_and_spread(self) -> None:
        """Sum this rank's slice of all subtrees up the tree; start giving it to all."""
        try:
            self._check()
            slices = self._sum()
            del self._pieces
            spread = self._submit(slices, _core.spread_key(self._communicator.ranks))
        except Exception as error:
            self._end(error)
        else:
            spread.add_done_callback(lambda _: self._finish(slices))

    def _sum(self) -> torch.Tensor:
        """Give all slices, this rank's being the mean of all leaves."""
        tree: LeafTree[torch.Tensor] = LeafTree(add)
        for owner, subtrees in enumerate(self._subtrees):
            for number, (first, height) in enumerate(subtrees):
                tree.append(Node(first, height, self._pieces[1, owner, number]))
        slices = self._buffer.new_empty((self._communicator.ranks, self._slice))
        self._scale(tree.total(), slices[self._communicator.rank])
        return slices

    def _finish(self, slices: torch.Tensor) -> None:
        try:
            self._check()
            self._buffer.copy_(slices.view(-1)[: self._buffer.numel()])
        except Exception as error:
            self._end(error)
        else:
            self._end(None)

    def _submit(
        self, tensor: torch.Tensor, key: _core.ScheduleKey
    ) -> torch.futures.Future[torch.Tensor]:
        sum_ = _core.Op.__members__["sum"]
        call = _core.Call.of_key(tensor.numel(), dtype_of(tensor), sum_, key)
        work = self._communicator.session.submit(tensor.view(-1), call)
        self._ticket = work.ticket
        return work.get_future()
