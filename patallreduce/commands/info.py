"""`python -m patallreduce info`: what this installation and this machine offer."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import torch
import torch.distributed as dist

from patallreduce import _core
from patallreduce.commands import Commands
from patallreduce.communicator import environment, ucx
from patallreduce.communicator.calibration import calibrate
from patallreduce.communicator.communicator import Communicator
from patallreduce.gpu import cuda, nccl
from patallreduce.pricing.schedules import algorithms

_FEATURES = ("f16c", "fma", "avx2", "avx512f", "avx512bw", "avx512_bf16", "avx512_fp16", "asimd")


def add(commands: Commands) -> None:
    """Add the command to the command line."""
    info = commands.add_parser("info", help="versions, UCX, network and processor, for bug reports")
    info.add_argument(
        "--network",
        action="store_true",
        help="measure the network between the ranks of a job, as patallreduce.calibrate does: "
        "start this by torchrun, or whatever starts the job",
    )
    info.add_argument(
        "--save", type=Path, metavar="FILE", help="keep it, for patallreduce.Network.load"
    )
    info.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Report on this machine, or, on rank 0, on the network; the text is what to print."""
    if options.network:
        return measured_network(options.save)
    if options.save:
        raise ValueError("--save: expected --network, whose file it is")
    return report()


def measured_network(path: Path | None) -> str:
    """Measure the network between the ranks that the environment names; "" but on rank 0."""
    if "RANK" not in os.environ:
        raise ValueError(
            "--network: expected RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the environment, "
            "as of a job: torchrun --nnodes 2 --nproc-per-node 4 -m patallreduce info --network"
        )
    dist.init_process_group("gloo")
    try:
        communicator = Communicator(monitor=False)
        network = calibrate(communicator)
        communicator.close()
    finally:
        dist.destroy_process_group()
    if int(os.environ["RANK"]) > 0:
        return ""
    if path is None:
        return str(network)
    network.save(path)
    return f"{network}\n{path}"


def report() -> str:
    """Describe versions, build, GPUs, NCCL, UCX, network, processor, one `name: value` a line."""
    lines = list(_lines())
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)


def _lines() -> Iterator[tuple[str, str]]:
    yield "patallreduce", version("patallreduce")
    yield "python", f"{sys.version.split()[0]} ({sys.executable})"
    yield "torch", f"{torch.__version__} (CUDA {torch.version.cuda or 'none'})"
    yield "core", f"{_core.__file__}"
    yield "core built with", _core.build_info()
    yield from _cuda_lines()
    yield "GPUs that torch sees", _gpus()
    yield "NCCL", _nccl()
    yield from _ucx_lines()
    yield "algorithms", ", ".join(algorithms())
    yield "host", f"{socket.gethostname()}, {platform.platform()}"
    yield "interfaces", ", ".join(name for _, name in socket.if_nameindex())
    yield "/dev/shm", _shared_memory()
    yield "cores", f"{len(os.sched_getaffinity(0))} usable of {os.cpu_count()}"
    yield "reductions use", _core.vector_level()
    yield "processor has", " ".join(_processor_features()) or "none of those that matter here"
    for name in environment.VARIABLES:
        value = environment.get(name)
        if value is not None:
            yield f"PATALLREDUCE_{name}", value


def _cuda_lines() -> Iterator[tuple[str, str]]:
    library = cuda.library_path()
    if not Path(library).exists():
        yield "CUDA kernels", "not built (no nvcc when installed, or PATALLREDUCE_WITH_CUDA=0)"
        return
    try:
        _, built_for = _core.cuda_library(library)
    except _core.CudaError as error:
        yield "CUDA kernels", str(error)
        return
    try:
        count = _core.cuda_device_count(library)
    except _core.CudaError as error:
        yield "CUDA kernels", f"built for {built_for}; no usable device: {error}"
        return
    yield "CUDA kernels", f"built for {built_for}"
    for ordinal in range(count):
        try:
            device = _core.CudaReduction(library, ordinal)
        except _core.CudaError as error:
            yield f"CUDA device {ordinal}", f"not usable: {error}"
            continue
        architecture = "sm_{}{}".format(*device.capability)
        many = device.multiprocessors
        yield f"CUDA device {ordinal}", f"{device.name}, {architecture}, {many} multiprocessors"


def _gpus() -> str:
    if not torch.cuda.is_available():
        built = torch.version.cuda is not None
        return "none" if built else "none: this torch is built without CUDA"
    return ", ".join(
        f"{n}: {torch.cuda.get_device_name(n)}" for n in range(torch.cuda.device_count())
    )


def _nccl() -> str:
    try:
        path, nccl_version = _core.nccl_library(nccl.library_path())
    except (OSError, _core.TransportError) as error:
        return str(error).removeprefix("NCCL: ")
    return f"{nccl_version} at {path}"


def _ucx_lines() -> Iterator[tuple[str, str]]:
    try:
        library = ucx.library_path()
        path, ucx_version = _core.ucx_library(library)
        yield "UCX", f"{ucx_version} at {path}"
        yield "UCX transports", ", ".join(_core.ucx_resources(library))
        yield "UCX memory types", ", ".join(_core.ucx_memory_types(library))
    except _core.TransportError as error:
        yield "UCX", str(error)


def _shared_memory() -> str:
    try:
        usage = shutil.disk_usage("/dev/shm")
    except OSError:
        return "absent"
    return f"{usage.free / 2**20:.0f} MiB free of {usage.total / 2**20:.0f}"


def _processor_features() -> list[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return []
    flags = next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    present = set(flags.partition(":")[2].split())
    return [feature for feature in _FEATURES if feature in present]
