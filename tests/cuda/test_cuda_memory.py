"""UCX is not given a GPU's addresses unless it says that it knows such memory."""

import pytest

import patallreduce as pat
from patallreduce import _core
from patallreduce.communicator import ucx
from patallreduce.gpu.memory import check_ucx_takes_cuda


def test_ucx_without_cuda_is_refused_with_the_way_round_it(monkeypatch):
    monkeypatch.setattr(_core, "ucx_memory_types", lambda library: ["host", "rocm"])

    with pytest.raises(pat.TransportError) as caught:
        check_ucx_takes_cuda(ucx.library_path())

    text = str(caught.value)
    assert "expected a UCX whose context reports memory of the kinds host and cuda" in text
    path, version = _core.ucx_library(ucx.library_path())
    assert f"got host and rocm of UCX {version} at {path}" in text
    assert "transport='staged'" in text


def test_ucx_with_cuda_is_taken(monkeypatch):
    monkeypatch.setattr(_core, "ucx_memory_types", lambda library: ["host", "cuda"])

    check_ucx_takes_cuda(ucx.library_path())


def test_this_ucx_is_asked():
    """Without a CUDA driver its context knows the host's memory alone."""
    library = ucx.library_path()
    try:
        check_ucx_takes_cuda(library)
    except pat.TransportError:
        assert "cuda" not in _core.ucx_memory_types(library)
    else:
        assert "cuda" in _core.ucx_memory_types(library)
