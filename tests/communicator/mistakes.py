"""What users write by mistake, and what they are told: one table, tried by test_mistakes.py.

LOCAL       one rank's own mistake: it is told before anything is sent, and nothing is broken
TAKEN       no mistake: what looks like one and works
BETWEEN     what ranks write differently: all are told the same
MEETING     what goes wrong when processes make a communicator, or register a model; in parts
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import patallreduce as pat
from patallreduce._core import CudaError


class Mistake(NamedTuple):
    """One row.

    Args:
        written: An expression; `comm` is the communicator, `rank` this rank, `x` five ones.
        error: The class of what is raised.
        words: A pattern in its text.
        ranks: Those that raise it; what the others are told, test_mistakes.py says.
        environment: Variables, without their prefix, of the ranks in `where`.
        where: See there.
        within_s: How fast the error comes; deadlines are 20 s.
    """

    written: str
    error: type[Exception]
    words: str
    ranks: tuple[int, ...] = (0, 1)
    environment: Mapping[str, str] = MappingProxyType({})
    where: tuple[int, ...] = (0, 1)
    within_s: float = 5.0


# Rank 1 alone calls.
LOCAL = [
    Mistake("comm.all_reduce(torch.ones(3, 4).T)", ValueError, r"contiguous.*\(4, 3\).*\(1, 4\)"),
    Mistake("comm.all_reduce(torch.ones(10)[::2])", ValueError, "tensor: expected a contiguous"),
    Mistake("comm.all_reduce(torch.ones(1).expand(5))", ValueError, "contiguous"),
    Mistake("comm.all_reduce(torch._neg_view(torch.ones(3)))", ValueError, "lazily negated"),
    Mistake("comm.all_reduce(torch.eye(3).to_sparse())", TypeError, "got layout torch.sparse_coo"),
    Mistake("comm.all_reduce(torch.eye(3).to_sparse_csr())", TypeError, "torch.sparse_csr"),
    Mistake("comm.all_reduce(torch.nested.nested_tensor([x]))", TypeError, "got layout nested"),
    Mistake("comm.all_reduce(x.to(torch.complex64))", TypeError, r"torch\.complex64.*view_as_real"),
    Mistake("comm.all_reduce(x.bool())", TypeError, r"dtype of float32, .*got torch\.bool"),
    Mistake("comm.all_reduce(x.to(torch.int8))", TypeError, r"got torch\.int8"),
    Mistake("comm.all_reduce(x.to(torch.int16))", TypeError, r"got torch\.int16"),
    Mistake("comm.all_reduce(x.to(torch.float8_e5m2))", TypeError, r"got torch\.float8_e5m2"),
    Mistake("comm.all_reduce(x.to('meta'))", TypeError, "CUDA tensor, got device meta"),
    Mistake("comm.all_reduce([1.0, 2.0])", TypeError, "torch.Tensor, got list"),
    Mistake("comm.all_reduce(x.numpy())", TypeError, "torch.Tensor, got ndarray"),
    Mistake("comm.all_reduce(None)", TypeError, "torch.Tensor, got NoneType"),
    Mistake("comm.all_gather(x)", ValueError, "tensor: expected a multiple of 2 .*got 5"),
    Mistake("comm.all_reduce(x, 'xor')", ValueError, "op: .*sum, avg, min, max, prod, got 'xor'"),
    Mistake("comm.all_reduce(x, 'mean')", ValueError, "got 'mean' .*did you mean 'avg'"),
    Mistake("comm.all_reduce(x, 'SUM')", ValueError, "got 'SUM' .*did you mean 'sum'"),
    Mistake("comm.all_reduce(x, None)", ValueError, "op: .*got None"),
    Mistake("comm.all_reduce(x, ['sum'])", ValueError, r"op: .*got \['sum'\]"),
    Mistake("comm.all_reduce(x, dist.ReduceOp.BAND)", ValueError, "op: .*got .*BAND"),
    Mistake(
        "comm.reduce_scatter(torch.ones(4).int(), dist.ReduceOp.AVG)",
        ValueError,
        "op: expected another than avg .*int32",
    ),
    Mistake("comm.all_reduce(x, algorithm='rng')", pat.ScheduleError, "'rng'.*mean 'ring'"),
    Mistake("comm.reduce(x, algorithm='ring')", pat.ScheduleError, "algorithm: .*got 'ring'"),
    Mistake("comm.all_reduce(x, algorithm=3)", TypeError, "algorithm: expected a name, got 3"),
    Mistake("comm.all_reduce(x, algorithm=['ring'])", TypeError, r"a name, got \['ring'\]"),
    Mistake(
        "comm.all_reduce(x, segments=0)", pat.ScheduleError, "segments: expected 1 to 5.*got 0"
    ),
    Mistake("comm.all_reduce(x, segments=6)", pat.ScheduleError, "1 to 5 .*got 6"),
    Mistake("comm.all_reduce(x, segments='4')", TypeError, "segments: .*integer, got '4'"),
    Mistake("comm.all_reduce(x, segments=2.5)", TypeError, r"segments: .*integer, got 2\.5"),
    Mistake("comm.all_reduce(x, segments=True)", TypeError, "segments: .*integer, got True"),
    Mistake("comm.all_reduce(x, arrivals_s=0.5)", TypeError, r"arrivals_s: .*sequence.*got 0\.5"),
    Mistake("comm.all_reduce(x, arrivals_s={0: 1, 1: 2})", TypeError, "arrivals_s: .*sequence"),
    Mistake("comm.all_reduce(x, arrivals_s=[])", pat.ScheduleError, "expected 2 times.*got 0"),
    Mistake("comm.all_reduce(x, arrivals_s=[0.0])", pat.ScheduleError, "expected 2 times.*got 1"),
    Mistake("comm.all_reduce(x, arrivals_s=[0, nan])", pat.ScheduleError, "got nan for rank 1"),
    Mistake("comm.all_reduce(x, arrivals_s=[-0.1, 0])", pat.ScheduleError, r"got -0\.1 for rank 0"),
    Mistake("comm.all_reduce(x, arrivals_s=['a', 'b'])", TypeError, r"arrivals_s\[0\].*got 'a'"),
    Mistake("comm.all_reduce(x, segment_time_s='x')", TypeError, "segment_time_s: .*got 'x'"),
    Mistake("comm.all_reduce(x, segment_time_s=-1)", pat.ScheduleError, "segment_time_s: .*got -1"),
    Mistake("comm.all_reduce(x, schedule='ring')", TypeError, "schedule: expected.*got str"),
    Mistake("comm.all_reduce(x, async_op='no')", TypeError, "async_op: .*True or False, got 'no'"),
    Mistake("comm.all_reduce(x, timeout_s='30')", TypeError, "timeout_s: .*number, got '30'"),
    Mistake("comm.all_reduce(x, timeout_s=True)", TypeError, "timeout_s: .*number, got True"),
    Mistake("comm.all_reduce(x, timeout_s=timedelta(seconds=30))", TypeError, r"total_seconds\(\)"),
    Mistake("comm.all_reduce(x, timeout_s=0)", ValueError, "timeout_s: .*seconds > 0.*got 0"),
    Mistake("comm.all_reduce(x, timeout_s=-1)", ValueError, "timeout_s: .*got -1"),
    Mistake("comm.all_reduce(x, timeout_s=nan)", ValueError, "timeout_s: .*got nan"),
    Mistake("comm.all_reduce(x, timeout_s=inf)", ValueError, "timeout_s: .*got inf"),
    Mistake("comm.reduce(x, 2)", pat.ScheduleError, "root: expected 0 to 1, got 2"),
    Mistake("comm.broadcast(x, -1)", pat.ScheduleError, "root: expected 0 to 1, got -1"),
    Mistake("comm.broadcast(x, '0')", TypeError, "root: expected an integer, got '0'"),
    Mistake("comm.reduce(x, 'sum')", TypeError, "root: expected an integer, got 'sum'"),
    Mistake("comm.edge('half')", TypeError, "fraction: expected a number, got 'half'"),
    Mistake("comm.edge(1.0)", ValueError, r"fraction: .*\[0, 1\), got 1\.0"),
    Mistake("pat.calibrate(comm, 'float32')", TypeError, "dtype: .*got 'float32'"),
]

# All ranks call; each expression is true.
TAKEN = [
    "comm.all_reduce(x, dist.ReduceOp.SUM) or x.tolist() == [2.0] * 5",
    "comm.all_reduce(x, dist.ReduceOp.AVG) or x.tolist() == [1.0] * 5",
    "comm.all_reduce(x.mul_(rank), dist.ReduceOp.MAX) or x.tolist() == [1.0] * 5",
    "comm.all_reduce(x.mul_(rank + 2), dist.ReduceOp.PRODUCT) or x.tolist() == [6.0] * 5",
    "comm.tree_reduce(x * rank, dist.ReduceOp.MIN) == 0",
    "comm.all_reduce(x, algorithm=None) or x.tolist() == [2.0] * 5",
    "comm.all_reduce(x, arrivals_s=torch.tensor([0.0, 0.1])) or x.tolist() == [2.0] * 5",
    "comm.all_reduce(x, segments=torch.tensor(2)) or x.tolist() == [2.0] * 5",
    "comm.all_reduce(x.requires_grad_()) or x.tolist() == [2.0] * 5",
    "comm.all_reduce(x[:0]) is None",
]

# All ranks call, and all raise.
BETWEEN = [
    Mistake("comm.all_reduce(x[rank:])", pat.MismatchError, "5 elements.*rank 1 called 4 elements"),
    Mistake("comm.all_reduce(x, ['sum', 'max'][rank])", pat.MismatchError, ", sum,.*, max,"),
    Mistake(
        "comm.all_reduce(torch.ones(9000), ['sum', 'max'][rank])",
        pat.MismatchError,
        "iteration 0 of loop 0; rank 1 .*iteration 0 of loop 0",
    ),
    Mistake("comm.reduce(x, rank)", pat.MismatchError, "root 0.*root 1"),
    Mistake("comm.barrier() if rank else comm.all_reduce(x)", pat.MismatchError, "barrier"),
    Mistake("comm.tree_sum(x.tolist() if rank else x)", Exception, "rank 1.*array|array.*rank 1"),
    Mistake("comm.close() or comm.all_reduce(x)", pat.TransportError, "communicator is closed"),
    Mistake("comm.close() or comm.edge(0.5)", pat.TransportError, "communicator is closed"),
]

ARGUMENTS = [
    Mistake("pat.Communicator(3)", TypeError, "process_group: .*got 3 on rank"),
    Mistake("pat.Communicator(dist.new_group([0]))", ValueError, "member.*without rank 1", (1,)),
    Mistake(
        "pat.Communicator(transport='tcpp')", ValueError, "auto, ucx, nccl, staged, got 'tcpp'"
    ),
    Mistake("pat.Communicator(transport='loopback')", ValueError, "Communicator.loopback"),
    Mistake("pat.Communicator(timeout_s=timedelta(seconds=30))", TypeError, "timeout_s: .*rank"),
    Mistake("pat.Communicator(monitor='no')", TypeError, "monitor: .*got 'no' on rank"),
    Mistake("pat.Communicator(link=(1e-6, 1e9))", TypeError, "link: .*got .*on rank"),
]

REGISTERING = [
    Mistake("register(model(), transport='nccl')", ValueError, "transport: .*cpu, got 'nccl'"),
    Mistake("register(model(), leaves='3')", TypeError, "leaves: .*integer, got '3' on rank"),
    Mistake("register(model(), leaves=[2, '2'][rank])", TypeError, "got '2' on rank 1", (1,)),
    Mistake("register(model(), leaves=2, leaf_seed='x')", TypeError, "leaf_seed: .*got 'x'"),
    Mistake("register(model(), segments='4')", TypeError, "segments: .*got '4'"),
    Mistake("register(model(), reproducible='yes')", TypeError, "reproducible: .*got 'yes'"),
    Mistake("register(model(), arrivals_s=0.5)", TypeError, r"arrivals_s: .*got 0\.5"),
    Mistake("register(model(), timeout_s='30')", TypeError, "timeout_s: .*got '30'"),
    Mistake("register(model(), monitor=rank == 0)", pat.MismatchError, "monitor.*True.*False"),
    Mistake("register(model(), leaves=[2, None][rank])", pat.MismatchError, "monitor.*False"),
    Mistake("pat.hooks.State(device=3.5).communicator", TypeError, r"device: .*got 3\.5"),
    Mistake(
        "pat.hooks.State(device='cuda').communicator", CudaError, "device: .*a GPU that torch sees"
    ),
    Mistake("train(segments=2 + rank)", pat.MismatchError, "2 segments, bucket 0; .*3 segments"),
]

ENVIRONMENT = [
    *(
        Mistake(
            "pat.Communicator()", ValueError, f"PATALLREDUCE_{words}", environment={name: value}
        )
        for name, value, words in [
            ("ALGORITHM", "rng", "ALGORITHM: .*got 'rng'; did you mean 'ring'"),
            ("CLOCK_SKEW_S", "soon", "CLOCK_SKEW_S: .*got 'soon'"),
            ("CONNECTIONS", "17", "CONNECTIONS: .*number from 1 to 16, got '17'"),
            ("MONITOR", "no", "MONITOR: expected 0 or 1, got 'no'"),
            ("SCRATCH_BYTES", "1.5", r"SCRATCH_BYTES: .*whole number >= 1, got '1\.5'"),
            ("SECRET", "short", "SECRET.*: expected at least 16 bytes, got 5"),
            ("SEGMENTS", "0", "SEGMENTS: .*>= 1, got '0'"),
            ("SPIN_S", "-1", "SPIN_S: .*>= 0, got '-1'"),
            ("TIMEOUT_S", "0", "TIMEOUT_S: .*seconds > 0, got '0'"),
            ("TRANSPORT", "tcpp", "TRANSPORT: .*got 'tcpp'"),
        ]
    ),
    Mistake(
        "pat.Communicator()", OSError, "SECRET_FILE.*none", environment={"SECRET_FILE": "/none"}
    ),
    Mistake(
        "pat.Communicator()",
        pat.TransportError,
        "rank 1: PATALLREDUCE_SOCKET_IFNAME: expected one of .*lo.*got 'eth9'",
        environment={"SOCKET_IFNAME": "eth9"},
        where=(1,),
    ),
]

SETTINGS = [
    *(
        Mistake(written, pat.MismatchError, words)
        for written, words in [
            ("pat.Communicator(monitor=rank == 0)", "monitor.*True on rank 0 and False on rank 1"),
            ("pat.Communicator(transport=['ucx', 'nccl'][rank])", "transport.*'ucx'.*'nccl' on"),
            ("pat.Communicator(link=pat.Link(1e-6, 1e9) if rank else None)", "link.*None.*Link"),
            ("other_release()", "release of .*got 0.0 on rank 0 and 0.1 on rank 1"),
        ]
    ),
    *(
        Mistake("pat.Communicator()", pat.MismatchError, words, (0, 1), {name: value}, (1,))
        for name, value, words in [
            ("ALGORITHM", "slt", "ALGORITHM: .*got None on rank 0 and 'slt' on rank 1"),
            ("MONITOR", "0", "PATALLREDUCE_MONITOR.*: .*got True on rank 0 and False on rank 1"),
            ("SEGMENTS", "3", "SEGMENTS: .*got None on rank 0 and 3 on rank 1"),
            ("TRANSPORT", "staged", "PATALLREDUCE_TRANSPORT.*: .*'auto'.*'staged' on rank 1"),
        ]
    ),
    Mistake("other_size()", pat.MismatchError, "size of .*got 2 on rank 0 and 3 on rank 1"),
]

# Each rank is a process.
MEETING = {
    "arguments": ARGUMENTS,
    "registering": REGISTERING,
    "environment": ENVIRONMENT,
    "settings": SETTINGS,
}
