"""What a host lacks is said before UCX trips over it; what it does not need stays shut."""

import contextlib
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
from unittest import mock

import pytest
import torch

import patallreduce as pat
from patallreduce.communicator import host, link_meter
from tests.processes import LINK


def sums(communicator):
    for elements in (1, 100_000):
        tensor = torch.ones(elements)
        communicator.all_reduce(tensor, algorithm="ring")
        assert tensor.eq(communicator.ranks).all()


def sockets():
    """This process's sockets of TCP."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # such as the one that listed them
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6):
                    yield one


def port(name_of):
    """The port of what `socket.getsockname` or `getpeername` gives."""
    with contextlib.suppress(OSError):  # not connected
        return name_of()[1]
    return None


def listening():
    return {
        port(one.getsockname)
        for one in sockets()
        if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    }


def ends():
    """The ports of both ends of this process's connections, and at which it listens."""
    both = [(port(one.getsockname), port(one.getpeername)) for one in sockets()]
    return {end for two in both for end in two} - {None}


def listens_nowhere():
    before = listening()
    with pat.Communicator(timeout_s=20, link=LINK) as communicator:
        assert listening() == before
        sums(communicator)
        assert communicator.session.transport.readable()


def test_ranks_that_share_a_host_listen_at_no_port(processes):
    processes.run(3, listens_nowhere)


def listens_if_told():
    before = listening()
    with with_tcp(), pat.Communicator(timeout_s=20, link=LINK) as communicator:
        assert listening() > before
        sums(communicator)


@contextlib.contextmanager
def with_tcp():
    os.environ["UCX_TLS"] = "tcp,self"
    try:
        yield
    finally:
        del os.environ["UCX_TLS"]


def test_who_asks_for_tcp_gets_it(processes):
    processes.run(2, listens_if_told)


def ports_are_looked_for_where_there_may_be_some():
    """In shared memory a processor that two ranks share would pass for a narrow port."""
    measured = pat.Link(1e-5, 1e9, 1e9, ((1e6, 2e-3),))
    found = {"measure": measured, "measure_ports": [2e9, 1e9, 2e9], "measure_burst": 5.0}
    with contextlib.ExitStack() as stack:
        for name, value in found.items():
            stack.enter_context(mock.patch.object(link_meter, name, lambda *_, value=value: value))
        with pat.Communicator(timeout_s=20, monitor=False) as communicator:
            link = communicator.link
            assert (link.ports, link.partners, link.burst_bytes) == ((), 1, 0)
            processors = len(os.sched_getaffinity(0))
            assert link.processors == processors
            faster = max(communicator.ranks / processors, 1)  # what one message is alone
            assert link.bytes_per_s == pytest.approx(1e9 * faster)
            assert link.transfers_s == ((1e6, pytest.approx(2e-3 / faster)),)
        with with_tcp(), pat.Communicator(timeout_s=20, monitor=False) as communicator:
            assert (communicator.link.ports, communicator.link.burst_bytes) == ((2, 1, 2), 5)
            assert communicator.link.processors == 0


def test_ranks_that_share_memory_have_no_ports(processes):
    processes.run(3, ports_are_looked_for_where_there_may_be_some)


def forks_a_child():
    """The child has none of its parent's connections; the parent keeps them."""
    before = ends()
    # All connections stand once the link has been measured.
    with with_tcp(), pat.Communicator(timeout_s=20) as communicator:
        sums(communicator)
        during = ends()
        assert len(during - before) >= 4  # of two ranks, two workers each
        with socket.create_server(("127.0.0.1", 0)) as another:
            child = os.fork()
            if child == 0:
                code = 1
                with contextlib.suppress(BaseException):
                    assert ends() == before | {another.getsockname()[1]}
                    code = 0
                os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert ends() == during
        sums(communicator)


def test_a_forked_child_lets_go_of_connections(processes):
    processes.run(2, forks_a_child)


def with_few_files(lacking, spare):
    rank = torch.distributed.get_rank()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    if rank == lacking:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + spare, hard))
    try:
        with pytest.raises(
            pat.TransportError, match=f"rank {lacking}: .*file descriptors"
        ) as raised:
            pat.Communicator(timeout_s=20, link=LINK)
        assert raised.value.rank == lacking
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with pat.Communicator(timeout_s=20, link=LINK) as communicator:
        sums(communicator)


