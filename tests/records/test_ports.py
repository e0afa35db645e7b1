"""Whose port is narrow, from the records of iterations."""

from dataclasses import replace

import pytest

from patallreduce.records.iterations import Iteration
from patallreduce.records.ports import narrow_ports
from patallreduce.records.stragglers import straggler_report


def iterations(ports):
    plain = Iteration(1, 0, (0.0,) * 3, 0.0, 0, (1.0,) * 3, ())
    return [replace(plain, iteration=n, ports=tuple(of)) for n, of in enumerate(ports)]


WIDE, NARROW, NARROWER = [25e6] * 3, [25e6, 12.5e6, 25e6], [25e6, 12.5e6, 2.5e6]


def test_none_where_ports_are_alike_or_not_known():
    assert narrow_ports([]) == ()
    assert narrow_ports(iterations([[], []])) == ()
    assert narrow_ports(iterations([WIDE, NARROW, WIDE])) == ()
    assert narrow_ports(iterations([[25e6, 20e6, 25e6]])) == ()


def test_since_when():
    (port,) = narrow_ports(iterations([WIDE, WIDE, NARROW, NARROW, []]))
    assert (port.rank, port.since, port.bytes_per_s) == (1, 2, 12.5e6)
    assert port.widest_bytes_per_s == 25e6
    (port,) = narrow_ports(iterations([NARROW, NARROW]))
    assert port.since == 0


def test_the_narrowest_comes_first():
    ports = narrow_ports(iterations([WIDE, NARROW, NARROWER]))
    assert [(port.rank, port.since) for port in ports] == [(2, 2), (1, 1)]


def test_the_report_names_it():
    said = str(straggler_report(iterations([WIDE, NARROW, NARROW])))
    assert "rank 1 has a narrow port since iteration 1: 100 Mbit/s, the widest 200" in said


def test_ports_are_kept_in_records():
    (record,) = iterations([NARROW])
    assert Iteration.from_dict(record.to_dict()) == record
    assert Iteration.from_dict({**record.to_dict(), "ports": []}).ports == ()
    with pytest.raises(ValueError, match="ports: expected 3"):
        Iteration.from_dict({**record.to_dict(), "ports": [1.0]})
