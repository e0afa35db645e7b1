"""`decide`: of what `tune` measured, a tree and its code."""

import math
import subprocess

import pytest

from patallreduce.decisions.times import Case, Method, Times, header_of

RING, RABENSEIFNER, GLOO = Method("ring", 4096), Method("rabenseifner"), Method("gloo")
SIZES = [1 << n for n in range(10, 20)]


def seconds(method, ranks, size):
    """A ring is faster from 64 KiB on, and with few ranks."""
    if method == GLOO:
        return 1e-6
    return size * 2e-8 + ranks * 1e-4 if method == RING else math.log2(ranks) * (1e-4 + size * 1e-8)


@pytest.fixture
def measured(tmp_path):
    """What was measured on some ranks, in a file."""

    def write(ranks, sizes=SIZES, several=False, methods_of=lambda _: (RING, RABENSEIFNER, GLOO)):
        times = Times()
        for size in sizes:
            for method in methods_of(size):
                case = Case("all_reduce", ranks, ranks, size, several)
                times.add(case, method, [seconds(method, ranks, size)])
        path = tmp_path / f"{ranks}.jsonl"
        path.write_text("\n".join([header_of({}), *times.lines()]) + "\n")
        return path

    return write


@pytest.mark.parametrize(
    "function", [["penalty", "--leaves", "50"], ["c45", "--confidence", "0.99"], ["quadtree"]]
)
def test_the_function_and_its_code_decide_as_was_measured(command, measured, tmp_path, function):
    files = [measured(ranks) for ranks in (2, 4, 8, 16)]
    status, said = command("decide", *files, "--function", *function, "--code", tmp_path / "its.py")
    assert status == 0
    assert "bytes <= " in said
    assert "On the 40 points that it was made from its choices take 0.0% longer" in said
    assert "Made from every second size, on the others its choices take " in said
    made = {}
    exec((tmp_path / "its.py").read_text(), made)
    for ranks in (2, 4, 8, 16):
        for size in SIZES:
            name = made["METHODS"][made["decide"](ranks, size)]
            chosen = {str(method): method for method in (RING, RABENSEIFNER)}[name]
            least_s = min(seconds(method, ranks, size) for method in (RING, RABENSEIFNER))
            # By penalty a test has to save a thousandth of all points' times.
            assert seconds(chosen, ranks, size) <= least_s * (1.04 if "--leaves" in function else 1)


def test_code_for_cpp_compiles(command, measured, tmp_path):
    status, said = command("decide", measured(8), "--code", tmp_path / "its.h")
    assert (status, said.splitlines()[-1]) == (0, str(tmp_path / "its.h"))
    compiled = ["g++", "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", "-x", "c++", "-include"]
    subprocess.run([*compiled, tmp_path / "its.h", "/dev/null"], check=True, timeout=60)


def test_calls_beside_others_are_decided_by_themselves(command, measured):
    files = measured(4, several=True), measured(8)
    status, said = command("decide", *files, "--several")
    assert status == 0
    assert "10 points" in said


def test_choices_that_were_measured_nowhere_else_are_told(command, measured):
    every_second = SIZES[::2]
    file = measured(8, methods_of=lambda size: (RING if size in every_second else RABENSEIFNER,))
    status, said = command("decide", file)
    assert status == 0
    assert "Made from every second size, on the others none of its choices was measured" in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--leaves", "0"), "expected most_leaves >= 1, got 0"),
        (("--weight", "3"), "--weight: not of --function penalty"),
        (("--function", "quadtree", "--leaves", "3"), "--leaves: not of --function quadtree"),
        (("--function", "c45", "--confidence", "0"), "confidence above 0 and below 1, got 2 and 0"),
        (("--code", "its.txt"), "--code: expected a file .py or .h, got its.txt"),
        (("--collective", "reduce"), "expected times of reduce, one in flight, got none in "),
        (("--several",), "expected times of all_reduce, several in flight, got none in "),
    ],
)
def test_what_makes_no_sense_is_refused(command, measured, arguments, complaint):
    status, said = command("decide", measured(8), *arguments)
    assert status == 2
    assert complaint in said


def test_ranks_are_measured_in_one_file(command, measured):
    status, said = command("decide", measured(8), measured(8))
    assert status == 2
    assert "8 ranks were measured in a file before it, too" in said


def test_a_map_with_holes_is_no_quadtree(command, measured):
    status, said = command("decide", measured(4), measured(8, SIZES[1:]), "--function", "quadtree")
    assert status == 2
    assert "expected every size with every number of ranks, got none of 1024 bytes on 8" in said
