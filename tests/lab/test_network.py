"""Rates and latencies of emulated ports, as sockets see them."""

import pytest

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

# Rank 1's port is changed while there are sockets, by a process that is not the one that made it.
PORT = """
import os, signal, socket, time
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

# More than a device queues by itself, while nobody takes what it has.
HELD_UP = PORT.format("""
    pass
with Network(4, 2e8, latency_s=0.02, sites=2) as network:
    mailboxes = [mailbox(rank) for rank in range(4)]
    time_s(0, 3, 1)
    os.kill(network.cables.pid, signal.SIGSTOP)
    for _ in range(1500):
        mailboxes[0].sendto(bytes(1024), (address(3), 29501))
    os.kill(network.cables.pid, signal.SIGCONT)
    for _ in range(1500):
        mailboxes[3].recv(2000)
""")


@pytest.mark.parametrize(("rates", "slowest_bit_s"), [("200mbit", 200e6), ("400mbit,100mbit", 1e8)])
def test_transfer_takes_what_the_slower_port_allows(network_lab, rates, slowest_bit_s):
    network_lab.rate = rates
    code, output = network_lab.run(2, TRANSFER, "--show", "rank0")
    assert code == 0, output
    expected_s = MESSAGE_BYTES * 8 / (slowest_bit_s * PAYLOAD)
    assert float(output) == pytest.approx(expected_s, rel=0.25)


@pytest.mark.parametrize(
    "program",
    [UNPLUG, SET_RATE, LATENCY, HELD_UP],
    ids=["unplug", "set_rate", "latency", "held_up"],
)
def test_a_port_can_be_changed(network_lab, program):
    with network_lab.start_python("-c", program) as changer:
        output, _ = changer.communicate(timeout=30)
    assert changer.returncode == 0, output
