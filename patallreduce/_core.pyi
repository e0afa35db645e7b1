"""Types of the native core, one section per file of csrc/bindings."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias, overload

# Errors (csrc/errors.h)

class ScheduleError(ValueError): ...

class TransportError(RuntimeError):
    rank: int | None

class TransportTimeout(TransportError, TimeoutError): ...  # noqa: N818 (public name)
class PeerLostError(TransportError): ...
class MismatchError(TransportError): ...

class CudaError(RuntimeError):
    device: int | None

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
        tree: bool = False,
    ) -> Schedule: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def tree(self) -> bool: ...
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
    def listing(self) -> str: ...

def generate(
    algorithm: str,
    ranks: int,
    segments: int,
    arrivals_s: Sequence[float] = ...,
    root: int = 0,
    segment_time_s: float = 0.0,
    latency_s: float = 0.0,
    sum_s: float = 0.0,
    collective: str = "",
) -> Schedule: ...
def generate_steps(
    algorithm: str,
    rank: int,
    ranks: int,
    segments: int,
    arrivals_s: Sequence[float] = ...,
    root: int = 0,
    segment_time_s: float = 0.0,
    latency_s: float = 0.0,
    sum_s: float = 0.0,
    collective: str = "",
) -> list[Step]: ...
def clairvoyant(
    implementation: Literal["linear", "pairing_heap", "segment_tree", "bit_rows"],
    ranks: int,
    segments: int,
    arrivals_s: Sequence[float] = ...,
    root: int = 0,
    segment_time_s: float = 0.0,
) -> tuple[Schedule, int]: ...
def verify(schedule: Schedule) -> None: ...
def levels(schedule: Schedule, ports: int = 1) -> tuple[int, list[list[int]]]: ...
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
def flushes_subnormals() -> bool: ...
def vector_level() -> str: ...

# The same on GPUs (bindings/cuda.cpp). `library`: path of the kernels. Addresses are of device
# memory, aligned to an element, valid until the stream has passed; stream: a cudaStream_t, 0 the
# default one. Calls return once the work is queued. Errors: CudaError naming the device.

def cuda_library(library: str) -> tuple[str, str]: ...
def cuda_device_count(library: str) -> int: ...

class CudaReduction:
    def __init__(self, library: str, device: int, blocks_per_multiprocessor: int = 32) -> None: ...
    @property
    def device(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def capability(self) -> tuple[int, int]: ...
    @property
    def multiprocessors(self) -> int: ...
    def combine(
        self,
        out: int,
        also: int,
        received: int,
        held: int,
        count: int,
        dtype: str,
        op: str,
        scale: float = 1.0,
        stream: int = 0,
    ) -> None: ...
    def scale_copy(
        self, out: int, source: int, count: int, dtype: str, scale: float, stream: int = 0
    ) -> None: ...
    def divide(self, data: int, count: int, dtype: str, divisor: int, stream: int = 0) -> None: ...

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

class Delayed(Transport):
    def __init__(self, transport: Transport, max_delay_s: float, seed: int) -> None: ...

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
    @property
    def name(self) -> str: ...
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

class ScheduleKey: ...

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
        root: int = -1,
        latency_s: float = 0.0,
        sum_s: float = 0.0,
    ) -> None: ...
    @staticmethod
    def of_key(count: int, dtype: Dtype, op: Op, key: ScheduleKey) -> Call: ...
    def planned(self, stream: int, iteration: int) -> Call: ...
    def carried_by(self, carrier: str) -> Call: ...

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
    @property
    def algorithm(self) -> str: ...
    @property
    def segments(self) -> int: ...
    @property
    def key_text(self) -> str: ...
    @property
    def planned(self) -> bool: ...
    @property
    def place(self) -> int: ...
    def check(self) -> None: ...

class Engine:
    def __init__(
        self, transport: Transport, spin_s: float, shares_cores: bool, scratch_bytes: int
    ) -> None: ...
    def start(self, timeout_s: float) -> None: ...
    def submit(self, data: int, call: Call, timeout_s: float) -> Ticket: ...
    def given(self, schedule: Schedule) -> ScheduleKey: ...
    def begin(self, data: int, call: Call, timeout_s: float) -> Ticket: ...
    def wait(self, ticket: Ticket) -> None: ...
    def next_done(self, timeout_s: float) -> Ticket | None: ...
    def abort(self, why: str) -> None: ...
    def close(self, timeout_s: float) -> None: ...
    def check(self) -> None: ...
    def algorithm_now(self, call: Call) -> str: ...
    @property
    def plans_ended(self) -> str | None: ...
    @property
    def scratch_peak_bytes(self) -> int: ...

# Collectives on a GPU's streams (csrc/streams). `library`, streams and addresses as of
# CudaReduction; nccl: path or name of NCCL's library. Every rank queues the same collectives in the
# same order, with programs of one schedule and equal options.

def nccl_library(nccl: str) -> tuple[str, str]: ...
def nccl_unique_id(nccl: str) -> bytes: ...

Message: TypeAlias = tuple[int, int, int, str]  # peer, first, last, memory
# first, last, out, also, received, its message if that is scratch, held, the caller's own value
Apply: TypeAlias = tuple[int, int, str, str, str, int, str, bool]

class StreamProgram:
    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        *,
        ports: int = 1,
        regions: int = 2,
        early_out: bool = False,
        scales: bool = False,
    ) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def result_stage(self) -> int: ...
    @property
    def regions(self) -> int: ...
    @property
    def shadow(self) -> bool: ...
    @property
    def stages(self) -> list[tuple[int, int, list[Message], list[Message], list[Apply]]]: ...

class StreamTicket:
    @property
    def number(self) -> int: ...

class StreamExecutor:
    def __init__(
        self,
        library: str,
        nccl: str,
        device: int,
        rank: int,
        ranks: int,
        unique_id: bytes,
        timeout_s: float,
    ) -> None: ...
    def connect(self, timeout_s: float) -> None: ...
    def submit(
        self,
        program: StreamProgram,
        home: int,
        count: int,
        dtype: str,
        op: str,
        stream: int,
        timeout_s: float,
    ) -> StreamTicket: ...
    def join(self, ticket: StreamTicket, stream: int) -> None: ...
    def wait(self, ticket: StreamTicket) -> None: ...
    def has_result(self, ticket: StreamTicket, within_s: float) -> bool: ...
    def check(self) -> None: ...
    def abort(self, why: str) -> None: ...
    def close(self, timeout_s: float) -> None: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def events(self) -> int: ...

# An engine's collectives on a GPU's memory (csrc/streams/staging.h). `direct`: the transport moves
# the GPU's memory; else copies go through pinned memory of the host.

class StagedTicket:
    @property
    def number(self) -> int: ...
    @property
    def engine_ticket(self) -> Ticket | None: ...
    @property
    def arrival_s(self) -> float: ...
    @property
    def finish_s(self) -> float: ...
    def check(self) -> None: ...

class Staging:
    def __init__(self, engine: Engine, library: str, device: int, direct: bool) -> None: ...
    def submit(
        self, data: int, call: Call, stream: int, timeout_s: float, queued: bool = True
    ) -> StagedTicket: ...
    def next_done(self, timeout_s: float) -> StagedTicket | None: ...
    def join(self, ticket: StagedTicket, stream: int) -> None: ...
    def wait(self, ticket: StagedTicket) -> None: ...
    def has_result(self, ticket: StagedTicket, within_s: float) -> bool: ...
    def abort(self, why: str) -> None: ...
    def close(self, timeout_s: float) -> None: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def events(self) -> int: ...

# Tree sums (csrc/tree_sum). Addresses as of combine; rows of `columns` elements.

TREE_REFUSALS: list[str]  # what other ranks say of a refusal, by its number

def subtree(
    out: int, source: int, level: int, columns: int, dtype: str, op: str, vectors: str = ""
) -> None: ...
def message_count(distribution: list[int]) -> int: ...
def tree_messages(distribution: list[int]) -> list[tuple[int, int, list[int]]]: ...
def ranks_of(distribution: list[int], indices: list[int]) -> list[int]: ...

class TreeReducer:
    def __init__(self, engine: Engine) -> None: ...
    def reduce(
        self,
        data: int,
        count: int,
        columns: int,
        dtype: Dtype,
        op: Op,
        out: int,
        distribution: list[int],
        timeout_s: float,
    ) -> None: ...
    def refuse(self, reason: int, timeout_s: float) -> None: ...
    @property
    def rounds(self) -> int: ...

# The progress monitor (csrc/monitor)

class Plan:
    @property
    def stream(self) -> int: ...
    @property
    def iteration(self) -> int: ...
    @property
    def buckets(self) -> list[tuple[int, int, str, int, list[float]]]: ...
    @property
    def message_bytes(self) -> int: ...

class Leader:
    def __init__(
        self, ranks: int, selector: Selector | None = None, patience_s_per_byte: float = 0.0
    ) -> None: ...
    def overdue(self, now_s: float) -> Plan | None: ...
    def started(
        self,
        rank: int,
        stream: int,
        iteration: int,
        at_s: float,
        finish_s: Sequence[float],
        now_s: float,
    ) -> Plan | None: ...
    def edge(
        self, rank: int, stream: int, iteration: int, fraction: float, at_s: float, now_s: float
    ) -> Plan | None: ...
    def asked(
        self, rank: int, stream: int, iteration: int, at_s: float, now_s: float
    ) -> Plan | None: ...
    def arrived(
        self,
        rank: int,
        stream: int,
        iteration: int,
        arrivals_s: Sequence[float],
        sizes: Sequence[tuple[int, int]],
        now_s: float,
    ) -> Plan | None: ...
    def records(self) -> list[dict[str, Any]]: ...

class ClockOffset:
    def __init__(self) -> None: ...
    def sample(self, sent_s: float, answered_s: float, received_s: float) -> None: ...
    @property
    def samples(self) -> int: ...
    @property
    def offset_s(self) -> float: ...
    @property
    def error_s(self) -> float: ...

def plan_children(rank: int, ranks: int) -> list[int]: ...

class Monitor:
    def __init__(self, transport: Transport, engine: Engine, clock_skew_s: float = 0.0) -> None: ...
    def start(self) -> None: ...
    def set_selector(self, selector: Selector, patience_s_per_byte: float) -> None: ...
    def started(
        self, stream: int, iteration: int, at_s: float, finish_s: Sequence[float]
    ) -> None: ...
    def edge(self, stream: int, iteration: int, fraction: float, at_s: float) -> None: ...
    def asked(self, stream: int, iteration: int, at_s: float) -> None: ...
    def arrived(
        self,
        stream: int,
        iteration: int,
        arrivals_s: Sequence[float],
        calls: Sequence[Call],
    ) -> None: ...
    def records(self) -> list[dict[str, Any]]: ...
    def fail(self, why: str) -> None: ...
    def close(self, timeout_s: float) -> None: ...
    @property
    def offset_s(self) -> float: ...
    @property
    def failure(self) -> str | None: ...

def now_s() -> float: ...

# Prediction (bindings/prediction.cpp). Seconds on one clock; input that cannot be is ignored.

class Job:
    def __init__(self, ranks: int) -> None: ...

class Prediction:
    @property
    def arrival_s(self) -> float: ...
    @property
    def error_s(self) -> float: ...
    @property
    def known(self) -> bool: ...

class Predictor:
    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, job: Job) -> None: ...
    def start(self, at_s: float) -> None: ...
    def edge(self, fraction: float, at_s: float) -> None: ...
    def arrive(self, bucket: int, at_s: float) -> None: ...
    def finish(self, arrivals_s: Sequence[float]) -> None: ...
    def predict(self, bucket: int, now_s: float) -> Prediction: ...
    def components(self, bucket: int, now_s: float) -> dict[str, float]: ...
    @property
    def chosen(self) -> str: ...

def predict_component(component: str, values: Sequence[float]) -> float: ...
def component_names() -> list[str]: ...

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
def simulate_ports(
    schedule: Schedule,
    message_bytes: int,
    arrivals_s: Sequence[float],
    latency_s: float,
    bytes_per_s: float,
    reduce_bytes_per_s: float,
    transfers_s: Sequence[tuple[float, float]],
    port_share: float,
) -> list[tuple[int, float, float]]: ...

# (finish_s, average_elapsed_s, after_last_arrival_s, sends_s, receives_s, works_s, critical_path)
Account: TypeAlias = tuple[
    list[float],
    float,
    float,
    list[float],
    list[float],
    list[float],
    list[tuple[int, int, float]],
]

class Network:
    model_of: Sequence[int]
    node_of: Sequence[int]
    within_node: int
    uplink_bytes_per_s: float
    burst_bytes: float
    call_s: float
    shared_ports: bool
    posted_before_arrival: bool
    def add_hockney(
        self,
        latency_s: float,
        bytes_per_s: float,
        reduce_bytes_per_s: float,
        transfers_s: Sequence[tuple[float, float]],
        port_share: float,
    ) -> None: ...
    def add_loggp(
        self,
        latency_s: float,
        overhead_s: float,
        gap_s: float,
        gap_per_byte_s: float,
        reduce_bytes_per_s: float,
    ) -> None: ...
    def add_plogp(
        self,
        latency_s: float,
        gap_s: Sequence[tuple[float, float]],
        send_overhead_s: Sequence[tuple[float, float]],
        receive_overhead_s: Sequence[tuple[float, float]],
        reduce_bytes_per_s: float,
    ) -> None: ...
    def check(self, ranks: int) -> None: ...

def simulate_on_network(
    schedule: Schedule,
    message_bytes: int,
    arrivals_s: Sequence[float],
    network: Network,
    critical_path: bool = False,
    in_order_of_time: bool = False,
) -> Account: ...
def simulate_algorithm(
    algorithm: str,
    ranks: int,
    segments: int,
    predicted_s: Sequence[float],
    root: int,
    segment_time_s: float,
    message_bytes: int,
    arrivals_s: Sequence[float],
    network: Network,
    critical_path: bool = False,
    in_order_of_time: bool = False,
    latency_s: float = 0.0,
    sum_s: float = 0.0,
    collective: str = "",
) -> Account: ...
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
