"""Tunings that are simulated, of a machine whose every time is known."""

import math
from dataclasses import asdict

from benchmarks.simulated_tuning import Machine, penalties, tuned
from benchmarks.tuned.__main__ import SIZES
from patallreduce.decisions.rules import FileRule, TuningFile
from patallreduce.decisions.times import Case, Method, header_of, line_of
from patallreduce.pricing.link import Link
from patallreduce.tuning.search import prices_of

LINK = Link(latency_s=20e-6, bytes_per_s=1e9)
BUDGET_S = 2.0
FAST = Method("radix_k_reduce")


def machine_where_one_method_takes_half(path):
    """Of what the model says; all others take that. Everything was measured, twenty times."""
    lines = [header_of({"link": asdict(LINK), "ranks": 8})]
    for size in SIZES:
        case = Case("reduce", 8, 8, size, False)
        for method, price_s in prices_of(case, LINK, nodes=()).items():
            seconds = price_s * (0.5 if method == FAST else 1.0)
            lines += [line_of(case, method, [seconds] * 3)] * 20
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return Machine([path], BUDGET_S)


def test_where_nothing_is_left_to_luck_tuning_finds_the_fastest(tmp_path):
    machine = machine_where_one_method_takes_half(tmp_path / "times.jsonl")
    file, goes = tuned(machine, 1, BUDGET_S)
    assert goes > len(SIZES)
    costs = dict(penalties(machine, file))
    assert list(costs) == machine.held_out
    assert max(costs.values()) < 0.03
    assert any(rule.method.algorithm == FAST.algorithm for rule in file.rules)


def test_a_choice_costs_what_it_takes_over_the_fastest(tmp_path):
    """A chain at all sizes, where another method takes half of what the model says."""
    machine = machine_where_one_method_takes_half(tmp_path / "times.jsonl")
    chain = Method("chain_reduce")
    rule = FileRule("reduce", (8, 8), (8, 8), (0, math.inf), False, chain)
    for case, cost in penalties(machine, TuningFile({}, (rule,))):
        over = machine.seconds(case, chain) / machine.seconds(case, FAST) - 1
        assert cost >= over > 0.02
