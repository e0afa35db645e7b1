import signal
from collections.abc import Callable

import pytest

from benchmarks.lab import Network, parse_rate

pytestmark = [pytest.mark.network, pytest.mark.alone]  # rates are measured

MESSAGE_BYTES = 2 << 20
PAYLOAD = 1448 / 1514  # of an Ethernet frame

TRANSFER = f"""
import os, statistics
from benchmarks.lab.point_to_point import PointToPoint
rank = int(os.environ["RANK"])
with PointToPoint(sends=rank == 0, host=os.environ["MASTER_ADDR"], port=29501) as pair:
    times_s = [pair.transfer({MESSAGE_BYTES}) for _ in range(3)]
if rank == 0:
    print(statistics.median(times_s))
"""

# Every rank tells its number to every rank.
MEET = """
import os, socket, time
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
prefix, first = os.environ["MASTER_ADDR"].rsplit(".", 1)
hosts = [f"{prefix}.{int(first) + i}" for i in range(ranks)]
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mailbox:
    mailbox.bind((hosts[rank], 29501))
    mailbox.settimeout(0.05)
    seen, until = set(), time.monotonic() + 10
    while time.monotonic() < until and (len(seen) < ranks or time.monotonic() < settled):
        for host in hosts:
            mailbox.sendto(str(rank).encode(), (host, 29501))
        try:
            number = int(mailbox.recv(10))
            if number not in seen:
                seen.add(number)
                settled = time.monotonic() + 0.5
        except TimeoutError:
            pass
print(sorted(seen))
"""

# Rank 1's port is changed while there are sockets, by a process that is not the one that made it.
PORT = """
import os, socket, time
from benchmarks.lab import Network, enter_user_namespace
from benchmarks.lab.namespaces import entered
from benchmarks.lab.network import address
enter_user_namespace()

def mailbox(rank):
    with entered(network.namespaces[rank]):
        mailbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    mailbox.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    mailbox.bind((address(rank), 29501))
    mailbox.settimeout(0.5)
    return mailbox

def time_s(sender, receiver, datagrams):
    begin_s = time.monotonic()
    for _ in range(datagrams):
        mailboxes[sender].sendto(bytes(1024), (address(receiver), 29501))
    for _ in range(datagrams):
        mailboxes[receiver].recv(2000)
    return time.monotonic() - begin_s

def passes(sender, receiver):
    try:
        return time_s(sender, receiver, 1) > 0
    except OSError:
        return False

def change(function, *arguments):
    if (child := os.fork()) == 0:
        function(*arguments)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

with Network(3, 2e8) as network:
    mailboxes = [mailbox(rank) for rank in range(3)]
{}
"""

UNPLUG = PORT.format("""
    assert passes(0, 1) and passes(1, 0)
    change(network.unplug, 1)
    assert not passes(0, 1) and not passes(1, 0) and passes(0, 2)
    change(network.plug_in, 1)
    until_s = time.monotonic() + 10
    while not (passes(0, 1) and passes(1, 0)):
        assert time.monotonic() < until_s
""")

SET_RATE = PORT.format("""
    change(network.set_rate, 1, 2e6)
    slow_s = (100 * 1024 - 34_000) * 8 / 2e6  # after what passes at once
    for sender, receiver in ((0, 1), (1, 0)):
        assert time_s(sender, receiver, 100) > slow_s
    assert time_s(0, 2, 100) < slow_s
    change(network.set_rate, 1, 2e8)
    for sender, receiver in ((0, 1), (1, 0)):
        assert time_s(sender, receiver, 100) < slow_s
""")

# Between which ports there is a latency; a rate is what it is without.
LATENCY = PORT.format("""
    pass
for sites, ports in ((1, ((0, 1), (0, 3), (3, 0))), (2, ((0, 3), (2, 1)))):
    with Network(4, 2e8, latency_s=0.02, sites=sites) as network:
        mailboxes = [mailbox(rank) for rank in range(4)]
        for sender, receiver in ((s, r) for s in range(4) for r in range(4) if s != r):
            time_s(sender, receiver, 1)  # who has that address
        for sender, receiver in ports:
            assert 0.02 <= time_s(sender, receiver, 1) < 0.03
            assert 100 * 1024 * 8 / 2e8 < time_s(sender, receiver, 100) < 0.04
        if sites == 2:
            assert time_s(0, 1, 1) < 0.01 and time_s(2, 3, 1) < 0.01
""")

