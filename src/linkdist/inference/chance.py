"""Probabilities of large values by chance, for a service without SciPy."""

from __future__ import annotations

import math


def above(z: float) -> float:
    """The probability that a standard normal variable is above z.

    Examples
    --------
    >>> above(0.0)
    0.5
    """
    return 0.5 * math.erfc(z / math.sqrt(2))


def chi_square(freedom: int, statistic: float) -> float:
    """The probability that a chi-square variable is above a statistic.

    Parameters
    ----------
    freedom : int
        The number of degrees of freedom; the probability is 1 for 0 of them.
    statistic : float
        0 or more.

    Examples
    --------
    >>> round(chi_square(1, 3.841), 3), round(chi_square(4, 9.488), 3)
    (0.05, 0.05)
    """
    if not freedom or statistic <= 0:
        return 1.0
    # For k degrees: Σ (x/2)^i e^(-x/2) / Γ(i + 1), over i = 0, 1, ... or, if k is odd, over
    # i = 1/2, 3/2, ..., up to k/2 - 1, plus erfc(√(x/2)) if k is odd.
    half, is_odd = statistic / 2, freedom % 2
    found = math.erfc(math.sqrt(half)) if is_odd else 0.0
    for step in range(freedom // 2):
        i = step + 0.5 * is_odd
        found += math.exp(i * math.log(half) - half - math.lgamma(i + 1))
    return min(found, 1.0)
