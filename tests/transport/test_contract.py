"""What csrc/transport/transport.h promises, asked of every transport."""

import ctypes
import itertools
import os
import random
import sys
import threading
import time
from pathlib import Path

import pytest

import patallreduce as pat
from patallreduce import _core
from patallreduce.communicator import ucx
from tests import programs

from .conftest import KEY, World, over_ucx, sleeps

KIB, MIB = 1 << 10, 1 << 20
SIZES_BYTES = [1, 8 * KIB, 8 * KIB + 1, 64 * KIB, MIB, 5 * MIB]
MAX_CONTROL_BYTES = 64 * KIB
ROOT = Path(__file__).parents[2]
HOOKS = "UCX_MEM_MMAP_HOOK_MODE"


def message(count, seed):
    return bytearray(random.Random(seed).randbytes(count))


def address(buffer):
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))


@pytest.mark.parametrize("size_bytes", SIZES_BYTES)
@pytest.mark.parametrize("posted_first", [True, False])
def test_a_message_arrives_whatever_its_size_and_whoever_is_first(world, size_bytes, posted_first):
    sent, received = message(size_bytes, 1), bytearray(size_bytes)

    def recv():
        world[1].transport.recv(0, 9, address(received), size_bytes, 101)

    if posted_first:
        recv()
    world[0].transport.send(1, 9, address(sent), size_bytes, 100)
    if not posted_first:
        world.drive(0.01)
        assert world[1].finished == []
        recv()
    world.until(lambda: world[0].finished and world[1].finished)

    assert received == sent
    assert (world[0].finished, world[1].finished) == ([100], [101])


def test_messages_are_named_by_sender_and_tag_in_any_order(world):
    """240 in flight, posted and sent in random orders, all sizes and both senders."""
    chance = random.Random(3)
    sizes_bytes = [1, 100, 8 * KIB, 20 * KIB]
    names = [(sender, tag) for sender in (0, 2) for tag in [*range(119), (1 << 50) - 1]]
    sent = {name: message(chance.choice(sizes_bytes), str(name)) for name in names}
    received = {name: bytearray(len(sent[name])) for name in names}
    todo = [("send", name) for name in names] + [("recv", name) for name in names]
    chance.shuffle(todo)
    for verb, (sender, tag) in todo:
        token = names.index((sender, tag))
        if verb == "send":
            data = sent[sender, tag]
            world[sender].transport.send(1, tag, address(data), len(data), token)
        else:
            data = received[sender, tag]
            world[1].transport.recv(sender, tag, address(data), len(data), token)
        if chance.random() < 0.2:
            world.drive(0)
    world.until(lambda: sum(len(rank.finished) for rank in world.ranks) == 2 * len(names))

    assert received == sent
    assert sorted(world[1].finished) == list(range(len(names)))
    assert sorted(world[0].finished + world[2].finished) == list(range(len(names)))


def test_control_messages_keep_their_order_per_sender(world):
    sizes_bytes = [0, 1, 100, 8 * KIB, MAX_CONTROL_BYTES]
    sent = {
        sender: [bytes(message(size, f"{sender} {i}")) for i in range(5) for size in sizes_bytes]
        for sender in (0, 2)
    }
    for pair in itertools.zip_longest(sent[0], sent[2]):
        for sender, data in zip((0, 2), pair, strict=True):
            world[sender].transport.control(1, data)
    world.until(lambda: len(world[1].control) == 2 * len(sent[0]))

    for sender in (0, 2):
        assert [data for source, data in world[1].control if source == sender] == sent[sender]


@pytest.mark.parametrize("expected_bytes", [64, 4 * KIB, 3 * MIB])
@pytest.mark.parametrize("sent_bytes", [65, 5 * KIB, 2 * MIB])
def test_another_size_reports_the_sender_lost_with_both_sizes(world, expected_bytes, sent_bytes):
    sent, received = message(sent_bytes, 1), bytearray(expected_bytes)
    world[1].transport.recv(0, 9, address(received), expected_bytes, 101)
    world[0].transport.send(1, 9, address(sent), sent_bytes, 100)
    world.until(lambda: world[1].lost)

    ((rank, reason),) = world[1].lost
    assert rank == 0
    assert str(sent_bytes) in reason
    assert str(expected_bytes) in reason
    assert world[1].finished == []


@pytest.mark.parametrize("what", ["control", "message"])
def test_an_armed_sleeper_is_woken(world, what):
    sent, received = message(100, 1), bytearray(100)
    world[1].transport.recv(0, 9, address(received), 100, 101)
    world.drive(0.05)  # connections stand
    assert sleeps(world[1], 0.05)

    def send():
        time.sleep(0.1)
        if what == "control":
            world[0].transport.control(1, b"wake")
        else:
            world[0].transport.send(1, 9, address(sent), 100, 100)
        for _ in range(10):
            world[0].progress()
            time.sleep(0.01)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    assert not sleeps(world[1], 10)
    sender.join()
    world.until(lambda: world[1].control or world[1].finished)


def test_what_has_come_already_keeps_a_rank_awake(world):
    sent = message(100, 1)
    received = [bytearray(100) for _ in range(2)]
    for tag in range(2):
        world[1].transport.recv(0, tag, address(received[tag]), 100, tag)
        world[0].transport.send(1, tag, address(sent), 100, tag)
        for _ in range(100):
            world[0].progress()
        time.sleep(0.05)
        assert not sleeps(world[1], 5)
        world.until(lambda tag=tag: tag in world[1].finished)


