"""`tune`: in which order it measures, and what it leaves out."""

import math
from collections import Counter
from itertools import groupby

import patallreduce as pat
from patallreduce.decisions.times import Case, Method, Times
from patallreduce.tuning.search import Search, with_between

LINK = pat.Link(20e-6, 1e9)


def case_of(size):
    return Case("all_reduce", 4, 4, size, False)


def measured(search, times, seconds, works, left_s=math.inf):
    """So many measurements, of a machine on which each method takes `seconds`."""
    done = []
    while len(done) < works and (following := search.following(times, left_s)):
        for work in following:
            times.add(work.case, work.method, [seconds(work)] * work.repeats)
        done += following
    return done


def test_what_may_be_the_fastest_is_measured_again_and_the_others_are_not():
    search = Search([case_of(4096)], LINK)
    first, second, *_ = search.prices_s[case_of(4096)]

    def seconds(work):
        """Two are as fast as each other, all others far slower than the model thinks."""
        return 1e-4 if work.method in (first, second) else 1e-3

    done = measured(search, Times(), seconds, 60)
    again = {work.method for work in done[30:]}
    assert again <= {first, second} | {w.method for w in done if w.method.segment_bytes}
    assert {first, second} <= {work.method for work in done}
    assert all(
        sum(w.method == work.method for w in done) <= 2 for work in done if seconds(work) > 1e-4
    )


def test_the_fastest_is_cut_more_finely_and_less():
    search = Search([case_of(1 << 20)], LINK)
    prices_s = search.prices_s[case_of(1 << 20)]
    done = measured(search, Times(), lambda work: prices_s[Method(work.method.algorithm)], 40)
    fastest = next(iter(prices_s)).algorithm
    cuts = {work.method for work in done if work.method.segment_bytes}
    assert len({cut for cut in cuts if cut.algorithm == fastest}) >= 2


def test_what_is_nearly_the_fastest_is_cut_otherwise_too():
    """All algorithms take as long, but for one that is a tenth slower as its own rule cuts it."""
    case = case_of(1 << 20)._replace(beside_others=True)
    search, times = Search([case], LINK), Times()
    slower = next(m for m in search.prices_s[case] if search._segments(case, m) > 4)
    whole = [w for w in search.methods(case, {}) if not w.segment_bytes]
    for method in whole:
        times.add(case, method, [1.1e-3 if method == slower else 1e-3] * 3)
    asked = search.methods(case, times.means_s(case))
    assert {m.algorithm for m in asked if m.segment_bytes} >= {slower.algorithm}
    times.add(case, slower, [2e-3] * 30)
    asked = search.methods(case, times.means_s(case))
    assert slower.algorithm not in {m.algorithm for m in asked if m.segment_bytes}


def test_what_is_short_comes_before_what_promises_as_much_but_takes_long():
    search = Search(map(case_of, (4096, 1 << 26)), LINK)
    sizes = [work.case.message_bytes for work in measured(search, Times(), lambda _: 1e-3, 20)]
    assert sizes[0] == 4096
    assert 1 << 26 in sizes


def test_those_that_are_as_fast_as_each_other_are_not_measured_for_ever():
    search = Search([case_of(4096), case_of(65536)], LINK)

    def seconds(work):
        return 1e-4 if work.case.message_bytes == 4096 else 1e-3

    done = measured(search, Times(), seconds, 400)
    assert max(Counter((work.case, work.method) for work in done).values()) < 100


def test_between_two_sizes_both_that_are_the_fastest_there_are_measured():
    cases = [case_of(1 << power) for power in range(12, 21)]
    search = Search(with_between(cases), LINK)
    first, second, *_ = search.prices_s[case_of(16384)]

    def seconds(work):
        """One is the fastest up to 16 KiB, the other above; the rest never are."""
        whole = Method(work.method.algorithm)
        late = first if work.case.message_bytes > 16384 else second
        factor = 3 if work.method != whole else {first: 1, second: 1, late: 1.4}.get(whole, 3)
        return 1e-4 * (work.case.message_bytes / 4096) ** 0.5 * factor

    done = measured(search, Times(), seconds, 100)
    between = {work.method for work in done if 16384 < work.case.message_bytes < 32768}
    assert {first, second} <= between


def test_sizes_between_are_of_the_same_calls():
    ours, beside = case_of(4096), case_of(8192)._replace(beside_others=True)
    assert with_between([ours, beside]) == [ours, beside]
    assert with_between([case_of(8192), ours]) == [case_of(8192), ours, case_of(5792)]


def test_it_ends_when_nothing_is_in_doubt():
    search = Search([case_of(4096)], LINK)
    fastest = next(iter(search.prices_s[case_of(4096)]))
    done = measured(search, Times(), lambda work: 1e-4 if work.method == fastest else 1e-1, 1000)
    assert len(done) < 1000


def test_what_takes_longer_than_is_left_is_not_begun():
    search = Search(map(case_of, (4096, 1 << 28)), LINK)
    assert {work.case.message_bytes for work in search.following(Times(), 0.1)} == {4096}
    assert search.following(Times(), 1e-9) == []


def test_what_comes_to_the_same_segments_is_measured_once():
    case = Case("all_gather", 4, 4, 65536, False)  # a block of each rank, at least
    search = Search([case], LINK)
    methods = {work.method for work in measured(search, Times(), lambda _: 1e-3, 60)}
    cut = Counter((m.algorithm, search._segments(case, m)) for m in methods)
    assert any(m.segment_bytes for m in methods)
    assert max(cut.values()) == 1


def test_what_is_measured_together_is_of_several_cases_and_takes_little():
    search = Search([case_of(4096 << n) for n in range(12)], LINK)
    for left_s, most_s in ((math.inf, 0.5), (2e-3, 2e-3)):
        works = search.following(Times(), left_s)
        assert len({(work.case, work.method) for work in works}) == len(works)
        assert sum(work.about_s for work in works) <= most_s
    assert len({work.case for work in search.following(Times(), math.inf)}) > 1


def test_those_of_a_case_that_may_be_the_fastest_follow_each_other():
    cases = [case_of(4096 << n) for n in range(6)]
    search, times, most = Search(cases, LINK), Times(), 0
    for _ in range(10):
        following = search.following(times, math.inf)
        of = [work.case for work in following]
        assert len([case for case, _ in groupby(of)]) == len(set(of))
        most = max(most, *Counter(of).values())
        promised = {work: promise for promise, work in sorted(search._found[of[0]])}
        assert promised[following[0]] == max(promised.values())
        for work in following:
            price_s = search.prices_s[work.case][Method(work.method.algorithm)]
            times.add(work.case, work.method, [price_s] * 3)
    assert most > 1
