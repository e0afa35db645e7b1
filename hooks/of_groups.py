"""States of models whose hook was registered with a process group, or None, in a state's place.

The hook is told the bucket and no model; so a model is known by its parameters, and its state ends
with them. Of a bucket whose parameters are all new, the first of a backward pass is a new model's;
any other is of the model that was new last.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.utils.weak import WeakTensorKeyDictionary

from patallreduce.hooks.state import State

_states = WeakTensorKeyDictionary()  # by parameter
# The model that was new last, by its group's id.
_newest: weakref.WeakValueDictionary[int, State] = weakref.WeakValueDictionary()


def state_of(process_group: dist.ProcessGroup | None, bucket: GradBucket) -> State:
    """The state of the model that a bucket is of; made if there is none.

    Once a backward pass has raised what its communicator failed with, or where the model comes back
    with another process group, its next pass meets anew.
    """
    parameters, is_first = bucket.parameters(), bucket.index() == 0
    state = known_state(parameters)
    if state is None:
        state = None if is_first else _newest.get(id(process_group))
        if state is None:
            state = State(process_group)
            _newest[id(process_group)] = state
        keep(state, parameters)
    elif is_first and state.model is None and (state.failed or not state.is_of(process_group)):
        state.become(State(process_group))
    return state


def known_state(parameters: Iterable[torch.Tensor]) -> State | None:
    """The state of the model that has one of these parameters; None: there is none."""
    for parameter in parameters:
        state: State | None = _states.get(parameter)
        if state is not None:
            return state
    return None


def keep(state: State, parameters: Iterable[torch.Tensor]) -> None:
    """Keep a state as that of the model that has these parameters, as long as they live."""
    for parameter in parameters:
        _states[parameter] = state
