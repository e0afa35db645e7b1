"""When a model's gradients, and with them its buckets, are ready: from few hooks on parameters.

A hook in Python on each of 1,000 parameters costs too much in every iteration. But DDP calls the
communication hook inside autograd's work on one parameter, and that tells what a bucket waited for:

    bucket 0  a b c        hook, at work on c: c completed bucket 0, which arrives now
    bucket 1  d e f        hook, at work on i: bucket 1 was complete before, and had to wait its
    bucket 2  g h i        turn; it arrived with d, e or f. Then bucket 2, at work on i: now

Only buckets that wait need hooks, on their last parameters; an edge needs a hook on one. So:

    all watched --(iterations alike)--> few watched --(surprise)--> all watched
                                             +--(256 iterations, if buckets wait)--+

*Alike*: as many gradients, the same buckets, the same ones waiting. *Few*: the parameters at the
edges, and the last two of each waiting bucket. *Surprise*: buckets were rebuilt, a bucket waits
that did not before, a watched gradient is missing, or watched gradients are ready in another order.
Each surprise soon after the last doubles the iterations that must be alike, so a model without an
order keeps all its hooks.

An arrival is never missing: where it is not known, it is the time of the call, which is not too
early. One change goes unseen for up to 256 iterations: in a bucket that waits, a parameter that is
not watched is ready after the two that always were last, and these keep their order. The bucket's
arrival is then reported too early, which may cost a good schedule, never a sum.

Hooks are added and removed before a forward pass, when no bucket waits.
"""

import itertools
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch.utils.hooks import RemovableHandle

_PARTS = (1 / 4, 1 / 2, 3 / 4)  # of the gradients: the edges
_LAST = 2  # parameters watched of a bucket that waits
_PATIENCE = 2  # iterations alike until few are watched
_MOST_PATIENCE = 256
_RECHECK = 256  # iterations
_NEVER = -1  # a countdown that only goes down from here meets no edge


class _Bucket(NamedTuple):
    """A bucket as it was while all its parameters were watched."""

    parameters: tuple[int, ...]  # their ids
    waited: bool  # complete before its turn

    def holds(self, parameters: Sequence[torch.Tensor]) -> bool:
        """Whether these are its parameters; buckets are rebuilt together: ends and length tell."""
        mine = self.parameters
        return len(parameters) == len(mine) and (
            not mine or (id(parameters[0]), id(parameters[-1])) == (mine[0], mine[-1])
        )


