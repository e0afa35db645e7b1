"""A small laboratory: ranks on an emulated network, or on this machine as it is.

    with Network(ranks=8, rate_bit_s=200e6) as network:
        results = network.run([sys.executable, "train.py"], timeout_s=60)

`Loopback(ranks=4)` runs the same command without namespaces; `available()` tells which of the two
this machine can do; an ordinary user's program first calls `enter_user_namespace()`.
From the command line: python -m benchmarks.lab --ranks 8 --rate 200mbit -- python train.py
"""

from .launch import RankFailedError, RankResult, RankTimeoutError
from .loopback import Loopback
from .namespaces import Availability, NamespaceError, available, enter_user_namespace
from .network import Network, parse_rate

__all__ = [
    "Availability",
    "Loopback",
    "NamespaceError",
    "Network",
    "RankFailedError",
    "RankResult",
    "RankTimeoutError",
    "available",
    "enter_user_namespace",
    "parse_rate",
]
