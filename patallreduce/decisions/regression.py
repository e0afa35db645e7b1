"""What a method takes at any size, and how sure that is: the model, put right by what was measured.

Gaussian process regression of the logarithm of a time over the model's, over that of the size. To
the model's come some seconds that a call takes beside its messages, whatever the method and the
size: no link tells them, and the likeliest of a few are taken. The methods of a collective share
one deviation from the model (as of ranks that have to share cores), each has one of its own beside
it. A cut has one more, which lasts as long and is nearly that of as many segments. So what was
measured at one size tells of those near it, and of other methods there.

Deviations are smooth but for kinks, as where a transport sends longer messages in another way:
their covariance is Matern's of 3/2. Such of a squared exponential takes a kink for bad luck. Where
a kink between two sizes lies nobody knows: what a method's own deviation changes from one to the
other may all come anywhere between, so that much is in doubt there.
`python -m benchmarks.deviations` tells how likely that makes what tuning has measured.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch

from patallreduce.decisions.times import Case, Method, Times

Prices = Callable[[Case], Mapping[Method, float]]  # seconds of uncut methods, by the model


def _matern(apart: torch.Tensor) -> torch.Tensor:
    """Of smoothness 3/2, for points so many lengths apart."""
    scaled = math.sqrt(3) * apart.abs()
    return (1 + scaled) * torch.exp(-scaled)


class Deviations(NamedTuple):
    """From the model: standard deviations of logarithms, and the octaves over which they last.

    Args:
        shared: By all methods of a collective.
        shared_octaves: As long as these last.
        own: By each method beside that.
        short: By each method, too, of what is all latency; else of its share of the model's time.
        own_octaves: As long as both last, and those by cuts.
        cut: By each cut beside that.
        cut_octaves: So many times more segments are another cut.
        rest: Of what is measured without end.
        correlation: Of points so many lengths apart.
    """

    shared: float = 0.6
    shared_octaves: float = 6.0
    own: float = 0.15
    short: float = 0.2
    own_octaves: float = 4.0
    cut: float = 0.06
    cut_octaves: float = 1.0
    rest: float = 0.03
    correlation: Callable[[torch.Tensor], torch.Tensor] = _matern

    def covariance(self, ones: _Points, others: _Points) -> torch.Tensor:
        """Between every two."""
        apart = ones.octaves[:, None] - others.octaves
        same = ones.algorithms[:, None] == others.algorithms
        cut = same & ones.cut[:, None] & others.cut
        alike = self.correlation(apart / self.own_octaves) * self.correlation(
            (ones.segments[:, None] - others.segments) / self.cut_octaves
        )
        return (
            self.shared**2 * self.correlation(apart / self.shared_octaves)
            + self.own_covariance(ones, others)
            + cut * alike * self.cut**2
        )

    def own_covariance(self, ones: _Points, others: _Points) -> torch.Tensor:
        """Between every two, of what is the method's own."""
        apart = ones.octaves[:, None] - others.octaves
        same = ones.algorithms[:, None] == others.algorithms
        squared = self.own**2 + self.short**2 * ones.latency[:, None] * others.latency
        return same * squared * self.correlation(apart / self.own_octaves)

    def variances(self, of: _Points) -> torch.Tensor:
        """Of each, before anything is measured."""
        own = self.own**2 + (self.short * of.latency) ** 2
        return self.shared**2 + own + of.cut * self.cut**2


USUAL = Deviations()


# What a call takes beside its messages is one of these, of the least that the model says.
_CALLS = (0.0, 0.5, 1.0, 2.0, 4.0)
_UNIFORM = 12  # a range's square over the variance of what is anywhere in it


class Estimate(NamedTuple):
    """Of a method at a size: seconds, and a standard error over these."""

    seconds: float
    error: float

    def at_most_s(self) -> float:
        """So long it takes with one standard error more."""
        return self.seconds * math.exp(self.error)


class _Points(NamedTuple):
    octaves: torch.Tensor
    algorithms: torch.Tensor
    cut: torch.Tensor  # whether it is
    segments: torch.Tensor  # of a cut: the logarithm of how many
    latency: torch.Tensor  # its share of what the model says: what the shortest case takes


