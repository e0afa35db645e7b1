"""Published ways to make Clairvoyant's schedule, beside this package's: equal step for step.

The C++ sources beside this file are compiled when they are first used (some seconds, g++), into
build/. benchmarks.clairvoyant times them; tests/algorithms/test_clairvoyant.py holds them equal.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from patallreduce._core import Schedule, Step

Way: TypeAlias = Literal["segment_tree", "bit_rows", "linear", "pairing_heap"]
WAYS: list[Way] = ["segment_tree", "bit_rows", "linear", "pairing_heap"]  # bit_rows: the package's

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
_CORE = _ROOT / "csrc"
_VERBS: list[Literal["send", "recv", "recv_reduce"]] = ["send", "recv", "recv_reduce"]


class _Step(ctypes.Structure):
    """As csrc/schedule/schedule.h has it."""

    _fields_ = [
        ("verb", ctypes.c_uint8),
        ("peer", ctypes.c_int32),
        ("first", ctypes.c_int32),
        ("last", ctypes.c_int32),
        ("round", ctypes.c_int32),
    ]


@cache
def _library() -> ctypes.CDLL:
    sources = [*_HERE.glob("*.cpp"), *(_CORE / "algorithms" / "clairvoyant").glob("[bg]*.cpp")]
    read = [*sources, *_HERE.glob("*.h"), *_CORE.glob("*.h")]
    read += [*_CORE.glob("schedule/*.h"), *_CORE.glob("algorithms/clairvoyant/*.h")]
    built = _ROOT / "build" / "clairvoyant_rivals.so"
    newest_s = max(path.stat().st_mtime for path in read)
    if not built.exists() or built.stat().st_mtime < newest_s:
        built.parent.mkdir(exist_ok=True)
        making = built.with_suffix(".new")
        options = ["-std=c++17", "-O3", "-shared", "-fPIC", f"-I{_CORE}", f"-I{_ROOT}"]
        subprocess.run(["g++", *options, "-o", making, *sources], check=True, timeout=300)
        making.replace(built)
    library = ctypes.CDLL(str(built))
    library.make.restype = ctypes.c_void_p
    library.state_bytes.restype = library.count.restype = ctypes.c_size_t
    library.steps.restype = ctypes.POINTER(_Step)
    return library


class Made:
    """All ranks' steps, as one of the ways has made them.

    Args:
        way: One of `WAYS`.
        ranks: Number of ranks P.
        segments: Of the data.
        arrivals_s: (P,) seconds, or empty: all together.
        root: Rank that keeps the result.
        segment_time_s: Of a round.
    """

    def __init__(
        self,
        way: Way,
        ranks: int,
        segments: int,
        arrivals_s: Sequence[float] = (),
        *,
        root: int = 0,
        segment_time_s: float = 0.0,
    ) -> None:
        self._ranks, self._segments, self._root = ranks, segments, root
        arrivals = (ctypes.c_double * len(arrivals_s))(*arrivals_s)
        self._library = _library()
        self._made = ctypes.c_void_p(
            self._library.make(
                way.encode(),
                ranks,
                segments,
                arrivals,
                len(arrivals_s),
                root,
                ctypes.c_double(segment_time_s),
            )
        )

    def __del__(self) -> None:
        self._library.discard(self._made)

    @property
    def state_bytes(self) -> int:
        """Memory for what every rank holds, the schedule's own apart."""
        return int(self._library.state_bytes(self._made))

    def schedule(self) -> Schedule:
        """Copy it into a schedule as the package has them."""
        steps = []
        for rank in range(self._ranks):
            first = self._library.steps(self._made, rank)
            count = self._library.count(self._made, rank)
            steps.append(
                [Step(_VERBS[s.verb], s.peer, s.first, s.last, s.round) for s in first[:count]]
            )
        return Schedule.from_steps(
            steps, self._segments, algorithm="clairvoyant", collective="reduce", root=self._root
        )
