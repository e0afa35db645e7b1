"""Forked children let go of their parent's connections.

A connection stands until the last process that has it open is gone. A child, such as a worker of a
DataLoader, inherits its parent's: should the parent be killed, ranks on other hosts would learn of
it only when the child ends, too. So a child closes them as soon as it is forked.
"""

from __future__ import annotations

import functools
import os
import weakref

from patallreduce._core import Ucx

# With the one that lives as long: the monitor's, if there is one.
_connected: weakref.WeakKeyDictionary[Ucx, Ucx | None] = weakref.WeakKeyDictionary()


def let_go(transport: Ucx, aside: Ucx | None) -> None:
    """While `transport` lives, forked children close what they inherit of both's connections."""
    _connected[transport] = aside
    _register()


@functools.cache
def _register() -> None:
    os.register_at_fork(after_in_child=_close)


def _close() -> None:
    for transport, aside in _connected.items():
        transport.close_in_child()
        if aside is not None:
            aside.close_in_child()