class Regression:
    """Of one collective among the same ranks, with or without others in flight.

    Args:
        times: What was measured.
        cases: Of which it learns, and is asked.
        prices: The model.
        deviations: From it.
    """

    def __init__(
        self,
        times: Times,
        cases: Iterable[Case],
        prices: Prices,
        deviations: Deviations = USUAL,
    ) -> None:
        self._times = times
        self._prices = prices
        self._deviations = deviations
        self._names: dict[str, int] = {}
        cases = sorted(cases, key=lambda case: case.message_bytes)
        self._shortest = cases[:1]
        measured = [(case, method) for case in cases for method in self.measured(case)]
        seconds = _tensor([times.means_s(case)[method] for case, method in measured])
        prices_s = _tensor([prices(case)[Method(m.algorithm)] for case, m in measured])
        noises = _tensor([times.error(case, method) for case, method in measured])
        least_s = min(min(prices(case).values()) for case in cases) if cases else 0.0
        calls_s = least_s * _tensor(_CALLS)
        self._measured = self._points(measured)
        self._octaves: dict[int, list[float]] = {}
        ones = zip(self._measured.octaves.tolist(), self._measured.algorithms.tolist(), strict=True)
        for octave, algorithm in sorted(ones):
            self._octaves.setdefault(algorithm, []).append(octave)
        covariance = deviations.covariance(self._measured, self._measured)
        covariance += torch.diag(noises**2 + deviations.rest**2)
        self._factor = torch.linalg.cholesky(covariance)
        of_calls = (seconds[:, None] / (prices_s[:, None] + calls_s)).log()
        weights = torch.cholesky_solve(of_calls, self._factor)
        likeliest = int((of_calls * weights).sum(0).argmin())
        self._call_s = float(calls_s[likeliest])
        self._logs, self._weights = of_calls[:, likeliest], weights[:, likeliest]

    def log_likelihood(self) -> float:
        """Of what was measured: the logarithm of its density."""
        misfit = float(self._logs @ self._weights) / 2
        spread = float(self._factor.diagonal().log().sum())
        return -misfit - spread - len(self._logs) / 2 * math.log(2 * math.pi)

    def measured(self, case: Case) -> dict[Method, float]:
        """Trimmed means, seconds, of the methods that the model knows, the fastest first."""
        known = self._prices(case)
        means_s = self._times.means_s(case)
        return {m: s for m, s in means_s.items() if Method(m.algorithm) in known}

    def estimates(
        self, asked: Mapping[Case, Iterable[Method]]
    ) -> dict[Case, dict[Method, Estimate]]:
        """Of each method at each size, whether or not it was measured."""
        pairs = [(case, method) for case, methods in asked.items() for method in methods]
        points = self._points(pairs)
        shared = self._deviations.covariance(self._measured, points)
        logs = shared.T @ self._weights
        known = torch.linalg.solve_triangular(self._factor, shared, upper=False)
        variances = self._deviations.variances(points) - (known**2).sum(0) + self._kinks(points)
        found: dict[Case, dict[Method, Estimate]] = {case: {} for case in asked}
        for (case, method), log, variance in zip(
            pairs, logs.tolist(), variances.tolist(), strict=True
        ):
            once_s = self._prices(case)[Method(method.algorithm)] + self._call_s
            error = math.sqrt(max(variance, 0.0))
            found[case][method] = Estimate(once_s * math.exp(log), error)
        return found

    def error_after(self, case: Case, method: Method, estimate: Estimate) -> float:
        """The standard error that is left of an estimate, once it is measured once more."""

        def precision(goes: int) -> float:
            if goes == 0:
                return 0.0
            error = self._times.error_of(estimate.seconds, goes)
            return 1 / (error**2 + self._deviations.rest**2)

        goes = self._times.goes(case, method)
        known = 1 / estimate.error**2 + precision(goes + 1) - precision(goes)
        return 1 / math.sqrt(known)

    # As if what changes between two sizes that the method was measured at came at once, anywhere.
    def _kinks(self, asked: _Points) -> torch.Tensor:
        around = [
            self._around(octave, algorithm)
            for octave, algorithm in zip(
                asked.octaves.tolist(), asked.algorithms.tolist(), strict=True
            )
        ]
        below, above = (
            self._deviations.own_covariance(asked._replace(octaves=_tensor(ends)), self._measured)
            @ self._weights
            for ends in zip(*around, strict=True)
        )
        return (above - below) ** 2 / _UNIFORM

    # The nearest sizes, below and above, that it was measured at; twice this one where there are
    # none, or it was measured here.
    def _around(self, octave: float, algorithm: int) -> tuple[float, float]:
        at = self._octaves.get(algorithm, [])
        number = bisect_left(at, octave)
        if number in (0, len(at)) or at[number] == octave:
            return octave, octave
        return at[number - 1], at[number]

    def _points(self, of: Sequence[tuple[Case, Method]]) -> _Points:
        names = [self._names.setdefault(m.algorithm, len(self._names)) for _, m in of]
        return _Points(
            _tensor([math.log2(max(case.message_bytes, 1)) for case, _ in of]),
            torch.tensor(names, dtype=torch.int64),
            torch.tensor([m.segment_bytes > 0 for _, m in of], dtype=torch.bool),
            _tensor([_segments(case, method) for case, method in of]),
            _tensor([self._latency(case, Method(method.algorithm)) for case, method in of]),
        )

    def _latency(self, case: Case, method: Method) -> float:
        shortest_s = self._prices(*self._shortest)
        least_s = shortest_s.get(method, min(shortest_s.values()))
        return min(least_s / self._prices(case)[method], 1.0)


def _segments(case: Case, method: Method) -> float:
    return math.log2(max(case.message_bytes, 1) / (method.segment_bytes or case.message_bytes or 1))


def _tensor(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)