class Gradients:
    """Notes gradients and gives the arrivals of buckets, until `remove`.

    Parameters are not kept alive.

    Args:
        reached: Called at each of `edges`, once `await_edge` named it.
    """

    def __init__(self, parameters: Iterable[torch.Tensor], reached: Callable[[], None]) -> None:
        # By slot: when its parameter's gradient was ready, 0 if it is not yet in this pass. The
        # hooks hold this list and the countdown, so neither is ever replaced.
        self._ready_s: list[float] = []
        self._countdown = [_NEVER]  # watched gradients until the next edge
        self._note = _notes(self._ready_s, self._countdown, reached)
        self._slots: dict[int, int] = {}  # by id; DDP keeps its parameters alive
        self._parameters: list[weakref.ReferenceType[torch.Tensor]] = []  # by slot
        self._handles: dict[int, RemovableHandle] = {}  # by slot
        self._open = True
        # Watched gradients from the edge before, and the part of all gradients.
        self.edges: list[tuple[int, float]] = []
        self._gradients = 0  # in the last iteration with all watched

        self._few: list[int] | None = None  # slots in order of readiness; None: all are watched
        self._last: dict[int, list[int] | None] = {}  # by bucket; None: one is never used
        self._bucket_of: dict[int, int] = {}  # by id
        self._change: Callable[[], None] | None = None  # before the next forward pass
        self._order: list[int] = []  # slots in order of readiness, when all were watched
        self._buckets: dict[int, _Bucket] = {}  # of the last iteration with all watched
        self._seen: dict[int, _Bucket] = {}  # of this one
        self._surprised = False
        self._alike = 0  # iterations
        self._calm = 0  # iterations without a surprise, few watched
        self._patience = _PATIENCE

        for parameter in parameters:
            self._add(parameter)
        self._expect(len(self._slots))

    def remove(self) -> None:
        """Remove all hooks; arrivals are then the times of the calls. Idempotent."""
        self._open = False
        self._few = self._change = None
        self._countdown[0] = _NEVER
        self._keep(())
        self._slots.clear()

    def renew(self) -> None:
        """Watch more or fewer parameters if that is due; called between iterations."""
        change, self._change = self._change, None
        if change is not None:
            change()

    def forget(self) -> None:
        """Forget the gradients that were ready, and await no edge."""
        self._ready_s[:] = itertools.repeat(0.0, len(self._ready_s))
        self._countdown[0] = _NEVER

    def await_edge(self, number: int) -> None:
        """Call `reached` at the edge of that number, if there is one."""
        if number < len(self.edges):
            self._countdown[0], _ = self.edges[number]

    def arrival_s(self, index: int, parameters: Sequence[torch.Tensor], now_s: float) -> float:
        """Say when the bucket arrived whose communication hook DDP calls now."""
        if index == 0:
            self._seen.clear()
        if self._few is None:
            return self._arrival_of_all_s(index, parameters, now_s)
        bucket = self._buckets.get(index)
        if bucket is None or not bucket.holds(parameters):
            self._surprised = True
            return now_s
        if self._bucket_of.get(_at_work_on()) == index:
            return now_s
        if not bucket.waited:
            self._surprised = True
            return now_s
        last = self._last[index]
        if last is None:
            return now_s
        noted_s = [self._ready_s[slot] for slot in last]
        return noted_s[-1] if 0.0 not in noted_s and noted_s == sorted(noted_s) else now_s

    def _arrival_of_all_s(
        self, index: int, parameters: Sequence[torch.Tensor], now_s: float
    ) -> float:
        ids = tuple(map(id, parameters))
        try:
            noted_s = [self._ready_s[self._slots[i]] for i in ids]
        except KeyError:  # a parameter was frozen when the hooks were attached
            for parameter in parameters:
                if self._open and parameter.requires_grad and id(parameter) not in self._slots:
                    self._add(parameter)
            return now_s
        self._seen[index] = _Bucket(ids, _at_work_on() not in ids)
        return max(noted_s) if noted_s and 0.0 not in noted_s else now_s

    def end(self, buckets: int) -> None:
        """End an iteration that had this number of buckets."""
        if self._few is None:
            self._learn(buckets)
        else:
            self._compare([self._ready_s[slot] for slot in self._few], buckets)
        self._seen.clear()
        self._surprised = False
        self.forget()

    def _learn(self, buckets: int) -> None:
        """Expect as many gradients as there were: parameters may be unused, or frozen by now."""
        ready = [slot for slot, ready_s in enumerate(self._ready_s) if ready_s]
        if not ready:  # Join's shadow of a backward pass
            return
        alike = (
            len(ready) == self._gradients
            and len(self._seen) == buckets  # all their parameters are known
            and self._seen == self._buckets
        )
        self._alike = self._alike + 1 if alike else 1
        self._buckets = dict(self._seen)
        self._expect(len(ready))
        if self._open and self._alike >= self._patience and len(self._seen) == buckets:
            self._order = sorted(ready, key=self._ready_s.__getitem__)
            self._change = self._watch_few

    def _compare(self, noted_s: list[float], buckets: int) -> None:
        if noted_s and not any(noted_s):  # Join's shadow
            return
        self._calm += 1
        if (
            self._surprised
            or buckets != len(self._buckets)
            or 0.0 in noted_s
            or noted_s != sorted(noted_s)
        ):
            often = self._calm < 16 * self._patience
            self._patience = min(2 * self._patience, _MOST_PATIENCE) if often else _PATIENCE
            self._calm = self._alike = 0
            self._change = self._watch_all
        elif self._calm % _RECHECK == 0 and any(b.waited for b in self._buckets.values()):
            self._alike = self._patience - 1  # one more iteration like those before is enough
            self._change = self._watch_all

    def _watch_few(self) -> None:
        position = {slot: i for i, slot in enumerate(self._order)}
        counts = list(itertools.accumulate(count for count, _ in self.edges))
        few = {self._order[count - 1] for count in counts}
        self._last.clear()
        for index, bucket in self._buckets.items():
            slots = [self._slots[i] for i in bucket.parameters]
            if not bucket.waited:
                continue
            if all(slot in position for slot in slots):
                self._last[index] = last = sorted(slots, key=position.__getitem__)[-_LAST:]
                few.update(last)
            else:
                self._last[index] = None
        self._bucket_of = {i: k for k, bucket in self._buckets.items() for i in bucket.parameters}
        self._few = sorted(few, key=position.__getitem__)
        self._keep(self._few)
        parts = [part for _, part in self.edges]
        self._set_edges([self._few.index(self._order[count - 1]) + 1 for count in counts], parts)

    def _watch_all(self) -> None:
        self._few = None
        for slot in range(len(self._parameters)):
            self._attach(slot)
        trainable = 0  # of those that had gradients: some may be frozen by now
        for slot in self._order:
            parameter = self._parameters[slot]()
            trainable += parameter is not None and parameter.requires_grad
        self._gradients = 0
        self._expect(trainable)

    def _add(self, parameter: torch.Tensor) -> None:
        slot = len(self._ready_s)
        self._ready_s.append(0.0)
        self._slots[id(parameter)] = slot
        self._parameters.append(weakref.ref(parameter))
        self._attach(slot)

    def _attach(self, slot: int) -> None:
        parameter = self._parameters[slot]()
        if slot not in self._handles and parameter is not None and parameter.requires_grad:
            hook = self._note(slot)
            self._handles[slot] = parameter.register_post_accumulate_grad_hook(hook)

    def _keep(self, slots: Iterable[int]) -> None:
        for slot in self._handles.keys() - set(slots):
            self._handles.pop(slot).remove()

    def _expect(self, gradients: int) -> None:
        if gradients in (self._gradients, 0):
            return
        self._gradients = gradients
        counts = {round(part * gradients): part for part in reversed(_PARTS)}
        # The last gradient is no edge: the last bucket's hook tells as much.
        inside = sorted(count for count in counts if 0 < count < gradients)
        self._set_edges(inside, [counts[count] for count in inside])

    def _set_edges(self, counts: list[int], parts: list[float]) -> None:
        """Set edges at those numbers of watched gradients, ascending."""
        self.edges = [
            (count - before, part)
            for before, count, part in zip([0, *counts], counts, parts, strict=False)
        ]


def _at_work_on() -> int:
    """Identify the parameter whose gradient autograd works on in this thread; 0 if none."""
    node = torch._C._current_autograd_node()
    parameter = getattr(node, "variable", None)  # of an AccumulateGrad
    return 0 if parameter is None else id(parameter)


def _notes(
    ready_s: list[float], countdown: list[int], reached: Callable[[], None]
) -> Callable[[int], Callable[[torch.Tensor], None]]:
    """Make the hooks of parameters, by slot; they do nothing but what every gradient needs.

    All hooks share these variables: a set of variables for each would miss the cache more often.
    """
    clock_s = time.monotonic

    def note_of(slot: int) -> Callable[[torch.Tensor], None]:
        def note(_: torch.Tensor) -> None:
            ready_s[slot] = clock_s()
            countdown[0] -= 1
            if not countdown[0]:
                reached()

        return note

    return note_of
