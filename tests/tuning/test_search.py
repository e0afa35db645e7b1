"""`tune`: in which order it measures, and what it leaves out."""

import itertools
import math

import patallreduce as pat
from patallreduce.decisions.times import Case, Method, Times
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


def test_the_case_that_had_the_least_time_is_next():
    sizes = (4096, 1 << 22)
    search, times = Search(map(case_of, sizes), LINK), Times()
    had_s = dict.fromkeys(sizes, 0.0)
    for _ in range(40):
        size, method = told(search, times)
        assert had_s[size] == min(had_s.values())
        once_s = 1e-3 if size == 4096 else 7e-3
        times.add(case_of(size), method, [once_s])
        had_s[size] = times.total_s(case_of(size))
    few, many = (
        sum(times.count(case_of(s), m) for m in times.medians_s(case_of(s))) for s in sizes
    )
    assert few > 4 * many


def test_beside_others_takes_as_many_times_as_long():
    cases = [case_of(4096), case_of(4096)._replace(beside_others=True)]
    search, times = Search(cases, LINK), Times()
    for case in cases:
        times.add(case, next(iter(search.prices_s[case])), [1e-3])
    assert search.following(times, math.inf).case == cases[0]
    times.add(cases[0], next(iter(search.prices_s[cases[0]])), [1e-3] * 8)
    assert search.following(times, math.inf).case == cases[1]


def test_the_fastest_of_a_size_is_measured_at_the_sizes_beside_it():
    sizes = (4096, 65536, 1 << 20)
    search, times = Search(map(case_of, sizes), LINK), Times()
    for case, prices_s in search.prices_s.items():
        fastest, *others = prices_s
        slowest = others[-1]
        # The first size's fastest is the one that the model thinks slowest at the second.
        times.add(case, slowest if case.message_bytes == 4096 else fastest, [1e-5])
    case = case_of(65536)
    for other in search.prices_s:
        if other != case:
            times.add(other, Method("gloo"), [1.0])  # have had more time
    assert told(search, times) == (65536, next(iter(times.medians_s(case_of(4096)))))


def test_those_that_are_as_fast_take_turns():
    search, times = Search([case_of(4096)], LINK), Times()
    case = case_of(4096)
    first, second, *others = search.prices_s[case]
    for method in others:
        times.add(case, method, [1.0])
    for method in (first, second):
        times.add(case, method, [1e-3])
    turns = []
    for _ in range(12):
        _, method = told(search, times)
        times.add(case, method, [1e-3 if not method.segment_bytes else 1.0])
        turns.append(method)
    again = [method for method in turns if not method.segment_bytes]
    assert len(again) >= 6
    assert all(one != following for one, following in itertools.pairwise(again))
    assert {*again} == {first, second}
