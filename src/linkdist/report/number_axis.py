"""Axes of numbers in any unit: from 1e-9 to 1e12, ticks are round and their texts are short."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from linkdist.report.svg import Axis


def unit_of(*values: npt.NDArray[np.float64]) -> float:
    """A power of ten near the largest number, so that axes have numbers of a usual size.

    Examples
    --------
    >>> unit_of(np.array([3.0, -250.0])), unit_of(np.zeros(2))
    (100.0, 1.0)
    """
    largest = max((float(np.abs(part).max(initial=0)) for part in values), default=0.0)
    return float(10.0 ** math.floor(math.log10(largest))) if largest > 0 else 1.0


def number_axis(values: Sequence[float], start: float, end: float, most: float) -> Axis:
    """An axis for numbers of any span.

    Examples
    --------
    >>> number_axis([0.0, 0.07], 0, 100, most=4).ticks()
    [0.0, 0.02, 0.04, 0.06, 0.08]
    """
    span = max(values) - min(values) or 1.0
    least = 10.0 ** (math.floor(math.log10(span)) - 2)
    return Axis.rounded(values, start, end, most, least)


def tick_text(axis: Axis, unit: float) -> Callable[[float], str]:
    """The text of a tick, with as many decimals as the ticks differ in.

    Examples
    --------
    >>> text = tick_text(number_axis([0.0, 7.0], 0, 100, most=4), unit=0.01)
    >>> text(2.0), text(4.0)
    ('0.02', '0.04')
    """
    step = axis.step * unit
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    largest = unit * max(abs(axis.low), abs(axis.high))
    if decimals > 6 or largest >= 1e7:  # longer texts would touch one another
        return lambda tick: f"{tick * unit:.3g}"
    return lambda tick: f"{tick * unit + 0.0:,.{decimals}f}"
