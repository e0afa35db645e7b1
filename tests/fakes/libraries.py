"""Fakes of the kernels' library and of NCCL in host memory: compiled, and used by ctypes."""

import ctypes
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CORE = f"-I{HERE.parents[1] / 'csrc'}"
NVCC = os.environ.get("PATALLREDUCE_NVCC", "nvcc")
# Strict aliasing is off because 16 bytes of anything are moved as words, as on the GPU.
COMPILERS = {
    "g++": ["g++", "-O1", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC"],
    "nvcc": [NVCC, "-x", "cu", "-O1", "-Xcompiler=-ffp-contract=off,-fno-strict-aliasing,-fPIC"],
}


def _compile(command, source, path):
    options = ["-std=c++17", "-shared", CORE, "-o", str(path), str(HERE / source)]
    subprocess.run([*command, *options], check=True, timeout=120)


def build_fake_gpu(folder, compiler):
    """Path of the fake of the kernels' library, by "g++" or "nvcc"; in `folder` it is made once."""
    path = folder / f"gpu_by_{compiler}.so"
    command = COMPILERS[compiler]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} on this machine")
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it may be another process's turn to make it
        if not path.exists():
            _compile(command, "cuda_library.cpp", path)
    return str(path)


def build_fake_nccl(folder):
    path = folder / "nccl.so"
    _compile(["g++", "-O1", "-fPIC", "-Wall", "-Wextra"], "nccl.cpp", path)
    return str(path)


class FakeLibraries:
    """Paths of the two libraries, and what they let tests see and do."""

    def __init__(self, gpu, nccl):
        self.gpu = gpu
        self.nccl = nccl
        self._gpu = ctypes.CDLL(gpu)
        self._nccl = ctypes.CDLL(nccl)

    def count(self):
        """How many streams, events and blocks of memory there are."""
        return self._gpu.fake_count()

    def sleep(self, stream, milliseconds):
        """Keep a stream busy."""
        assert self._gpu.fake_sleep(ctypes.c_void_p(stream), milliseconds) == 0

    def synchronise(self, stream):
        assert self._gpu.fake_synchronise(ctypes.c_void_p(stream)) == 0

    def capture(self, stream):
        self._gpu.fake_capture(ctypes.c_void_p(stream))

    def break_connection(self, unique_id, rank):
        """Let NCCL find that a peer of this rank is gone."""
        assert self._nccl.fake_break(unique_id.rstrip(b"\0"), rank) == 0

    def aborted(self, unique_ids, rank):
        """In how many lanes a rank has given NCCL up."""
        return sum(self._nccl.fake_aborted(one.rstrip(b"\0"), rank) for one in unique_ids)

    def received(self, unique_ids, rank):
        """How many messages NCCL has given a rank so far, in all its lanes."""
        return sum(self._nccl.fake_received(one.rstrip(b"\0"), rank) for one in unique_ids)

    def new_stream(self):
        stream = ctypes.c_void_p()
        assert self._gpu.patr_cuda_stream_create(0, ctypes.byref(stream)) == 0
        return stream.value

    def end_stream(self, stream):
        assert self._gpu.patr_cuda_stream_destroy(0, ctypes.c_void_p(stream)) == 0
