"""Pictures: drawn for few and many ranks and iterations, showing what they should."""

import math
import random

import pytest

from patallreduce import pictures
from patallreduce.pictures import figures

pytest.importorskip("matplotlib")

KINDS = [pictures.arrival_heat_map, pictures.predicted_against_real, pictures.timeline]


@pytest.fixture
def run_of(make_iteration):
    def run(ranks, iterations, **how):
        draw = random.Random(1)
        arrivals = [[1.0 + draw.random() for _ in range(ranks)] for _ in range(iterations)]
        predicted = [[a + 0.1 for a in arrivals_s] for arrivals_s in arrivals]
        return [
            make_iteration(n, arrivals[n], at_s=3.5 * n, **({"predicted_s": predicted[n]} | how))
            for n in range(iterations)
        ]

    return run


@pytest.fixture
def saved(monkeypatch):
    """Figures as they are when they are saved."""
    shown = []
    save = figures.save

    def note(figure, path):
        shown.append(figure)
        save(figure, path)

    monkeypatch.setattr(figures, "save", note)
    return shown


@pytest.mark.parametrize("draw", KINDS)
@pytest.mark.parametrize(("ranks", "iterations"), [(1, 1), (32, 20)])
def test_a_picture_is_drawn(tmp_path, run_of, draw, ranks, iterations):
    path = tmp_path / "new folder" / "picture.svg"

    draw(run_of(ranks, iterations), path)

    text = path.read_text()
    assert text.count("<svg") == 1
    assert ("[s]" if draw is pictures.timeline else "[ms]") in text


def test_the_heat_map_shows_the_latest_of_each_column(tmp_path, run_of, saved):
    iterations = run_of(3, 2000)
    pictures.arrival_heat_map(iterations, tmp_path / "map.png")

    cells = saved[0].axes[0].images[0].get_array()
    assert cells.shape == (3, 667)
    for column in (0, 100, 666):
        of_column = iterations[3 * column : 3 * column + 3]
        for rank in range(3):
            worst_ms = max(max(0.0, i.lateness_s[rank]) for i in of_column) * 1e3
            assert cells[rank, column] == pytest.approx(worst_ms)


def test_one_outlier_does_not_take_all_colours(tmp_path, make_iteration, saved):
    iterations = [make_iteration(n, (1.0, 1.0 + (100.0 if n == 0 else 0.05))) for n in range(100)]
    pictures.arrival_heat_map(iterations, tmp_path / "map.png")

    assert saved[0].axes[0].images[0].get_clim() == pytest.approx((0.0, 50.0))


def test_unknown_arrivals_are_drawn_as_such(tmp_path, make_iteration, saved):
    iterations = [make_iteration(0, (1.0, 2.0)), make_iteration(1, (1.0, math.nan))]
    pictures.arrival_heat_map(iterations, tmp_path / "map.png")

    assert saved[0].axes[0].images[0].get_array().mask.tolist() == [[False, True]] * 2


def test_predicted_points_are_predictions_over_arrivals(tmp_path, make_iteration, saved):
    iterations = [make_iteration(5, (1.0, 1.2, 1.0), predicted_s=(1.1, 1.2, 0.9))]
    pictures.predicted_against_real(iterations, tmp_path / "predicted.png")

    others, last = saved[0].axes[0].collections
    assert last.get_offsets().tolist() == [pytest.approx([200.0, 200.0])]
    assert others.get_offsets().tolist() == [
        pytest.approx([0.0, 100.0]),
        pytest.approx([0.0, -100.0]),
    ]
    assert "100 % of iterations" in saved[0].axes[1].get_title("left")


def test_without_predictions_there_is_nothing_to_compare(tmp_path, run_of):
    with pytest.raises(ValueError, match="none of the iterations has both"):
        pictures.predicted_against_real(run_of(2, 3, predicted_s=None), tmp_path / "p.png")


def test_the_timeline_shows_the_last_iterations(tmp_path, run_of, saved):
    pictures.timeline(run_of(2, 9), tmp_path / "timeline.png", last=3)

    assert "Iterations 6 to 8" in saved[0].axes[0].get_title("left")
    with pytest.raises(ValueError, match="last: expected a number >= 1, got 0"):
        pictures.timeline(run_of(2, 9), tmp_path / "timeline.png", last=0)


@pytest.mark.parametrize("draw", KINDS)
def test_nothing_or_different_jobs_cannot_be_drawn(tmp_path, run_of, draw):
    with pytest.raises(ValueError, match="got 0 iterations of no ranks"):
        draw([], tmp_path / "p.png")
    with pytest.raises(ValueError, match="got 2 iterations of 2 and 3 ranks"):
        draw([*run_of(2, 1), *run_of(3, 1)], tmp_path / "p.png")
