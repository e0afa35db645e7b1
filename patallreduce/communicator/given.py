"""Schedules that are given to a communicator in place of an algorithm's name."""

from __future__ import annotations

import weakref

from patallreduce import _core
from patallreduce._core import Schedule, ScheduleError
from patallreduce.communicator.calls import OPS, Request


class GivenSchedules:
    """What an engine runs of every schedule it was given, proved the first time.

    Remembered as long as the caller keeps the schedule: a schedule cannot be changed.
    """

    def __init__(self, engine: _core.Engine) -> None:
        self._engine = engine
        self._keys: weakref.WeakKeyDictionary[Schedule, _core.ScheduleKey] = (
            weakref.WeakKeyDictionary()
        )

    def call(self, schedule: Schedule, request: Request, rank: int) -> _core.Call:
        """Return the call that runs `schedule`; what else `request` asks for must fit it.

        Raises:
            TypeError, ValueError, ScheduleError: what `Communicator.all_reduce` says.
        """
        if not isinstance(schedule, Schedule):
            raise TypeError(
                "schedule: expected a patallreduce.Schedule, got "
                f"{type(schedule).__name__} on rank {rank}"
            )
        settled = {
            "algorithm": request.algorithm if request.algorithm != "auto" else None,
            "segments": request.segments,
            "arrivals_s": request.arrivals_s,
            "segment_time_s": request.segment_time_s,
        }
        for name, value in settled.items():
            if value is not None:
                raise ValueError(
                    f"expected a schedule or {name}, got both on rank {rank}: a schedule settles it"
                )
        if schedule.collective != request.collective:
            raise ScheduleError(
                f"schedule: expected one for {request.collective}, got {schedule.algorithm} for "
                f"{schedule.collective} on rank {rank}"
            )
        if request.root not in (None, schedule.root):
            raise ScheduleError(
                f"root: expected {schedule.root}, the schedule's, or none, got {request.root} "
                f"on rank {rank}"
            )
        key = self._keys.get(schedule)
        if key is None:
            key = self._keys[schedule] = self._engine.given(schedule)
        most = max(request.elements, 1)
        if schedule.segments > most:
            raise ScheduleError(
                f"schedule: expected 1 to {most} segments (the elements), got "
                f"{schedule.segments} on rank {rank}"
            )
        return _core.Call.of_key(request.elements, request.dtype, OPS[request.op], key)