def test_abandoned_memory_is_not_touched(world):
    posted, large, small = bytearray(4 * MIB), message(4 * MIB, 1), message(100, 2)
    world[1].transport.recv(0, 1, address(posted), len(posted), 101)
    world[1].transport.recv(0, 2, address(posted), 100, 102)
    world[1].transport.send(2, 3, address(large), len(large), 104)  # gives close() much to do
    world[0].transport.send(1, 1, address(large), len(large), 100)
    for rank in world.ranks:
        rank.progress()  # under way, perhaps
    world[1].transport.abandon()
    posted[:] = bytes(len(posted))
    world[0].transport.send(1, 2, address(small), 100, 103)
    for _ in range(1000):
        world[0].progress()
    world[1].transport.close(0.2)

    assert posted == bytes(len(posted))


def test_close_delivers_what_was_sent(world):
    """More than fits into the transport's own buffers; the sender makes no other call."""
    count = 300
    sent = message(8 * KIB, 1)
    received = [bytearray(8 * KIB) for _ in range(count)]
    for tag in range(count):
        world[0].transport.control(1, bytes([tag % 256]))
        world[0].transport.send(1, tag, address(sent), len(sent), tag)
    closing = threading.Thread(target=world[0].transport.close, args=(20.0,), daemon=True)
    closing.start()
    for tag in range(count):
        world[1].transport.recv(0, tag, address(received[tag]), len(sent), tag)
    deadline_s = time.monotonic() + 10
    while len(world[1].finished) < count or len(world[1].control) < count or closing.is_alive():
        for other in world.ranks[1:]:  # closing also ends connections that were never used
            other.progress()
        assert time.monotonic() < deadline_s

    assert all(data == sent for data in received)
    assert world[1].control == [(0, bytes([tag % 256])) for tag in range(count)]


def test_close_is_idempotent_and_follows_abandon(world):
    world[0].transport.abandon()
    world[0].transport.abandon()
    for _ in range(2):
        for rank in world.ranks:
            rank.transport.close(0.5)


def changed_in_one_byte(address, number):
    at = number * 7919 % len(address)
    return address[:at] + bytes([address[at] ^ 1 << number % 8]) + address[at + 1 :]


@pytest.mark.parametrize(
    "change",
    [lambda address, i=i: changed_in_one_byte(address, i) for i in range(16)]
    + [
        lambda _: b"",
        lambda address: address[:-1],
        lambda address: address + b"x",
        lambda address: bytes(len(address)),
    ],
)
def test_an_address_that_was_changed_is_refused(change):
    first, second = (_core.Ucx(ucx.library_path(), rank, 2, KEY) for rank in range(2))
    with pytest.raises(pat.TransportError, match="rank 1 gave.*was changed") as raised:
        first.connect([first.address(), change(second.address())])
    assert raised.value.rank == 1
    for transport in (first, second):
        transport.close(0)


OTHER_KEYS = [changed_in_one_byte(KEY, i) for i in range(16)]


@pytest.mark.parametrize("key", [b"", KEY[:-1], KEY + b"x"])
def test_a_key_of_another_length_is_refused(key):
    with pytest.raises(ValueError, match=f"a key of 16 bytes, got one of {len(key)}"):
        _core.Ucx(ucx.library_path(), 0, 2, key)


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("other_key", OTHER_KEYS[::5])
def test_ucx_drops_control_messages_under_another_key(other_key, secret):
    world = World(over_ucx(3, keys=[KEY, KEY, other_key], secret=secret))
    world[2].transport.control(0, b"stranger")
    world[1].transport.control(0, b"friend")
    world.until(lambda: world[0].control)
    world.drive(0.2)
    assert world[0].control == [(1, b"friend")]
    world.close()


@pytest.mark.parametrize("secret", [False, True])
@pytest.mark.parametrize("other_key", OTHER_KEYS[::5])
def test_ucx_drops_messages_under_another_key(other_key, secret):
    world = World(over_ucx(3, keys=[KEY, KEY, other_key], secret=secret))
    sent, received = message(100, 1), bytearray(100)
    world[0].transport.recv(2, 9, address(received), 100, 1)
    world[2].transport.send(0, 9, address(sent), 100, 2)
    world.drive(0.2)
    assert world[0].finished == []
    assert received == bytes(100)
    world.close()


UNTAKEN = """
import ctypes
from tests.transport.conftest import over_ucx
sender, receiver = over_ucx(2)
large = ctypes.create_string_buffer(1 << 22)
sender.send(1, 9, ctypes.addressof(large), len(large), 1)
sender.close(0.2)
receiver.close(0.2)
"""


@pytest.mark.parametrize("mode", ["", "none"])
def test_a_large_message_that_nobody_takes_can_be_left(mode):
    """UCX 1.21 without its memory hooks ends the process when it cancels a rendezvous."""
    env = {name: value for name, value in os.environ.items() if name != HOOKS}
    env |= {HOOKS: mode} if mode else {}
    ended = programs.run(sys.executable, "-c", UNTAKEN, limit_s=30, cwd=ROOT, env=env)
    assert ended.returncode == 0, ended.stdout


def test_a_lost_rank_is_told_once_to_the_others():
    hub = _core.LoopbackHub(3)
    world = World([_core.Loopback(hub, rank) for rank in range(3)])
    hub.lose(1)
    world.drive(0.01)
    assert [[rank for rank, _ in other.lost] for other in world.ranks] == [[1], [], [1]]
