"""python -m benchmarks.lab.supervise COMMAND: nothing the command starts outlives the caller.

For commands that start processes of their own, which PR_SET_PDEATHSIG does not reach:

    caller -- this process, waiting -- supervisor, a session of its own -- command -- ...

When the caller or the waiting process dies, however it does, the supervisor gets SIGHUP and kills
its session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from .launch import kill_sessions
from .namespaces import die_with_parent


def run_supervised(command: Sequence[str]) -> NoReturn:
    """Run the command and end this process with its exit code."""
    die_with_parent(os.getppid())
    waiting = os.getpid()
    supervisor = os.fork()
    if supervisor != 0:
        _, status = os.waitpid(supervisor, 0)
        sys.exit(os.waitstatus_to_exitcode(status))
    os.setsid()
    signal.signal(signal.SIGHUP, _end_session)
    die_with_parent(waiting, signal.SIGHUP)
    code = subprocess.run(list(command), check=False).returncode
    sys.exit(code if code >= 0 else 128 - code)


def _end_session(number: int, _: FrameType | None) -> None:
    kill_sessions({os.getsid(0)})  # all but this process
    os._exit(128 + number)


if __name__ == "__main__":
    run_supervised(sys.argv[1:])
