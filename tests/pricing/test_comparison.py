"""Comparisons and decision maps: the figures are the simulator's, the order follows from them."""

import math
import statistics

import pytest

import patallreduce as pat
from patallreduce.pictures.decision_map import decision_map
from patallreduce.pricing.bucket import Bucket, make_schedule
from patallreduce.pricing.comparison import MEASURES, compare, price
from patallreduce.pricing.decision_map import Delay, map_tables, parse_delay, sweep
from patallreduce.pricing.pattern_text import parse_pattern

LINK = pat.Link(20e-6, 25e6)
BUCKET = Bucket(8, 4 << 20, LINK)
LATE = [0.0, 0.3, *[0.0] * 6]


def test_a_price_is_the_simulators():
    found = price("slt", BUCKET, [LATE])
    result = pat.simulate(make_schedule("slt", BUCKET, LATE), LINK, 4 << 20, LATE)
    assert found.average_elapsed_s == result.average_elapsed_s
    assert found.after_last_arrival_s == result.after_last_arrival_s
    assert found.late_elapsed_s == result.finish_s[1] - 0.3
    assert found.run_time_s == max(result.finish_s)
    assert found.absorption_s == pytest.approx(found.balanced_s - max(result.finish_s) + 0.3)
    assert found.normalised_absorption == found.absorption_s / found.balanced_s


def test_of_several_draws_the_medians():
    draws = [[0.1 * n * share for share in LATE] for n in (1, 2, 5)]
    found = price("ring", BUCKET, draws)
    alone = [price("ring", BUCKET, [draw]) for draw in draws]
    for field in [*MEASURES.values(), "absorption_s"]:
        assert getattr(found, field) == statistics.median(getattr(p, field) for p in alone)


def test_nobody_is_the_late_rank_of_ranks_that_come_together():
    assert math.isnan(price("ring", BUCKET, [[0.0] * 8]).late_elapsed_s)
    half = price("ring", BUCKET, [[0.0] * 8, LATE])
    assert half.late_elapsed_s == price("ring", BUCKET, [LATE]).late_elapsed_s


@pytest.mark.parametrize("by", MEASURES)
def test_all_algorithms_the_cheapest_first(by):
    prices, refusals = compare(BUCKET, [LATE], by=by)
    assert {p.algorithm for p in prices} | set(refusals) == set(pat.algorithms())
    costs_s = [getattr(p, MEASURES[by]) for p in prices]
    assert costs_s == sorted(costs_s)


def test_foresight_is_what_a_chain_lives_on():
    unforeseen = Bucket(8, 4 << 20, LINK, foreseen=False)
    chain, blind = price("slt", BUCKET, [LATE]), price("slt", unforeseen, [LATE])
    assert chain.late_elapsed_s < blind.late_elapsed_s


def test_a_dynamic_chain_needs_none():
    unforeseen = Bucket(8, 4 << 20, LINK, foreseen=False)
    assert price("slt_dynamic", unforeseen, [LATE]) == price("slt_dynamic", BUCKET, [LATE])


def test_the_segments_asked_for():
    assert price("slt", Bucket(4, 4000, LINK, segments=5), [[0.0] * 4]).segments == 5


def test_nothing_that_cannot_be_is_ranked():
    with pytest.raises(ValueError, match="by: expected one of average, .* got 'speed'"):
        compare(BUCKET, [LATE], by="speed")
    with pytest.raises(ValueError, match="expected one or more patterns"):
        price("ring", BUCKET, [])
    with pytest.raises(pat.ScheduleError):
        compare(BUCKET, [[0.0] * 7])


@pytest.fixture(scope="module", name="cells")
def cells_fixture():
    return list(
        sweep(
            Bucket(1, 0, LINK),
            parse_pattern("one_late:0:1"),
            [2, 4],
            [1024, 4 << 20],
            [Delay(0), Delay(4, in_transfers=True)],
        )
    )


def test_every_case_has_its_winner(cells):
    assert [(c.ranks, c.message_bytes, str(c.delay)) for c in cells] == [
        (ranks, size_bytes, delay)
        for ranks in (2, 4)
        for size_bytes in (1024, 4 << 20)
        for delay in ("0", "4x")
    ]
    for cell in cells:
        bucket = Bucket(cell.ranks, cell.message_bytes, LINK)
        delay_s = cell.delay.seconds(bucket)
        arrivals_s = pat.patterns.one_late(cell.ranks, delay_s, 1)
        prices, _ = compare(bucket, [arrivals_s])
        cheapest, ring = prices[0], price("ring", bucket, [arrivals_s])
        near = ring.average_elapsed_s <= 1.005 * cheapest.average_elapsed_s
        assert cell.winner == ("ring" if near else cheapest.algorithm)
        assert cell.price_s == (ring if near else cheapest).average_elapsed_s
        assert cell.ring_s == ring.average_elapsed_s
        assert cell.gain == cell.ring_s / cell.price_s - 1
    assert cells[-1].winner != "ring"
    assert cells[-1].gain > 0.05


def test_a_delay_in_transfers():
    assert Delay(2, in_transfers=True).seconds(BUCKET) == 2 * (4 << 20) / 25e6
    assert parse_delay("0.5x") == Delay(0.5, in_transfers=True)
    assert parse_delay("0.5") == Delay(0.5)
    for text in ("x", "-1", "nan", "late"):
        with pytest.raises(ValueError, match="expected a delay"):
            parse_delay(text)


def test_the_map_as_tables(cells):
    text = map_tables(cells)
    assert text.count("ranks: winner") == 2
    assert "1KiB" in text
    assert "4MiB" in text
    assert text.count("4x") == 2
    assert cells[-1].winner in text


def test_the_map_as_a_picture(cells, tmp_path):
    pytest.importorskip("matplotlib")
    decision_map(cells, tmp_path / "new" / "map.png", title="a map")
    assert (tmp_path / "new" / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="got none"):
        decision_map([], tmp_path / "map.png")
