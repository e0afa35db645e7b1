"""How a rank whose process group is Gloo's ends."""

import atexit
import os
import sys
from typing import NoReturn


def end_rank() -> NoReturn:
    """End the process, successfully, without Python's own ending; the last call of a script.

    Gloo's thread may still hold the tensor of the last collective; letting go of it while Python
    ends, it would abort the process (pytorch#190489). Once DistributedDataParallel has used it,
    destroying the process group does not end that thread.
    """
    atexit._run_exitfuncs()  # not what C code left for Python's ending: MPI is finalized before
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
