"""Quadtrees, worked out by hand and drawn at random."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patallreduce.decisions.functions import fastest, map_of, penalty
from patallreduce.decisions.quadtree import quadtree
from patallreduce.decisions.times import Case, Method, Times

R, S = Method("ring"), Method("slt")
RANKS, SIZES = (2, 3, 4, 8), (1 << 10, 1 << 14, 1 << 18, 1 << 22)
# As in the module's drawing, few ranks first: S takes 2 where R takes 1, and the other way round.
PICTURE = ("RRRR", "RRRS", "RRSS", "RRSS")


def pictured(rows, ranks=RANKS, sizes=SIZES):
    return {
        (p, m): {R: 1.0 if name == "R" else 2.0, S: 2.0 if name == "R" else 1.0}
        for p, row in zip(ranks, rows, strict=True)
        for m, name in zip(sizes, row, strict=True)
    }


def test_by_hand():
    of = pictured(PICTURE)
    exact = quadtree(of)
    assert sorted(exact.depths()) == [1, 1, 1, 2, 2, 2, 2]
    assert [exact(*point) for point in of] == [fastest(of[point]) for point in of]
    shallow = quadtree(of, most_depth=1)
    assert shallow.methods() == [R, R, R, S]
    # One of 16 points is wrong, and takes twice the time.
    assert penalty(shallow, of).mean == pytest.approx(1 / 16)
    assert penalty(shallow, of).most == 1
    assert quadtree(of, most_depth=0).methods() == [R]
    assert quadtree(of, accuracy=0.75).methods() == [R, R, R, S]
    assert quadtree(of, accuracy=0.6).methods() == [R]


def test_of_what_was_measured():
    """Of one collective alone; nodes make no difference."""
    times = Times()
    for (p, m), seconds in pictured(PICTURE).items():
        for method, value in seconds.items():
            times.add(Case("all_reduce", p, p, m, False), method, [value])
            times.add(Case("all_reduce", p, p, m, True), method, [3 - value])
            times.add(Case("broadcast", p, p, m, False), method, [3 - value])
    assert map_of(times, "all_reduce") == pictured(PICTURE)
    alone, beside = (map_of(times, "all_reduce", beside_others=b) for b in (False, True))
    assert quadtree(alone)(8, 1 << 22) == S
    assert quadtree(beside)(8, 1 << 22) == R


def test_a_tie_goes_to_the_corner_of_many_ranks_and_bytes():
    assert quadtree(pictured(("RR", "SS"), (2, 4), (1, 2)), most_depth=0).methods() == [S]
    assert quadtree(pictured(("SS", "RR"), (2, 4), (1, 2)), most_depth=0).methods() == [R]


def test_between_points_and_beyond_them():
    exact = quadtree(pictured(PICTURE))
    assert exact(3, (1 << 22) - 1) == R
    assert exact(3, 1 << 40) == S
    assert exact(1, 1) == R
    assert exact(100, 1 << 18) == S


@given(st.data())
def test_an_exact_one_is_the_map_also_where_rows_are_repeated(data):
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    ranks, sizes = range(2, 2 + rows), [4**n for n in range(columns)]
    picture = data.draw(
        st.lists(st.text("RS", min_size=columns, max_size=columns), min_size=rows, max_size=rows)
    )
    of = pictured(picture, ranks, sizes)
    exact = quadtree(of)
    assert all(exact(*point) == fastest(of[point]) for point in of)
    shallow = quadtree(of, most_depth=data.draw(st.integers(0, 3)))
    assert len(shallow.methods()) <= len(exact.methods())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"accuracy": 0}, "an accuracy above 0"), ({"most_depth": -1}, "a depth >= 0")],
)
def test_what_makes_no_sense(arguments, text):
    with pytest.raises(ValueError, match=text):
        quadtree(pictured(PICTURE), **arguments)


def test_a_map_with_a_hole():
    of = pictured(PICTURE)
    del of[4, 1 << 14]
    with pytest.raises(ValueError, match="got none of 16384 bytes on 4 ranks"):
        quadtree(of)
