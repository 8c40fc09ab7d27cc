"""In which order training goes through a store's buckets.

A round trains the links of one bucket, for which its two parts must be in memory. With parts
a, b, c, d the rounds of an epoch are

    aa ad ac ab   bb bd bc   cc cd   dd

so that each shares a part with the next, and one part at most is read in between: P (P - 1) / 2 + 1
reads in all. Which part is a differs from epoch to epoch. A store that fits into memory has one
round an epoch, with all its parts and links.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from linkdist.store.format import buckets


class Round(NamedTuple):
    """Links that are trained together.

    Attributes
    ----------
    parts : tuple of int
        The parts that must be in memory, in ascending order.
    buckets : tuple of pairs
        Whose links are trained.
    """

    parts: tuple[int, ...]
    buckets: tuple[tuple[int, int], ...]


def rounds_of(P: int, epoch: int) -> list[Round]:
    """The rounds of an epoch, a bucket each.

    Examples
    --------
    >>> [round.buckets[0] for round in rounds_of(3, epoch=0)]
    [(2, 2), (1, 2), (0, 2), (0, 0), (0, 1), (1, 1)]
    """
    name = np.random.default_rng(epoch).permutation(P).tolist()
    order = []
    for first in range(P):
        for second in (first, *range(P - 1, first, -1)):
            pair = (name[first], name[second])
            order.append((min(pair), max(pair)))
    return [Round((a,) if a == b else (a, b), ((a, b),)) for a, b in order]


def whole_round(P: int) -> Round:
    """All parts and all buckets at once.

    Examples
    --------
    >>> whole_round(2)
    Round(parts=(0, 1), buckets=((0, 0), (0, 1), (1, 1)))
    """
    return Round(tuple(range(P)), tuple(buckets(P)))


def places_of(rounds: Sequence[Round]) -> list[dict[int, int]]:
    """Where in memory the parts of each round lie, by numbered places.

    A part keeps its place for as long as it is needed, and a part that is read while a round is
    at work gets one that is free. They are the same wherever a training goes on.

    Examples
    --------
    >>> places_of(rounds_of(3, epoch=0))
    [{2: 0}, {1: 1, 2: 0}, {0: 2, 2: 0}, {0: 2}, {0: 2, 1: 1}, {1: 1}]
    """
    pairs = zip(rounds, rounds[1:] or rounds, strict=False)
    holds: list[int | None] = [None] * max(len({*now.parts, *after.parts}) for now, after in pairs)
    places, busy = [], set[int]()
    for round_ in rounds:
        needed = busy.union(round_.parts)
        for part in sorted(set(round_.parts).difference(holds)):
            holds[next(i for i, held in enumerate(holds) if held not in needed)] = part
        places.append({part: holds.index(part) for part in round_.parts})
        busy = set(round_.parts)
    return places
