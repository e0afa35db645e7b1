"""Types of the native core, one section per file of csrc/bindings."""

from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

# Errors (csrc/errors.h)

class ScheduleError(ValueError): ...

class TransportError(RuntimeError):
    rank: int | None

class TransportTimeout(TransportError, TimeoutError): ...  # noqa: N818 (public name)
class PeerLostError(TransportError): ...
class MismatchError(TransportError): ...

# Schedules (csrc/schedule, csrc/algorithms)

Verb: TypeAlias = Literal["send", "recv", "recv_reduce"]
SumOrder: TypeAlias = int | tuple[SumOrder, SumOrder]

class Step:
    def __init__(self, verb: Verb, peer: int, first: int, last: int, round: int = -1) -> None: ...
    @property
    def verb(self) -> Verb: ...
    @property
    def peer(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def round(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...
    def __hash__(self) -> int: ...

class Schedule:
    @staticmethod
    def from_steps(
        steps: Sequence[Sequence[Step]],
        segments: int,
        *,
        algorithm: str = "custom",
        collective: str = "all_reduce",
        root: int = 0,
    ) -> Schedule: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def collective(self) -> str: ...
    @property
    def ranks(self) -> int: ...
    @property
    def segments(self) -> int: ...
    @property
    def arrivals_s(self) -> list[float]: ...
    @property
    def root(self) -> int: ...
    def steps(self, rank: int) -> list[Step]: ...
    def sum_orders(self) -> list[list[SumOrder]]: ...

def generate(
    algorithm: str,
    ranks: int,
    segments: int,
    arrivals_s: Sequence[float] = ...,
    root: int = 0,
    segment_time_s: float = 0.0,
) -> Schedule: ...
def generate_steps(
    algorithm: str,
    rank: int,
    ranks: int,
    segments: int,
    arrivals_s: Sequence[float] = ...,
    root: int = 0,
    segment_time_s: float = 0.0,
) -> list[Step]: ...
def verify(schedule: Schedule) -> None: ...
def algorithms() -> list[tuple[str, str, str, bool]]: ...

# Reductions by raw address (bindings/reduction.cpp). `dtype` and `op` are names; an unknown one
# raises ValueError. Addresses must be aligned to an element and stay valid during the call.

def combine(
    out: int,
    also: int,
    received: int,
    held: int,
    count: int,
    dtype: str,
    op: str,
    scale: float = 1.0,
) -> None: ...
def scale_copy(out: int, source: int, count: int, dtype: str, scale: float) -> None: ...
def divide(data: int, count: int, dtype: str, divisor: int) -> None: ...
def triad(a: int, b: int, c: int, count: int, s: float) -> None: ...
def vector_level() -> str: ...

# Transports (bindings/transport.cpp). Addresses are of memory that stays valid until the token is
# finished. progress(): finished tokens, (sender, bytes) control messages, (rank, reason) lost.

class Transport:
    @property
    def name(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    def send(self, to: int, tag: int, data: int, bytes: int, token: int, /) -> None: ...
    def recv(self, source: int, tag: int, data: int, bytes: int, token: int, /) -> None: ...
    def control(self, to: int, bytes: bytes, /) -> None: ...
    def progress(self) -> tuple[list[int], list[tuple[int, bytes]], list[tuple[int, str]]]: ...
    def arm(self) -> bool: ...
    def event_fds(self) -> list[int]: ...
    def abandon(self) -> None: ...
    def close(self, timeout_s: float) -> None: ...

class LoopbackHub:
    def __init__(self, ranks: int) -> None: ...
    def lose(self, rank: int) -> None: ...

class Loopback(Transport):
    def __init__(self, hub: LoopbackHub, rank: int) -> None: ...

class Ucx(Transport):
    def __init__(
        self, library: str, rank: int, ranks: int, token: int, net_devices: str = ""
    ) -> None: ...
    def address(self) -> bytes: ...
    def connect(self, addresses: Sequence[bytes], /) -> None: ...
    def readable(self) -> list[int]: ...
    def set_direct(self, ranks: Sequence[int]) -> None: ...

def ucx_library(library: str) -> tuple[str, str]: ...
def ucx_memory_types(library: str) -> list[str]: ...
def ucx_resources(library: str) -> list[str]: ...

# Executor (bindings/executor.cpp)

class Dtype:
    __members__: ClassVar[dict[str, Dtype]]
    float32: ClassVar[Dtype]
    float64: ClassVar[Dtype]
    float16: ClassVar[Dtype]
    bfloat16: ClassVar[Dtype]
    int32: ClassVar[Dtype]
    int64: ClassVar[Dtype]
    uint8: ClassVar[Dtype]

class Op:
    __members__: ClassVar[dict[str, Op]]
    sum: ClassVar[Op]
    avg: ClassVar[Op]
    min: ClassVar[Op]
    max: ClassVar[Op]
    prod: ClassVar[Op]

class Call:
    def __init__(
        self,
        count: int,
        dtype: Dtype,
        op: Op,
        label: int,
        algorithm: str,
        segments: int,
        arrivals_s: Sequence[float],
        segment_time_s: float,
    ) -> None: ...

class Ticket:
    @property
    def seq(self) -> int: ...
    @property
    def done(self) -> bool: ...
    @property
    def arrival_s(self) -> float: ...
    @property
    def finish_s(self) -> float: ...
    @property
    def drained_s(self) -> float: ...
    def check(self) -> None: ...

class Engine:
    def __init__(
        self, transport: Transport, spin_s: float, shares_cores: bool, scratch_bytes: int
    ) -> None: ...
    def start(self, timeout_s: float) -> None: ...
    def submit(self, data: int, call: Call, timeout_s: float) -> Ticket: ...
    def run(self, data: int, call: Call, timeout_s: float) -> Ticket: ...
    def wait(self, ticket: Ticket) -> None: ...
    def next_done(self, timeout_s: float) -> Ticket | None: ...
    def abort(self, why: str) -> None: ...
    def close(self, timeout_s: float) -> None: ...
    def check(self) -> None: ...
    @property
    def scratch_peak_bytes(self) -> int: ...

def now_s() -> float: ...

# Simulation (bindings/simulation.cpp). The last five are a link's fields.

def simulate(
    schedule: Schedule,
    message_bytes: int,
    arrivals_s: Sequence[float],
    latency_s: float,
    bytes_per_s: float,
    reduce_bytes_per_s: float,
    transfers_s: Sequence[tuple[float, float]],
    port_share: float,
) -> tuple[list[float], float, float]: ...
def transfer_s(
    message_bytes: float, bytes_per_s: float, transfers_s: Sequence[tuple[float, float]]
) -> float: ...

def estimate(
    algorithm: str,
    arrivals_s: Sequence[float],
    segments: int,
    message_bytes: float,
    latency_s: float,
    bytes_per_s: float,
    reduce_bytes_per_s: float,
    transfers_s: Sequence[tuple[float, float]],
    port_share: float,
) -> list[float]: ...

# Selection (bindings/simulation.cpp). A choice is (algorithm, segments, arrivals_s, segment_time_s,
# price_s); its arrivals are whole numbers of the pattern class.

class Selector:
    def __init__(
        self,
        ranks: int,
        latency_s: float,
        bytes_per_s: float,
        reduce_bytes_per_s: float,
        transfers_s: Sequence[tuple[float, float]] = ...,
        port_share: float = 0.25,
    ) -> None: ...
    def choose(
        self,
        elements: int,
        element_bytes: int,
        arrivals_s: Sequence[float],
        errors_s: Sequence[float] = ...,
        compute_s: Sequence[float] = ...,
    ) -> tuple[str, int, list[float], float, float]: ...
    def price_all(
        self,
        elements: int,
        element_bytes: int,
        arrivals_s: Sequence[float],
        errors_s: Sequence[float] = ...,
        compute_s: Sequence[float] = ...,
    ) -> list[tuple[str, int, list[float], float, float]]: ...

# The module itself (bindings/module.cpp)

def build_info() -> str: ...
