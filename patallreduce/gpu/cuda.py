"""Where the GPU kernels are; `_core` opens them at the first use of a GPU."""

from __future__ import annotations

from pathlib import Path


def library_path() -> str:
    """Path of the kernels' library, which exists only if nvcc was there at installation."""
    return str(Path(__file__).parents[1] / "libpatallreduce_cuda.so")
