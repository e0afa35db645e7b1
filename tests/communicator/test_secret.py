"""A secret of the ranks: values that nobody else can give, and no others accepted."""

import contextlib
import os
import time

import pytest
import torch
import torch.distributed as dist

import patallreduce as pat
from patallreduce.communicator.rendezvous import Rendezvous
from patallreduce.communicator.secret import Secret

KEY = b"known to all the ranks"


def test_a_value_opens_under_its_name_with_its_secret_only():
    secret = Secret(KEY)
    sealed = secret.seal("1/address/2", b"value")
    assert secret.open("1/address/2", sealed, 0, 2) == b"value"
    for other, name, changed in (
        (secret, "1/address/3", sealed),
        (secret, "2/address/2", sealed),
        (secret, "1/address/2", sealed[:-1] + b"?"),
        (secret, "1/address/2", sealed[:10]),
        (secret, "1/address/2", b""),
        (Secret(KEY + b"?"), "1/address/2", sealed),
    ):
        with pytest.raises(pat.TransportError, match="rank 0: .*SECRET") as raised:
            other.open(name, changed, 0, 2)
        assert raised.value.rank == 2


def test_a_secret_on_one_side_only_is_said():
    with pytest.raises(pat.TransportError, match="rank 1 has a secret and rank 2 has none"):
        Secret(KEY).open("name", Secret(None).seal("name", b"value"), 1, 2)
    with pytest.raises(pat.TransportError, match="rank 2 has a secret and rank 1 has none"):
        Secret(None).open("name", Secret(KEY).seal("name", b"value"), 1, 2)


def test_what_is_derived_is_not_what_is_public():
    public = bytes(16)
    derived = [
        secret.derive(name, value)
        for secret in (Secret(None), Secret(KEY), Secret(KEY + b"?"))
        for name in ("address", "monitor")
        for value in (public, bytes(15) + b"1")
    ]
    assert len({public, *derived}) == 13
    assert {len(key) for key in derived} == {16}
    assert Secret(KEY).derive("address", public) == derived[4]


def test_short_and_absent_secrets_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PATALLREDUCE_SECRET", "short")
    with pytest.raises(ValueError, match="SECRET.*at least 16 bytes, got 5"):
        Secret.of_environment()
    monkeypatch.delenv("PATALLREDUCE_SECRET")
    monkeypatch.setenv("PATALLREDUCE_SECRET_FILE", str(tmp_path / "none"))
    with pytest.raises(OSError, match="PATALLREDUCE_SECRET_FILE.*none"):
        Secret.of_environment()
    (tmp_path / "file").write_bytes(KEY + b"\n")
    monkeypatch.setenv("PATALLREDUCE_SECRET_FILE", str(tmp_path / "file"))
    assert Secret.of_environment().seal("name", b"") == Secret(KEY).seal("name", b"")


@contextlib.contextmanager
def knowing(key):
    if key is not None:
        os.environ["PATALLREDUCE_SECRET"] = key
    try:
        yield
    finally:
        os.environ.pop("PATALLREDUCE_SECRET", None)


def meets(keys):
    rank = dist.get_rank()
    with knowing(keys[rank]), pat.Communicator(timeout_s=20) as communicator:
        tensor = torch.ones(1000)
        communicator.all_reduce(tensor)
        assert tensor.eq(communicator.ranks).all()


def test_ranks_with_one_secret_meet(processes):
    processes.run(3, meets, [KEY.decode()] * 3)


def is_refused(keys):
    start_s = time.monotonic()
    with knowing(keys[dist.get_rank()]), pytest.raises(pat.TransportError, match="SECRET"):
        pat.Communicator(timeout_s=20)
    assert time.monotonic() - start_s < 5
    dist.barrier()


@pytest.mark.parametrize("odd", [None, "known to nobody else"])
@pytest.mark.parametrize("odd_rank", [0, 2])
def test_a_rank_with_another_secret_is_refused_at_once(processes, odd, odd_rank):
    keys = [KEY.decode()] * 3
    keys[odd_rank] = odd
    processes.run(3, is_refused, keys)


def is_deceived(key):
    """A stranger at the store gives the address of rank 1 in its place."""
    rank = dist.get_rank()
    with knowing(key):
        rendezvous = Rendezvous(None, 20)
        if rank == 1:
            rendezvous._store.set("address/1", b"\1" + bytes(32) + b"a stranger's")
            dist.barrier()
            return
        dist.barrier()
        with pytest.raises(pat.TransportError, match="rank 1 gave was not sealed"):
            rendezvous._get("address/1", 1)


def test_a_stranger_cannot_give_a_value(processes):
    processes.run(2, is_deceived, KEY.decode())


def is_given_old_values(key):
    """A stranger at the store gives for each rank what it gave an earlier communicator."""
    rank = dist.get_rank()
    with knowing(key):
        rendezvous = Rendezvous(None, 20)
        old = rendezvous.secret.seal(rendezvous._name(f"random/{rank}"), b"old")
        rendezvous._set = lambda key, value: rendezvous._store.set(key, old)
        shared = rendezvous.share("random", b"new")
    assert (shared[rank], shared[1 - rank]) == (b"new", b"old")
    dist.barrier()


def test_of_what_a_rank_gave_it_hears_nothing_old(processes):
    processes.run(2, is_given_old_values, KEY.decode())
