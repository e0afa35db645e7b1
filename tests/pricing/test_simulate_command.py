"""The command line's figures are the library's; what cannot be is said without a traceback."""

import pytest

import patallreduce as pat
from patallreduce.pricing.bucket import Bucket, make_schedule
from patallreduce.text.units import bytes_text, ms_text, parse_bytes, parse_rate


@pytest.fixture
def run(command):
    def run(*arguments):
        status, said = command("simulate", *words(arguments))
        assert status == 0, said
        return said

    return run


@pytest.fixture
def failing(command):
    def failing(*arguments):
        status, said = command("simulate", *words(arguments))
        assert status == 2
        return said

    return failing


def words(arguments):
    return [word for argument in arguments for word in str(argument).split()]


def figure(said, name):
    line = next(line for line in said.splitlines() if line.strip().startswith(name))
    return line.strip().removeprefix(name).split()[0]


def test_the_issues_example(run, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "new" / "out.png"
    said = run("--algorithm slt --ranks 8 --segments 32 --late 1=0.3 --link 200mbit --plot", out)
    late = [0, 0.3, 0, 0, 0, 0, 0, 0]
    link = pat.Link(20e-6, 25e6)
    found = pat.simulate(pat.schedule("slt", 8, 32, late), link, 4 << 20, late)
    assert figure(said, "finish") == ms_text(max(found.finish_s))
    assert figure(said, "average elapsed") == ms_text(found.average_elapsed_s)
    assert figure(said, "after") == ms_text(found.after_last_arrival_s)
    assert figure(said, "late rank's own") == ms_text(found.finish_s[1] - 0.3)
    assert figure(said, "imbalance") == "300.0"
    assert str(out) in said
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("colours", ["segment", "verb"])
@pytest.mark.parametrize("ranks", [1, 2, 20])
def test_every_picture_is_drawn(run, tmp_path, ranks, colours):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out.svg"
    run("--algorithm", "ring", "--ranks", ranks, "--plot", out, "--colours", colours)
    assert "</svg>" in out.read_text()


def test_partners_that_fill_a_port_make_a_direct_exchange_faster(run):
    one = run("--algorithm direct_exchange --ranks 4")
    three = run("--algorithm direct_exchange --ranks 4 --partners 3")
    assert "(3 partners fill a port)" in three
    assert float(figure(three, "after")) < 0.4 * float(figure(one, "after"))


def test_processors_that_move_the_messages(run):
    four, one = (run("--algorithm ring --ranks 4 --processors", number) for number in (4, 1))
    assert "processors: 1" in one
    assert float(figure(one, "finish")) > 3 * float(figure(four, "finish"))


def test_no_late_rank_no_lateness(run):
    said = run("--algorithm", "ring", "--ranks", 4, "--bytes", "64KiB")
    assert "all arrive together" in said
    assert "late rank" not in said
    assert figure(said, "finish") == figure(said, "balanced") == figure(said, "after")


def test_steps_are_printed(run):
    said = run("--algorithm", "ring", "--ranks", 2, "--segments", 2, "--steps")
    assert str(pat.schedule("ring", 2, 2)) in said


def test_comparison(run):
    said = run("--compare", "--ranks", 4, "--late", "1=0.2", "3=0.1")
    assert "rank 1 0.2 s late, rank 3 0.1 s late" in said
    for name in pat.algorithms():
        assert f"{name} " in said
    drawn = run("--compare", "--ranks", 4, "--pattern", "uniform:0.1", "--draws", 3)
    assert "medians of 3 draws" in drawn
    assert drawn == run("--compare", "--ranks", 4, "--pattern", "uniform:0.1", "--draws", 3)
    assert drawn != run("--compare --ranks 4 --pattern uniform:0.1 --draws 3 --seed 1")


def test_a_trace_file(run, failing, tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("0 0.1\n0 0.3\n0 0.2\n")
    assert "medians of 3 draws" in run(
        "--compare", "--ranks", 2, "--draws", 3, "--pattern", f"trace:{trace}"
    )
    assert "line 1: expected 3 values" in failing("--ranks", 3, "--pattern", f"trace:{trace}")


@pytest.mark.parametrize("name", ["slt", "direct_exchange", "rabenseifner"])
def test_ranks_that_share_ports(run, tmp_path, name):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out.svg"
    case = ["--ranks 6 --ranks-per-node 2 --link 200mbit --late 3=0.3"]
    said = run("--algorithm", name, *case, "--plot", out)
    assert "6 ranks, 4MiB, 3 nodes, 200 Mbit/s, 20 us; rank 3 0.3 s late" in said
    drawn = out.read_text()
    assert all(f"node {node} sends" in drawn for node in range(3))
    late = [0, 0, 0, 0.3, 0, 0]
    bucket = Bucket(6, 4 << 20, pat.Link(20e-6, 25e6), ranks_per_node=2)
    finish_s = pat.simulate(
        make_schedule(name, bucket, late), bucket.network(name), 4 << 20, late
    ).finish_s
    assert figure(said, "finish") == ms_text(max(finish_s))
    assert f"{name} " in run("--compare", *case)


def test_ports_that_differ(run):
    case = ["--ranks 4 --link 100mbit --ports 2 2 1 4"]
    said = run("--algorithm", "direct_exchange", *case)
    assert "2 x 200 Mbit/s, 1 x 100 Mbit/s, 1 x 400 Mbit/s" in said
    assert float(figure(said, "finish")) < float(figure(run("--algorithm ring", *case), "finish"))
    nodes = run("--ranks 4 --ranks-per-node 2 --ports 2 1 --algorithm direct_exchange")
    assert "2 nodes, 1 x 400 Mbit/s, 1 x 200 Mbit/s" in nodes


def test_sweep(run, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "map.png"
    said = run("--sweep --ranks 2 3 --bytes 1KiB 1MiB --delays 0 2x --by after --plot", out)
    assert said.count("ranks: winner") == 2
    assert "delay: x times one transfer" in said
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--algorithm rign", "unknown algorithm 'rign' for all_reduce; known: "),
        ("--late 8=1", "--late: expected ranks 0 to 7, got 8"),
        ("--late 1", "'1': expected RANK=SECONDS"),
        ("--late 1=-1", "expected a rank >= 0 and seconds >= 0"),
        ("--ranks 4 8", "--ranks: expected one, got 2"),
        ("--segments 0", "segments"),
        ("--ranks 0", "--ranks: expected a number >= 1, got 0"),
        ("--bytes 1.5", "expected bytes, e.g."),
        ("--link 200", "expected a rate, e.g."),
        ("--pattern poisson:1", "expected one of balanced"),
        ("--ports 2 1", "ports: expected one for each of 8 ranks, got 2"),
        ("--ports 2 1 1 --ranks-per-node 4", "ports: expected one for each of 2 nodes, got 3"),
        ("--ports 2 0", "'0': expected a bandwidth > 0"),
        ("--ranks-per-node 0", "ranks per node: expected 1 or more, got 0"),
        ("--delays 1", "only a sweep has several"),
        ("--sweep --late 1=1", "give a --pattern"),
        ("--sweep --pattern balanced", "has no delay"),
        ("--compare --plot x.png", "draws one algorithm's schedule"),
        ("--compare --draws 0", "--draws: expected a number >= 1"),
        ("--port-share 2", "Link.port_share: expected 0 to 1"),
        ("--change-share 2", "Link.change_share: expected 0 to 1"),
        ("--compare --sweep", "not allowed with"),
    ],
)
def test_what_cannot_be_is_said(failing, arguments, message):
    assert message in failing(arguments)


def test_units():
    assert [parse_bytes(text) for text in ("4MiB", "1.5KiB", "7", "7B")] == [4 << 20, 1536, 7, 7]
    assert [bytes_text(n) for n in (4 << 20, 1536, 7, 1000)] == ["4MiB", "1.5KiB", "7B", "1000B"]
    assert [parse_rate(text) for text in ("200mbit", "1.2GB/s", "10gbit", "5B/s")] == [
        25e6,
        1.2e9,
        1.25e9,
        5,
    ]
    assert [ms_text(s) for s in (1.23456, 0.0123456, 1.23456e-5, 0, -1e-9, float("nan"))] == [
        "1235",
        "12.35",
        "0.012",
        "0",
        "0",
        "-",
    ]
