"""What decision functions are compared with: models, Open MPI's rules, classes of arrivals."""

import pytest

from benchmarks.arrival_classes import POWERS, class_of, like
from benchmarks.decisions.functions import encoded, map_of, predicting
from benchmarks.decisions.models import models_of
from benchmarks.decisions.open_mpi import KIB, fixed
from benchmarks.decisions.worker import PIECE_BYTES, STEP_BYTES
from patallreduce.decisions.functions import penalty
from patallreduce.decisions.times import Method
from patallreduce.pricing.schedules import algorithms

ALPHA_S, BYTE_S, GAP_S = 40e-6, 4e-8, 50e-6
PARAMETERS = {
    "ranks": 4,
    "steps_s": {str(size): ALPHA_S + BYTE_S * size for size in STEP_BYTES},
    "gap_s": GAP_S,
    "reduce_bytes_per_s": 5e9,
}


def test_parameters_of_a_network_that_each_model_can_describe():
    models = models_of(PARAMETERS)
    assert models["Hockney"].latency_s == pytest.approx(ALPHA_S)
    assert models["Hockney"].bytes_per_s == pytest.approx(1 / BYTE_S)
    loggp = models["LogGP"]
    assert loggp.gap_per_byte_s == pytest.approx(BYTE_S)
    assert loggp.overhead_s == pytest.approx(GAP_S - PIECE_BYTES * BYTE_S)
    assert loggp.latency_s + 2 * loggp.overhead_s == pytest.approx(ALPHA_S)
    plogp = models["PLogP"]
    for size, gap_s in plogp.gap_s:
        assert plogp.latency_s + gap_s == pytest.approx(ALPHA_S + BYTE_S * size)


@pytest.mark.parametrize(
    ("collective", "ranks", "size", "method"),
    [
        ("broadcast", 8, 2047, Method("binomial_broadcast")),
        ("broadcast", 8, 2048, Method("split_binary_broadcast", KIB)),
        ("broadcast", 2, 400000, Method("chain_broadcast", 128 * KIB)),
        ("broadcast", 8, 400000, Method("split_binary_broadcast", 8 * KIB)),
        ("broadcast", 16, 1 << 23, Method("chain_broadcast", 64 * KIB)),
        ("broadcast", 64, 1 << 20, Method("chain_broadcast", 8 * KIB)),
        ("all_reduce", 4, 9999, Method("recursive_doubling")),
        ("all_reduce", 4, 1 << 22, Method("ring")),
        ("all_reduce", 4, 1 << 23, Method("ring", 1 << 20)),
        ("reduce", 4, 511, Method("flat_reduce")),
        ("reduce", 4, 20479, Method("binomial_reduce")),
        ("reduce", 16, 2047, Method("binary_reduce")),
        ("reduce", 16, 16 * KIB, Method("binary_reduce", KIB)),
        ("reduce", 16, 64 * KIB, Method("chain_reduce", KIB)),
        ("reduce", 8, 1 << 20, Method("chain_reduce", 32 * KIB)),
        ("all_gather", 8, 4096, Method("recursive_doubling_all_gather")),
        ("all_gather", 6, 4096, Method("bruck_all_gather")),
        ("all_gather", 6, 1 << 20, Method("neighbour_exchange_all_gather")),
        ("all_gather", 5, 1 << 20, Method("ring_all_gather")),
        ("reduce_scatter", 8, 1 << 18, Method("recursive_halving_reduce_scatter")),
        ("reduce_scatter", 6, 1 << 18, Method("ring_reduce_scatter")),
    ],
)
def test_what_open_mpi_decides(collective, ranks, size, method):
    assert fixed(collective, ranks, size) == method
    assert method.algorithm in algorithms(collective)


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("name", ["one late", "spread"])
def test_the_arrivals_of_a_class_are_in_it(name, power):
    of = (name, power)
    assert class_of(like(of, 8, 0.1), 0.1) == of


def test_nearly_together_is_together():
    assert class_of([0.0, 0.004, 0.001], 0.1) == ("none", 0)
    assert class_of(like(("none", 0), 4, 0.1), 0.1) == ("none", 0)


def test_functions_are_made_from_what_was_measured():
    """Two methods that cross at 8 KiB; what is exact costs nothing there."""
    records = [
        {
            "ranks": ranks,
            "message_bytes": size,
            "collective": "broadcast",
            "seconds": {"flat_broadcast/1": size * ranks * 1e-9, "chain_broadcast/4": 8192e-9 * 4},
            "own": {"flat_broadcast": "flat_broadcast/1", "chain_broadcast": "chain_broadcast/4"},
            "chosen": dict.fromkeys(("usual", "open_mpi", "model"), "flat_broadcast/1"),
        }
        for ranks in (2, 4, 6)
        for size in (1 << 10, 1 << 12, 1 << 14, 1 << 16)
    ]
    of = map_of(records)
    exact = {f.name: penalty(f.decide, of).most for f in encoded(of)}
    assert exact["quadtree, exact"] == exact["by penalty, 16 leaves"] == 0
    parameters = [{**PARAMETERS, "ranks": ranks} for ranks in (2, 4, 6)]
    chosen = predicting(records, parameters)
    assert set(chosen) >= {"Hockney", "LogGP", "PLogP", "Open MPI, fixed"}
    assert set(chosen["Hockney"].values()) == {"flat_broadcast/1", "chain_broadcast/4"}