NAMESPACE_THEN_SLEEP = """
import os, time
print(os.readlink("/proc/self/ns/net"), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(("rates", "slowest_bit_s"), [("200mbit", 200e6), ("400mbit,100mbit", 1e8)])
def test_transfer_takes_what_the_slower_port_allows(network_lab, rates, slowest_bit_s):
    network_lab.rate = rates
    code, output = network_lab.run(2, TRANSFER, "--show", "rank0")
    assert code == 0, output
    expected_s = MESSAGE_BYTES * 8 / (slowest_bit_s * PAYLOAD)
    assert float(output) == pytest.approx(expected_s, rel=0.25)


def test_ranks_see_each_other(network_lab):
    code, output = network_lab.run(4, MEET)
    assert code == 0, output
    assert sorted(output.splitlines()) == [f"[{rank}] [0, 1, 2, 3]" for rank in range(4)]


def test_rank_sees_its_own_device_only(network_lab):
    # In /sys too, where UCX looks.
    program = """
import os, socket
names = {name for _, name in socket.if_nameindex()}
names |= {name for name in os.listdir("/sys/class/net") if name != "bonding_masters"}
print(sorted(name for name in names if name.startswith(("rank", "port", "eth"))))
"""
    code, output = network_lab.run(2, program)
    assert code == 0, output
    assert sorted(output.splitlines()) == ["[0] ['rank0']", "[1] ['rank1']"]


@pytest.mark.parametrize(("rate", "slow"), [("200mbit@1ms:1:warm", 0), ("200mbit@1ms", 1)])
def test_connections_that_rested_go_on_as_fast_as_before_on_request(network_lab, rate, slow):
    network_lab.rate = rate
    file = "/proc/sys/net/ipv4/tcp_slow_start_after_idle"
    program = f"import pathlib; print(pathlib.Path('{file}').read_text())"
    code, output = network_lab.run(2, program, "--show", "rank0")
    assert (code, output.split()) == (0, [str(slow)])


@pytest.mark.parametrize(
    "program", [UNPLUG, SET_RATE, LATENCY], ids=["unplug", "set_rate", "latency"]
)
def test_a_port_can_be_changed(network_lab, program):
    with network_lab.start_python("-c", program) as changer:
        output, _ = changer.communicate(timeout=30)
    assert changer.returncode == 0, output


@pytest.mark.parametrize("rate", ["200mbit", "200mbit@5ms"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_after_the_launcher_is_killed(
    network_lab, in_use: Callable[[], set[str]], end, rate
):
    network_lab.rate = rate
    with network_lab.start(2, NAMESPACE_THEN_SLEEP) as launcher:
        assert launcher.stdout is not None
        namespaces = {launcher.stdout.readline().split()[1] for _ in range(2)}
        assert len(namespaces) == 2
        assert namespaces <= in_use()
        launcher.send_signal(end)
        launcher.wait(timeout=10)
        assert network_lab.left_behind() == []
        assert not namespaces & in_use()


def test_namespaces_go_with_success_failure_and_timeout(network_lab, in_use):
    before = in_use()
    assert network_lab.run(2, "pass")[0] == 0
    assert network_lab.run(2, "raise SystemExit(7)")[0] == 7
    assert network_lab.run(2, "import time; time.sleep(60)", "--timeout-s", "0.5")[0] == 124
    assert network_lab.left_behind() == []
    assert in_use() <= before


def test_rates_must_be_one_per_port():
    with pytest.raises(ValueError, match="one positive rate per port"):
        Network(3, [1e6, 2e6])


@pytest.mark.parametrize(("latency_s", "sites"), [(-1, 1), (0.1, 0), (0.1, 4)])
def test_latencies_and_sites_must_make_sense(latency_s, sites):
    with pytest.raises(ValueError, match="sites of 3 ports"):
        Network(3, 1e6, latency_s=latency_s, sites=sites)


@pytest.mark.parametrize(
    ("text", "rate_bit_s"), [("200mbit", 2e8), ("2.5Gbit", 2.5e9), ("64kbit", 64e3), ("1000", 1e3)]
)
def test_rate_is_read(text, rate_bit_s):
    assert parse_rate(text) == rate_bit_s


@pytest.mark.parametrize("text", ["", "fast", "-1mbit", "0", "mbit"])
def test_bad_rate_is_refused(text):
    with pytest.raises(ValueError, match="expected a positive number"):
        parse_rate(text)
