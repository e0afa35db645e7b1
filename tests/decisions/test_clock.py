"""The program that times decisions compiles against the core as it is."""

from benchmarks.decisions.clock import table_ns


def test_a_table_of_rules_is_timed():
    assert table_ns(4) > 0
