"""`tune`: in which order it measures, and what it leaves out."""

import math

import patallreduce as pat
from patallreduce.decisions.times import Case, Method, Times
from patallreduce.tuning.search import Search

LINK = pat.Link(20e-6, 1e9)


def case_of(size):
    return Case("all_reduce", 4, 4, size, False)


def measured(search, times, seconds, works, left_s=math.inf):
    """So many measurements, of a machine on which each method takes `seconds`."""
    done = []
    for _ in range(works):
        if (work := search.following(times, left_s)) is None:
            break
        times.add(work.case, work.method, [seconds(work)] * work.repeats)
        done.append(work)
    return done


def test_what_may_be_the_fastest_is_measured_again_and_the_others_are_not():
    search = Search([case_of(4096)], LINK)
    first, second, *_ = search.prices_s[case_of(4096)]

    def seconds(work):
        """Two are as fast as each other, all others far slower than the model thinks."""
        return 1e-4 if work.method in (first, second) else 1e-2

    done = measured(search, Times(), seconds, 60)
    again = {work.method for work in done[30:]}
    assert again <= {first, second} | {w.method for w in done if w.method.segment_bytes}
    assert {first, second} <= {work.method for work in done}
    assert all(
        sum(w.method == work.method for w in done) <= 2 for work in done if seconds(work) > 1e-3
    )


def test_the_fastest_is_cut_more_finely_and_less():
    search = Search([case_of(1 << 20)], LINK)
    prices_s = search.prices_s[case_of(1 << 20)]
    done = measured(search, Times(), lambda work: prices_s[Method(work.method.algorithm)], 40)
    fastest = next(iter(prices_s)).algorithm
    cuts = {work.method for work in done if work.method.segment_bytes}
    assert len({cut for cut in cuts if cut.algorithm == fastest}) >= 2


def test_what_is_short_comes_before_what_promises_as_much_but_takes_long():
    search = Search(map(case_of, (4096, 1 << 26)), LINK)
    sizes = [work.case.message_bytes for work in measured(search, Times(), lambda _: 1e-3, 8)]
    assert sizes[0] == 4096
    assert 1 << 26 in sizes


def test_it_ends_when_nothing_is_in_doubt():
    search = Search([case_of(4096)], LINK)
    fastest = next(iter(search.prices_s[case_of(4096)]))
    done = measured(search, Times(), lambda work: 1e-4 if work.method == fastest else 1e-1, 1000)
    assert len(done) < 1000


def test_what_takes_longer_than_is_left_is_not_begun():
    search = Search(map(case_of, (4096, 1 << 28)), LINK)
    assert search.following(Times(), 0.1).case.message_bytes == 4096
    assert search.following(Times(), 1e-9) is None
