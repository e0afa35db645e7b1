"""`tune`: in which order it measures, and what it leaves out."""

import math

import patallreduce as pat
from patallreduce.decisions.times import Case, Times
from patallreduce.tuning.search import Search

LINK = pat.Link(20e-6, 1e9)


def case_of(size):
    return Case("all_reduce", 4, 4, size, False)


def told(search, times, seconds=math.inf):
    work = search.following(times, seconds)
    return work and (work.case.message_bytes, work.method)


def test_the_fastest_by_the_model_come_first_then_cuts_then_what_is_as_fast():
    sizes = (4096, 1 << 22)
    search = Search(map(case_of, sizes), LINK)
    times = Times()
    firsts = []
    for _ in sizes:
        firsts.append(search.following(times, math.inf))
        times.add(firsts[-1].case, firsts[-1].method, [1e-3])
    assert {work.case.message_bytes for work in firsts} == set(sizes)
    for work in firsts:
        assert work.method == next(iter(search.prices_s[work.case]))
    # All others were measured, too, and are far slower.
    for case, prices_s in search.prices_s.items():
        for method in list(prices_s)[1:]:
            times.add(case, method, [1.0])
    size, cut = told(search, times)
    assert cut.segment_bytes > 0
    assert cut.algorithm == next(m for m in times.medians_s(case_of(size))).algorithm
    while (found := told(search, times))[1] not in times.medians_s(case_of(found[0])):
        times.add(case_of(found[0]), found[1], [1.001e-3])
    size, again = found  # now those again that are as fast
    assert times.medians_s(case_of(size))[again] <= 1.01e-3


def test_what_takes_longer_than_is_left_is_not_begun():
    search = Search(map(case_of, (4096, 1 << 28)), LINK)
    assert told(search, Times(), 0.1)[0] == 4096
    assert told(search, Times(), 1e-9) is None
