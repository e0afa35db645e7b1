"""Times as a page holds them: microseconds in 32-bit integers, as base64.

640,000 times take 3.4 MB so, and the page reads them without parsing a number.
"""

from __future__ import annotations

import base64
import math
import sys
from array import array
from collections.abc import Iterable

UNKNOWN = -(2**31)
_MOST = 2**31 - 1  # 35 minutes; what is longer is shown as that


def packed_times(times_s: Iterable[float]) -> str:
    """Seconds, NaN where unknown, as the page reads them."""
    return packed(map(_microseconds, times_s))


def packed(numbers: Iterable[int]) -> str:
    """Integers of at most 32 bits as the page reads them: little-endian, in base64."""
    held = array("i", numbers)
    if sys.byteorder == "big":
        held.byteswap()
    return base64.b64encode(held).decode("ascii")


def _microseconds(time_s: float) -> int:
    if math.isnan(time_s):
        return UNKNOWN
    return round(max(-_MOST, min(_MOST, time_s * 1e6)))
