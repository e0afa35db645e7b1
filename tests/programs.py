"""Programs that tests run to their end."""

import subprocess
import sys


def run(*command, limit_s, **options):
    """What a command said, on both streams, and its exit status; an error after `limit_s`."""
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=limit_s,
        check=False,
        **options,
    )


def run_module(module, *arguments, limit_s, **options):
    """The same of `python -m module`."""
    return run(sys.executable, "-m", module, *arguments, limit_s=limit_s, **options)
