"""What a method takes at any size, and how sure that is: the model, put right by what was measured.

Gaussian process regression of the logarithm of a time over the model's, over that of the size. The
methods of a collective share one deviation from the model (as of ranks that have to share cores),
each has one of its own beside it, and a cut one more at each size. So what was measured at one size
tells of those near it, and of other methods there.

Deviations are smooth but for kinks, as where a transport sends longer messages in another way:
their covariance is Matern's of 3/2. Such of a squared exponential takes a kink for bad luck.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch

from patallreduce.decisions.times import Case, Method, Times

# Standard deviations of logarithms, and the octaves over which they last: of all that were tried
# these make likeliest what 8 ranks took at 200 Mbit/s, and 4 in shared memory, over the model's.
_SHARED, _SHARED_OCTAVES = 0.6, 6.0
_OWN, _OWN_OCTAVES = 0.25, 4.0
_CUT = 0.06
_REST = 0.03  # of what is measured without end

Prices = Callable[[Case], Mapping[Method, float]]  # seconds of uncut methods, by the model


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
    cuts: torch.Tensor  # bytes per segment; 0: uncut


class Regression:
    """Of one collective among the same ranks, with or without others in flight.

    Args:
        times: What was measured.
        cases: Of which it learns, and is asked.
        prices: The model.
    """

    def __init__(self, times: Times, cases: Iterable[Case], prices: Prices) -> None:
        self._times = times
        self._prices = prices
        self._names: dict[str, int] = {}
        measured, logs, noises = [], [], []
        for case in cases:
            for method, seconds in self.measured(case).items():
                measured.append((case, method))
                logs.append(math.log(seconds / prices(case)[Method(method.algorithm)]))
                noises.append(times.error(case, method))
        self._measured = self._points(measured)
        covariance = _covariance(self._measured, self._measured)
        covariance += torch.diag(_tensor(noises) ** 2 + _REST**2)
        self._factor = torch.linalg.cholesky(covariance)
        self._weights = torch.cholesky_solve(_tensor(logs)[:, None], self._factor)[:, 0]

    def measured(self, case: Case) -> dict[Method, float]:
        """Medians, seconds, of the methods that the model knows, the fastest first."""
        known = self._prices(case)
        medians_s = self._times.medians_s(case)
        return {m: s for m, s in medians_s.items() if Method(m.algorithm) in known}

    def estimates(self, case: Case, methods: Sequence[Method]) -> dict[Method, Estimate]:
        """Of each method, whether or not it was measured."""
        asked = self._points([(case, method) for method in methods])
        shared = _covariance(self._measured, asked)
        logs = shared.T @ self._weights
        known = torch.linalg.solve_triangular(self._factor, shared, upper=False)
        variances = _variances(asked) - (known**2).sum(0)
        prices_s = self._prices(case)
        return {
            method: Estimate(
                prices_s[Method(method.algorithm)] * math.exp(log), math.sqrt(max(variance, 0.0))
            )
            for method, log, variance in zip(
                methods, logs.tolist(), variances.tolist(), strict=True
            )
        }

    def _points(self, of: Sequence[tuple[Case, Method]]) -> _Points:
        names = [self._names.setdefault(m.algorithm, len(self._names)) for _, m in of]
        return _Points(
            _tensor([math.log2(max(case.message_bytes, 1)) for case, _ in of]),
            torch.tensor(names, dtype=torch.int64),
            torch.tensor([method.segment_bytes for _, method in of], dtype=torch.int64),
        )


def _tensor(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _covariance(ones: _Points, others: _Points) -> torch.Tensor:
    apart = ones.octaves[:, None] - others.octaves
    same = ones.algorithms[:, None] == others.algorithms
    alike = same & (ones.cuts[:, None] == others.cuts) & (others.cuts > 0) & (apart == 0)
    return (
        _SHARED**2 * _matern(apart / _SHARED_OCTAVES)
        + same * _OWN**2 * _matern(apart / _OWN_OCTAVES)
        + alike * _CUT**2
    )


def _matern(apart: torch.Tensor) -> torch.Tensor:
    """Of smoothness 3/2, for points so many lengths apart."""
    scaled = math.sqrt(3) * apart.abs()
    return (1 + scaled) * torch.exp(-scaled)


def _variances(of: _Points) -> torch.Tensor:
    return _SHARED**2 + _OWN**2 + (of.cuts > 0) * _CUT**2
