"""Whether UCX moves a GPU's memory itself."""

from __future__ import annotations

from patallreduce import _core


def check_ucx_takes_cuda(library: str) -> None:
    """Refuse to hand UCX addresses on a GPU unless its context says that it knows such memory.

    UCX takes an address that it cannot place for one of the host, and reads it there.

    Args:
        library: Path or name of libucp, see `patallreduce.communicator.ucx.library_path`.

    Raises:
        TransportError: UCX is absent or too old, or its context reports no CUDA memory.
    """
    kinds = _core.ucx_memory_types(library)
    if "cuda" in kinds:
        return
    path, version = _core.ucx_library(library)
    raise _core.TransportError(
        "CUDA memory over UCX: expected a UCX whose context reports memory of the kinds host and "
        f"cuda, got {' and '.join(kinds)} of UCX {version} at {path}: it was built without CUDA, "
        "or its uct_cuda module did not load (it needs libcuda.so.1 and libnvidia-ml.so.1; "
        "UCX_LOG_LEVEL=debug tells). transport='staged' goes through pinned memory of the host "
        "instead"
    )
