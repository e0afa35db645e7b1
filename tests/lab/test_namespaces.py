"""Emulated networks: ranks see each other and nothing else, and nothing is left of them."""

import re
import signal
import time
from collections.abc import Callable

import pytest

from benchmarks.lab import Network, parse_rate

pytestmark = pytest.mark.network

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
        try:  # to send may take too long, too, where processors are busy
            for host in hosts:
                mailbox.sendto(str(rank).encode(), (host, 29501))
            number = int(mailbox.recv(10))
            if number not in seen:
                seen.add(number)
                settled = time.monotonic() + 0.5
        except TimeoutError:
            pass
print(sorted(seen))
"""

NAMESPACE_THEN_SLEEP = """
import os, time
print(os.readlink("/proc/self/ns/net"), flush=True)
time.sleep(60)
"""


def all_go(namespaces: set[str], in_use: Callable[[], set[str]]) -> bool:
    """Whether nobody is in one any more, within a while: one of another test may get its number."""
    until_s = time.monotonic() + 20
    while namespaces & in_use():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.2)
    return True


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
        assert all_go(namespaces, in_use)


def test_namespaces_go_with_success_failure_and_timeout(network_lab, in_use):
    named = "import os; print(os.readlink('/proc/self/ns/net'), flush=True); "
    for then, options, code in (
        ("", (), 0),
        ("raise SystemExit(7)", (), 7),
        ("import time; time.sleep(60)", ("--timeout-s", "4"), 124),
    ):
        ended, output = network_lab.run(2, named + then, *options)
        assert ended == code, output
        namespaces = set(re.findall(r"net:\[\d+\]", output))
        assert namespaces  # a rank that was stopped early may have said none
        assert network_lab.left_behind() == []
        assert all_go(namespaces, in_use)


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
