"""Networks of ports, as text, and as files."""

import json

import pytest

import patallreduce as pat

LINK = pat.Link(20e-6, 25e6, 5e9, ((4096.0, 2e-4), (65536.0, 3e-3)))
MEMORY = pat.Link(3e-6, 20e9)


def two_ports():
    link = pat.Link(20e-6, 12.5e6, ports=(2.0, 1.0))
    return pat.Network.of_ports(link, 4, nodes=[5, 5, 3, 3], within_node=MEMORY)


def test_ports_of_nodes():
    network = two_ports()
    assert network.nodes == (0, 0, 1, 1)
    assert network.uplink_bytes_per_s == (25e6, 12.5e6)
    assert [link.bytes_per_s for link in network.links] == [25e6, 25e6, 12.5e6, 12.5e6]
    assert network.link == pat.Link(20e-6, 12.5e6, ports=(2.0, 1.0))


@pytest.mark.parametrize("ports", [(), (1.0, 4.0, 1.0)])
def test_the_link_comes_back(ports):
    link = pat.Link(20e-6, 25e6, 5e9, LINK.transfers_s, ports=ports)
    assert pat.Network.of_ports(link, 3).link == link


def test_alike_ports_make_one_class():
    assert str(pat.Network.of_ports(pat.Link(20e-6, 25e6), 3)) == (
        "rank 0 to 2      200 Mbit/s, 20 us; sums 40 Gbit/s"
    )
    assert str(two_ports()).splitlines() == [
        "4 ranks on 2 nodes, which share ports",
        "within a node    160 Gbit/s, 3 us; sums 40 Gbit/s",
        "node 0           200 Mbit/s, 20 us; sums 40 Gbit/s",
        "node 1           100 Mbit/s, 20 us; sums 40 Gbit/s; slow, 0.5 of the widest",
    ]
    links = [pat.Link(1e-5, 1e9 if rank in (1, 3) else 2e9) for rank in range(6)]
    wide, narrow = str(pat.Network(links)).splitlines()
    assert wide == "rank 0, 2, 4 to 5 16 Gbit/s, 10 us; sums 40 Gbit/s"
    assert narrow == "rank 1, 3        8 Gbit/s, 10 us; sums 40 Gbit/s; slow, 0.5 of the widest"
    assert "every rank" in str(pat.Network(pat.LogGP(1, 2, 3, 4)))


@pytest.mark.parametrize(
    "network",
    [
        two_ports(),
        pat.Network(LINK, shared_ports=True, burst_bytes=32768.0),
        pat.Network((pat.LogGP(1.0, 2.0, 3.0, 4.0), pat.PLogP(1.0, ((1.0, 2.0),), (), ()))),
    ],
)
def test_a_file_gives_back_what_was_saved(network, tmp_path):
    network.save(tmp_path / "network.json")
    assert pat.Network.load(tmp_path / "network.json") == network


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda entry: "{", "Expecting property name"),
        (lambda entry: "[]", "expected a network that Network.save wrote"),
        (lambda entry: json.dumps(entry | {"version": 2}), "expected version 1, got 2"),
        (lambda entry: json.dumps(entry | {"links": {"model": "Cable"}}), "expected a model of"),
        (lambda entry: json.dumps({k: entry[k] for k in entry if k != "links"}), "no 'links'"),
        (lambda entry: json.dumps(entry | {"colour": 1}), "unexpected keyword argument 'colour'"),
        (
            lambda entry: json.dumps(entry | {"links": entry["links"] | {"latency_s": -1}}),
            "Link.latency_s: expected a number > 0, got -1",
        ),
        (
            lambda entry: json.dumps(entry | {"links": entry["links"] | {"ports": {}}}),
            "ports: expected a number, or a list of numbers, got {}",
        ),
    ],
)
def test_a_file_that_is_none(change, complaint, tmp_path):
    path = tmp_path / "network.json"
    pat.Network(LINK).save(path)
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(ValueError, match=complaint) as refused:
        pat.Network.load(path)
    assert str(refused.value).startswith(str(path))


def test_no_link_of_other_models():
    with pytest.raises(TypeError, match="network.links: expected a Link for every rank, got"):
        _ = pat.Network(pat.LogGP(1, 2, 3, 4)).link
