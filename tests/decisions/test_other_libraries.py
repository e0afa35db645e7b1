"""Rules of Open MPI are read, and rules written for NCCL; every name is one of ours."""

import csv
import io
import json
import math

import pytest

from patallreduce.decisions.nccl import HEADER, nccl_csv
from patallreduce.decisions.open_mpi import read_open_mpi
from patallreduce.decisions.other_names import other_names
from patallreduce.decisions.rules import FileRule, TuningFile
from patallreduce.decisions.times import Method
from patallreduce.pricing.schedules import algorithms

CLASSIC = """\
rule-file-version-2
2     # collectives
2     # the first: allreduce
2     # numbers of ranks
4     # ranks
2     # sizes
0      3 0 0 0
65536  5 0 1048576 8
16
1
0      0 0 0
7     # broadcast
1
8
3
0      6 0 0
2048   4 0 1024
999999 7 4 0
"""
JSON = {
    "rule_file_version": 3,
    "module": "tuned",
    "comm_rank_distribution": "one-per-node",
    "collectives": {
        "allreduce": [
            {
                "comm_size_min": 64,
                "comm_size_max": 128,
                "rules": [
                    {"msg_size_min": 512, "msg_size_max": 511999, "alg": 2},
                    {"msg_size_min": 512000, "msg_size_max": "inf", "alg": "ring", "seg_size": 64},
                ],
            },
            {"comm_rank_distribution": "single-node", "rules": [{"alg": "rabenseifner"}]},
        ],
        "alltoall": [{"rules": [{"alg": "pairwise"}]}],
    },
}


def read(text, tmp_path):
    (tmp_path / "rules").write_text(text)
    return read_open_mpi(tmp_path / "rules").rules


def rule(collective, ranks, nodes, sizes, method):
    return FileRule(collective, ranks, nodes, sizes, beside_others=False, method=method)


def test_every_name_is_one_of_ours():
    for of in other_names("open_mpi").values():
        ours = {name for _, name in of["algorithms"] if name}
        assert ours <= set(algorithms(of["collective"]))
    for collective, of in other_names("nccl").items():
        assert set(of["algorithms"]) <= set(algorithms(collective))


def test_the_classic_format(tmp_path):
    """The first number of ranks counts for fewer, too; what is ignored or unknown has no rule."""
    any_nodes = (1, math.inf)
    assert read(CLASSIC, tmp_path) == (
        rule("all_reduce", (1, 15), any_nodes, (0, 65535), Method("recursive_doubling")),
        rule("all_reduce", (1, 15), any_nodes, (65536, math.inf), Method("ring", 1048576)),
        rule("broadcast", (1, math.inf), any_nodes, (0, 2047), Method("binomial_broadcast")),
        rule(
            "broadcast", (1, math.inf), any_nodes, (2048, 999998),
            Method("split_binary_broadcast", 1024),
        ),
    )  # fmt: skip


def test_json(tmp_path):
    assert read(json.dumps(JSON), tmp_path) == (
        rule("all_reduce", (64, 128), (64, 128), (512, 511999), Method("binomial_all_reduce")),
        rule("all_reduce", (64, 128), (64, 128), (512000, math.inf), Method("ring", 64)),
        rule("all_reduce", (1, math.inf), (1, 1), (0, math.inf), Method("rabenseifner")),
    )


def test_of_json_rules_for_a_number_of_ranks_the_first_count_alone(tmp_path):
    def of(least, most, rules):
        return {"comm_size_min": least, "comm_size_max": most, "rules": rules}

    small, all_sizes = [{"msg_size_max": 99, "alg": "ring"}], [{"alg": 2}]
    sets = [of(8, 15, small), of(2, 3, small), of(4, 20, all_sizes), of(1, "inf", all_sizes)]
    text = json.dumps({"module": "tuned", "collectives": {"allreduce": sets}})
    found = [(rule.ranks, rule.message_bytes[1]) for rule in read(text, tmp_path)]
    assert found == [
        ((8, 15), 99),
        ((2, 3), 99),
        ((4, 7), math.inf),
        ((16, 20), math.inf),
        ((1, 1), math.inf),
        ((21, math.inf), math.inf),
    ]


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        (CLASSIC.replace("65536  5", "65536  x"), 8, "algorithm: expected a whole number >= 0"),
        (CLASSIC[: CLASSIC.index("2     # sizes")], 5, "number of message sizes: .* the end"),
        (CLASSIC.replace("0      3 0", "16     3 0"), 7, "first message size: expected 0"),
        ("", 1, "number of collectives"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_its_line(text, line, expected, tmp_path):
    with pytest.raises(ValueError, match=f"rules, line {line}: .*{expected}"):
        read(text, tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"module": "han", "collectives": {}}', "module: expected tuned"),
        ('{"module": "tuned"}', "no 'collectives'"),
        ('{"module": "tuned",\n', "line 2: expected JSON"),
        (json.dumps(JSON).replace('"alg": 2', '"algorithm": 2'), "no 'alg'"),
    ],
)
def test_json_that_makes_no_sense_is_refused(text, expected, tmp_path):
    with pytest.raises(ValueError, match=expected):
        read(text, tmp_path)


def test_nccl_gets_what_it_has():
    eight = (8, 8)
    file = TuningFile(
        {},
        (
            rule("all_reduce", eight, (2, 2), (0, 65536), Method("two_tree")),
            rule("all_reduce", eight, (2, 2), (65537, math.inf), Method("ring", 4096)),
            rule("all_reduce", (2, 4), (1, math.inf), (0, 9), Method("direct_exchange")),
            FileRule("all_reduce", eight, eight, (0, 9), beside_others=True, method=Method("ring")),
            rule("all_gather", (2, 4), (1, math.inf), (0, 1000), Method("bruck_all_gather")),
        ),
    )
    text, left = nccl_csv(file)
    rows = list(csv.reader(io.StringIO(text)))
    assert rows == [
        list(HEADER),
        ["allreduce", "0", "65536", "tree", "simple", "-1", "2", "8", "-1", "-1"],
        ["allreduce", "65537", "4294967295", "ring", "simple", "-1", "2", "8", "-1", "-1"],
        ["allgather", "0", "1000", "pat", "simple", "-1", "-1", "-1", "-1", "-1"],
    ]
    assert left == [file.rules[2], file.rules[3]]


def test_the_command_shows_open_mpi_rules_and_writes_nccl_ones(tmp_path, command):
    (tmp_path / "rules").write_text(CLASSIC)
    status, said = command("tune", "--from", tmp_path / "rules", "--to", tmp_path / "nccl.csv")
    assert status == 0, said
    assert "split_binary_broadcast" in said
    assert "nccl.csv: 1 of 4 rules; NCCL has no" in said
    assert (tmp_path / "nccl.csv").read_text().count("\n") == 2