@pytest.mark.parametrize("lacking", [0, 2])
@pytest.mark.parametrize("spare", [20, 40])
def test_too_few_descriptors_are_said_by_all_ranks(processes, lacking, spare):
    processes.run(3, with_few_files, lacking, spare)


def just_enough_files(ranks):
    """As many as are asked for suffice."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/proc/self/fd"))
    needed = host._FILES + ranks * host._FILES_PER_RANK
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + needed, hard))
    try:
        with pat.Communicator(timeout_s=20, link=LINK) as communicator:
            sums(communicator)
            communicator.all_reduce(torch.ones(1), async_op=True).wait()
            return len(os.listdir("/proc/self/fd")) - used, needed
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("tcp", [False, True])
def test_no_more_descriptors_are_used_than_asked_for(processes, ranks, tcp):
    for used, needed in processes.run(ranks, tcp_if if tcp else just_enough_files, ranks):
        assert used < needed


def tcp_if(ranks):
    with with_tcp():
        return just_enough_files(ranks)


def without_network(lacking):
    if torch.distributed.get_rank() == lacking:
        os.environ["UCX_NET_DEVICES"] = "none"
    try:
        with with_tcp(), pytest.raises(pat.TransportError, match="cannot reach") as raised:
            pat.Communicator(timeout_s=20, link=LINK)
    finally:
        os.environ.pop("UCX_NET_DEVICES", None)
    with pat.Communicator(timeout_s=20, link=LINK) as communicator:
        sums(communicator)
    return raised.value.rank, str(raised.value)


@pytest.mark.parametrize("lacking", [0, 1, 2])
def test_a_rank_without_a_network_is_named_by_all(processes, lacking):
    (said,) = set(processes.run(3, without_network, lacking))
    assert said[0] == lacking


def in_little_shared_memory(free_bytes):
    host._free_bytes, real = lambda _: free_bytes, host._free_bytes
    try:
        with pat.Communicator(timeout_s=20, link=LINK) as communicator:
            sums(communicator)
            assert communicator.session.transport.readable()
            return posix_bytes()
    finally:
        host._free_bytes = real


def posix_bytes():
    """What this process has mapped of POSIX shared memory that is UCX's."""
    with open("/proc/self/smaps") as maps:
        lines = [line.split() for line in maps]
    total_kib, ucx = 0, False
    for line in lines:
        if "-" in line[0] and ":" not in line[0]:
            ucx = "ucx_shm_posix" in line[-1] or any("ucx_shm_posix" in word for word in line)
        elif line[0] == "Size:" and ucx:
            total_kib += int(line[1])
    return total_kib * 1024


def test_without_room_for_posix_shared_memory_system_v_is_used(processes):
    assert all(processes.run(3, in_little_shared_memory, 1 << 40))
    assert not any(processes.run(3, in_little_shared_memory, 64 << 10))


LONGEST_S = 100  # of which torch's import took more than 35, beside many ranks that wait busily
TINY = """
import subprocess, sys
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/dev/shm"], check=True)
sys.exit(subprocess.call(sys.argv[1:]))
"""
RANKS = """
import faulthandler, os, sys, torch, torch.distributed as dist, patallreduce as pat
other = os.fork()
faulthandler.dump_traceback_later(30, exit=True)  # from torch's import on
store = dist.FileStore(sys.argv[1], 2)
dist.init_process_group("gloo", store=store, rank=int(other == 0), world_size=2)
with pat.Communicator(timeout_s=20) as communicator:
    tensor = torch.ones(100_000)
    communicator.all_reduce(tensor, algorithm="ring")
    assert tensor.eq(2).all()
if other:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
"""


@pytest.mark.timeout(LONGEST_S + 20)
def test_a_tiny_dev_shm_ends_no_process(tmp_path):
    namespace = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no user namespaces here")
    command = [*namespace, sys.executable, "-c", TINY, sys.executable, "-c", RANKS]
    process = subprocess.Popen([*command, str(tmp_path / "store")], start_new_session=True)
    try:
        assert process.wait(LONGEST_S) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
